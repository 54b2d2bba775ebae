"""Estimates by networks, saddle points and minimax solutions are doubted as linear ones are."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.inference.doubts import COEFFICIENTS, DISAGREEMENT, SUPPORT, judge, remarks
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.doubts import Rows, ratio_error_bound, row_doubt
from ope_vpm.ope.linear.resting import with_linear_doubt
from ope_vpm.ope.q.fitted import Networks, _fitted
from ope_vpm.ope.q.linear import find_lstd, lstd_equations
from ope_vpm.policy import GaussianPolicy
from tests.ope.test_doubts import Spring
from tests.ope.test_missed import EXACT, target, trial

RATIOS = ("mwl", "mql", "dualdice", "gendice", "gradientdice", "bestdice")
FEW_STEPS = {"training_steps": 300}
"""Of networks: enough for residuals to be what they are."""


@pytest.mark.parametrize("name", [*RATIOS, "fqe", "dr"])
def test_a_speed_that_is_not_observed_is_noticed(name):
    """Of an observation that is no state every estimator is wrong, and none may be relied on."""
    calm = GaussianPolicy(lambda seen: (-0.3 * seen[:, :1], np.full((len(seen), 1), 0.2)))
    options = FEW_STEPS if name == "fqe" else {}
    value = ov.evaluate(Spring().log(0), calm, name, gamma=0.95, **options)
    assert value.verdict != "reliable"


@pytest.mark.parametrize("name", [*RATIOS, "dr"])
def test_what_lines_and_parabolas_miss_is_noticed(name):
    """A response with a narrow peak: values are too low, and where intervals do not hold the truth nobody relies on
    them."""
    found = [ov.evaluate(trial(seed), target, name, gamma=0.9) for seed in range(5)]
    for value in found:
        low, high = value.interval
        assert low <= EXACT <= high or value.verdict != "reliable"
    assert not any(value.verdict == "reliable" and abs(value.value - EXACT) > 0.1 for value in found)


def test_linear_systems_stay_reliable_and_covered():
    """Ten logs of the positive control, at γ = 1: doubts cost nothing where there is no reason for them."""
    system = LinearGaussian()
    logs = [system.dataset(100, 50, BEHAVIOUR, seed) for seed in range(10)]
    truth = system.value(TARGET, 1.0)
    for name in ("mwl", "mql", "gradientdice"):
        found = [ov.evaluate(data, TARGET.policy(), name, gamma=1.0) for data in logs]
        assert all(value.verdict == "reliable" for value in found)
        assert sum(value.interval[0] <= truth <= value.interval[1] for value in found) >= 8  # 95 %: P(< 8) = 1 %


def test_the_parts_of_the_doubt_by_hand():
    """What was suspected before, what LSTD-Q suspects of its ridge, and what the estimate's own rows say."""
    data = LinearGaussian().dataset(40, 20, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, TARGET.policy(), gamma=0.9)
    linear = find_lstd(problem, 20, None, 4)
    rng = np.random.default_rng(0)
    rows = Rows(rng.uniform(0.5, 1.5, 800), rng.standard_normal(800))
    sums = EpisodeSums.of_influence(1.0, rng.standard_normal(40) / 100)
    before = (*DISAGREEMENT.suspects(0.5), *remarks(["mine"]))
    found = RawEstimate(value=1.0, uncertainty=Bootstrap(episodes=sums), doubts=before)
    doubted = with_linear_doubt(linear, found, rows)
    bound = ratio_error_bound(rows.tau, rows.residual)
    of_linear = {each.code: each.bias for each in linear.doubts}
    known = doubted.diagnostics
    biases = {
        "disagreement": 0.5,
        "ridge": of_linear["ridge"],
        "fitted": of_linear["fitted"],
        "past": bound
        * np.hypot(max(abs(known["residual_correlation"]) - 0.2, 0), np.sqrt(known["predicted_by_action"])),
        "missed": np.sqrt(max(known["missed"] ** 2 - known["missed_error"] ** 2, 0)),
    }
    found_biases = {each.code: each.bias for each in doubted.doubts if each.code in biases}
    assert found_biases == pytest.approx(biases)
    parts = [COEFFICIENTS[code] * bias for code, bias in biases.items()]
    assert doubted.suspected_bias == pytest.approx(np.linalg.norm(parts))
    assert doubted.value == 1
    assert "mine" in judge(doubted.doubts)[1]
    assert doubted.size(SUPPORT) == linear.size(SUPPORT)
    alone = RawEstimate(value=1.0)  # nothing is known of it, and nothing can be added
    assert with_linear_doubt(linear, alone, rows) is alone


def test_residuals_of_networks_by_logged_row():
    """An ending row is spread over several restarts, and its residual is their mean."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((60, 1))
    ends = np.arange(60) % 6 == 5
    data = ov.LoggedDataset.from_arrays(
        states, rng.standard_normal((60, 1)), states[:, 0], np.roll(states, -1, axis=0), terminated=ends
    )
    policy = GaussianPolicy(lambda seen: (0.5 * seen, np.ones((len(seen), 1))))
    problem = Problem.pose(data, policy, gamma=1.0)
    plan = problem.steps
    assert len(plan.rows) > len(data)
    found, rows = _fitted(problem, Networks(members=1, training_steps=5, n_features=5), None)
    np.testing.assert_array_equal(rows.tau, find_lstd(problem, 5, None, 8).ratio)
    # Copies count 1 together, so that the mean over rows is the one over the plan's steps.
    assert np.mean(rows.tau * rows.residual) == pytest.approx(found.diagnostics["correction"])


@pytest.mark.parametrize("name", ["mql", "fqe"])
def test_thirty_rows_are_not_relied_on(name):
    """Ten episodes of three steps: an interval by LSTD-Q's ratio is worth as few rows as that ratio is."""
    data = LinearGaussian().dataset(10, 3, BEHAVIOUR, seed=0)
    options = FEW_STEPS if name == "fqe" else {}
    value = ov.evaluate(data, TARGET.policy(), name, gamma=0.9, **options)
    assert value.verdict != "reliable"


def test_features_miss_nothing_of_rounding_errors():
    """Equal rewards leave residuals of 1e-15, and what actions foretell of those is nothing to read about."""
    data = LinearGaussian().dataset(100, 50, BEHAVIOUR, seed=0)
    equations = lstd_equations(Problem.pose(data, TARGET.policy(), gamma=0.9), 20, 4)
    left = np.abs(data.actions[:, 0])
    assert max(each.bias for each in row_doubt(equations, np.ones(5000), left).doubts) > 0.1
    doubt = row_doubt(equations, np.ones(5000), 1e-15 * left)
    assert [each.bias for each in doubt.doubts] == [0, 0]


@pytest.mark.parametrize("name", ["mql", "fqe"])
def test_features_that_explain_noise_do_not_make_it_smaller(name):
    """Noise in eight dimensions, 72 rows, the behaviour itself: no error is far below that of the mean, 1/√72."""
    rng = np.random.default_rng(0)
    states, last = rng.standard_normal((12, 7, 8)), np.arange(72) % 6 == 5
    data = ov.LoggedDataset.from_arrays(
        states[:, :-1].reshape(72, 8),
        rng.standard_normal((72, 1)),
        rng.standard_normal(72),
        states[:, 1:].reshape(72, 8),
        truncated=last,
    )
    same = GaussianPolicy(lambda seen: (np.zeros((len(seen), 1)), np.ones((len(seen), 1))))
    options = FEW_STEPS if name == "fqe" else {}
    assert ov.evaluate(data, same, name, gamma=0.9, **options).standard_error > 0.6 / np.sqrt(72)


@pytest.mark.parametrize("name", ["vpm", "dr", "mql"])
def test_as_many_coordinates_as_a_third_of_the_rows(name):
    """600 rows of 200 coordinates: residuals are 0 or next to it, and halves of the features say how little that means.

    The truth is 0.3·0.4/(1 - 0.7).
    """
    right = ov.as_policy(lambda seen: np.tile([0.3, 0.7], (len(seen), 1)), n_actions=2)
    held = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        path = [rng.standard_normal((30, 200))]
        taken = rng.integers(2, size=(30, 20))
        for step in range(20):
            following = 0.7 * path[-1] + rng.standard_normal((30, 200))
            following[:, 0] += 0.3 * (2 * taken[:, step] - 1)
            path.append(following)
        states = np.stack(path, axis=1)
        now, after = states[:, :-1].reshape(-1, 200), states[:, 1:].reshape(-1, 200)
        last = np.arange(600) % 20 == 19
        data = ov.LoggedDataset.from_arrays(now, taken.ravel(), now[:, 0], after, truncated=last)
        value = ov.evaluate(data, right, name, gamma=1.0)
        held.append(value.interval[0] <= 0.4 <= value.interval[1])
    assert sum(held) >= 3
