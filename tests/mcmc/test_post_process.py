"""Post-processing of chains with a known stationary distribution: short ones are corrected, long ones left alone."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.ornstein_uhlenbeck import OrnsteinUhlenbeck
from ope_vpm.mcmc.autocorrelation import independent_draws
from ope_vpm.mcmc.post_process import judge
from ope_vpm.mcmc.samples import as_chains
from tests.arviz_shape import shape_of_arviz

PROCESS = OrnsteinUhlenbeck(2.0, 1.0, 1.0)


def ou_chains(chains, draws, start, seed):
    """Chains with an autocorrelation of e^-0.2 per draw."""
    rng = np.random.default_rng(seed)
    steps = [np.asarray(start(rng, chains))]
    for _ in range(draws - 1):
        steps.append(PROCESS.after(steps[-1], 0.2, rng))
    return np.stack(steps, axis=1)[:, :, None]


def wide(rng, chains):
    return rng.uniform(-2, 4, size=chains)


def test_many_short_chains_are_corrected_towards_the_stationary_distribution():
    results = [ov.post_process_mcmc(ou_chains(400, 6, wide, seed), bootstrap=20, seed=seed) for seed in range(10)]
    plain = np.array([result.coordinates[0].plain for result in results])
    corrected = np.array([result.coordinates[0].value for result in results])
    assert all(result.helped for result in results)
    assert np.abs(plain - 2).mean() > 0.5
    error = corrected.std(ddof=1) / np.sqrt(10)
    assert abs(corrected.mean() - 2) < 4 * error + 0.1
    covered = [result.coordinates[0].interval[0] <= 2 <= result.coordinates[0].interval[1] for result in results]
    assert sum(covered) >= 7


def test_long_chains_that_have_mixed_are_left_alone():
    def at_rest(rng, chains):
        return PROCESS.stationary(chains, rng)

    result = ov.post_process_mcmc(ou_chains(4, 1000, at_rest, 0), bootstrap=5)
    assert not result.helped
    assert result.verdict.startswith("not needed")
    assert result.coordinates[0].value == pytest.approx(result.coordinates[0].plain, abs=0.05)


def test_weights_have_the_draws_shape_and_any_function_an_expectation():
    result = ov.post_process_mcmc(ou_chains(50, 8, wide, 1), bootstrap=5)
    assert result.weights.shape == (50, 8)
    assert result.weights.mean() == pytest.approx(1)
    one = result.expectation(lambda x: np.ones(len(x)))
    assert one.value == pytest.approx(1)
    assert one.interval == pytest.approx((1, 1))


def variables():
    """Two variables of the same draws, the second one with its axes in another order."""
    xarray = pytest.importorskip("xarray")
    chains = ou_chains(30, 8, wide, 2)
    a = xarray.DataArray(chains[:, :, 0], dims=("chain", "draw"))
    b = xarray.DataArray(np.repeat(chains, 2, axis=2), dims=("chain", "draw", "side"))
    return chains, {"a": a, "b": b.transpose("side", "draw", "chain")}


@pytest.mark.parametrize("form", ["Dataset", "DataTree"])
def test_variables_of_xarray_are_read_by_the_names_of_their_axes(form):
    xarray = pytest.importorskip("xarray")
    chains, named = variables()
    made = xarray.Dataset(named)
    if form == "DataTree":  # what ArviZ gives from 1.0 on
        made = xarray.DataTree.from_dict({"posterior": made, "sample_stats": xarray.Dataset()})
    draws, names = as_chains(made)
    assert names == ("a", "b[0]", "b[1]")
    for column in range(3):
        np.testing.assert_array_equal(draws[:, :, column], chains[:, :, 0])


def test_one_variable_of_xarray_is_read_by_the_names_of_its_axes():
    xarray = pytest.importorskip("xarray")
    chains = np.random.default_rng(0).standard_normal((2, 30, 3))
    variable = xarray.DataArray(chains, dims=("chain", "draw", "side"), name="a").transpose("draw", "side", "chain")
    found, names = as_chains(variable)
    np.testing.assert_array_equal(found, chains)
    assert names == ("a[0]", "a[1]", "a[2]")


def test_arviz_itself_where_it_is_installed():
    arviz = pytest.importorskip("arviz")
    chains = ou_chains(10, 30, wide, 2)
    groups = {"posterior": {"a": chains[:, :, 0]}}
    old = int(arviz.__version__.partition(".")[0]) < 1
    data = arviz.from_dict(**groups) if old else arviz.from_dict(groups)
    assert type(data).__name__ == ("InferenceData" if old else "DataTree")
    found, plain = (ov.post_process_mcmc(each, bootstrap=2) for each in (data, chains))
    assert [c.name for c in found.coordinates] == ["a"]
    np.testing.assert_array_equal(found.weights, plain.weights)


def test_data_of_arviz_without_a_posterior_are_refused_by_the_names_of_their_groups():
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if int(arviz.__version__.partition(".")[0]) >= 1:
        pytest.skip("ArviZ 1 gives a DataTree, which has no posterior of this kind")
    samples = arviz.from_dict(prior={"a": np.zeros((2, 10))})
    with pytest.raises(ValueError, match="must have a group named posterior, with the draws: its groups are prior"):
        ov.post_process_mcmc(samples)


def test_variables_without_chains_are_refused():
    xarray = pytest.importorskip("xarray")
    with pytest.raises(ValueError, match="must have the axes chain and draw"):
        as_chains(xarray.Dataset({"a": ("x", np.zeros(3))}))
    with pytest.raises(ValueError, match="no variables"):
        as_chains(xarray.DataTree.from_dict({"posterior": xarray.Dataset()}))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((5, 4)), "three axes"),
        (np.zeros((5, 1, 2)), "at least 2 draws"),
        (np.array([[["a"], ["b"]]]), "must be numbers"),
        (np.array([[[0.0], [np.nan]]]), "chain 0, draw 1"),
    ],
)
def test_wrong_samples_are_refused(samples, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ov.post_process_mcmc(samples)


@pytest.mark.parametrize(
    ("before", "after", "size", "start"),
    [
        (0.01, 0.001, 1000, "not needed"),
        (0.1, 0.001, 50, "not trusted"),
        (0.1, 0.015, 1000, "helped:"),
        (0.1, 0.04, 1000, "helped in part"),
        (0.1, 0.09, 1000, "did not help"),
    ],
)
def test_verdicts(before, after, size, start):
    helped, verdict = judge(before, after, 0.01, 0.01, size)
    assert verdict.startswith(start)
    assert helped == start.startswith("helped")


def test_independent_draws_of_an_autoregression():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((10, 4000))
    chains = np.zeros_like(noise)
    for t in range(1, 4000):
        chains[:, t] = 0.8 * chains[:, t - 1] + noise[:, t]
    assert independent_draws(chains) == pytest.approx(40_000 * 0.2 / 1.8, rel=0.15)
    assert independent_draws(noise) == pytest.approx(40_000, rel=0.1)


def test_weights_in_the_form_of_arviz_and_their_tail():
    rng = np.random.default_rng(0)
    chains = np.zeros((20, 30, 1))
    chains[:, 0] = rng.normal(2.0, 0.5, size=(20, 1))
    for draw in range(1, 30):
        chains[:, draw] = 0.9 * chains[:, draw - 1] + np.sqrt(1 - 0.9**2) * rng.standard_normal((20, 1))
    result = ov.post_process_mcmc(chains, bootstrap=2)
    assert np.exp(result.log_weights).sum() == pytest.approx(1)
    assert (np.exp(result.log_weights) * chains[:, :, 0]).sum() == pytest.approx(result.coordinates[0].value)
    assert result.pareto_k < 0.7
    assert (result.weights > 0).all()
    assert result.pareto_k == pytest.approx(shape_of_arviz(result.log_weights.ravel()), abs=1e-9)
