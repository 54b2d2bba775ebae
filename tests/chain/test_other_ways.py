"""Ways of solving that only large or unusual chains take, against the ways of small ones and closed forms."""

import numpy as np
import pytest
from scipy import sparse

import ope_vpm as ov
from ope_vpm.chain.finite.pooling import pooled
from ope_vpm.chain.finite.solve import factorises, poisson, resolvent, stationary_distribution
from ope_vpm.chain.solvers.neural import Batches, with_preset
from ope_vpm.linear.features import Standardiser


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
