"""Chains that do not mix, and chains that do, by R̂ and by the regions that they visit."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.mcmc.mixing import Mixing, autocorrelation_time, chain_groups, mixing, rhat, rhat_noise
from ope_vpm.mcmc.verdict import Plain, judge
from tests.arviz_shape import rhat_of_arviz


def autoregression(chains, draws, memory, seed, size=1):
    """Chains of the stationary distribution N(0, 1), from their first draw on."""
    rng = np.random.default_rng(seed)
    path = [rng.standard_normal((chains, size))]
    for _ in range(draws - 1):
        path.append(memory * path[-1] + np.sqrt(1 - memory**2) * rng.standard_normal((chains, size)))
    return np.stack(path, axis=1)


def around(centres, draws, memory, seed, scale=1.0):
    """One chain around each centre."""
    scales = np.broadcast_to(scale, len(centres))[:, None, None]
    return autoregression(len(centres), draws, memory, seed) * scales + np.asarray(centres, float)[:, None, None]


def said(chains, seed=0):
    return ov.post_process_mcmc(chains, chains=len(chains), bootstrap=0, seed=seed)


def doubtful(chains, seed):
    found = mixing(chains, seed)
    return found.apart is not None or found.differ is not None


def test_rhat_by_hand():
    """Two chains of four draws: halves (1, 2), (5, 6), (3, 4), (7, 8).

    Ranks are the values, so z = Φ⁻¹((k - 3/8)/8.25): ±0.1527, ±0.4728, ±0.8522, ±1.4342. Half chains are neighbours
    in rank: W is the mean of d²/2 with d = 0.5820, 0.3201, 0.3201, 0.5820, that is 0.11031. Their means are ±1.14320
    and ±0.31275, with variance 2·(1.30691 + 0.09781)/3 = 0.93648. R̂ = √(1/2 + 0.93648/0.11031) = 2.998.
    """
    chains = np.array([[1.0, 2, 5, 6], [3, 4, 7, 8]])
    assert rhat(chains) == pytest.approx(2.998, abs=0.005)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("chains", "draws"), [(4, 500), (2, 101), (3, 4), (20, 6)])
def test_rhat_is_that_of_arviz(chains, draws):
    for seed in range(5):
        for scale in (1.0, np.linspace(1, 3, chains)):
            values = around(np.linspace(0, 1, chains), draws, 0.5, seed, scale)[:, :, 0]
            assert rhat(values) == pytest.approx(rhat_of_arviz(values), rel=1e-9)
    rounded = np.round(values)  # equal values share their mean rank
    assert rhat(rounded) == pytest.approx(rhat_of_arviz(rounded), rel=1e-9)


def test_rhat_of_chains_that_do_not_move():
    assert np.isnan(rhat(np.full((3, 10), 0.1)))
    assert rhat(np.repeat([[0.1], [0.2], [0.7]], 10, axis=1)) == np.inf
    assert np.isnan(rhat(np.zeros((5, 3))))


def test_the_autocorrelation_time_of_an_autoregression():
    """(1 + ρ)/(1 - ρ): 1 and 9."""
    for memory, expected in ((0.0, 1.0), (0.8, 9.0)):
        chains = autoregression(20, 5000, memory, 0)[:, :, 0]
        assert autocorrelation_time(chains) == pytest.approx(expected, rel=0.1)
    assert autocorrelation_time(np.zeros((2, 10))) == 1.0


def test_the_noise_of_rhat_by_hand():
    """Draws that alternate have time 1 or less: √(1 + 1/100·χ²/7), and 24.32 is the 0.1 % quantile of χ² with 7."""
    alternating = np.tile([1.0, -1.0, 2.0, -2.0], (4, 50))
    assert rhat_noise(alternating, 0.002) == pytest.approx(np.sqrt(1 + 0.01 * 24.32 / 7), abs=1e-4)
    assert rhat_noise(np.cumsum(alternating > 0, axis=1) * 1.0, 0.002) == np.inf  # one long rise: its time is not known
    assert rhat_noise(np.zeros((4, 3)), 0.002) == np.inf


@pytest.mark.parametrize(
    ("chains", "draws", "memory"), [(4, 500, 0.0), (4, 500, 0.9), (2, 500, 0.9), (50, 40, 0.95), (1, 500, 0.9)]
)
def test_chains_that_mix_raise_no_alarm(chains, draws, memory):
    """At a level of 0.1 % for R̂ an alarm in 200 sets has a probability of 18 %, four have 0.005 %."""
    alarms = sum(doubtful(autoregression(chains, draws, memory, seed), seed) for seed in range(200))
    assert alarms <= 3


@pytest.mark.parametrize("centres", [(-5, -5, 5, 5), (-15, -5, 5, 15), (-5, 5), (0,) * 19 + (12,)])
@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_chains_in_modes_of_their_own_do_not_mix(centres, memory):
    for seed in range(10):
        result = said(around(centres, 500, memory, seed), seed)
        assert result.verdict.startswith("do not mix: ")
        assert "cannot be known from such draws" in result.verdict
        assert not result.helped


def test_chains_of_one_mean_and_several_variances_do_not_mix():
    for seed in range(10):
        result = said(around((0, 0, 0, 0), 500, 0.0, seed, (1, 1, 1, 2)), seed)
        assert result.verdict.startswith("do not mix: chains, or halves of them, differ")


def test_overlapping_chains_do_not_mix():
    for seed in range(10):
        chains = around((0, 0, 0, 1.5), 500, 0.0, seed)
        assert chain_groups(chains, np.random.default_rng(seed)) == 1
        assert said(chains, seed).verdict.startswith("do not mix")


def test_weights_do_not_help_chains_that_drift_in_separate_modes():
    """They begin at ±8 and go on to ±12: the draws are not stationary, and the weighted ones know nothing of ±."""
    rng = np.random.default_rng(0)
    mode = np.where(np.arange(50) % 2, 12.0, -12.0)
    path = [mode * 8 / 12]
    for _ in range(39):
        path.append(mode + 0.9 * (path[-1] - mode) + np.sqrt(1 - 0.9**2) * rng.standard_normal(50))
    result = said(np.stack(path, axis=1)[:, :, None])
    assert result.residual_before > 2 * result.noise
    assert "at least 2 groups" in result.verdict
    assert not result.helped


def test_a_single_chain_does_not_claim_to_know_all_modes():
    verdict = said(around((5,), 1000, 0.0, 0)).verdict
    assert verdict.startswith("not needed")
    assert "one chain cannot show modes that it has not reached" in verdict
    assert "one chain" not in said(around((5, 5), 1000, 0.0, 0)).verdict


def test_a_chain_whose_halves_differ():
    chain = autoregression(1, 1000, 0.0, 0)
    chain[:, 500:] += 0.3
    assert "the two halves of the chain differ" in said(chain).verdict


def test_few_independent_draws_are_named():
    """1000 draws of autocorrelation 0.9 are worth 1000·0.1/1.9 = 53, and as many without are worth themselves."""
    assert "independent ones, so run longer" in said(autoregression(2, 500, 0.9, 0)).verdict
    assert said(autoregression(2, 500, 0.0, 0)).verdict.endswith("use them as they are")


def test_a_coordinate_that_stands_still():
    chains = autoregression(4, 200, 0.0, 0, size=2)
    chains[:, :, 1] = 1.0
    result = said(chains)
    assert np.isnan(result.rhat[1])
    assert result.verdict.startswith("not needed")
    chains[:, :, 1] = np.arange(4)[:, None]
    result = said(chains)
    assert result.rhat[1] == np.inf
    assert result.verdict.startswith("do not mix")
    assert "R̂ before correcting                   inf" in str(result)


def test_groups_are_linked_by_a_chain_that_crosses():
    chains = around((-5, -5, 5, 5), 200, 0.0, 0)
    assert chain_groups(chains, np.random.default_rng(0)) == 2
    chains[0, 100:] += 10
    assert chain_groups(chains, np.random.default_rng(0)) == 1
    assert chain_groups(chains[:1], np.random.default_rng(0)) == 1


def test_small_groups_are_passed_over():
    """One chain of 30 far away holds 1/30 of the draws, one of 10 a tenth."""
    for others, groups in ((29, 1), (9, 2)):
        chains = around((0,) * others + (50,), 100, 0.0, 0)
        assert chain_groups(chains, np.random.default_rng(0)) == groups


def test_what_is_said_of_mixing():
    fine = Mixing(4, np.array([1.2, np.nan]), np.array([1.3, np.inf]), 1)
    assert fine.apart is None
    assert fine.differ is None
    limit = Mixing(4, np.array([1.008, 1.02]), np.array([1.001, 1.015]), 1)
    assert limit.differ is not None
    assert "R̂ = 1.02" in limit.differ


def test_verdicts_on_chains_that_do_not_mix():
    stationary, moving = (0.01, 0.001, 0.01, 0.01, 1000), (0.1, 0.001, 0.01, 0.01, 1000)
    for residuals in (stationary, moving):
        assert judge(*residuals, Plain(apart="two groups"))[1].startswith("do not mix: two groups; ")
    assert judge(*stationary, Plain(differ="R̂"))[1].startswith("do not mix: R̂; ")
    assert judge(*moving, Plain(differ="R̂"))[1].startswith("helped:")
    assert judge(*stationary, Plain(drifts=True))[1].startswith("helped:")
