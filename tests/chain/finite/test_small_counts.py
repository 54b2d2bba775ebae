"""Standard errors of counted chains with few rows per state: by hand, over many seeds, in the limit of many rows."""

import warnings

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.finite import solve
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.chain.finite.counts import count
from tests.chain.chains import eigenvector_distribution, random_kernel, sample


def fitted(pairs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ov.StationaryWarning)  # few rows often make a reducible chain
        return ov.VPM(**options).fit(pairs)


def by_influence(pairs, values, **options):
    """The standard error of the influence function alone: nothing is added where probabilities are given."""
    known = ov.Transitions(pairs.x, pairs.x_next[:, None], pairs.weight, next_weight=np.ones((len(pairs), 1)))
    return fitted(known, **options).expectation(values).standard_error


def test_two_states_by_hand():
    """Each state went once to each, so that counts, neighbours and the smoothed chain are all 1/2, and f = (0, 1).

    N = 4, so that one step in four goes anywhere. E f = 1/2 with and without smoothing, h = ∓1/2 and every m = 0. The
    four rows give 4·(1/4·√(2/3)·3/4·1/2)² = 3/128; the pseudo-observations 2·(1/4)/2·(9/16·1/4)/3 = 3/256, and the
    steps to anywhere 2·(1/4)/2·(1/4·1/4) = 1/64. Together 13/256.
    """
    pairs = ov.Transitions([0, 0, 1, 1], [0, 1, 0, 1])
    value = ov.VPM().fit(pairs).expectation(np.array([0.0, 0, 1, 1]))
    assert value == pytest.approx(0.5)
    assert value.standard_error == pytest.approx(np.sqrt(13 / 256))


def ring(states, rng):
    """Steps to either neighbour, with probabilities of their own in each state, or none."""
    kernel, up = np.zeros((states, states)), rng.uniform(0.2, 0.6, states)
    here = np.arange(states)
    kernel[here, (here + 1) % states], kernel[here, here - 1], kernel[here, here] = up, 0.8 - up, 0.2
    return kernel


@pytest.mark.parametrize("make", [random_kernel, ring])
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_intervals_cover_with_few_rows_per_state(make, rows):
    """95 % of 200 chains, less four standard errors of that share: 0.89. By influence it is 0.62 to 0.89 of them."""
    covered = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        kernel = make(20, rng)
        x, f = np.repeat(np.arange(20), rows), rng.standard_normal(20)
        value = fitted(ov.Transitions(x, sample(kernel, x, rng))).expectation(f[x])
        covered.append(abs(value - eigenvector_distribution(kernel) @ f) <= 1.96 * value.standard_error)
    assert np.mean(covered) >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200)


@pytest.mark.parametrize("gamma", [0.5, 0.95])
def test_discounted_intervals_cover_with_few_rows_per_state(gamma):
    covered = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        kernel = random_kernel(20, rng)
        x, f, first = np.repeat(np.arange(20), 3), rng.standard_normal(20), rng.integers(0, 5, size=40)
        pairs = ov.Transitions(x, sample(kernel, x, rng), x_initial=first)
        value = ov.VPM(gamma=gamma).fit(pairs).expectation(f[x])
        start = np.where(np.arange(20) < 5, 0.2, 0.0)
        truth = (1 - gamma) * start @ np.linalg.solve(np.eye(20) - gamma * kernel, f)
        covered.append(abs(value - truth) <= 1.96 * value.standard_error)
    assert np.mean(covered) >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200)


def test_many_rows_leave_the_influence_function_alone():
    """With n rows per state what is added is of the order of 1/n."""
    rng = np.random.default_rng(0)
    kernel, f = random_kernel(8, rng), rng.standard_normal(8)
    for rows, off in ((200, 0.05), (5000, 0.002)):
        x = np.repeat(np.arange(8), rows)
        pairs = ov.Transitions(x, sample(kernel, x, rng))
        found = fitted(pairs).expectation(f[x]).standard_error
        assert found == pytest.approx(by_influence(pairs, f[x]), rel=off)


def test_closed_classes_leave_their_shares_open():
    """Nothing tells how much weight {0, 1} and {2, 3} have.

    The influence function takes the 40 rows for a sample of their weights: ½/√40 = 0.079.
    """
    x = np.repeat(np.arange(4), 10)
    pairs = ov.Transitions(x, np.where(x < 2, x + np.arange(40) % 2, x - np.arange(40) % 2) % 2 + 2 * (x >= 2))
    values = (x >= 2).astype(float)
    assert by_influence(pairs, values) == pytest.approx(0.5 / np.sqrt(40))
    assert fitted(pairs).expectation(values).standard_error > 0.3


def test_no_error_is_beyond_half_the_range():
    x = np.array([0, 1, 2, 3])
    value = fitted(ov.Transitions(x, np.array([1, 2, 3, 0]))).expectation(np.array([0.0, 0, 0, 1]))
    assert 0 < value.standard_error <= 0.5


def test_errors_scale_with_f_and_know_weights():
    rng = np.random.default_rng(1)
    x = np.repeat(np.arange(6), 3)
    x_next, f = sample(random_kernel(6, rng), x, rng), rng.standard_normal(6)[x]
    plain = fitted(ov.Transitions(x, x_next))
    error = plain.expectation(f).standard_error
    assert plain.expectation(3 * f + 2).standard_error == pytest.approx(3 * error)
    doubled = fitted(ov.Transitions(x, x_next, weight=np.full(18, 2.0)))
    assert doubled.expectation(f).standard_error == pytest.approx(error)
    more, weight = (np.append(x, 0), np.append(x_next, 5)), np.append(np.ones(18), 0.0)
    assert fitted(ov.Transitions(*more, weight=weight)).expectation(np.append(f, 9.0)).standard_error == pytest.approx(
        error
    )


def test_values_that_vary_within_a_state_are_noise_of_their_own():
    """Rewards of ±1 in states with two rows each: the mean of 40 has an error of 1/√40 = 0.158, or more."""
    errors, misses = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = np.repeat(np.arange(20), 2)
        value = fitted(ov.Transitions(x, rng.integers(0, 20, size=40))).expectation(rng.choice([-1.0, 1.0], size=40))
        errors.append(value.standard_error)
        misses.append(abs(value) > 1.96 * value.standard_error)
    assert np.mean(errors) > 0.158
    assert np.mean(misses) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 100)


def chain_with_losses():
    rng = np.random.default_rng(2)
    x = np.repeat(np.arange(12), 4)
    return count(ov.Transitions(x, rng.integers(0, 14, size=48)), "restart").chain  # 12 and 13 are never seen as x


@pytest.mark.parametrize("factorised", [True, False])
def test_a_chain_that_begins_anew_by_dense_algebra(monkeypatch, factorised):
    monkeypatch.setattr(solve, "factorises", lambda kernel: factorised)
    chain, share = chain_with_losses(), 0.02
    matrix = chain.kernel.toarray() + chain.enter.toarray() @ chain.leave.toarray()
    start, reward = np.arange(1, 13) / 78, np.arange(12.0)
    found = chain.restarted(start, reward, share)
    assert found is not None
    mu = eigenvector_distribution((1 - share) * matrix + share * start)
    np.testing.assert_allclose(found[0], mu, atol=1e-9)
    h = np.linalg.solve(np.eye(12) - (1 - share) * matrix, reward - mu @ reward)
    np.testing.assert_allclose(found[1], h, atol=1e-7)
    assert start @ found[1] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("given", [0, 1])
def test_where_equations_are_not_solved_the_influence_function_is_left(monkeypatch, given):
    """Of the two systems, the first or the second is not."""
    calls = []

    def some(product, rhs, guess):
        calls.append(rhs)
        return rhs if len(calls) <= given else None

    chain = chain_with_losses()
    monkeypatch.setattr(solve, "factorises", lambda kernel: False)
    monkeypatch.setattr(solve, "gmres", some)
    assert chain.restarted(np.full(12, 1 / 12), np.arange(12.0), 0.02) is None
    monkeypatch.undo()
    monkeypatch.setattr(FiniteChain, "restarted", lambda *_: None)
    x = np.repeat(np.arange(6), 3)
    pairs = ov.Transitions(x, (x + np.arange(18)) % 6)
    assert fitted(pairs).expectation(x * 1.0).standard_error == pytest.approx(by_influence(pairs, x * 1.0))


def test_pooled_and_reversible_chains_keep_the_influence_function():
    x = np.array([0, 1, 2, 1, 0, 1, 2, 2])
    pairs = ov.Transitions(x, np.array([1, 2, 1, 0, 0, 0, 2, 1]))
    for options in ({"pool_increments": 2.0}, {"reversible": True}):
        assert fitted(pairs, **options).expectation(x * 1.0).standard_error == pytest.approx(
            by_influence(pairs, x * 1.0, **options)
        )


@pytest.mark.parametrize("small", [1e-200, 1e-300, 1e200])
def test_states_whose_weights_have_no_squares(small):
    """Weights are shares within a state, whatever their unit: the same error as with weights of 1e-9."""
    x, x_next, f = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0.0, 0, 1, 1])
    usual = fitted(ov.Transitions(x, x_next, weight=np.array([1e-9, 1e-9, 1, 1]))).expectation(f)
    with np.errstate(all="raise", under="ignore"):
        value = fitted(ov.Transitions(x, x_next, weight=np.array([small, small, 1, 1]))).expectation(f)
    assert value.standard_error == pytest.approx(usual.standard_error, rel=1e-6)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_values_whose_squares_are_no_numbers(unit):
    pairs = ov.Transitions([0, 0, 1, 1], [0, 1, 0, 1])
    with np.errstate(all="raise", under="ignore"):
        value = ov.VPM().fit(pairs).expectation(unit * np.array([0.0, 0, 1, 1]))
    assert value.standard_error / unit == pytest.approx(np.sqrt(13 / 256))


def test_closed_classes_of_a_chain_that_is_not_solved_have_unknown_shares(monkeypatch):
    """Two pairs of states without a row between them: E[f] may be anything from 0 to 1."""
    monkeypatch.setattr(FiniteChain, "restarted", lambda *_: None)
    x = np.tile(np.arange(4), 5)
    pairs = ov.Transitions(x, x ^ 1)
    assert fitted(pairs).expectation((x >= 2) * 1.0).standard_error == 0.5
