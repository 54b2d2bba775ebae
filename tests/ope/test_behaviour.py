"""`behaviour=`: every estimator that divides by the behaviour's probabilities takes them from the same place."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.problem import Problem

SYSTEM = LinearGaussian()
FAST = {"vpm": {"n_features": 40}, "auto": {"n_features": 40}, "dr": {"n_features": 40}, "onestep": {}, "mwl": {}}


def logged(seed=0, episodes=20, steps=15):
    """A log of the linear system with the propensities of the policy that acted."""
    plain = SYSTEM.dataset(episodes, steps, BEHAVIOUR, seed=seed)
    columns = (plain.observations, plain.actions, plain.rewards, plain.next_observations, plain.terminated)
    known = BEHAVIOUR.policy().log_prob(plain.observations, plain.actions)
    return ov.LoggedDataset.from_arrays(*columns, plain.truncated, behaviour_log_prob=known)


@pytest.mark.parametrize("name", FAST)
def test_logged_propensities_are_those_of_the_policy_that_acted(name):
    data = logged()
    by_log = ov.evaluate(data, TARGET.policy(), name, gamma=0.9, behaviour="logged", **FAST[name])
    by_policy = ov.evaluate(data, TARGET.policy(), name, gamma=0.9, behaviour=BEHAVIOUR.policy(), **FAST[name])
    assert by_log.value == pytest.approx(by_policy.value, rel=1e-9)
    assert by_log.interval == pytest.approx(by_policy.interval, rel=1e-6)


@pytest.mark.parametrize("name", ["vpm", "auto", "dr", "onestep"])
def test_known_propensities_are_not_cloned(name):
    data = logged()
    given = [
        ov.evaluate(data, TARGET.policy(), name, behaviour=how, **FAST[name]).value for how in ("logged", "cloned")
    ]
    assert given[0] != given[1]


def test_the_ratio_is_exactly_that_of_both_densities():
    data = logged()
    policy = TARGET.policy()
    ratio = np.exp(policy.log_prob(data.observations, data.actions) - data.behaviour_log_prob)
    found = action_ratio(Problem.pose(data, policy, behaviour="logged"))
    np.testing.assert_allclose(found.ratio, np.minimum(ratio / ratio.mean(), 50))
    assert found.overlap == pytest.approx(ratio.mean())


def test_one_step_logs_have_the_self_normalised_mean_by_hand():
    data = ov.LoggedDataset.from_arrays(
        [[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1], [1.0, 2.0, 3.0, 5.0],
        terminated=[True] * 4, episode=range(4), behaviour_log_prob=np.log([0.2, 0.8, 0.5, 0.5]),
    )  # fmt: skip
    # π/b = 2.5, 0.625, 1, 1 at π = 1/2: (2.5 + 1.25 + 3 + 5)/5.125
    value = ov.evaluate(data, lambda s: np.full((len(s), 2), 0.5), "onestep", behaviour="logged")
    assert value.value == pytest.approx(11.75 / 5.125)


def test_values_with_known_propensities_are_near_the_truth():
    truth, found = SYSTEM.value(TARGET, gamma=1.0), []
    for seed in range(100, 112):
        data = logged(seed, 40, 25)
        found.append(ov.evaluate(data, TARGET.policy(), "vpm", behaviour="logged", n_features=60).value)
    assert abs(np.mean(found) - truth) < 4 * np.std(found, ddof=1) / np.sqrt(len(found))


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        ("clone", r"behaviour must be 'cloned', 'logged' or a policy: got 'clone'"),
        ("logged", r"behaviour='logged' needs behaviour_log_prob in the data: use behaviour='cloned'"),
        (lambda s: 0.0 * s[:, :1], "a behaviour policy needs densities"),
    ],
)
@pytest.mark.parametrize("name", ["auto", "dr", "naive"])
def test_what_cannot_be_had_is_refused_in_a_sentence(name, behaviour, told):
    with pytest.raises(ValueError, match=told):
        ov.evaluate(SYSTEM.dataset(5, 5, BEHAVIOUR, seed=0), TARGET.policy(), name, behaviour=behaviour)
