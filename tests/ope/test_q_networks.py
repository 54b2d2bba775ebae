"""Q by networks whose output is known: what they are asked, and which way a gradient step takes them."""

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.q.networks import ask, inputs, standardised, train
from ope_vpm.ope.q.training import Ensemble
from ope_vpm.ope.ratio.networks import ratio_of
from ope_vpm.policy import GaussianPolicy

POLICY = GaussianPolicy(lambda s: (0 * s, 1.0))


def constant_value(value, seen):
    """A network with V = value everywhere and no part that depends on the action."""
    network = Ensemble(1, seen.here.shape[1], 1 + seen.centred.shape[1], 0)
    with torch.no_grad():
        network.weights[-1].zero_()
        network.biases[-1][..., 0] = value
    return network


def posed(gamma, ended=False):
    """40 episodes of three steps that are cut, or that end for good."""
    rng = np.random.default_rng(0)
    states, last = rng.standard_normal((121, 1)), np.arange(120) % 3 == 2
    flags = {"terminated": last} if ended else {"truncated": last}
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.standard_normal((120, 1)), rng.uniform(size=120), states[1:], **flags
    )
    return Problem.pose(data, POLICY, gamma=gamma, ignore=("one-row-off",))


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_the_level_is_the_mean_bellman_residual(gamma):
    """Of V = 3 and rewards 1 in half of the steps, which count three times as much as the others, that pay 5.

    ℓ = E[r] + 3γ - 3, where E[r] = (3·1 + 5)/4 = 2.
    """
    problem = posed(gamma)
    seen = inputs(problem, 1)
    even = np.arange(120) % 2 == 0
    rewards, counts = torch.from_numpy(np.where(even, 1.0, 5.0))[None].float(), np.where(even, 3.0, 1.0)
    found = ask(problem, constant_value(3.0, seen), seen, rewards, np.zeros(40, dtype=int), 1, counts)
    np.testing.assert_allclose(found.level, 2 + 3 * gamma - 3, rtol=1e-6)
    for values in (found.q, found.after, found.first):
        np.testing.assert_allclose(values, 3, rtol=1e-6)


def test_where_ends_absorb_there_is_no_level():
    problem = posed(0.5, ended=True)
    seen = inputs(problem, 1)
    found = ask(problem, constant_value(3.0, seen), seen, torch.ones(1, 120), np.zeros(40, dtype=int), 1, np.ones(120))
    np.testing.assert_array_equal(found.level, 0)
    np.testing.assert_allclose(found.after, np.where(problem.data.terminated[problem.steps.rows], 0, 3))


@pytest.mark.parametrize(("value", "direction"), [(1.3, 1), (1.7, -1), (3.0, -1), (0.5, 1)])
def test_a_gradient_step_goes_towards_the_discounted_target(value, direction):
    """Reward 1 everywhere, γ = ½, a third of the steps end: the target 1 + ½·⅔·V lies above V where V < 3/2."""
    problem = posed(0.5, ended=True)
    seen = inputs(problem, 1)
    trained = train(constant_value(value, seen), seen, torch.ones(1, 120), [np.arange(120)], np.ones(120), 1, 0.5, 0)
    moved = float(trained(seen.here[None])[..., 0].mean().detach()) - value
    assert np.sign(moved) == direction
    level = float(trained.biases[-1][0, 0, 0].detach()) - value  # a tenth of Adam's first step of 0.001
    assert level == pytest.approx(direction * 1e-4, rel=1e-2)


def test_rewards_are_standardised_unless_ends_absorb():
    """1 and 3: mean 2 and deviation 1; the zero stays where it is where ends absorb."""
    numbers = np.array([1.0, 3.0])
    scaled, shift, scale = standardised(numbers, absorbs=False)
    assert (scaled.tolist(), shift, scale) == ([-1, 1], 2, 1)
    scaled, shift, scale = standardised(numbers, absorbs=True)
    assert (scaled.tolist(), shift, scale) == ([1, 3], 0, 1)


@pytest.mark.parametrize(("positive", "expected"), [(True, np.log1p(np.exp(0.5413 - 3))), (False, -2.0)])
def test_a_ratio_by_networks_is_positive_where_it_must_be(positive, expected):
    """An output of -3: softplus, moved so that 0 gives 1, or 1 more than the output."""
    found = ratio_of(lambda x: torch.full((len(x), 1), -3.0), inputs(posed(1.0), 1), torch.arange(5), positive)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
