"""Finite states: exact answers, lost mass, and chains that have no single stationary distribution."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import ope_vpm as ov
from ope_vpm.chain.finite import solve
from ope_vpm.chain.finite.counts import count
from ope_vpm.chain.finite.pooling import pooled
from ope_vpm.chain.solvers.tabular import Tabular, choose_unseen
from ope_vpm.envs.geo_queue import GeoQueue

from .chains import counted, eigenvector_distribution, everywhere, random_kernel, sample


@pytest.mark.parametrize("block", range(10))
def test_fixed_point_is_the_counted_chains_stationary_distribution_on_100_random_chains(block):
    for number in range(10):
        rng = np.random.default_rng([block, number])
        states = int(rng.integers(2, 501))
        _, pairs = everywhere(states, 20, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ov.StationaryWarning)  # a few counted chains have transient states
            estimate = ov.VPM().fit(pairs)
        expected = eigenvector_distribution(counted(pairs, states))
        assert 0.5 * np.abs(estimate.probabilities() - expected).sum() < 1e-10


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99, 0.9999])
def test_discounted_distribution_is_the_linear_solve(gamma):
    for number in range(10):
        rng = np.random.default_rng([7, number])
        states = int(rng.integers(3, 301))
        _, pairs = everywhere(states, 20, rng)
        initial = np.zeros(states)
        initial[:3] = 1 / 3
        kernel = counted(pairs, states)
        expected = np.linalg.solve(np.eye(states) - gamma * kernel.T, (1 - gamma) * initial)
        np.testing.assert_allclose(ov.VPM(gamma=gamma).fit(pairs).probabilities(), expected, atol=1e-12)


def test_power_steps_reach_the_fixed_point_and_report_their_changes():
    _, pairs = everywhere(30, 50, np.random.default_rng(0))
    exact = ov.VPM().fit(pairs)
    steps = ov.VPM(steps=400).fit(pairs)
    np.testing.assert_allclose(steps.probabilities(), exact.probabilities(), atol=1e-9)
    change = steps.diagnostics.convergence
    assert len(change) == 400
    assert change[-1] < 1e-9 < change[0]


def test_damped_steps_by_hand():
    # p = (1/2, 1/2); 0 → 1 always, 1 → 0 and 1 equally: one step takes p to (1/4, 3/4)
    pairs = ov.Transitions([0, 0, 1, 1], [1, 1, 0, 1])
    np.testing.assert_allclose(ov.VPM(steps=1).fit(pairs).probabilities(), [0.25, 0.75])
    np.testing.assert_allclose(ov.VPM(steps=1, damping=0.5).fit(pairs).probabilities(), [0.375, 0.625])
    np.testing.assert_allclose(ov.VPM().fit(pairs).probabilities(), [1 / 3, 2 / 3])


def test_the_papers_step_size_makes_1000_steps_worth_62():
    """On a chain with one mode λ₂, t steps of 1/√t leave Π(1 - (1-λ₂)/√t): as much as 62 plain steps."""
    stay = 0.995  # λ₂ = 2·stay - 1 = 0.99
    x = np.repeat([0, 1], 2000)
    flips = np.tile(np.arange(2000) >= stay * 2000, 2)
    pairs = ov.Transitions(x, np.where(flips, 1 - x, x), weight=np.where(x == 0, 3.0, 1.0))  # p = (3/4, 1/4)
    damped = ov.VPM(steps=1000, damping="sqrt").fit(pairs).probabilities()
    plain = [ov.VPM(steps=steps).fit(pairs).probabilities() for steps in (50, 75)]
    assert plain[0][0] > damped[0] > plain[1][0]


def test_several_weighted_successors_equal_the_rows_written_out():
    rng = np.random.default_rng(3)
    x, x_next = rng.integers(6, size=400), rng.integers(6, size=(400, 3))
    share = rng.dirichlet(np.ones(3), size=400)
    together = ov.VPM().fit(ov.Transitions(x, x_next, next_weight=share))
    apart = ov.VPM().fit(ov.Transitions(np.repeat(x, 3), x_next.ravel(), weight=share.ravel()))
    np.testing.assert_allclose(together.probabilities(), apart.probabilities(), atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"reversible": True}, {"pool_increments": True}])
@pytest.mark.parametrize("never", [0, 50])
def test_successors_of_probability_zero_are_no_states(options, never):
    """A walk on 0 … 5, up with 0.3 and down with 0.7, staying at the ends: detailed balance gives (3/7)^i."""
    x = np.random.default_rng(0).integers(6, size=500)
    x_next = np.stack([np.minimum(x + 1, 5), np.maximum(x - 1, 0), np.full(500, never)], axis=1)
    walk = ov.Transitions(x, x_next, next_weight=np.tile([0.3, 0.7, 0.0], (500, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a state that is never reached makes no chain reducible
        found = ov.VPM(**options).fit(walk)
    expected = (3 / 7) ** np.arange(6)
    np.testing.assert_allclose(found.probabilities(np.arange(6)), expected / expected.sum(), rtol=1e-6)


def test_value_function_by_hand():
    """0 → 1 always, 1 → 0 and 1 equally: μ = (1, 2)/3. f = (0, 3) has mean 2: h₀ = -2 + h₁, and E_μ[h] = 0."""
    pairs = ov.Transitions([0, 0, 1, 1], [1, 1, 0, 1], x_initial=[0])
    h = ov.VPM().fit(pairs).value_function(3.0 * pairs.x)
    np.testing.assert_allclose(h(np.array([0, 1])), [-4 / 3, 2 / 3], atol=1e-12)
    # γ = ½: h₀ = ½h₁, h₁ = 3 + ¼h₀ + ¼h₁
    discounted = ov.VPM(gamma=0.5).fit(pairs).value_function(3.0 * pairs.x)
    np.testing.assert_allclose(discounted(np.array([0, 1])), [2.4, 4.8])


def test_row_weights_count_rows():
    rng = np.random.default_rng(4)
    x, x_next, times = rng.integers(5, size=300), rng.integers(5, size=300), rng.integers(0, 4, size=300)
    weighted = ov.VPM().fit(ov.Transitions(x, x_next, weight=times))
    repeated = ov.VPM().fit(ov.Transitions(np.repeat(x, times), np.repeat(x_next, times)))
    np.testing.assert_allclose(weighted.probabilities(), repeated.probabilities(), atol=1e-12)


def test_labels_may_be_anything():
    rng = np.random.default_rng(5)
    x, x_next = rng.integers(4, size=200), rng.integers(4, size=200)
    labels = np.array([3, 10**6, 10**12, 2**62])
    plain = ov.VPM().fit(ov.Transitions(x, x_next)).probabilities()
    spread = ov.VPM().fit(ov.Transitions(labels[x], labels[x_next]))
    np.testing.assert_allclose(spread.probabilities(labels), plain, atol=1e-12)
    with pytest.raises(ValueError, match="say which ones"):
        spread.probabilities()


# -- x' never seen as x

LEAKY = ov.Transitions([0, 0, 0, 1, 2], [1, 0, 9, 0, 0])  # from 0: to 1, to 0, and off the map


def test_restart_sends_lost_mass_to_the_data():
    estimate = ov.VPM(unseen="restart").fit(LEAKY)
    p = np.array([0.6, 0.2, 0.2])
    kernel = np.array([[1 / 3, 1 / 3, 0], [1, 0, 0], [1, 0, 0]]) + np.outer([1 / 3, 0, 0], p)
    np.testing.assert_allclose(estimate.probabilities([0, 1, 2]), eigenvector_distribution(kernel), atol=1e-12)
    assert estimate.probabilities([9])[0] == 0
    assert estimate.diagnostics.unseen_mass == pytest.approx(eigenvector_distribution(kernel)[0] / 3)


@pytest.mark.parametrize("lam", [0.01, 1.0, 50.0])
def test_restart_is_the_fixed_point_of_the_penalised_steps_for_any_lambda(lam):
    exact = ov.VPM(unseen="restart").fit(LEAKY).probabilities()
    steps = ov.VPM(unseen="restart", steps=500, lam=lam)
    np.testing.assert_allclose(steps.fit(LEAKY).probabilities(), exact, atol=1e-10)


def test_kl_steps_drop_lost_mass_and_scale_the_rest():
    estimate = ov.VPM(unseen="restart", divergence="kl", steps=500).fit(LEAKY).probabilities([0, 1, 2])
    kernel = np.array([[1 / 3, 1 / 3, 0], [1, 0, 0], [1, 0, 0]])
    value, vector = np.linalg.eig(kernel.T)
    leading = np.real(vector[:, np.argmax(np.real(value))])
    np.testing.assert_allclose(estimate, leading / leading.sum(), atol=1e-9)


def test_good_turing_sends_lost_mass_to_states_seen_once():
    estimate = ov.VPM(unseen="good-turing").fit(LEAKY)
    kernel = np.array([[1 / 3, 1 / 3, 0], [1, 0, 0], [1, 0, 0]]) + np.outer([1 / 3, 0, 0], [0, 0.5, 0.5])
    np.testing.assert_allclose(estimate.probabilities([0, 1, 2]), eigenvector_distribution(kernel), atol=1e-12)


def test_restrict_scales_each_rows_known_successors():
    pairs = ov.Transitions([0, 1], [[1, 9], [0, 1]], next_weight=[[0.5, 0.5], [0.25, 0.75]])
    estimate = ov.VPM(unseen="restrict").fit(pairs)
    np.testing.assert_allclose(
        estimate.probabilities([0, 1]), eigenvector_distribution(np.array([[0, 1], [0.25, 0.75]]))
    )
    assert estimate.diagnostics.unseen_mass == pytest.approx(0.1)  # half of what leaves 0, which has 1/5


@pytest.mark.parametrize("unseen", ["restart", "good-turing", "restrict"])
def test_discounting_does_not_charge_for_the_way_back(unseen):
    """Brute force: follow mass for 2000 steps, lost mass coming back within its step."""
    pairs = ov.Transitions([0, 0, 0, 1, 2], [1, 0, 9, 0, 0], x_initial=[0, 2])
    counted = count(pairs, unseen)
    distribution, mass = np.zeros(3), counted.initial
    for step in range(2000):
        distribution += 0.1 * 0.9**step * mass
        mass = mass @ counted.chain
    np.testing.assert_allclose(
        ov.VPM(gamma=0.9, unseen=unseen).fit(pairs).probabilities([0, 1, 2]), distribution, atol=1e-12
    )


def rule(pairs: ov.Transitions) -> str:
    counted = count(pairs, "restart")
    return choose_unseen(counted.p, counted.unseen, counted.times)


def test_the_auto_rule():
    rng = np.random.default_rng(6)
    x = np.minimum(rng.geometric(0.01, size=2000), 900)
    alike = ov.Transitions(x, np.minimum(rng.geometric(0.01, size=2000), 900))  # x' drawn as x is: Good and Turing hold
    assert rule(alike) == "good-turing"
    far = ov.Transitions(np.repeat(np.arange(50), 20), np.arange(1000) % 700)
    assert rule(far) == "restart"  # every state seen 20 times, most successors never
    assert rule(everywhere(20, 50, rng)[1]) == "restart"  # nothing is unseen


@pytest.mark.filterwarnings("ignore:the counted chain is reducible")
def test_good_turing_is_nearly_unbiased_where_x_next_is_drawn_as_x_is():
    """Independent draws from a long-tailed distribution, so μ = p: unseen states must not inflate the others."""
    errors = {"restart": [], "good-turing": []}
    tail = 1 / np.arange(1, 3001)
    truth = (tail / tail.sum()) @ (np.arange(3000) > 300)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, x_next = rng.choice(3000, p=tail / tail.sum(), size=(2, 2000))
        for unseen, found in errors.items():
            found.append(ov.VPM(unseen=unseen).fit(ov.Transitions(x, x_next)).expectation(lambda s: s > 300) - truth)
    bias = {unseen: np.mean(found) for unseen, found in errors.items()}
    assert abs(bias["good-turing"]) < 0.25 * abs(bias["restart"])


# -- chains without a single stationary distribution


def test_two_closed_classes_are_mixed_as_the_data_falls_into_them_and_named():
    # 0 ↔ 1 and 2 ↔ 3 are closed (with rests), 4 goes to 0 twice as often as to 2
    x = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    x_next = [0, 1, 0, 1, 2, 3, 2, 3, 0, 0, 2]
    with pytest.warns(ov.StationaryWarning, match=r"reducible: 2 closed classes, 2 states \{0, 1\}; 2 states \{2, 3\}"):
        estimate = ov.VPM(classes="all").fit(ov.Transitions(x, x_next))
    np.testing.assert_allclose(estimate.probabilities(), np.array([3, 3, 2.5, 2.5, 0]) / 11, atol=1e-12)
    assert "reducible" in estimate.diagnostics.notes[0]
    assert estimate.diagnostics.doubts == estimate.diagnostics.notes


def test_an_absorbing_state_takes_all_and_is_named():
    with pytest.warns(ov.StationaryWarning, match=r"closed class with 33% of the rows, 1 state \{2\}"):
        estimate = ov.VPM().fit(ov.Transitions([0, 1, 2], [1, 2, 2]))
    np.testing.assert_allclose(estimate.probabilities(), [0, 0, 1])


def test_a_periodic_chain_gets_its_time_average_and_a_warning():
    with pytest.warns(ov.StationaryWarning, match=r"periodic \(period 3\), 3 states \{0, 1, 2\}"):
        estimate = ov.VPM().fit(ov.Transitions([0, 0, 1, 2], [1, 1, 2, 0]))
    np.testing.assert_allclose(estimate.probabilities(), [1 / 3, 1 / 3, 1 / 3])
    assert "periodic" in estimate.diagnostics.notes[0]
    assert estimate.diagnostics.doubts == ()


@pytest.mark.parametrize("slowness", [1e-4, 1e-8, 1e-12, 1e-15])
def test_chains_that_hardly_mix_are_solved_to_the_last_digit(slowness):
    pairs = ov.Transitions([0, 0, 1, 1], [0, 1, 1, 0], weight=[1 - slowness, slowness, 1 - 3 * slowness, 3 * slowness])
    np.testing.assert_allclose(
        ov.VPM().fit(pairs).probabilities(), [0.75, 0.25], rtol=1e-3 if slowness < 1e-12 else 1e-6
    )


def test_a_class_keeps_its_share_when_lost_mass_comes_back_within_it():
    with pytest.warns(ov.StationaryWarning, match="2 closed classes"):
        estimate = ov.VPM(unseen="good-turing", classes="all").fit(ov.Transitions([0] + [1] * 10, [99] + [1] * 10))
    np.testing.assert_allclose(estimate.probabilities([0, 1]), [1 / 11, 10 / 11])


def test_the_way_back_takes_no_time():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ov.VPM().fit(ov.Transitions([0, 1, 2], [7, 8, 9]))  # restarts at every step: independent draws, not periodic
    with pytest.warns(ov.StationaryWarning, match="period 2"):
        ov.VPM(unseen="good-turing").fit(ov.Transitions([0, 1, 1, 1, 1], [1, 0, 0, 0, 9]))


def test_successors_of_probability_zero_connect_nothing():
    with pytest.warns(ov.StationaryWarning, match="period 2"):
        ov.VPM().fit(ov.Transitions([0, 1], [[0, 1]] * 2, next_weight=[[0, 1], [1, 0]]))
    with pytest.warns(ov.StationaryWarning, match="2 closed classes"):
        ov.VPM().fit(ov.Transitions([0, 0, 0, 1], [[0, 1]] * 4, next_weight=[[1, 0]] * 3 + [[0, 1]]))


@pytest.mark.parametrize("options", [{}, {"pool_increments": True}])
def test_rows_of_weight_zero_are_not_there(options):
    rng = np.random.default_rng(1)
    x, x_next = rng.integers(6, size=40), rng.integers(8, size=40)
    without = ov.VPM(**options).fit(ov.Transitions(x, x_next))
    weight = np.append(np.ones(40), [0.0, 0.0])
    with_them = ov.VPM(**options).fit(ov.Transitions(np.append(x, [2, 5]), np.append(x_next, [30, 0]), weight=weight))
    np.testing.assert_allclose(with_them.probabilities(np.arange(8)), without.probabilities(np.arange(8)))
    assert with_them.weights[-2:].tolist() == [0, 0]


@pytest.mark.parametrize("cycle", [1, 2, 5, 12])
def test_period(cycle):
    kernel = sparse.csr_array(np.roll(np.eye(cycle), 1, axis=1))
    assert solve.period(kernel, np.zeros(cycle, dtype=bool)) == cycle


# -- large chains


def test_large_chains_are_solved_without_dense_matrices():
    rng = np.random.default_rng(8)
    states, rows = 30_000, 600_000
    x = rng.integers(states, size=rows)
    mixing = ov.VPM().fit(ov.Transitions(x, rng.integers(states, size=rows)))  # an expander: GMRES
    moved = mixing.probabilities()[:states] @ count(mixing.transitions, "restart").chain
    assert 0.5 * np.abs(moved - mixing.probabilities()).sum() < 1e-10
    x = np.repeat(np.arange(states), 10)
    step = np.tile([-1, -1, -1, -1, 0, 0, 0, 1, 1, 1], states)
    line = ov.VPM().fit(ov.Transitions(x, np.clip(x + step, 0, states - 1)))  # a line: banded factorisation
    moved = line.probabilities() @ count(line.transitions, "restart").chain
    assert 0.5 * np.abs(moved - line.probabilities()).sum() < 1e-10


# -- ordered states


def test_pooled_increments_give_the_queues_distribution_from_few_data():
    queue, far, near = GeoQueue(), [], []
    distribution = queue.stationary_distribution()
    for seed in range(10):
        pairs = queue.transitions(200, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ov.StationaryWarning)
            far.append(0.5 * np.abs(padded(ov.VPM().fit(pairs), queue) - distribution).sum())
        near.append(0.5 * np.abs(padded(ov.VPM(pool_increments=True).fit(pairs), queue) - distribution).sum())
    assert np.mean(near) < 0.4 * np.mean(far)


def padded(estimate: ov.StationaryEstimate, queue: GeoQueue) -> np.ndarray:
    distribution = estimate.probabilities(np.arange(queue.bound))
    return distribution / distribution.sum()


def test_pooling_limits_are_the_counts_and_the_pooled_distribution():
    pairs = ov.Transitions([0, 1, 1, 2, 2, 2], [1, 2, 0, 1, 1, 2])
    none = pooled(pairs, 1e-12).kernel.toarray()
    np.testing.assert_allclose(none, counted(pairs, 3), atol=1e-9)
    full = pooled(pairs, 1e12).kernel.toarray()
    # increments: -1 three times, +1 twice, and the row from 2 to 2, which may have been 0 or +1: of all distributions
    # (½, 0, ½) makes p₋³p₊²(p₀ + p₊) largest; what leaves the range stays at its end
    np.testing.assert_allclose(full, np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]) / 2, atol=1e-9)


def test_steps_of_an_empty_queue_are_shared_between_no_move_and_a_service_that_found_nobody():
    """Off the end -1 three times, 0 once, +1 twice; at 0 four stay: p₋³p₀p₊²(p₋ + p₀)⁴ is largest at (6, 2, 2)/10."""
    pairs = ov.Transitions([5, 5, 5, 5, 5, 5, 0, 0, 0, 0, 9], [4, 4, 4, 5, 6, 6, 0, 0, 0, 0, 9], weight=[1] * 10 + [0])
    np.testing.assert_allclose(pooled(pairs, 1e12).kernel.toarray()[5, 4:7], [0.6, 0.2, 0.2], atol=1e-8)


def test_increments_of_a_queue_that_is_often_empty():
    """Arrivals 0.3, services 0.5: up with 0.15, down with 0.35, from one long path that is empty 57 % of the time."""
    rng = np.random.default_rng(0)
    length, path = 0, [0]
    for arrives, serves in zip(rng.random(40_000) < 0.3, rng.random(40_000) < 0.5, strict=True):
        length = max(0, length + int(arrives) - int(serves))
        path.append(length)
    kernel = pooled(ov.Transitions.from_paths([np.array(path)]), 1e12).kernel.toarray()
    # the standard errors of frequencies among the 17 000 steps off the end
    assert kernel[3, 4] == pytest.approx(0.15, abs=4 * np.sqrt(0.15 * 0.85 / 17_000))
    assert kernel[3, 2] == pytest.approx(0.35, abs=4 * np.sqrt(0.35 * 0.65 / 17_000))


# -- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(unseen="ignore"), "known are auto, restart, good-turing, restrict"),
        (dict(steps=0), "steps must be at least 1"),
        (dict(lam=0), "lam must be positive"),
        (dict(damping=2.0), "damping must be"),
        (dict(pool_increments=-1.0), "pool_increments must be"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        ov.VPM(solver="tabular", **options)


def test_expectations_of_a_sampled_chain_are_within_four_standard_errors():
    """The standard error that the estimate states, over 60 data sets of one chain."""
    rng = np.random.default_rng(9)
    kernel = random_kernel(12, rng)
    truth = eigenvector_distribution(kernel) @ np.arange(12)
    scores = []
    for _ in range(60):
        x = rng.integers(12, size=3000)
        value = ov.VPM().fit(ov.Transitions(x, sample(kernel, x, rng))).expectation(lambda s: s)
        scores.append((value - truth) / value.standard_error)
    assert abs(np.mean(scores)) < 4 / np.sqrt(60)
    assert 0.75 < np.std(scores) < 1.3  # 60 draws: ±4 standard errors of a standard deviation of 1 is ±0.37


@pytest.mark.parametrize("options", [{}, {"steps": 20}, {"reversible": True}])
def test_the_ratio_without_remarks_is_that_of_the_fit(options):
    rng = np.random.default_rng(0)
    data = ov.Transitions(rng.integers(5, size=60), rng.integers(5, size=60))
    solver = Tabular(**options)
    fitted = solver.fit(data, gamma=1.0, seed=0, callback=None).ratio
    np.testing.assert_array_equal(solver.ratio(data, gamma=1.0)(np.arange(5)), fitted(np.arange(5)))
