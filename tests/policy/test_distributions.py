"""Functions that return torch distributions are the policies that these are: against torch's own numbers."""

import numpy as np
import pytest
import torch
from torch import distributions as td

from ope_vpm import as_policy, with_noise
from ope_vpm.policy import GaussianPolicy, with_variance

RNG = np.random.default_rng(0)
SEEN = RNG.normal(size=(500, 3))
STD = np.array([0.5, 0.8])
TANH = td.TanhTransform()


def mean(seen):
    return torch.as_tensor(np.asarray(seen)[..., :2] * 0.7)


def spread(seen):
    return torch.as_tensor(STD).expand(mean(seen).shape)


def normal(seen):
    return td.Normal(mean(seen), spread(seen))


def stretch(loc, scale):
    return td.AffineTransform(torch.as_tensor(loc), torch.as_tensor(scale))


LOW, HIGH = np.array([-1.0, 0.0]), np.array([3.0, 1.0])
CENTRE, HALF = np.array([1.0, 0.5]), np.array([2.0, 0.5])
PLAIN = {
    "normal": normal,
    "independent": lambda seen: td.Independent(normal(seen), 1),
    "diagonal covariance": lambda seen: td.MultivariateNormal(mean(seen), torch.diag(torch.as_tensor(STD**2))),
    "affine": lambda seen: td.TransformedDistribution(
        td.Independent(td.Normal(mean(seen) / 2 + 1, spread(seen) / 2), 1), [stretch([-2.0, -2.0], [2.0, 2.0])]
    ),
}
SQUASHED = {
    "tanh of coordinates": lambda seen: td.TransformedDistribution(normal(seen), [TANH, stretch(CENTRE, HALF)]),
    "independent tanh": lambda seen: td.Independent(
        td.TransformedDistribution(normal(seen), [TANH, stretch(CENTRE, HALF)]), 1
    ),
    "tanh of independent": lambda seen: td.TransformedDistribution(
        td.Independent(normal(seen), 1), [td.ComposeTransform([TANH, stretch(CENTRE, HALF)])]
    ),
    "tanh of diagonal covariance": lambda seen: td.TransformedDistribution(
        td.MultivariateNormal(mean(seen), torch.diag(torch.as_tensor(STD**2))), [TANH, stretch(CENTRE, HALF)]
    ),
    "mirrored": lambda seen: td.TransformedDistribution(
        td.Independent(td.Normal(-mean(seen), spread(seen)), 1), [TANH, stretch(CENTRE, -HALF)]
    ),
}


def moments(seen):
    return seen[:, :2] * 0.7, STD


def same(found, expected, actions):
    """Whether two policies agree in all that they can tell."""
    np.testing.assert_allclose(
        found.sample(SEEN, np.random.default_rng(1)), expected.sample(SEEN, np.random.default_rng(1)), rtol=1e-12
    )
    for question in ("log_prob", "log_likelihood", "score"):
        answers = [getattr(policy, question)(SEEN, actions) for policy in (found, expected)]
        np.testing.assert_allclose(*answers, rtol=1e-9, atol=1e-9)
    rng = np.random.default_rng(1)
    for part, other in zip(found.action_moments(SEEN, rng), expected.action_moments(SEEN, rng), strict=True):
        np.testing.assert_allclose(part, other, rtol=1e-9)
    assert found.clipping == expected.clipping
    assert found.action_dimension == 2
    assert found.has_log_prob
    assert not found.has_probabilities


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("options", [{}, {"output": "distribution"}, {"batched": False}])
def test_a_gaussian_is_a_gaussian_policy(kind, options):
    policy, expected = as_policy(PLAIN[kind], **options), GaussianPolicy(moments)
    actions = expected.sample(SEEN, RNG)
    same(policy.recognised(SEEN), expected, actions)
    logs = PLAIN[kind](SEEN).log_prob(torch.as_tensor(actions)).numpy().reshape(len(SEEN), -1).sum(axis=1)
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), logs, atol=1e-9)
    np.testing.assert_allclose(policy.score(SEEN, actions), (actions - SEEN[:, :2] * 0.7) / STD, atol=1e-9)


@pytest.mark.parametrize("kind", SQUASHED)
@pytest.mark.parametrize("batched", [True, False])
def test_tanh_of_a_gaussian_is_a_squashed_policy(kind, batched):
    policy = as_policy(SQUASHED[kind], batched=batched)
    expected = GaussianPolicy(moments, squash=True, bounds=(LOW, HIGH))
    actions = expected.sample(SEEN, RNG)
    same(policy.recognised(SEEN), expected, actions)
    logs = SQUASHED[kind](SEEN).log_prob(torch.as_tensor(actions)).numpy().reshape(len(SEEN), -1).sum(axis=1)
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), logs, rtol=1e-6)


def test_one_coordinate_without_an_axis_of_its_own():
    policy = as_policy(lambda seen: td.Normal(torch.as_tensor(seen[:, 0]), 0.5))
    actions = RNG.normal(size=(500, 1))
    expected = td.Normal(torch.as_tensor(SEEN[:, 0]), 0.5).log_prob(torch.as_tensor(actions[:, 0]))
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), expected, atol=1e-9)
    assert policy.sample(SEEN, RNG).shape == (500, 1)


def test_float32_is_met_to_its_rounding():
    policy = as_policy(lambda seen: td.Normal(mean(seen).float(), spread(seen).float()))
    actions = RNG.normal(size=(500, 2))
    np.testing.assert_allclose(
        policy.log_prob(SEEN, actions), GaussianPolicy(moments).log_prob(SEEN, actions), atol=1e-5
    )


@pytest.mark.parametrize("kind", [td.Categorical, td.OneHotCategorical])
@pytest.mark.parametrize("batched", [True, False])
def test_categorical_distributions_tell_the_number_of_actions(kind, batched):
    def function(seen):
        first = torch.sigmoid(torch.as_tensor(np.asarray(seen)[..., 0]))
        return kind(torch.stack([first, 0.3 * (1 - first), 0.7 * (1 - first)], dim=-1))

    policy = as_policy(function, batched=batched)
    chosen = np.arange(500) % 3
    expected = td.Categorical(function(SEEN).probs).log_prob(torch.as_tensor(chosen))
    np.testing.assert_allclose(policy.log_prob(SEEN, chosen), expected, atol=1e-12)
    assert policy.n_actions == 3
    assert policy.has_probabilities
    assert with_noise(as_policy(function, batched=batched), epsilon=0.3).probabilities(SEEN).min() >= 0.1


def test_correlated_gaussians_have_independent_scores():
    """log N(a; m, LLᵀ) = log N(z; 0, 1) - log det L with z = L⁻¹(a - m)."""
    factor = torch.tensor([[0.5, 0.0], [-0.4, 0.8]], dtype=torch.float64)
    policy = as_policy(lambda seen: td.MultivariateNormal(mean(seen), scale_tril=factor))
    actions = policy.sample(SEEN, RNG)
    z = policy.score(SEEN, actions)
    logs = td.Normal(0.0, 1.0).log_prob(torch.as_tensor(z)).sum(dim=1) - torch.log(torch.diag(factor)).sum()
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), logs, atol=1e-9)
    first, second = policy.action_moments(SEEN, RNG)
    np.testing.assert_allclose(first, SEEN[:, :2] * 0.7)
    np.testing.assert_allclose(second - first**2, [[0.25, 0.16 + 0.64]] * 500)


def test_other_distributions_keep_torch_s_density_and_moments():
    policy = as_policy(lambda seen: td.Beta(torch.full((len(seen),), 2.0), 3.0))
    actions = np.full((500, 1), 0.25)
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), np.log(12 * 0.25 * 0.75**2), atol=1e-6)  # 12a(1-a)²
    first, second = policy.action_moments(SEEN, RNG)
    np.testing.assert_allclose(first, 0.4, rtol=1e-6)
    np.testing.assert_allclose(second, 0.04 + 0.16, rtol=1e-6)  # variance 2·3/(5²·6)
    assert policy.score(SEEN, actions) is None


def test_moments_that_torch_does_not_know_are_drawn():
    """A log-normal action behind a square root is log-normal: E = e^(1/32), E[a²] = e^(1/8) with deviation ½."""
    half = td.PowerTransform(torch.tensor(0.5))
    policy = as_policy(lambda seen: td.TransformedDistribution(td.LogNormal(torch.zeros(len(seen)), 0.5), [half]))
    first, second = policy.action_moments(np.zeros((5000, 1)), RNG, draws=20)
    assert first.mean() == pytest.approx(np.exp(1 / 32), abs=4 * 0.26 / np.sqrt(100_000))
    assert second.mean() == pytest.approx(np.exp(1 / 8), abs=4 * 0.6 / np.sqrt(100_000))


def test_a_range_that_depends_on_the_state_stays_a_distribution():
    def function(seen):
        reach = 1 + torch.as_tensor(np.abs(seen[:, :2]))
        return td.TransformedDistribution(normal(seen), [TANH, td.AffineTransform(0.0, reach)])

    policy = as_policy(function)
    actions = policy.sample(SEEN, RNG)
    expected = function(SEEN).log_prob(torch.as_tensor(actions)).sum(dim=1)
    np.testing.assert_allclose(policy.log_prob(SEEN, actions), expected, rtol=1e-9)
    assert policy.score(SEEN, actions) is None


def changing(seen):
    return normal(seen) if len(seen) == 2 else td.Laplace(mean(seen), spread(seen))


def sometimes_correlated(seen):
    factor = torch.tensor([[0.5, 0.0], [0.0 if len(seen) == 2 else 0.4, 0.8]], dtype=torch.float64)
    return td.MultivariateNormal(mean(seen), scale_tril=factor)


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (changing, {}, TypeError, "the same kind of distribution for all observations"),
        (sometimes_correlated, {}, TypeError, "the same kind of distribution for all observations"),
        (lambda seen: td.Normal(torch.zeros(3), 1.0), {}, ValueError, r"one row for each of the 2 observations"),
        (lambda seen: td.Bernoulli(torch.full((len(seen),), 0.5)), {}, TypeError, "need a Categorical .* Bernoulli"),
        (lambda seen: seen, {"output": "distribution"}, TypeError, "needs a torch distribution: got a ndarray"),
        (normal, {"output": "action"}, TypeError, "returns distributions, not actions"),
        (lambda seen: object(), {}, TypeError, "must return actions, probabilities or a torch distribution"),
    ],
)
def test_what_cannot_be_understood_is_refused(function, options, error, message):
    with pytest.raises(error, match=message):
        as_policy(function, **options).sample(SEEN, RNG)


def test_before_the_first_call_nothing_is_known():
    policy = as_policy(normal)
    with pytest.raises(RuntimeError, match="not known before it is called"):
        policy.has_log_prob  # noqa: B018


def test_noise_waits_for_the_first_call_too():
    wider = with_noise(as_policy(normal), std=0.6)
    actions = RNG.normal(size=(500, 2))
    expected = td.Normal(mean(SEEN), torch.as_tensor(np.hypot(STD, 0.6))).log_prob(torch.as_tensor(actions))
    np.testing.assert_allclose(wider.log_prob(SEEN, actions), expected.sum(dim=1), atol=1e-9)
    doubled = with_variance(as_policy(normal), 2.0)
    expected = td.Normal(mean(SEEN), torch.as_tensor(STD * np.sqrt(2))).log_prob(torch.as_tensor(actions))
    np.testing.assert_allclose(doubled.log_prob(SEEN, actions), expected.sum(dim=1), atol=1e-9)
    with pytest.raises(ValueError, match="only a Gaussian policy without squashing"):
        with_variance(as_policy(SQUASHED["mirrored"]), 2.0).sample(SEEN, RNG)
