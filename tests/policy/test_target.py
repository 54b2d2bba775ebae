"""The kinds all policies are built from: tables, Gaussians, functions, noise."""

import numpy as np
import pytest
import torch

from ope_vpm import as_policy, with_noise
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy, TargetPolicy
from ope_vpm.policy.target import Clipping

TABLE = [[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]]
STATES = np.array([0, 1, 2, 0])
POINTS = np.random.default_rng(0).normal(size=(2000, 3))


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_a_table_is_looked_up(rng):
    policy = as_policy(TABLE)
    assert policy.n_actions == 2
    assert policy.probabilities(STATES).tolist() == [TABLE[state] for state in STATES]
    np.testing.assert_allclose(policy.log_prob(STATES, np.array([0, 0, 1, 1])), np.log([0.2, 1.0, 0.5, 0.8]))
    assert policy.log_prob(np.array([1]), np.array([1]))[0] == -np.inf
    many = policy.sample(np.zeros(20_000, int), rng)
    assert many.mean() == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 20_000))
    assert (policy.sample(np.ones(1000, int), rng) == 0).all()


def test_a_table_over_multi_discrete_states():
    table = np.zeros((2, 3, 2))
    table[..., 0] = 1
    table[1, 2] = [0.25, 0.75]
    assert as_policy(table).probabilities(np.array([[1, 2], [0, 2]])).tolist() == [[0.25, 0.75], [1, 0]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0.5, 0.5], r"shape \(states, actions\): got \(2,\)"),
        ([[0.5, 0.6]], "sum to 1: row 0"),
        ([[0.5, 0.5], [-0.5, 1.5]], "not be negative and sum to 1: row 1"),
        ([[np.nan, 1.0]], "sum to 1: row 0"),
    ],
)
def test_wrong_tables_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        as_policy(table)


def test_states_outside_the_table_are_refused():
    with pytest.raises(ValueError, match="the table knows states below"):
        as_policy(TABLE).probabilities(np.array([3]))
    with pytest.raises(TypeError, match="a table needs integer observations"):
        as_policy(TABLE).probabilities(np.array([0.0]))


@pytest.mark.parametrize("squash", [False, True])
def test_gaussian_density_integrates_to_one(squash):
    policy = GaussianPolicy(lambda seen: (0.3 + 0 * seen[:, :1], 0.8), squash=squash, bounds=([-2.0], [2.0]))
    grid = np.linspace(-2, 2, 200_001)[:, None] if squash else np.linspace(-9, 9, 200_001)[:, None]
    density = np.exp(policy.log_prob(np.zeros((len(grid), 1)), grid))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-4)


def test_gaussian_draws_follow_the_density_and_stay_inside(rng):
    policy = GaussianPolicy(lambda seen: (0.3 + 0 * seen[:, :1], 0.8), squash=True, bounds=([-2.0], [2.0]))
    drawn = policy.sample(np.zeros((50_000, 1)), rng)
    assert np.abs(drawn).max() <= 2
    grid = np.linspace(-1.9999, 1.9999, 20_001)[:, None]
    density = np.exp(policy.log_prob(np.zeros((len(grid), 1)), grid))
    mean = np.trapezoid(density * grid[:, 0], grid[:, 0])
    assert drawn.mean() == pytest.approx(mean, abs=4 * drawn.std() / np.sqrt(50_000))
    clipped = GaussianPolicy(lambda seen: (0 * seen[:, :1], 5.0), bounds=([-1.0], [1.0]))
    assert np.abs(clipped.sample(np.zeros((100, 1)), rng)).max() == 1


def test_large_batches_are_cut_and_joined(rng):
    sizes = []

    def act(seen):
        sizes.append(len(seen))
        return seen[:, :1]

    many = np.arange(150_000.0)[:, None]  # two rows come first, to see what the function returns
    np.testing.assert_array_equal(as_policy(act).sample(many, rng), many)
    assert sizes == [2, 65536, 65536, 150_000 - 2 * 65536]


def test_functions_that_return_actions(rng):
    policy = as_policy(lambda seen: (seen[:, 0] > 0).astype(int), n_actions=3)
    assert policy.probabilities(np.array([[1.0], [-1.0]])).tolist() == [[0, 1, 0], [1, 0, 0]]
    continuous = as_policy(lambda seen: seen[:, :2] * 2)
    np.testing.assert_array_equal(continuous.sample(POINTS, rng), POINTS[:, :2] * 2)
    assert not continuous.has_log_prob
    with pytest.raises(TypeError, match="wist, wiss, liu and onestep need them; vpm, model, fqe and naive do not"):
        continuous.log_prob(POINTS, POINTS[:, :2])
    one_by_one = as_policy(lambda seen: seen[0] * 3, batched=False)
    np.testing.assert_array_equal(one_by_one.sample(POINTS, rng)[:, 0], POINTS[:, 0] * 3)


def test_functions_that_return_probabilities_or_logits():
    logits = np.array([[0.0, np.log(3.0)]])
    policy = as_policy(lambda seen: np.tile(logits, (len(seen), 1)), n_actions=2, output="logits")
    np.testing.assert_allclose(policy.probabilities(POINTS[:2]), [[0.25, 0.75]] * 2)
    policy = as_policy(lambda seen: np.tile([0.25, 0.75], (len(seen), 1)), n_actions=2)
    np.testing.assert_allclose(policy.probabilities(POINTS[:2]), [[0.25, 0.75]] * 2)
    with pytest.raises(ValueError, match="pass output='logits'"):
        as_policy(lambda seen: np.tile([3.0, 1.0], (len(seen), 1)), n_actions=2).probabilities(POINTS[:2])


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (lambda seen: np.zeros(len(seen), int), {}, TypeError, "pass n_actions"),
        (lambda seen: np.full(len(seen), 5), {"n_actions": 2}, ValueError, "returned action 5: there are 2"),
        (lambda seen: np.zeros((len(seen), 3)), {"n_actions": 2}, ValueError, "must have shape"),
        (lambda seen: seen[:, 0], {"n_actions": 2, "output": "action"}, TypeError, "must be integers"),
        (
            lambda seen: torch.distributions.Normal(torch.zeros(len(seen)), 1.0),
            {"n_actions": 2},
            TypeError,
            "need a Categorical distribution: got Normal",
        ),
    ],
)
def test_functions_that_return_something_else(function, options, error, message):
    with pytest.raises(error, match=message):
        as_policy(function, **options).sample(POINTS, np.random.default_rng(0))


def test_wrong_kinds_are_refused():
    with pytest.raises(TypeError, match="a int is not a policy we know"):
        as_policy(3)
    with pytest.raises(ValueError, match="output must be one of"):
        as_policy(lambda seen: seen, output="mean")
    with pytest.raises(TypeError, match="continuous actions, so there is no table"):
        DeterministicPolicy(lambda seen: seen).probabilities(POINTS)


def independent(seen):
    mean = torch.as_tensor(seen[:, :2])
    return torch.distributions.Independent(torch.distributions.Normal(mean, 0.5), 1)


def test_torch_distributions(rng):
    policy = as_policy(independent, output="distribution")
    before = torch.random.get_rng_state()
    drawn = policy.sample(POINTS, rng)
    assert (torch.random.get_rng_state() == before).all()  # the global generator is as it was
    np.testing.assert_array_equal(drawn, policy.sample(POINTS, np.random.default_rng(1)))
    assert (drawn != policy.sample(POINTS, rng)).any()
    expected = independent(POINTS).log_prob(torch.as_tensor(drawn)).numpy()
    np.testing.assert_allclose(policy.log_prob(POINTS, drawn), expected, atol=1e-12)
    coordinates = as_policy(
        lambda seen: torch.distributions.Normal(torch.as_tensor(seen[:, :2]), 0.5), output="distribution"
    )
    np.testing.assert_allclose(coordinates.log_prob(POINTS, drawn), expected, atol=1e-12)
    categorical = as_policy(
        lambda seen: torch.distributions.Categorical(torch.tensor([[0.1, 0.9]] * len(seen))), n_actions=2
    )
    np.testing.assert_allclose(categorical.probabilities(POINTS[:1]), [[0.1, 0.9]], rtol=1e-6)


def test_torch_modules(rng):
    layer = torch.nn.Linear(3, 2)
    expected = layer(torch.as_tensor(POINTS, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(as_policy(layer).sample(POINTS, rng), expected)
    soft = as_policy(layer, n_actions=2, output="logits")
    ratio = np.log(soft.probabilities(POINTS))
    np.testing.assert_allclose(ratio[:, 1] - ratio[:, 0], expected[:, 1] - expected[:, 0], atol=1e-5)


def test_epsilon_greedy():
    noisy = with_noise(as_policy(TABLE), epsilon=0.1)
    np.testing.assert_allclose(noisy.probabilities(np.array([1])), [[0.95, 0.05]])
    assert noisy.log_prob(np.array([1]), np.array([1]))[0] == pytest.approx(np.log(0.05))


def test_noise_takes_whatever_as_policy_does():
    bare, wrapped = with_noise(TABLE, epsilon=0.1), with_noise(as_policy(TABLE), epsilon=0.1)
    states = np.arange(len(TABLE))
    assert np.array_equal(bare.probabilities(states), wrapped.probabilities(states))
    spread = with_noise(lambda seen: seen[:, :1], std=0.5)
    at_mean = spread.log_likelihood(POINTS, POINTS[:, :1])
    assert at_mean == pytest.approx(-np.log(0.5 * np.sqrt(2 * np.pi)))
    with pytest.raises(TypeError, match="a str is not a policy"):
        with_noise("ppo.zip", epsilon=0.1)


def test_gaussian_noise_has_a_density(rng):
    noisy = with_noise(as_policy(lambda seen: seen[:, :2]), std=0.5)
    drawn = noisy.sample(POINTS, rng)
    expected = independent(POINTS).log_prob(torch.as_tensor(drawn)).numpy()
    np.testing.assert_allclose(noisy.log_prob(POINTS, drawn), expected, atol=1e-9)
    twice = with_noise(GaussianPolicy(lambda seen: (seen[:, :1], 3.0)), std=4.0)
    np.testing.assert_allclose(twice.moments(POINTS)[1], 5.0)
    squashed = with_noise(GaussianPolicy(lambda seen: (seen[:, :1], 3.0), squash=True), std=4.0, bounds=(-1, 1))
    assert not squashed.has_log_prob
    assert np.abs(squashed.sample(POINTS, rng)).max() == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "give either epsilon"),
        ({"epsilon": 2.0}, ValueError, "epsilon must be between 0 and 1"),
        ({"std": 1.0}, TypeError, "this policy is discrete"),
        ({"std": -1.0}, ValueError, "std must be positive"),
    ],
)
def test_wrong_noise_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        with_noise(as_policy(TABLE), **options)
    with pytest.raises(TypeError, match="this policy is continuous"):
        with_noise(as_policy(lambda seen: seen), epsilon=0.1).sample(POINTS, np.random.default_rng(0))


def test_a_policy_is_its_own_policy():
    policy = as_policy(TABLE)
    assert as_policy(policy) is policy
    assert isinstance(policy, TargetPolicy)


def test_discrete_actions_without_probabilities_are_refused_in_words():
    class OnlyDraws(TargetPolicy):
        n_actions = 2

        def sample(self, observations, rng):
            return rng.integers(2, size=len(observations))

    with pytest.raises(TypeError, match="without saying how likely"):
        OnlyDraws().probabilities(np.zeros((3, 1)))


class Exponential(TargetPolicy):
    """Two coordinates with means 1 and 2; it can only draw."""

    def sample(self, observations, rng):
        return rng.exponential([1.0, 2.0], size=(len(observations), 2))


def test_what_a_policy_cannot_tell_is_drawn_or_none(rng):
    policy = Exponential()
    first, second = policy.action_moments(POINTS, rng, draws=50)
    assert first.shape == (2000, 2)
    np.testing.assert_allclose(first.mean(axis=0), [1, 2], rtol=4 * 1 / np.sqrt(100_000))
    np.testing.assert_allclose(second.mean(axis=0), [2, 8], rtol=4 * np.sqrt(5) / np.sqrt(100_000))
    assert policy.score(POINTS, first) is None
    assert not policy.has_log_prob
    assert policy.clipping == Clipping()
    assert policy.recognised(POINTS) is policy


def test_deterministic_moments_are_the_action_and_its_square(rng):
    first, second = as_policy(lambda seen: 2 * seen[:, :1]).action_moments(POINTS, rng)
    np.testing.assert_array_equal(first, 2 * POINTS[:, :1])
    np.testing.assert_array_equal(second, 4 * POINTS[:, :1] ** 2)


def test_clipping_knows_its_bounds():
    clipping = GaussianPolicy(lambda seen: (seen, 1.0), bounds=(np.array([-1.0, 0.0]), np.array([1.0, 5.0]))).clipping
    actions = np.array([[-1.0, 5.0], [0.9999999999, 0.1], [1.5, -2.0]])
    below, above = clipping.at_bounds(actions)
    assert below.tolist() == [[True, False], [False, False], [False, False]]
    assert above.tolist() == [[False, True], [True, False], [False, False]]
    assert clipping.clip(actions).tolist() == [[-1.0, 5.0], [0.9999999999, 0.1], [1.0, 0.0]]
    assert hash(clipping) == hash(Clipping((-1.0, 0.0), (1.0, 5.0)))
    squashed = GaussianPolicy(lambda seen: (seen, 1.0), bounds=(-1, 1), squash=True)
    assert squashed.clipping == Clipping()  # tanh never reaches the bounds: nothing is clipped to them
    assert with_noise(squashed, std=1.0, bounds=(-1, 1)).clipping == Clipping((-1.0,), (1.0,))


def test_scores_undo_squashing():
    policy = GaussianPolicy(lambda seen: (seen[:, :1], 0.5), squash=True, bounds=(0.0, 10.0))
    raw = POINTS[:, :1] + 0.5 * np.linspace(-2, 2, 2000)[:, None]
    score = policy.score(POINTS, 5 + 5 * np.tanh(raw))
    np.testing.assert_allclose(score[:, 0], np.linspace(-2, 2, 2000), atol=1e-7)


def wrong_shapes(rows, numbers):
    """What a function that mixes up rows and coordinates returns."""
    return {"transposed": np.zeros((numbers, rows)), "flat": np.zeros(rows * numbers), "one row": np.zeros(numbers)}


@pytest.mark.parametrize("how", ["transposed", "flat", "one row"])
def test_actions_of_another_shape_are_refused(how, rng):
    returned = wrong_shapes(2000, 2)[how]
    for policy in (
        DeterministicPolicy(lambda seen: returned),
        GaussianPolicy(lambda seen: (returned, 1.0)),
        as_policy(lambda seen: returned),
    ):
        with pytest.raises(ValueError, match=r"one row for each of the 2000 observations: got shape"):
            policy.sample(POINTS, rng)
    with pytest.raises(ValueError, match=r"actions must have shape \(n, 3\): got \(2000, 2\)"):
        DeterministicPolicy(lambda seen: seen[:, :2], action_dimension=3).sample(POINTS, rng)


def test_densities_of_another_shape_are_refused():
    def one_for_all(seen):
        return torch.distributions.Normal(torch.zeros(3, len(seen)), 1.0)

    policy = as_policy(one_for_all, output="distribution")
    with pytest.raises(ValueError, match=r"one row for each of the 2 observations: got shape \(3, 2\)"):
        policy.log_prob(POINTS, np.zeros(2000))


@pytest.mark.parametrize("std", [-0.5, [0.5, -1e-9], 0.0, np.nan])
def test_a_standard_deviation_that_is_not_positive_is_refused(std, rng):
    policy = GaussianPolicy(lambda seen: (seen[:, :2], std))
    with pytest.raises(ValueError, match="a standard deviation must be positive"):
        policy.sample(POINTS, rng)
    with pytest.raises(ValueError, match="a standard deviation must be positive"):
        policy.log_prob(POINTS, POINTS[:, :2])


def test_actions_that_are_not_finite_are_refused(rng):
    def divided(seen):
        return np.where(np.arange(len(seen))[:, None] == 7, np.nan, seen)

    with pytest.raises(ValueError, match=r"actions must be finite numbers, .* row 7 is"):
        DeterministicPolicy(divided).sample(POINTS, rng)


def centring(seen):
    """A function that normalises in place, as careless preprocessing does."""
    seen -= 5.0
    return seen[:, :2]


def torch_centring(seen):
    return torch.from_numpy(seen).sub_(5.0)[:, :2].numpy()


@pytest.mark.parametrize("function", [centring, torch_centring])
def test_a_function_that_edits_its_input_does_not_change_the_data(function, rng):
    given = POINTS.copy()
    given.flags.writeable = False
    expected = POINTS[:, :2] - 5.0
    np.testing.assert_allclose(as_policy(function).sample(given, rng), expected)
    np.testing.assert_array_equal(given, POINTS)
    np.testing.assert_allclose(GaussianPolicy(lambda seen: (function(seen), 1.0)).moments(POINTS)[0], expected)
    np.testing.assert_array_equal(given, POINTS)

    def normal(seen):
        return torch.distributions.Normal(torch.as_tensor(function(seen)), 1.0)

    twice = as_policy(normal, output="distribution")
    actions = np.zeros((2000, 2))
    np.testing.assert_array_equal(twice.log_prob(given, actions), twice.log_prob(given, actions))
    np.testing.assert_array_equal(given, POINTS)


def test_actions_whose_powers_are_infinite_are_refused(rng):
    with pytest.raises(ValueError, match=r"none beyond 1e\+75: row 0 is"):
        DeterministicPolicy(lambda seen: seen + 1e100).sample(POINTS, rng)
