"""Post-processing of chains with a known stationary distribution: short ones are corrected, long ones left alone."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.diffusions import OrnsteinUhlenbeck
from ope_vpm.mcmc.mixing import independent_draws
from ope_vpm.mcmc.post_process import plain_noise
from ope_vpm.mcmc.samples import as_chains
from ope_vpm.mcmc.verdict import distance_left, judge, means_drift
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
    results = [
        ov.post_process_mcmc(ou_chains(400, 6, wide, seed), chains=400, bootstrap=20, seed=seed) for seed in range(10)
    ]
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
    result = ov.post_process_mcmc(ou_chains(50, 8, wide, 1), chains=50, bootstrap=5)
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


def test_named_variables_are_chosen_and_read_by_chain():
    """The same draws by ArviZ, by NumPyro's dictionary and by an array are one answer."""
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    chains = ou_chains(10, 30, wide, 2)
    by_chain = {"a": chains[:, :, 0], "b": np.repeat(chains, 2, axis=2) ** 2}
    old = int(arviz.__version__.partition(".")[0]) < 1
    data = arviz.from_dict(posterior=by_chain) if old else arviz.from_dict({"posterior": by_chain})
    for samples in (data, by_chain):
        draws, names = as_chains(samples)
        assert names == ("a", "b[0]", "b[1]")
        assert draws.shape == (10, 30, 3)
        draws, names = as_chains(samples, var_names="b")
        assert names == ("b[0]", "b[1]")
        np.testing.assert_array_equal(draws, by_chain["b"])
        with pytest.raises(ValueError, match=r"there is no 'c', there are \['a', 'b'\]"):
            ov.post_process_mcmc(samples, var_names=["a", "c"])
    found, plain = (ov.post_process_mcmc(data, var_names=["a"], bootstrap=2), ov.post_process_mcmc(chains, bootstrap=2))
    np.testing.assert_array_equal(found.weights, plain.weights)
    with pytest.raises(ValueError, match="var_names are for variables that have names"):
        ov.post_process_mcmc(chains, var_names=["a"])


def test_arrays_of_fewer_axes():
    """As ArviZ takes them: (draws,) is one chain, (chains, draws) are several of one coordinate."""
    chains = ou_chains(4, 30, wide, 0)
    np.testing.assert_array_equal(as_chains(chains[0, :, 0])[0], chains[:1])
    np.testing.assert_array_equal(as_chains(chains[:, :, 0])[0], chains)


def test_more_chains_than_draws_ask_which_is_which():
    """The array of emcee's get_chain() has the steps first: taken for chains, all of its pairs would be wrong."""
    chains = ou_chains(8, 100, wide, 0)
    emcee = chains.swapaxes(0, 1)
    for samples in (emcee, emcee[:, :, 0], {"a": emcee}):
        with pytest.raises(
            ValueError, match=r"more chains than draws: pass chains=100 .* chains=8 if steps come first"
        ):
            ov.post_process_mcmc(samples)
    np.testing.assert_array_equal(as_chains(emcee, chains=8)[0], chains)
    np.testing.assert_array_equal(as_chains(emcee, chains=100)[0], emcee)
    with pytest.raises(ValueError, match="must have chains=7 on one of their first two axes"):
        ov.post_process_mcmc(chains, chains=7)
    xarray = pytest.importorskip("xarray")
    named = xarray.DataArray(emcee, dims=("draw", "chain", "side"))  # axes with names ask nothing
    np.testing.assert_array_equal(as_chains(named)[0], chains)


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
        (np.float64(3.0), r"must have the axes \(chains, draws, …\)"),
        (np.zeros((1, 1, 2)), "at least 2 draws"),
        ({"a": np.zeros(50)}, "group_by_chain=True"),
        ({"a": np.zeros((2, 50)), "b": np.zeros((2, 40))}, "as many chains and draws"),
        (np.array([[["a"], ["b"]]]), "must be numbers"),
        (np.where(np.arange(30)[None, :, None] == 1, np.nan, 0.0), "chain 0, draw 1"),
        (np.zeros((3, 7, 1)), r"at least 20 pairs of successive draws, and a coordinate: got shape \(3, 7, 1\)"),
        (np.zeros((4, 50, 0)), "and a coordinate"),
        (np.full((4, 50, 1), 1e80), "must not go beyond 1e.75"),
        (1e-300 * np.random.default_rng(0).standard_normal((4, 50, 1)), "must not lie within 1e-75"),
        ([[[1.0], [2.0]], [[3.0]]], "as many draws in every chain"),
        (np.ones((4, 50, 1)), "a chain that never moves"),
    ],
)
def test_wrong_samples_are_refused(samples, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ov.post_process_mcmc(samples)


def test_chains_too_short_for_rhat_say_so():
    """Chains of two draws have no halves to compare, and "nan" is no answer."""
    assert "R̂ before correcting                   unknown" in str(
        ov.post_process_mcmc(ou_chains(40, 2, wide, 0), chains=40)
    )


def test_wrong_settings_and_functions_are_refused():
    chains = ou_chains(4, 20, wide, 0)
    for name in ("bootstrap", "seed"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number, 0 or more: got -1"):
            ov.post_process_mcmc(chains, **{name: -1})
    with pytest.raises(ValueError, match="f must be finite: draw 0 is not"):
        ov.post_process_mcmc(chains, bootstrap=0).expectation(lambda x: x[:, 0] * np.nan)


def autoregression(chains, draws, memory, start, seed):
    """Chains of the stationary distribution N(0, 1), whose first draws are N(start, 1)."""
    rng = np.random.default_rng(seed)
    path = [start + rng.standard_normal(chains)]
    for _ in range(draws - 1):
        path.append(memory * path[-1] + np.sqrt(1 - memory**2) * rng.standard_normal(chains))
    return np.stack(path, axis=1)[:, :, None]


@pytest.mark.parametrize(
    ("chains", "draws", "memory", "verdict"), [(50, 40, 0.95, "helped"), (200, 10, 0.99, "not enough")]
)
def test_chains_on_their_way_are_not_called_stationary(chains, draws, memory, verdict):
    """The plain means are 1.2 and 2.8, the truth is 0: nobody should be told to use such draws as they are."""
    for seed in range(10):
        made = autoregression(chains, draws, memory, 3.0, seed)
        result = ov.post_process_mcmc(made, chains=chains, bootstrap=0, seed=seed)
        assert result.verdict.startswith(verdict)
        assert result.helped == (verdict == "helped")
        assert abs(result.coordinates[0].value) < 0.6 * abs(result.coordinates[0].plain)


def test_a_slow_chain_with_a_biased_start_is_not_enough():
    """After 100 draws with memory 0.99 it has gone 63 % of its way: no weights on these draws find the rest."""
    for seed in range(10):
        result = ov.post_process_mcmc(autoregression(10, 100, 0.99, 5.0, seed), bootstrap=0, seed=seed)
        assert not result.helped
        assert result.verdict.startswith("not enough")
        assert abs(result.coordinates[0].value) > 0.3


def test_the_distance_left_of_two_chains_by_hand():
    """Rows 2 → 1, 2 → 1, 0 → 0, 0 → 0: x' = x/2 exactly, so that a mean of 1 has 1 left to go, a deviation of 1.

    Weighted by 1, 1, 3, 3 the mean is 1/2, the variance 3/4, and what is left 1/2: 0.577 deviations.
    """
    chains = np.array([[2.0, 1.0], [2.0, 1.0], [0.0, 0.0], [0.0, 0.0]])[:, :, None]
    assert distance_left(chains, np.ones(4)) == pytest.approx(1.0)
    assert distance_left(chains, np.array([1.0, 1.0, 3.0, 3.0])) == pytest.approx(0.5 / np.sqrt(0.75))
    away = np.array([[2.0, 4.0], [1.0, 2.0], [0.0, 0.0], [3.0, 6.0]])[:, :, None]
    assert distance_left(away, np.ones(4)) == np.inf


@pytest.mark.parametrize(("chains", "draws", "memory"), [(50, 40, 0.95), (4, 200, 0.9), (100, 6, -0.5), (1, 200, 0.9)])
def test_chains_at_rest_need_no_weights(chains, draws, memory):
    for seed in range(10):
        made = autoregression(chains, draws, memory, 0.0, seed)
        result = ov.post_process_mcmc(made, chains=chains, bootstrap=0, seed=seed)
        assert result.verdict.startswith("not needed")


def test_the_noise_of_whole_chains_by_hand():
    assert plain_noise(0.1, 50, 1950) == pytest.approx(np.sqrt(50) / 1950)
    # a sample of 20 000 of 80 000 rows: three quarters of its own noise squared, and that of all rows
    assert plain_noise(0.1, 4, 80_000) == pytest.approx(np.sqrt(0.75 * 0.01 + 4 / 80_000**2))


def test_the_means_drift_by_student_s_t():
    """Changes 1, 2, 3, 4, 5: t = 3/(√2.5/√5) = 4.24, with 4 degrees of freedom p = 0.013, above 0.001."""
    chains = np.zeros((5, 3, 1))
    chains[:, -1, 0] = np.arange(1, 6)
    assert not means_drift(chains)
    chains[:, -1, 0] = 3 + np.arange(5) / 10  # t = 3.2/(√0.025/√5) = 45
    assert means_drift(chains)
    assert not means_drift(chains[:4])


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
    helped, slow = judge(before, after, 0.01, 0.01, size, left=0.51)
    assert not helped
    assert slow.startswith("not enough" if start.startswith("helped") else start)


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
