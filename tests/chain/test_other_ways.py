"""Ways of solving that only large or unusual chains take, against the ways of small ones and closed forms."""

import numpy as np
import pytest
from scipy import sparse

import ope_vpm as ov
from ope_vpm.chain import objective
from ope_vpm.chain.estimate import Expectation
from ope_vpm.chain.finite.chain import FiniteChain, named_states, periodicity
from ope_vpm.chain.finite.pooling import pooled
from ope_vpm.chain.finite.solve import factorises, poisson, resolvent, stationary_distribution
from ope_vpm.chain.solvers.kernel import AUTO_STEPS
from ope_vpm.chain.solvers.neural import Batches, Trainer, _split, with_preset
from ope_vpm.chain.solvers.solution import Selection
from ope_vpm.linear.features import Standardiser, median_bandwidth


@pytest.fixture
def no_factorisation(monkeypatch):
    """Chains of this size fill a factorisation in any order; the limit is lowered so that they may be small."""
    monkeypatch.setattr("ope_vpm.chain.finite.solve.FEW_STATES", 5)
    monkeypatch.setattr("ope_vpm.chain.finite.solve.DENSE_STATES", 5)
    monkeypatch.setattr("ope_vpm.chain.finite.solve.BAND_ENTRIES", 5)


@pytest.mark.usefixtures("no_factorisation")
def test_systems_that_do_not_factorise_are_solved_by_iterations():
    rng = np.random.default_rng(0)
    dense = rng.dirichlet(np.ones(40), size=40)
    kernel, reward = sparse.csr_array(dense), rng.standard_normal(40)
    assert not factorises(kernel)
    mu = stationary_distribution(kernel, np.full(40, 1 / 40))
    np.testing.assert_allclose(mu @ dense, mu, atol=1e-12)
    assert mu.sum() == pytest.approx(1)
    centred = reward - mu @ reward
    h = poisson(kernel, mu, centred)
    np.testing.assert_allclose(h - dense @ h, centred, atol=1e-10)
    np.testing.assert_allclose(
        resolvent(0.9 * kernel, reward, False), np.linalg.solve(np.eye(40) - 0.9 * dense, reward)
    )
    np.testing.assert_allclose(
        resolvent(0.9 * kernel, reward, True), np.linalg.solve(np.eye(40) - 0.9 * dense.T, reward)
    )


def test_a_narrow_band_factorises_and_a_wide_one_does_not():
    """1500 states: neighbours alone have a band of 1; with random jumps it is near 1500, 1500² being allowed up to."""
    size = 1500
    line = sparse.diags_array([np.ones(size - 1), np.ones(size - 1)], offsets=[-1, 1]).tocsr()
    assert factorises(line)
    jumps = line + sparse.random_array((size, size), density=0.01, rng=np.random.default_rng(0))
    assert factorises(jumps)  # 2·10⁶ entries
    wide = sparse.random_array((20_000, 20_000), density=2e-4, rng=np.random.default_rng(0), format="csr")
    assert not factorises(wide)  # 4·10⁸ entries, of 5·10⁷


def test_pooled_chains_begin_where_they_are_told():
    """States 2 to 4, initial states 2, 4 and one beyond the range, which counts at its end."""
    moves = ov.Transitions(np.array([2, 3, 4, 3]), np.array([3, 4, 3, 2]), x_initial=np.array([2, 4, 9, 4]))
    chain = pooled(moves, 1.0)
    np.testing.assert_allclose(chain.known_initial, [0.25, 0, 0.75])
    np.testing.assert_allclose(chain.p, [0.25, 0.5, 0.25])
    # From 2 one step up was seen; increments are +1 and -1 equally often, and -1 would leave the range.
    np.testing.assert_allclose(chain.kernel.toarray()[0], [0.25, 0.75, 0])
    np.testing.assert_allclose(chain.kernel.toarray()[1], [0.5, 0, 0.5])
    assert pooled(ov.Transitions(moves.x, moves.x_next), 1.0).known_initial is None


@pytest.mark.parametrize(("gamma", "damping"), [(1.0, 1.0), (0.8, 1.0), (0.8, 0.5)])
def test_many_damped_power_steps_reach_the_linear_solution(gamma, damping):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (800, 1))
    moves = ov.Transitions(x, x / 2 + 0.5 * rng.standard_normal((800, 1)), x_initial=rng.uniform(-1, 1, (50, 1)))
    settings = {"solver": "kernel", "n_features": 12, "bandwidth": 1.0, "ridge": 1e-2, "nonnegative": False}
    many = ov.VPM(gamma=gamma, steps=200, damping=damping, **settings).fit(moves)
    exact = ov.VPM(gamma=gamma, steps=None, **settings).fit(moves)
    np.testing.assert_allclose(many.weights, exact.weights, atol=1e-5)
    few = ov.VPM(gamma=gamma, steps=1, damping=damping, **settings).fit(moves)
    assert np.abs(few.weights - exact.weights).max() > 0.01


def test_successors_are_drawn_by_their_probabilities():
    """Rows weigh 1 and 3; the successors of the first are drawn ¼ and ¾ of the time, those of the second always."""
    moves = ov.Transitions(
        np.array([[0.0], [1.0]]),
        np.array([[[10.0], [11.0]], [[12.0], [13.0]]]),
        weight=np.array([1.0, 3.0]),
        next_weight=np.array([[0.25, 0.75], [0.0, 1.0]]),
        x_initial=np.array([[5.0], [6.0]]),
        initial_weight=np.array([1.0, 4.0]),
    )
    batches = Batches(moves, Standardiser.unit(1), with_preset(batch_size=4000), np.random.default_rng(0))
    rows, after = batches.draw()
    assert rows.double().mean() == pytest.approx(0.75, abs=0.03)
    first = after[rows == 0].double()
    assert first.mean() == pytest.approx(10.75, abs=0.07)
    assert set(after[rows == 1].flatten().tolist()) == {13.0}
    assert batches.draw_initial().double().mean() == pytest.approx(5.8, abs=0.03)


def test_the_penalty_grows_with_the_distance_of_the_mean_from_one():
    """A mean ratio of 3, and of ½: λ·4 and λ·¼ beyond the objective without a penalty."""
    for scale, penalty in ((2.0, 4.0), (1 / 3, 0.25)):
        tau = scale * np.array([1.0, 2.0])
        plain = objective.variational_ratio_power(tau, tau, np.ones(2))
        assert objective.regularized_ratio(tau, tau, np.ones(2), lam=3.0) - plain == pytest.approx(3 * penalty)
        assert objective.saddle_penalty(tau, 1.0, 3.0) == pytest.approx(3 * (2 * (1.5 * scale - 1) - 1))


def test_expectations_are_printed_with_two_standard_errors():
    assert repr(Expectation(1.25, 0.1)) == "1.25 ± 0.2 (95 %)"
    assert repr(Expectation(0.123456789, 1.0)) == "0.123457 ± 2 (95 %)"
    assert repr(Expectation(0.0, 0.5)) == "0 ± 0.98 (95 %)"


def test_what_is_said_of_a_periodic_chain():
    swap = FiniteChain.plain(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    averaged = periodicity(swap, lambda members: f"{len(members)} states", exact=True)
    assert averaged == (
        "the counted chain is periodic (period 2), 2 states: its stationary distribution is the average over time"
    )
    assert periodicity(swap, lambda members: "", exact=False).endswith("power steps may not settle: use damping=0.5")
    lazy = FiniteChain.plain(sparse.csr_array([[0.5, 0.5], [1.0, 0.0]]))
    assert periodicity(lazy, lambda members: "", exact=True) is None


def test_states_are_named_up_to_eight():
    assert named_states(np.array([4])) == "1 state {4}"
    assert named_states(np.arange(8)) == "8 states {0, 1, 2, 3, 4, 5, 6, 7}"
    assert named_states(np.arange(9)) == "9 states {0, 1, 2, 3, 4, 5, 6, 7, …}"


@pytest.mark.parametrize(("place", "factor"), [(0, 1 / 2), (1, 1), (2, 1 / 4), (3, 1 / 8)])
def test_bandwidths_that_are_tried(monkeypatch, place, factor):
    """Half, all, a quarter and an eighth of the median distance; whichever is selected is taken."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 1))
    chosen = Selection(place, 1e-2, 0.5)
    monkeypatch.setattr("ope_vpm.chain.solvers.kernel.select", lambda *_: chosen)
    found = ov.VPM(solver="kernel", n_features=10).fit(ov.Transitions(x, x / 2))
    assert found.diagnostics.settings["bandwidth"] == pytest.approx(factor * median_bandwidth(x), rel=0.05)
    assert found.diagnostics.settings["ridge"] == 1e-2


@pytest.mark.parametrize(("left", "slow"), [(3.5, False), (2.5, True)])
def test_chains_of_which_five_per_cent_are_left_after_all_steps_are_slow(monkeypatch, left, slow):
    """(1 - k/T)^T is about e⁻ᵏ: below k = 3 more than a twentieth of the slowest error is left."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 1))
    monkeypatch.setattr("ope_vpm.chain.solvers.kernel.slowest_decay", lambda *_: 1 - left / AUTO_STEPS)
    settings = {"solver": "kernel", "n_features": 10, "bandwidth": 1.0, "ridge": 1e-2}
    moves = ov.Transitions(x, x / 2 + rng.standard_normal((300, 1)))
    found = ov.VPM(steps="auto", **settings).fit(moves)
    assert any("forgets slowly" in note for note in found.diagnostics.notes) is slow


def trainer(**settings):
    x = np.random.default_rng(0).standard_normal((50, 1))
    chosen = with_preset(**({"batch_size": 20, "inner_steps": 1, "hidden": (4,), "steps": 8} | settings))
    rng = np.random.default_rng(1)
    batches = Batches(ov.Transitions(x, x / 2), Standardiser.unit(1), chosen, rng)
    network, _ = chosen._networks(1, 0)
    return Trainer(chosen, network, batches, 1.0)


def test_the_learning_rate_falls_along_a_cosine():
    """From all of it, over half of it in the middle, to next to nothing: (1 + cos(πt/T))/2."""
    started = trainer(learning_rate=0.01)
    for step, share in ((1, 1.0), (5, 0.5), (7, (1 + np.cos(0.75 * np.pi)) / 2)):
        started.power_step(step)
        assert started._optimisers[0].param_groups[0]["lr"] == pytest.approx(0.01 * share)
    constant = trainer(learning_rate=0.01, decay=False)
    constant.power_step(5)
    assert constant._optimisers[0].param_groups[0]["lr"] == 0.01


def test_the_averaged_network_keeps_its_share():
    """The first average is the network itself; then nine tenths of the average are kept."""
    started = trainer(average=0.9)
    started.power_step(1)
    first = [each.detach().clone() for each in started.averaged.parameters()]
    for mean, value in zip(first, started.network.parameters(), strict=True):
        np.testing.assert_allclose(mean, value.detach(), rtol=1e-6)
    started.power_step(2)
    for mean, before, value in zip(started.averaged.parameters(), first, started.network.parameters(), strict=True):
        np.testing.assert_allclose(mean.detach(), 0.9 * before + 0.1 * value.detach(), rtol=1e-4, atol=1e-7)


def test_a_tenth_of_the_rows_is_held_out():
    x = np.arange(57.0)[:, None]
    training, held_out = _split(ov.Transitions(x, x), True, np.random.default_rng(0))
    assert (len(training), len(held_out)) == (52, 5)
    together = np.sort(np.concatenate([training.x[:, 0], held_out.x[:, 0]]))
    np.testing.assert_array_equal(together, np.arange(57))
    assert _split(ov.Transitions(x, x), False, np.random.default_rng(0))[1] is None
    assert _split(ov.Transitions(x[:19], x[:19]), True, np.random.default_rng(0))[1] is None
    assert len(_split(ov.Transitions(x[:20], x[:20]), True, np.random.default_rng(0))[1]) == 2


def test_the_gain_of_a_class_with_an_instantaneous_state():
    """States 1 and 2 swap, from 2 by way of an instantaneous state, in which no time is spent: rewards 2 and 4 have
    the mean 3, not the ⅔ of it that three visits would give. State 0 leads there or stays, by halves, or to 3, alone.
    """
    kernel = sparse.csr_array([[0.5, 0.25, 0, 0.25], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1.0]])
    enter, leave = sparse.csr_array([[0.0], [0], [1], [0]]), sparse.csr_array([[0, 1.0, 0, 0]])
    chain = FiniteChain(kernel, enter, leave)
    np.testing.assert_allclose(chain.gain(np.array([9.0, 2, 4, 7])), [5, 3, 3, 7])
    np.testing.assert_allclose(chain.passes(np.array([1.0, 0, 0, 0])), [2, 0, 0, 0])
    h = chain.value_function(np.array([9.0, 2, 4, 7]), 1.0)
    np.testing.assert_allclose(h, [0, -0.5, 0.5, 0], atol=1e-12)
