"""The clone's sums over rows, episodes and clipped entries against the same formulas taken row by row."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm, truncnorm

from ope_vpm.ope.behaviour.gaussian import (
    ENOUGH,
    LEAST_SHARE,
    MIXTURE_ROUNDS,
    ROUNDS,
    ROUNDS_EACH,
    TINY,
    CloneRows,
    Regression,
    fit_gaussians,
    tell_apart,
)
from ope_vpm.ope.behaviour.rows import NO_RIDGE, Design, Draws, Gaussian, tails
from tests.clones import fit_clone

EPISODES = 24
LOW, HIGH = -0.8, 1.1


def log_of_two_policies(length, clip, seed=0):
    """Draws of two linear policies, episode by episode, two coordinates of which the second has larger noise."""
    rng = np.random.default_rng(seed)
    episode = np.repeat(np.arange(EPISODES), length)
    s = rng.standard_normal((len(episode), 2))
    second = (episode % 3 == 0)[:, None]
    z = np.where(second, 0.8 - s, 0.4 * s) + [0.5, 0.9] * rng.standard_normal(s.shape)
    below, above = (z < LOW, z > HIGH) if clip else (z < -np.inf, z < -np.inf)
    draws = Draws(np.clip(z, LOW, HIGH) if clip else z, below, above)
    design = Design.table(np.hstack([np.ones((len(s), 1)), s, np.cos(2 * s)]), 2)
    return draws, CloneRows(design, episode % 5 == 4, episode)


def plain_round(draws, phi, weight, coefficients, std):
    """One round of expectation and maximisation, moments of clipped draws by scipy's truncated normal."""
    mean = phi[:, : len(coefficients)] @ coefficients
    centre, variance = draws.z.copy(), np.zeros_like(draws.z)
    for where, low, high in ((draws.below, -np.inf, LOW), (draws.above, HIGH, np.inf)):
        here, width = mean[where], np.broadcast_to(std, mean.shape)[where]
        tail = truncnorm((low - here) / width, (high - here) / width, here, width)
        centre[where], variance[where] = tail.mean(), tail.var()
    gram = phi.T @ (weight[:, None] * phi) + NO_RIDGE * weight.sum() * np.eye(phi.shape[1])
    found = np.linalg.solve(gram, phi.T @ (weight[:, None] * centre))
    left = weight @ ((centre - phi @ found) ** 2 + variance)
    return found, np.sqrt(left / weight.sum() + 1e-12)


def plain_logs(draws, mean, std):
    logs = norm.logpdf(draws.z, mean, std)
    logs = np.where(draws.below, norm.logcdf(LOW, mean, std), logs)
    return np.where(draws.above, norm.logsf(HIGH, mean, std), logs).sum(axis=1)


def plainly_told_apart(draws, phi, episode):
    """The probabilities of `tell_apart`, every sum over all rows."""
    rounds = (ROUNDS, ROUNDS_EACH) if draws.any_clipped else (1, 1)
    size = np.array([np.mean(np.sum(draws.z[episode == k] ** 2, axis=1)) for k in range(EPISODES)])
    second = np.where(size > np.median(size), 0.9, 0.1)
    whole = np.zeros((1, 2)), np.ones(2)
    for _ in range(rounds[0]):
        whole = plain_round(draws, phi, np.ones(len(phi)), *whole)
    fits, total = [whole, whole], -np.inf
    for _ in range(MIXTURE_ROUNDS):
        for k, weight in enumerate((1 - second, second)):
            for _ in range(rounds[1]):
                fits[k] = plain_round(draws, phi, weight[episode] + TINY, *fits[k])
        prior = np.clip(second.mean(), LEAST_SHARE, 1 - LEAST_SHARE)
        logs = [np.bincount(episode, plain_logs(draws, phi @ fit[0], fit[1])) for fit in fits]
        logs = [logs[0] + np.log(1 - prior), logs[1] + np.log(prior)]
        both = np.logaddexp(*logs)
        second, before, total = np.exp(logs[1] - both), total, both.sum()
        if total - before < ENOUGH * len(episode):
            break
    return second


def test_tails_are_scipys():
    edge = np.concatenate([np.linspace(-45, 45, 2001), [24.999999, 25.0, 25.000001, 300.0]])
    logs, hazard = tails(edge)
    np.testing.assert_allclose(logs, log_ndtr(-edge), rtol=1e-12, atol=1e-15)
    expected = np.exp(norm.logpdf(edge) - log_ndtr(-edge))
    np.testing.assert_allclose(hazard, expected, rtol=1e-9)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("length", [2, 40])
def test_episodes_are_told_apart_as_row_by_row(length, clip):
    draws, rows = log_of_two_policies(length, clip)
    expected = plainly_told_apart(draws, rows.plain.features(slice(0, len(rows.episode))), rows.episode)
    found = tell_apart(draws, rows)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_what_is_left_of_nearly_exact_fits_keeps_its_digits():
    """Draws that are linear but for noise of 1e-6, far from 0: a difference of sums would have no digit of it."""
    draws, rows = log_of_two_policies(40, clip=False)
    phi = rows.plain.features(slice(0, len(rows.episode)))
    noise = 1e-6 * np.random.default_rng(2).standard_normal(draws.z.shape)
    exact = Draws.unclipped(100 + phi @ np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]) + noise)
    fit = rows.regression(None, everywhere=True).fit(exact, Gaussian.target(exact), 1)
    left = exact.z - phi @ fit.coefficients
    np.testing.assert_allclose(fit.std**2, np.mean(left**2, axis=0) + 1e-12, rtol=1e-9)


@pytest.mark.parametrize("clip", [False, True])
def test_what_policies_share_does_not_change_their_clones(clip):
    """The second policy finds the matrices of the first one, and the numbers that it has alone."""
    (first, rows), (second, _) = (log_of_two_policies(40, clip, seed) for seed in (0, 1))
    fit_gaussians(first, rows)
    clone, logs = fit_gaussians(second, rows)
    alone = fit_clone(second, rows.design, rows.held_out, rows.episode)
    np.testing.assert_array_equal(logs, alone.log_prob)
    assert clone.held_out_log_likelihood == alone.held_out_log_likelihood


def test_a_regression_on_some_rows_is_that_of_these_rows():
    _, rows = log_of_two_policies(40, clip=False)
    shared = rows.regression(0.1, everywhere=False)
    phi = rows.design.features(slice(0, len(rows.episode)))[~rows.held_out]
    alone = Regression(Design.table(phi, 2), 0.1, np.ones(len(phi)))
    np.testing.assert_allclose(shared.gram, alone.gram, rtol=1e-12, atol=1e-10)
    assert shared.total == alone.total
    assert rows.regression(0.1, everywhere=False) is shared
