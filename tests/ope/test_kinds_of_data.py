"""Every estimator on the kinds of data that logs come in, with answers known beforehand."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.plugins import select
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


@pytest.mark.parametrize("next_known", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_episodes_of_one_step(name, gamma, next_known):
    """A contextual bandit: the reward is a + s, E[s] = 0, and the target takes action 1 with probability 0.7."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((400, 2)), rng.integers(2, size=400)
    ends = np.ones(400, dtype=bool)
    following = states if next_known else None
    data = ov.LoggedDataset.from_arrays(states, actions, states[:, 0] + actions, following, terminated=ends)
    policy = ov.as_policy(lambda seen: np.tile([0.3, 0.7], (len(seen), 1)), n_actions=2)
    found = ov.evaluate(data, policy, name, gamma=gamma, **FAST.get(name, {}))
    wanted = 0.5 if name == "naive" else 0.7
    share = 1 if gamma == 1 else 1 - gamma  # below γ = 1 nothing follows the only step
    assert found.value == pytest.approx(share * wanted, abs=4 * found.standard_error)
    assert found.verdict != "unreliable"


def bits_log(width):
    """A chain of eight states whose three bits are logged, the first of them again and again."""
    mdp = RandomMDP.draw(8, 2, seed=0)
    data = mdp.dataset(30, 20, np.full((8, 2), 0.5), seed=1)

    def bits(states):
        first = (states[:, None] >> np.arange(3)) & 1
        return np.hstack([first, np.repeat(first[:, :1], width - 3, axis=1)])

    columns = {"terminated": data.terminated, "truncated": data.truncated, "episode": data.episode}
    following = np.where(data.next_known[:, None], bits(np.maximum(data.next_observations, 0)), -1)
    return ov.LoggedDataset.from_arrays(
        bits(data.observations), data.actions, data.rewards, following, next_known=data.next_known, **columns
    )


def by_the_first_bit(seen):
    return np.stack([0.3 + 0.4 * seen[:, 0], 0.7 - 0.4 * seen[:, 0]], axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_more_states_than_can_be_numbered(name):
    """Copies of a bit change nothing, be there 2^10 or 2^80 possible states; dr's folds follow a hash of the rows."""
    policy = ov.as_policy(by_the_first_bit, n_actions=2)
    few, many, most = (ov.evaluate(bits_log(width), policy, name) for width in (10, 41, 80))
    tolerance = 3 * (few.standard_error or 0) if name == "dr" else 1e-9
    assert many.value == pytest.approx(few.value, abs=tolerance)
    assert most.value == pytest.approx(few.value, abs=tolerance)


def test_states_that_were_not_logged_share_a_number():
    data = bits_log(41)
    encoder = Encoder.fit(data, 2, absorbs=True)
    seen = encoder.states(data.observations)
    assert len(np.unique(seen)) == 8
    new = np.arange(82).reshape(2, 41) % 2
    new[1] = 1 - new[0]
    assert (encoder.states(new) == encoder.states(new)[0]).all()
    assert encoder.states(new)[0] not in seen
    assert encoder.absorbing()[0] > encoder(new, np.array([1, 1])).max()


def test_discrete_actions_that_are_stored_as_floats():
    """A policy with discrete actions reads 0.0 and 1.0 as their numbers; every way in answers the same."""
    rng = np.random.default_rng(0)
    seen, actions = rng.standard_normal((600, 2)), rng.integers(2, size=600)
    policy = ov.as_policy(lambda states: np.tile([0.3, 0.7], (len(states), 1)), n_actions=2)

    def log(given):
        return ov.LoggedDataset.from_arrays(seen, given, 1.0 * actions, truncated=np.arange(600) % 20 == 19)

    wanted = ov.evaluate(log(actions), policy, "vpm", ignore=INDEPENDENT)
    floats = log(1.0 * actions)
    assert ov.evaluate(floats, policy, "vpm", ignore=INDEPENDENT).value == wanted.value
    chosen = select(floats, {"only": policy}, "vpm", ignore=INDEPENDENT)
    assert chosen.best.value.value == wanted.value
    with pytest.raises(ValueError, match="chooses from 2 actions, the data have 3"):
        ov.evaluate(log(2.0 * actions), policy, "vpm", ignore=INDEPENDENT)
    with pytest.raises(ValueError, match=r"the data continuous ones \(floats\)"):
        ov.evaluate(log(0.5 * actions), policy, "vpm", ignore=INDEPENDENT)
    unknown = ov.as_policy(lambda states: np.tile([0.3, 0.7], (len(states), 1)), output="probabilities")
    with pytest.raises(ValueError, match=r"although all are whole: save them as integers"):
        ov.evaluate(floats, unknown, "vpm", ignore=INDEPENDENT)


def test_a_deterministic_target_of_continuous_actions():
    """Its ratio does not exist: vpm says that its own is smoothed, and auto, which needs none, is not biased."""
    system, still = LinearGaussian(), replace(TARGET, deviation=0.0)
    gain = np.array(still.gain)[:, None]

    def act(states):
        return states @ gain + still.shift

    errors = []
    for seed in range(10):
        data = system.dataset(40, 30, BEHAVIOUR, seed=seed)
        smoothed = ov.evaluate(data, act, "vpm")
        assert smoothed.verdict != "reliable"
        assert any("no densities" in reason for reason in smoothed.reasons)
        errors.append(ov.evaluate(data, act, "auto").value - system.value(still, gamma=1.0))
    assert abs(np.mean(errors)) < 4 * np.std(errors, ddof=1) / np.sqrt(10)
