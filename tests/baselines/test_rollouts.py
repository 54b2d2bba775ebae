"""Rollouts of the network model in a world that is known: s moves on by one, and pays s + 1."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.baselines.model import ModelBased, _observations, fit, rolled_out, rollout_length
from ope_vpm.ope import Problem
from ope_vpm.policy import GaussianPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")
POLICY = GaussianPolicy(lambda s: (0 * s, 1.0))


class Known(torch.nn.Module):
    """A change of 0 beyond the mean one, the reward of the state (both standardised), and an end above some s."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self.end = end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x[..., :1]
        return torch.cat([0 * state, state, 1000 * (state - self.end)], dim=-1)


def world(gamma, end=None, length=8):
    """Episodes 0, 1, … that are cut after `length` steps, or end in the first state above `end`."""
    steps = length if end is None else int(end) + 2
    states = np.tile(np.arange(float(steps)), 30)[:, None]
    last = np.arange(len(states)) % steps == steps - 1
    actions = np.random.default_rng(0).standard_normal((len(states), 1))
    flags = {"truncated": last} if end is None else {"terminated": last}
    data = ov.LoggedDataset.from_arrays(states, actions, states[:, 0] + 1, states + 1, **flags)
    problem = Problem.pose(data, POLICY, gamma=gamma, ignore=QUIET)
    model = fit(problem.log, members=2, steps=1, seed=0)
    beyond = np.inf if end is None else (end - states.mean()) / states.std()
    return problem, replace(model, network=Known(beyond), noise=np.zeros((2, 1))), states


def test_discounted_rollouts_count_from_the_first_step():
    """γ = ½, four steps that pay 1, 2, 3, 4: (1 + 1 + ¾ + ½) / (1 + ½ + ¼ + ⅛)."""
    problem, model, _ = world(0.5)
    rolled = rolled_out(problem, model, 2, 3, 4)
    np.testing.assert_allclose(rolled.values, 3.25 / 1.875, rtol=1e-6)
    assert np.isnan(rolled.returns).all()
    assert rolled.at_edge == 0


def test_the_first_half_is_left_out_of_a_long_run():
    """γ = 1, four steps that pay 1, 2, 3, 4 without an end: the mean of 3 and 4."""
    problem, model, _ = world(1.0)
    np.testing.assert_allclose(rolled_out(problem, model, 2, 3, 4).values, 3.5, rtol=1e-6)


def test_episodes_of_two_steps():
    """An end above ½ comes with the second step: 1 + 2 per episode, at γ = 1 over two steps each, none left out.

    At γ = ½ the end absorbs: 1 + ½·2 over Σ γ^t of all four steps.
    """
    problem, model, _ = world(1.0, end=0.5)
    rolled = rolled_out(problem, model, 2, 3, 4)
    np.testing.assert_allclose(rolled.values, 1.5, rtol=1e-6)
    np.testing.assert_allclose(rolled.returns, 3.0, rtol=1e-6)
    problem, model, _ = world(0.5, end=0.5)
    np.testing.assert_allclose(rolled_out(problem, model, 2, 3, 4).values, 2 / 1.875, rtol=1e-6)


def test_one_step_of_the_model_by_hand():
    """The next state is one further plus the drawn noise, times what a scaled change stands for."""
    _, model, states = world(1.0)
    here = (np.array([[[1.0], [2.0]], [[3.0], [4.0]]]) - states.mean()) / states.std()
    noisy = replace(model, noise=np.array([[0.5], [0.25]]))
    following, reward, ended = noisy.step(here, np.zeros((2, 2, 1)), np.random.default_rng(3))
    drawn = np.random.default_rng(3).standard_normal((2, 2, 1)) * np.array([0.5, 0.25])[:, None, None]
    expected = here + 1 / states.std() + drawn * model.change_scale.std
    np.testing.assert_allclose(following, np.clip(expected, *model.bounds), rtol=1e-5)
    np.testing.assert_allclose(reward, [[2, 3], [4, 5]], rtol=1e-5)
    assert not ended.any()


def test_states_may_leave_the_logged_range_by_a_tenth_of_it():
    """States 0 to 7, so -0.7 to 7.7."""
    _, model, states = world(1.0)
    np.testing.assert_allclose(np.concatenate(model.bounds) * states.std() + states.mean(), [-0.7, 7.7])
    assert model.reward_bounds == (1.0, 8.0)


def test_steps_on_the_edge_of_the_logged_range_are_counted():
    """States 0 to 7 may go on to 7.7: twelve steps from 0 reach it with the eighth and stay there, five of twelve."""
    problem, model, _ = world(0.5)
    assert rolled_out(problem, model, 2, 3, 12).at_edge == pytest.approx(5 / 12)
    assert rolled_out(problem, model, 2, 3, 7).at_edge == 0


def test_what_a_model_does_after_an_end_is_at_no_edge():
    """States 0 and 1, which may go on to 1.1: the second step ends the episode, and only the model goes on."""
    problem, model, _ = world(1.0, end=0.5)
    assert rolled_out(problem, model, 2, 3, 12).at_edge == 0


def test_lengths_of_rollouts():
    """0.5^10 is the first power below 0.001, 0.9^66 too; at γ = 1 twice the longest episode, between 100 and 1000."""
    assert [rollout_length(world(gamma)[0]) for gamma in (0.5, 0.9, 1.0)] == [10, 66, 100]
    assert rollout_length(world(1.0, length=60)[0]) == 120


@pytest.mark.parametrize(("option", "message"), [({"horizon": 0}, "horizon must be at least 1"), ({"members": 1}, "2")])
def test_settings_that_mean_nothing_are_refused(option, message):
    with pytest.raises(ValueError, match=message):
        ModelBased(**option)


def test_policies_are_asked_about_states_in_their_own_units():
    _, model, states = world(1.0)
    np.testing.assert_allclose(_observations(model, (states - states.mean()) / states.std()), states, atol=1e-12)


@pytest.mark.parametrize("method", ["rollout", "simulate"])
def test_a_horizon_of_one_step_is_the_mean_initial_reward(method):
    """Two states that pay 0 and 1; every episode begins in 0."""
    data = ov.LoggedDataset.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [0, 1, 1, 0])
    found = ov.evaluate(data, [[0.5, 0.5]] * 2, "model", method=method, horizon=1, ignore=QUIET)
    assert found.value == 0
