"""Every estimator on the kinds of data that logs come in, with answers known beforehand."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.policy import GaussianPolicy

NAMES = tuple(name for name in ov.estimators() if name != "d3rlpy_fqe")  # takes d3rlpy's policies only
SMALL = {"training_steps": 50, "n_features": 50}
FAST = {
    "model": {"training_steps": 100, "rollouts": 20, "members": 2},
    "liu": {"training_steps": 30},
    **dict.fromkeys(("fqe", "dr", "auto"), SMALL),
    **{name: {"n_features": 50} for name in ("dualdice", "gendice", "gradientdice", "bestdice")},
    **{name: {"n_features": 50} for name in ("mwl", "mql", "wdr", "magic")},
}
INDEPENDENT = ("one-row-off", "constant-columns")
"""States are drawn anew at each step here, which the doctor takes for a shift by one row."""


@pytest.mark.parametrize("name", NAMES)
def test_multi_discrete_states(name):
    """The reward is the action, and states do not matter: the target takes action 1 with probability 0.7."""
    rng = np.random.default_rng(0)
    states = np.column_stack([rng.integers(3, size=2001), rng.integers(2, size=2001)])
    actions = rng.integers(2, size=2000)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions.astype(float), states[1:], truncated=np.arange(2000) % 5 == 4
    )
    found = ov.evaluate(data, np.tile([0.3, 0.7], (3, 2, 1)), name)
    wanted = actions.mean() if name == "naive" else 0.7
    assert found.value == pytest.approx(wanted, abs=4 * found.standard_error + 1e-9)


@pytest.mark.parametrize("name", ["vpm", "naive", "onestep", "liu", "dr", "bestdice", "mwl", "wdr"])
def test_finite_states_with_continuous_actions(name):
    """The reward is a + s: E[a] = 0.2 under the target, E[s] = 1.5."""
    rng = np.random.default_rng(0)
    states, actions = rng.integers(4, size=1501), rng.standard_normal((1500, 1))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions[:, 0] + states[:-1], states[1:], truncated=np.arange(1500) % 30 == 29
    )
    policy = GaussianPolicy(lambda s: (np.full((len(s), 1), 0.2), 1.0), action_dimension=1)
    found = ov.evaluate(data, policy, name, ignore=INDEPENDENT, **FAST.get(name, {}))
    assert found.value == pytest.approx(1.5 if name == "naive" else 1.7, abs=4 * found.standard_error)


@pytest.mark.parametrize("name", ["vpm", "model", "liu", "fqe", "dr", "gendice", "mwl"])
def test_rows_without_a_next_state_are_dropped_and_counted(name):
    logged = LinearGaussian().dataset(12, 20, BEHAVIOUR, seed=0)
    data = ov.LoggedDataset.from_arrays(logged.observations, logged.actions, logged.rewards, truncated=logged.truncated)
    found = ov.evaluate(data, TARGET.policy(), name, **FAST.get(name, {}))
    assert found.diagnostics["dropped"] == 12
    if found.weights is not None:
        assert (found.weights[data.ends] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_equal_rewards_on_points(name):
    logged = LinearGaussian().dataset(12, 20, BEHAVIOUR, seed=0)
    data = ov.LoggedDataset.from_arrays(
        logged.observations, logged.actions, np.full(240, 2.0), logged.next_observations, truncated=logged.truncated
    )
    found = ov.evaluate(data, TARGET.policy(), name, **FAST.get(name, {}))
    assert found.value == pytest.approx(2)
    assert found.interval == pytest.approx((2, 2))
