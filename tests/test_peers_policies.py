"""The log as scope-rl wants it: nothing is lost or added by filling episodes up to one length."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("icu_sepsis")

from benchmarks._peers_policies import features, padded, settled
from ope_vpm.envs.wild.tables import clinicians
from ope_vpm.studies import sepsis


def test_episodes_are_filled_up_with_steps_that_are_over():
    data = sepsis.task().run([clinicians()], 20, sepsis.task().own_limit, 100)
    table = sepsis.target("half-way").table
    found = padded(data, table)
    steps, state, done = found["steps"], found["state"], found["done"].reshape(20, -1)
    assert steps == data.lengths.max()
    assert found["reward"].reshape(20, steps).sum(axis=1) == pytest.approx(
        np.bincount(data.episode, data.rewards, minlength=20)
    )
    assert (done.argmax(axis=1) + 1 == data.lengths).all()  # over from the last logged step on
    assert (
        state.reshape(20, steps, -1)[0, : data.lengths[0]] == features()[data.observations[: data.lengths[0]]]
    ).all()


def test_no_ratio_changes_after_the_end():
    """The filled-up steps have an action and a propensity of the target itself, so that π/b is 1 there."""
    data = sepsis.task().run([clinicians()], 20, sepsis.task().own_limit, 100)
    table = sepsis.target("optimal").table
    found = padded(data, table)
    over = np.ones(len(found["done"]), dtype=bool)
    lengths = data.lengths
    over[np.concatenate([np.arange(length) + n * found["steps"] for n, length in enumerate(lengths)])] = False
    last = len(table) - 1
    assert (table[last, found["action"][over]] / found["pscore"][over] == 1).all()


def test_a_stochastic_target_has_one_action_where_an_episode_is_over():
    """So that V(s) = Q(s, a) there; elsewhere it is what it was."""
    table = np.array([[0.5, 0.5], [0.3, 0.7]])
    np.testing.assert_array_equal(settled(table), [[0.5, 0.5], [0, 1]])
    np.testing.assert_array_equal(table[1], [0.3, 0.7])
