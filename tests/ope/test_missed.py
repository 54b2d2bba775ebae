"""Functions of the action that are neither lines nor parabolas: features that follow them, and a test for what is left.

The tasks are bandits on a chain: states are drawn anew in every step, so that the value is E[r(s, π(s))] at any
discount, in closed form.
"""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.linear.features import Standardiser
from ope_vpm.linear.system import Halves
from ope_vpm.ope.adapter import action_functions
from ope_vpm.ope.adapter.action_functions import ActionFunctions, nearness
from ope_vpm.ope.linear.doubts import JointFourier, JointSteps, RowDoubt
from ope_vpm.ope.linear.estimate import Missed
from ope_vpm.ope.linear.past import History
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy

NARROW = 8.0
"""How fast the response falls off around the best dose."""
EPISODES, LENGTH = 60, 40


def trial(seed):
    """States and doses are uniform on [-1, 1]; a dose a works with the probability 0.1 + 0.8·exp(-8(a - s/2)²)."""
    rng = np.random.default_rng(seed)
    states, doses = (rng.uniform(-1, 1, (EPISODES, LENGTH + 1, 1)) for _ in range(2))
    states, doses, after = states[:, :-1].reshape(-1, 1), doses[:, :-1].reshape(-1, 1), states[:, 1:].reshape(-1, 1)
    works = rng.random(len(states)) < 0.1 + 0.8 * np.exp(-NARROW * (doses - states / 2)[:, 0] ** 2)
    last = np.arange(len(states)) % LENGTH == LENGTH - 1
    return ov.LoggedDataset.from_arrays(states, doses, works.astype(float), after, truncated=last)


EXACT = 0.9
"""The target takes the best dose, s/2, in every state."""
target = DeterministicPolicy(lambda s: s / 2, action_dimension=1)


def test_a_narrow_response_is_followed():
    """Ten logs: the errors average out, and the intervals hold the truth."""
    found = [ov.evaluate(trial(seed), target, "auto", gamma=0.9) for seed in range(10)]
    errors = np.array([value.value for value in found]) - EXACT
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(10)
    assert sum(low <= EXACT <= high for low, high in (value.interval for value in found)) >= 9
    assert all(value.verdict == "reliable" for value in found)


def test_what_lines_and_parabolas_miss_is_noticed(monkeypatch):
    """Without richer functions the values are too low, by what the regression of residuals says; intervals hold it."""
    monkeypatch.setattr(action_functions, "ACTION_COLUMNS", 9)  # no room for more
    found = [ov.evaluate(trial(seed), target, "auto", gamma=0.9) for seed in range(10)]
    errors = np.array([value.value for value in found]) - EXACT
    missed = np.array([value.diagnostics["missed"] for value in found])
    assert errors.mean() < -4 * errors.std(ddof=1) / np.sqrt(10)
    assert missed.mean() == pytest.approx(-errors.mean(), rel=0.3)
    assert all(low <= EXACT <= high for low, high in (value.interval for value in found))


def test_rich_functions_are_for_where_plain_ones_miss_something():
    """A reward that is a parabola of the action is followed by plain ones, whose intervals are narrower."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((2401, 1)), rng.uniform(-1, 1, (2400, 1))
    last = np.arange(2400) % LENGTH == LENGTH - 1
    rewards = 1 - (actions[:, 0] - 0.2) ** 2 + 0.1 * rng.standard_normal(2400)
    data = ov.LoggedDataset.from_arrays(states[:-1], actions, rewards, states[1:], truncated=last)
    steady = DeterministicPolicy(lambda s: np.full((len(s), 1), 0.2), action_dimension=1)
    found = ov.evaluate(data, steady, "fqe", solver="linear", gamma=0.9)
    assert "action_functions" not in found.diagnostics
    assert found.value == pytest.approx(1, abs=0.02)
    assert ov.evaluate(trial(0), target, "auto").diagnostics["action_functions"] == "rich"


def test_rich_functions_by_hand():
    """Mean 1 and deviation 2: the target's 3 is z = 1, the logged 5 and 1 are z = 2 and 0, each half a distance off.

    Near is exp(-½(0.5/0.5)²) and exp(-½(0.5/0.25)²), where the target's own action has 1 and 1.
    """
    scale = replace(Standardiser.unit(1), mean=np.array([1.0]), std=np.array([2.0]))
    policy, states = DeterministicPolicy(lambda s: 0 * s + 3), np.zeros((2, 1))
    functions = ActionFunctions(scale, np.array([2.0]), (1.5,))
    found = functions(states, np.array([[5.0], [1.0]]), policy, np.random.default_rng(0), 1)
    near = [np.exp(-0.5) - 1, np.exp(-2) - 1]
    fourier = [[np.cos(3) - np.cos(1.5), np.sin(3) - np.sin(1.5)], [1 - np.cos(1.5), -np.sin(1.5)]]
    np.testing.assert_allclose(found, [[1, 3, *near, *fourier[0]], [-1, -1, *near, *fourier[1]]])
    assert functions.number(policy, states, np.zeros((2, 1))) == 6
    assert ActionFunctions(scale, np.ones(3), (1.5, 3.0)).number(policy, states, np.zeros((2, 3))) == 20
    assert ActionFunctions(scale).number(policy, states, np.zeros((2, 3))) == 6


def test_nearness_of_several_coordinates():
    """The root mean square of 0.3 and 0.4 is √0.125."""
    np.testing.assert_allclose(nearness(np.array([[0.3, -0.4]])), [np.exp([-0.125 / 0.5, -0.125 / 0.125])])


@pytest.mark.parametrize(
    ("states", "actions", "episodes", "fourier"),
    [(1, 1, 50, 2), (1, 1, 1, None), (2, 3, 50, 2), (17, 6, 50, 0), (17, 1, 50, 2), (70, 1, 50, 0), (90, 2, 50, None)],
)
def test_rich_functions_have_to_fit_beside_the_coordinates_of_the_state(states, actions, episodes, fourier):
    """Each function is multiplied with 1, the state and the target's mean action, and there is room for 400 columns.

    That is less where a tenth of the rows is less. A line and a parabola of each coordinate and two widths of nearness
    come first, then a cosine and a sine of each coordinate for each Fourier feature.
    """
    rng = np.random.default_rng(0)
    shape = episodes * 100
    data = ov.LoggedDataset.from_arrays(
        rng.standard_normal((shape, states)),
        rng.standard_normal((shape, actions)),
        np.zeros(shape),
        truncated=np.arange(shape) % 100 == 99,
    )
    silent = DeterministicPolicy(lambda s: np.zeros((len(s), actions)))
    problem = Problem.pose(data, silent)
    functions = action_functions.action_functions(problem, rich=True)
    assert (None if functions.spread is None else len(functions.frequencies)) == fourier
    plain = action_functions.action_functions(problem)
    assert (plain.spread, plain.frequencies) == (None, ())


def test_expected_functions_of_actions():
    """E[cos a] of a Gaussian is cos(m)·exp(-σ²/2); a deterministic policy is asked once."""
    states = np.linspace(-1, 1, 4000)[:, None]
    gaussian = GaussianPolicy(lambda s: (np.full_like(s, 0.3), 0.5))
    found = gaussian.expected(np.cos, states, np.random.default_rng(0), 8)
    truth = np.cos(0.3) * np.exp(-0.125)
    assert found.shape == states.shape
    assert abs(found.mean() - truth) < 4 * found.std() / np.sqrt(len(found))
    asked = []
    once = DeterministicPolicy(lambda s: asked.append(len(s)) or 2 * s)
    np.testing.assert_allclose(once.expected(np.square, states, np.random.default_rng(0), 8), 4 * states**2)
    assert sum(asked) == len(states)


def test_the_mean_of_a_regression_at_other_places():
    """A line through 2 + 3t says 17 at t = 5 without error; a mean has the error of the sums over groups."""
    t = np.arange(8.0)
    line = np.column_stack([np.ones(8), t])
    group, fold = np.arange(8) // 2, np.arange(8) // 2 % 2
    assert Halves(line, fold).predicted_mean(2 + 3 * t, np.array([1.0, 5.0]), group, [1e-9]) == pytest.approx(
        (17, 0), abs=1e-5
    )
    y = np.array([1.0, 3.0, 2.0, 2.0, 5.0, 5.0, 0.0, 6.0])  # mean 3, groups off by -2, -2, 4, 0
    mean, error = Halves(np.ones((8, 1)), fold).predicted_mean(y, np.ones(1), group, [1e-3])
    assert (mean, error) == pytest.approx((3, np.sqrt(4 + 4 + 16) / 8))


def test_the_ridge_of_the_regression_is_the_one_that_predicts():
    """A slope that is there is found with the least ridge; of one that is not, the largest leaves least."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(400), rng.standard_normal((400, 30))])
    group, at = np.arange(400) // 10, np.append(1.0, np.ones(30))
    ridges = (1e-3, 1e3)
    clear, _ = Halves(x, group % 2).predicted_mean(x[:, 1:].sum(axis=1), at, group, ridges)
    assert clear == pytest.approx(30, rel=0.01)
    noise, error = Halves(x, group % 2).predicted_mean(rng.standard_normal(400), at, group, ridges)
    assert abs(noise) < 0.3
    assert error < 0.1


def test_what_is_missed_by_hand():
    """δ is 1 at the logged action a = 1 and 0 at 0; the target takes a = 1, and three rows have weights 1, 1 and 4."""
    a = np.tile([0.0, 1.0, 1.0, 0.0], 50)
    here, target = np.column_stack([np.ones(200), a]), np.ones((200, 2))
    episode = np.arange(200) // 4
    steps = JointSteps(np.arange(200), Halves(here, episode % 2), target, episode)
    found = steps.missed(np.tile([1.0, 1.0, 4.0, 0.0], 50), a)
    assert found.value == pytest.approx(1, rel=0.01)
    halfway = replace(steps, target=np.column_stack([np.ones(200), np.tile([0.0, 0.0, 1.0, 0.0], 50)]))
    assert halfway.missed(np.tile([1.0, 1.0, 4.0, 0.0], 50), a).value == pytest.approx(4 / 6, rel=0.01)
    assert steps.missed(np.zeros(200), a) == Missed()  # no weight
    assert steps.missed(np.ones(200), 0 * a) == Missed()  # nothing is left
    assert steps.missed(np.ones(200), np.where(a > 0, np.nan, a)) == Missed()  # nothing is known


def test_noise_is_not_missed():
    assert Missed(0.1, 0.1).bias == 0
    assert Missed(-0.5, 0.3).bias == 0  # not sure
    assert Missed(-0.5, 0.14).bias == pytest.approx(0.48)
    assert not Missed(0.2, 0.1).sure
    assert Missed(-0.21, 0.1).sure
    found = RowDoubt(1.0, History(0.0, 0.0), Missed(0.1, 0.1))
    assert [doubt.bias for doubt in found.doubts] == [0, 0]
    _, doubt = replace(found, missed=Missed(-0.5, 0.14)).doubts
    assert doubt.bias == pytest.approx(0.48)
    assert "ways that the features miss" in doubt.sentence


def test_joint_waves_by_hand():
    fourier = JointFourier(np.array([[2.0], [0.0]]), np.array([0.5]))
    np.testing.assert_allclose(fourier(np.array([[3.0, -1.0]])), [[1, 3, -1, 9, 1, np.cos(6.5)]])
