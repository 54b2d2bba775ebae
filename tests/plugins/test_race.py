"""Twenty policies by one log: who is screened is worse, and who stays is answered as without a race."""

from dataclasses import replace

import numpy as np
import pytest

from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.inference.doubts import RIDGE
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions.paired import Evaluated
from ope_vpm.plugins import select
from ope_vpm.plugins.race import REACH, Rough, beats

SYSTEM = LinearGaussian()
CONTROLLERS = {str(k): replace(TARGET, gain=tuple((1 - 0.4 * k) * each for each in TARGET.gain)) for k in range(6)}
POLICIES = {name: controller.policy() for name, controller in CONTROLLERS.items()}


def test_policies_that_are_screened_are_worse_and_the_others_have_their_answers():
    data = SYSTEM.dataset(60, 50, BEHAVIOUR, seed=3)
    raced, full = (select(data, POLICIES, rank_by="value", race=race) for race in (True, False))
    truths = {name: SYSTEM.value(controller, gamma=1.0) for name, controller in CONTROLLERS.items()}
    screened = {each.name for each in raced.candidates if each.screened}
    assert screened
    assert raced.best.name == full.best.name
    answers = {each.name: each.value.value for each in full.candidates}
    for each in raced.candidates:
        if not each.screened:
            assert each.value.value == answers[each.name]
    assert max(truths[name] for name in screened) < max(truths[name] for name in truths.keys() - screened)
    assert [each.screened for each in raced.candidates] == sorted(each.screened for each in raced.candidates)
    assert all("screened" in each.against_first for each in raced.candidates if each.screened)


@pytest.mark.parametrize("policies", [dict(list(POLICIES.items())[:3]), POLICIES], ids=["few", "another estimator"])
def test_few_policies_and_other_estimators_are_answered_in_full(policies):
    data = SYSTEM.dataset(20, 20, BEHAVIOUR, seed=3)
    chosen = select(data, policies, "auto" if len(policies) == 3 else "onestep")
    assert not any(each.screened for each in chosen.candidates)


def test_finite_states_are_answered_in_full():
    mdp = RandomMDP.draw(5, 2, seed=0)
    policies = [mdp.policy(seed) for seed in range(5)]
    assert not any(each.screened for each in select(mdp.dataset(30, 20, mdp.policy(9), seed=0), policies).candidates)


def test_of_a_long_log_the_sample_is_asked_and_other_episodes_move_nothing(monkeypatch):
    monkeypatch.setattr("ope_vpm.ope.log.SAMPLE_ROWS", 1000)
    problem = Problem.pose(SYSTEM.dataset(60, 50, BEHAVIOUR, seed=3), TARGET.policy(), gamma=0.9)
    (whole, raw), (alone, of_sample) = (Rough().answered(each) for each in (problem, problem.on_sample))
    assert whole.value == alone.value
    some = problem.log.episodes[:20]
    np.testing.assert_allclose(raw.sums.influence[some], of_sample.sums.influence)
    assert not np.delete(raw.sums.influence, some).any()


def test_one_beats_another_by_hand():
    """Influences (x, -x, 0, …) of ten episodes have the standard error x·√(2·10/9); equal biases of both cancel."""
    step = 0.1 / np.sqrt(2 * 10 / 9)
    moves = np.zeros(10)
    moves[:2] = step, -step

    def one(value, influence, bias=0.0):
        told = PolicyValue("made-up", value, 1.0, 1.0, (0.0, 3.0), None, "reliable", ())
        return Evaluated(told, influence, {RIDGE.code: bias})

    steady = one(1.0, np.zeros(10))
    assert beats(one(1.01 + 0.1 * REACH, moves), steady)
    assert not beats(one(0.99 + 0.1 * REACH, moves), steady)
    assert not beats(steady, one(1.5, moves))
    assert beats(one(1.001, moves, 5.0), one(1.0, moves, 5.0))  # what moves both alike says nothing about the order
    assert not beats(one(float("nan"), moves), steady)
