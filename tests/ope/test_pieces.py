"""Small parts that many estimators share, each on numbers worked out by hand."""

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.action_ratio import ActionRatio
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, FEW
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.logged_mean import reward_sums, time_weights
from ope_vpm.ope.inference.returns import ends_under, fixed_length, reaches_ends, uncharged, with_rate_doubt
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.q.linear import QValues, influence
from ope_vpm.ope.q.training import Ensemble, mlp, train
from ope_vpm.ope.vpm.pairs import initial_values, td_residual
from tests.clones import categorical_clone

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def two_episodes(gamma=1.0, flags=None, **choices):
    """Episodes of two steps and of one in one state, paying 1, 2 and 4."""
    flags = {"terminated": [False, True, True]} if flags is None else flags
    data = ov.LoggedDataset.from_arrays([0] * 3, [0, 1, 1], [1.0, 2.0, 4.0], [0] * 3, **flags)
    return Problem.pose(data, [[0.25, 0.75]], gamma=gamma, ignore=QUIET, **choices)


def test_q_values_by_hand():
    """γ = ½: ℓ + ½·E₀[V] = 1 + ½·6; residuals r - 1 + ½V' - Q."""
    problem = two_episodes(0.5)
    rows, start = problem.steps.rows, np.array([5.0, 7.0])  # V of the two episodes' initial states
    first = start[problem.log.initial_episodes]
    q = QValues(np.array([1.0, 2, 3])[rows], np.array([4.0, 6, 8])[rows], first, np.ones(3))
    assert q.value(problem) == pytest.approx(1 + 0.5 * 6)
    np.testing.assert_allclose(q.residual(problem), np.array([1 - 1 + 2 - 1, 2 - 1 + 3 - 2, 4 - 1 + 4 - 3])[rows])
    sums = influence(problem, np.array([1.0, 2.0, 0.5])[rows], q.residual(problem), q.first)
    steps, share = np.array([(1 * 1 + 2 * 2) / 3, 0.5 * 4 / 3]), np.array([2, 1]) / 3
    np.testing.assert_allclose(sums.influence, steps - share * steps.sum() + np.array([-0.5, 0.5]) * 0.5)


def test_q_without_initial_states_has_its_level_alone():
    problem = two_episodes()
    q = QValues(np.zeros(len(problem.steps.rows)), np.zeros(1), np.zeros(0), np.full(len(problem.steps.rows), 3.0))
    assert q.value(problem) == pytest.approx(3)


@pytest.mark.parametrize(
    ("flags", "choices", "weights", "tail"),
    [
        ({"terminated": [0, 1, 1]}, {}, [1, 0.5, 1], [0.5, 1]),  # γ²/(1-γ) and γ/(1-γ) of time in which nothing is paid
        ({"terminated": [0, 1, 1]}, {"on_end": "restart"}, [1, 0.5, 1], [0, 0]),
        ({"truncated": [0, 1, 1]}, {}, [1.25, 0.75, 2], [0, 0]),  # the same time, given to the last steps
    ],
)
def test_weights_by_time_by_hand(flags, choices, weights, tail):
    flags = {name: np.array(values, dtype=bool) for name, values in flags.items()}
    found = time_weights(two_episodes(0.5, flags, **choices))
    np.testing.assert_allclose(found[0], weights)
    np.testing.assert_allclose(found[1], tail)


def test_sums_of_weights_by_hand():
    problem = two_episodes(0.5)
    sums = reward_sums(problem.data, np.array([1.0, 0.5, 1.0]), np.array([0.5, 1.0]), "continue").sums
    np.testing.assert_allclose(sums.numerator[:, 0], [2, 4])
    np.testing.assert_allclose(sums.denominator[:, 0], [2, 2])


def test_rates_of_ends_by_hand():
    problem = two_episodes()
    assert ends_under(problem, np.array([2.0, 1.0, 1.0])) == pytest.approx(0.5)
    assert ends_under(problem, np.zeros(3)) == 0
    assert reaches_ends(problem, 0.1)
    assert not reaches_ends(problem, 1e-10)  # rounding of 0
    assert not reaches_ends(problem, -0.1)
    assert not reaches_ends(problem, float("nan"))
    assert fixed_length(problem) is None
    cut = {"truncated": np.array([0, 1, 0, 1], dtype=bool)}
    data = ov.LoggedDataset.from_arrays([0] * 4, [0, 1, 0, 1], np.arange(4.0), [0] * 4, **cut)
    limited = Problem.pose(data, [[0.5, 0.5]], time_limit="restart", ignore=QUIET)
    assert fixed_length(limited) == 2
    assert fixed_length(Problem.pose(data, [[0.5, 0.5]], ignore=QUIET)) is None


def test_what_is_left_of_charged_rewards_is_divided_by_the_rate():
    """A first guess of 5; rewards charged by it are worth ½ with error 0.1 a step, at a rate of ¼: 5 + 2 ± 0.4."""
    sums = EpisodeSums.of_influence(0.5, np.array([0.1, -0.1]))
    charged = RawEstimate(value=0.5, uncertainty=Bootstrap(episodes=sums), doubts=DISAGREEMENT.suspects(0.3))
    found = uncharged(5.0, 0.25, charged)
    assert found.value == 7
    assert found.suspected_bias == pytest.approx(1.2 * COEFFICIENTS["disagreement"])
    np.testing.assert_allclose(found.sums.influence, [0.4, -0.4])
    assert with_rate_doubt(found, 0.5).size(FEW) == 4  # as known as if four ends had been counted


def test_action_ratios_are_scaled_and_capped():
    """Ratios 1, 2 and 9 have the mean 4; a cap of 2 leaves ¼, ½ and 2."""
    found = ActionRatio.of_logs(np.log([1.0, 2.0, 9.0]), -1.5, cap=2.0)
    np.testing.assert_allclose(found.ratio, [0.25, 0.5, 2])
    assert found.overlap == pytest.approx(4)
    assert found.held_out_log_likelihood == -1.5
    assert ActionRatio.of_logs(np.full(2, -np.inf), 0.0).ratio.tolist() == [0, 0]
    huge = ActionRatio.of_logs(np.array([1e4, *np.zeros(199)]), 0.0)
    np.testing.assert_allclose(huge.ratio[0], 50)  # of 200 equal weights it would have all
    assert np.isfinite(huge.overlap)


def test_a_categorical_clone_meets_its_likelihood_equations():
    """With a constant alone, expected counts are those seen, and so is the expected log π."""
    rng = np.random.default_rng(0)
    target = rng.dirichlet(np.ones(3), size=800)
    score = 0.5 * np.log(target) + [0.7, 0.0, -0.7]
    truth = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    actions = (rng.random((800, 1)) > np.cumsum(truth, axis=1)).sum(axis=1)
    held = np.arange(800) % 4 == 0
    found = categorical_clone(target, actions, np.ones((800, 1)), held)
    exact = np.log(truth[np.arange(800), actions])
    assert np.abs(found.log_prob - exact).mean() < 0.1
    assert found.held_out_log_likelihood == pytest.approx(found.log_prob[held].mean())
    assert found.log_prob[~held].mean() >= exact[~held].mean()  # no other fit of this kind is likelier


def test_bellman_residuals_of_pairs_by_hand():
    """h(s, a) = 10·a at γ = ½: r + ½·10·E_π[a'] - 10a, and r + ½·0 - 10a where an end absorbs."""
    problem = two_episodes(0.5)
    pairs = problem.pairs(1)

    def h(x):
        return np.where(x < 2, 10.0 * (x % 2), 0.0)  # pair 2 is the absorbing state

    found = td_residual(pairs, h, 0.5)
    expected = np.array([1 + 0.5 * 7.5 - 0, 2 - 10, 4 - 10, 0])
    np.testing.assert_allclose(found, expected[pairs.rows])  # the last row, -1, is the absorbing one
    np.testing.assert_allclose(initial_values(problem, pairs, h, 1), [7.5, 7.5])


def test_ensembles_begin_with_outputs_of_order_one():
    """Inputs of deviation 1 and weights of deviation 1/√inputs; members differ, and a seed gives the same again."""
    first, again = Ensemble(3, 100, 2, 5), Ensemble(3, 100, 2, 5)
    assert [tuple(each.shape) for each in first.weights] == [(3, 100, 64), (3, 64, 64), (3, 64, 2)]
    assert float(first.weights[0].detach().std()) == pytest.approx(0.1, rel=0.05)
    assert float(first.weights[1].detach().std()) == pytest.approx(1 / 8, rel=0.05)
    x = torch.randn(3, 7, 100)
    torch.testing.assert_close(first(x), again(x))
    layers = x[0]
    for place, (weight, bias) in enumerate(zip(first.weights, first.biases, strict=True)):
        layers = layers @ weight[0] + bias[0]
        layers = torch.nn.functional.silu(layers) if place < 2 else layers
    torch.testing.assert_close(first(x)[0], layers)


def test_training_keeps_the_network_that_was_best_on_held_out_rows():
    """Held-out rows want -1 where the others want 1: the first look is the best, and three more end it."""
    network, looks = mlp(1, 1, 0), []

    def at_zero():
        return float(network(torch.zeros(1, 1)).detach())

    def loss(rows):
        wanted = torch.where(rows < 50, 1.0, -1.0)
        if not torch.is_grad_enabled():
            looks.append(at_zero())
        return (network(torch.zeros(len(rows), 1))[:, 0] - wanted).square().mean()

    lowest = train(network, loss, np.arange(50), np.arange(50, 60), steps=5000, learning_rate=1e-4, patience=3, seed=0)
    assert len(looks) == 4
    assert at_zero() == pytest.approx(looks[0])
    assert lowest == pytest.approx((looks[0] + 1) ** 2, rel=1e-4)
    untold = train(
        mlp(1, 1, 0), loss, np.arange(50), np.zeros(0, dtype=int), steps=2, learning_rate=1e-3, patience=3, seed=0
    )
    assert untold == np.inf
