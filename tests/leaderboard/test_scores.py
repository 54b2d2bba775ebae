"""Every metric against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.leaderboard import scores

ERROR = np.array([[0.1, -1.0], [0.3, 3.0]])
"""Two runs, two policies: mean squares 0.05 and 5."""


def test_error_metrics():
    assert scores.log_mse(ERROR).value == pytest.approx((np.log10(0.05) + np.log10(5)) / 2)
    assert scores.absolute_error(ERROR).value == pytest.approx(1.1)
    assert scores.mean(ERROR).value == pytest.approx(0.6)
    # RMSE over floors of 0.05 and 10: √0.05/0.05 = 4.472 and √5/10 = 0.2236; their geometric mean is 1.
    assert scores.floor_ratio(ERROR / np.array([0.05, 10])).value == pytest.approx(1)


def test_rank_correlation():
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    # Ranks 2 1 3 4: differences 1 1 0 0, so 1 - 6·2/(4·15) = 0.8; reversed: -1.
    assert scores.spearman(np.array([[20.0, 10.0, 30.0, 40.0]]), truth[None]) == pytest.approx(0.8)
    assert scores.rank_correlation(
        np.array([[20, 10, 30, 40], [4, 3, 2, 1]], dtype=float), truth
    ).value == pytest.approx(-0.1)
    assert scores.spearman(np.full((1, 4), 7.0), truth[None]) == 0


def test_regret():
    truth = np.array([0.0, 10.0, 6.0, 8.0])
    looks = np.array([[5.0, 1.0, 4.0, 3.0]])  # policies 0, 2 and 3 look best: the best of them is worth 8
    assert scores.regret(looks, truth, 1).value == pytest.approx(1.0)
    assert scores.regret(looks, truth, 2).value == pytest.approx(0.4)
    assert scores.regret(looks, truth, 3).value == pytest.approx(0.2)
    assert scores.regret(looks, truth, 9).value == 0


def test_regret_of_ties_is_an_expectation():
    truth = np.array([0.0, 10.0, 6.0, 8.0])
    equal = np.zeros((1, 4))
    assert scores.regret(equal, truth, 1).value == pytest.approx(1 - 6 / 10)  # the mean of the truths
    # The best of three out of four: 10 in 3 of 4 draws, 8 in the fourth.
    assert scores.regret(equal, truth, 3).value == pytest.approx(1 - 9.5 / 10)
    # Policy 3 is sure, one more out of 0, 1 and 2 is drawn: 8, 10 or 8.
    assert scores.regret(np.array([[1.0, 1.0, 1.0, 2.0]]), truth, 2).value == pytest.approx(1 - (26 / 3) / 10)


def test_intervals():
    low, high = np.array([[0.0, 2.0], [np.nan, 0.0]]), np.array([[1.0, 4.0], [np.nan, 9.0]])
    assert scores.coverage(low, high, np.array([0.5, 1.0])).value == pytest.approx(2 / 3)
    assert scores.width(low, high).value == pytest.approx(4)
    nothing = np.full((1, 1), np.nan)
    assert np.isnan(scores.coverage(nothing, nothing, np.array([1.0])).value)


def test_verdicts():
    scaled = np.array([[0.5, 10.0, 2.0], [4.0, 1.0, 9.0]])
    verdict = np.array([[1.0, -1.0, -1.0], [1.0, 0.0, 0.0]])  # right, right, wrong; wrong, two that claim nothing
    assert scores.verdicts_right(scaled, verdict).value == 0.5
    assert np.isnan(scores.verdicts_right(scaled, np.zeros((2, 3))).value)


def test_headlines():
    """Six answers: four are reliable; of these two hold the truth, one is a little off, one is confidently wrong."""
    truth = np.array([0.0, 10.0, 20.0])
    value = np.array([[0.1, 12.0, 29.0], [0.2, 90.0, 20.0]])
    low, high = value - 1, value + 1
    verdict = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0]])
    scaled = (value - truth) / np.array([0.1, 1.0, 2.0])  # 1, 2 and 4.5 floors; 2, 80 and 0
    assert scores.reliable_and_covered(low, high, truth, verdict).value == 2 / 4
    assert scores.confidently_wrong(scaled, low, high, truth, verdict).value == 1 / 4
    assert scores.confidently_wrong(scaled, low, high, truth, verdict).count == 4
    # No interval holds nothing; where nobody is reliable, neither is defined.
    absent = np.full_like(low, np.nan)
    assert scores.reliable_and_covered(absent, absent, truth, verdict).value == 0
    assert np.isnan(scores.confidently_wrong(scaled, low, high, truth, np.zeros_like(verdict)).value)


def test_intervals_allow_for_the_error_of_the_truth():
    """Half a width of 3 and 1.96 standard errors of 4 / 1.96 make 5; an exact truth changes nothing."""
    low, high = np.array([[-3.0, 0.0, -3.0]]), np.array([[3.0, 0.0, 3.0]])
    wide = scores.allowing(low, high, np.zeros((1, 3)), np.array([4 / 1.96, 4 / 1.96, 0.0]))
    assert wide[0] == pytest.approx(np.array([[-5.0, -4.0, -3.0]]))
    assert wide[1] == pytest.approx(np.array([[5.0, 4.0, 3.0]]))


def test_batches_of_runs_give_the_same_p_value():
    """With twice as many runs as batches: within what two bootstraps of 2000 draws differ by."""
    rng = np.random.default_rng(6)
    best = rng.normal(size=(2 * scores.BATCHES + 1, 1))
    other = 1.02 * rng.normal(size=best.shape)
    batched = scores.p_values([best], [[other]])[0]
    times = rng.multinomial(len(best), np.full(len(best), 1 / len(best)), size=2000)
    exact = np.mean(np.log(times @ other**2) <= np.log(times @ best**2))
    assert 0.05 < exact < 0.5
    assert batched == pytest.approx(exact, abs=4 * np.sqrt(2 * exact * (1 - exact) / 2000))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=(12, 1))
    value, error = scores.with_errors([scores.mean(values)])[0]
    assert value == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(12))
    assert scores.with_errors([scores.mean(values[:1])])[0] == (values[0, 0], None)


def test_the_jackknife_leaves_every_run_out_once():
    """Against the definition, written as a loop; one run's error is 10⁸ times the others', and no digits are lost."""
    rng = np.random.default_rng(5)
    error = rng.normal(size=(9, 3))
    error[4] *= 1e8
    low, high = error - rng.uniform(0, 2, error.shape), error + rng.uniform(0, 2, error.shape)
    verdict = rng.integers(-1, 2, error.shape).astype(float)
    truth = np.array([0.1, -0.2, 0.3])
    for metric, arrays in [
        (scores.log_mse, (error,)),
        (scores.floor_ratio, (error,)),
        (lambda value: scores.rank_correlation(value, truth), (error,)),
        (lambda value: scores.regret(value, truth, 1), (error,)),
        (lambda a, b: scores.coverage(a, b, truth), (low, high)),
        (lambda a, b, c: scores.reliable_and_covered(a, b, truth, c), (low, high, verdict)),
    ]:
        left_out = [metric(*(np.delete(array, run, axis=0) for array in arrays)).value for run in range(9)]
        expected = np.sqrt(8 / 9 * np.sum((left_out - np.mean(left_out)) ** 2))
        assert scores.with_errors([metric(*arrays)])[0][1] == pytest.approx(expected, rel=1e-12)


def test_the_jackknife_of_log_mse_is_right_over_many_tables():
    rng = np.random.default_rng(1)
    tables = [scores.with_errors([scores.log_mse(rng.normal(size=(20, 3)))])[0] for _ in range(300)]
    deviation = np.std([value for value, _ in tables], ddof=1)
    claimed = np.sqrt(np.mean([error**2 for _, error in tables]))
    assert claimed == pytest.approx(deviation, rel=0.2)


def test_noise_is_seldom_crowned():
    """Five estimators of the same quality, ten runs: one is best, but it must not beat all others."""
    rng = np.random.default_rng(2)
    crowned = 0
    for table in range(100):
        errors = rng.normal(size=(5, 10, 3))
        order = np.argsort([scores.log_mse(error).value for error in errors])
        best, *others = ([errors[place]] for place in order)
        p_values = scores.p_values(best, others, seed=table, replicates=500)
        crowned += all(p_value < 0.05 for p_value in p_values)
    assert crowned <= 5


def test_a_clear_winner_is_told_from_the_second():
    rng = np.random.default_rng(3)
    best, other = [rng.normal(size=(10, 2))], [3 * rng.normal(size=(10, 2))]
    assert scores.p_values(best, [other])[0] < 0.01
    assert scores.p_values(other, [best])[0] > 0.99


def test_pairing_sees_a_small_difference_that_all_runs_share():
    rng = np.random.default_rng(4)
    best = rng.normal(size=(10, 1)) * 5
    assert scores.p_values([best], [[1.05 * best]])[0] < 0.01


def test_four_runs_prove_nothing():
    best = np.full((4, 1), 0.1)
    assert scores.p_values([best], [[100 * best]]) == [1 / 16]
    two_settings = [best, best]
    assert scores.p_values(two_settings, [[100 * error for error in two_settings]]) == [1 / 16]
