"""Every metric against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.leaderboard import scores

ERROR = np.array([[0.1, -1.0], [0.3, 3.0]])
"""Two runs, two policies: mean squares 0.05 and 5."""


def test_error_metrics():
    assert scores.log_mse(ERROR) == pytest.approx((np.log10(0.05) + np.log10(5)) / 2)
    assert scores.absolute_error(ERROR) == pytest.approx(1.1)
    assert scores.bias(ERROR) == pytest.approx(0.6)
    # RMSE over floors of 0.05 and 10: √0.05/0.05 = 4.472 and √5/10 = 0.2236; their geometric mean is 1.
    assert scores.floor_ratio(ERROR / np.array([0.05, 10])) == pytest.approx(1)


def test_rank_correlation():
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    # Ranks 2 1 3 4: differences 1 1 0 0, so 1 - 6·2/(4·15) = 0.8; reversed: -1.
    assert scores.spearman(np.array([20.0, 10.0, 30.0, 40.0]), truth) == pytest.approx(0.8)
    assert scores.rank_correlation(np.array([[20, 10, 30, 40], [4, 3, 2, 1]], dtype=float), truth) == pytest.approx(
        -0.1
    )
    assert scores.spearman(np.full(4, 7.0), truth) == 0


def test_regret():
    truth = np.array([0.0, 10.0, 6.0, 8.0])
    looks = np.array([[5.0, 1.0, 4.0, 3.0]])  # policies 0, 2 and 3 look best: the best of them is worth 8
    assert scores.regret(looks, truth, 1) == pytest.approx(1.0)
    assert scores.regret(looks, truth, 2) == pytest.approx(0.4)
    assert scores.regret(looks, truth, 3) == pytest.approx(0.2)
    assert scores.regret(looks, truth, 9) == 0


def test_regret_of_ties_is_an_expectation():
    truth = np.array([0.0, 10.0, 6.0, 8.0])
    equal = np.zeros((1, 4))
    assert scores.regret(equal, truth, 1) == pytest.approx(1 - 6 / 10)  # the mean of the truths
    # The best of three out of four: 10 in 3 of 4 draws, 8 in the fourth.
    assert scores.regret(equal, truth, 3) == pytest.approx(1 - 9.5 / 10)
    # Policy 3 is sure, one more out of 0, 1 and 2 is drawn: 8, 10 or 8.
    assert scores.regret(np.array([[1.0, 1.0, 1.0, 2.0]]), truth, 2) == pytest.approx(1 - (26 / 3) / 10)


def test_intervals():
    low, high = np.array([[0.0, 2.0], [np.nan, 0.0]]), np.array([[1.0, 4.0], [np.nan, 9.0]])
    assert scores.coverage(low, high, np.array([0.5, 1.0])) == pytest.approx(2 / 3)
    assert scores.width(low, high) == pytest.approx(4)
    nothing = np.full((1, 1), np.nan)
    assert np.isnan(scores.coverage(nothing, nothing, np.array([1.0])))


def test_verdicts():
    scaled = np.array([[0.5, 10.0, 2.0], [4.0, 1.0, 9.0]])
    verdict = np.array([[1.0, -1.0, -1.0], [1.0, 0.0, 0.0]])  # right, right, wrong; wrong, two that claim nothing
    assert scores.verdicts_right(scaled, verdict) == 0.5
    assert np.isnan(scores.verdicts_right(scaled, np.zeros((2, 3))))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=(12, 1))
    value, error = scores.jackknife(lambda part: float(part.mean()), values)
    assert value == pytest.approx(values.mean())
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(12))
    assert scores.jackknife(lambda part: float(part.mean()), values[:1]) == (values[0, 0], None)


def test_the_jackknife_of_log_mse_is_right_over_many_tables():
    rng = np.random.default_rng(1)
    tables = [scores.jackknife(scores.log_mse, rng.normal(size=(20, 3))) for _ in range(300)]
    deviation = np.std([value for value, _ in tables], ddof=1)
    claimed = np.sqrt(np.mean([error**2 for _, error in tables]))
    assert claimed == pytest.approx(deviation, rel=0.2)


def test_noise_is_seldom_crowned():
    """Five estimators of the same quality, ten runs: one is best, but it must not beat all others."""
    rng = np.random.default_rng(2)
    crowned = 0
    for table in range(100):
        errors = rng.normal(size=(5, 10, 3))
        order = np.argsort([scores.log_mse(error) for error in errors])
        best, *others = ([errors[place]] for place in order)
        chances = [scores.chance_of_no_worse(best, other, seed=table, replicates=500) for other in others]
        crowned += all(chance < 0.05 for chance in chances)
    assert crowned <= 5


def test_a_clear_winner_is_told_from_the_second():
    rng = np.random.default_rng(3)
    best, other = [rng.normal(size=(10, 2))], [3 * rng.normal(size=(10, 2))]
    assert scores.chance_of_no_worse(best, other) < 0.01
    assert scores.chance_of_no_worse(other, best) > 0.99


def test_pairing_sees_a_small_difference_that_all_runs_share():
    rng = np.random.default_rng(4)
    best = rng.normal(size=(10, 1)) * 5
    assert scores.chance_of_no_worse([best], [1.05 * best]) < 0.01


def test_four_runs_prove_nothing():
    best = np.full((4, 1), 0.1)
    assert scores.chance_of_no_worse([best], [100 * best]) == 1 / 16
    two_settings = [best, best]
    assert scores.chance_of_no_worse(two_settings, [100 * error for error in two_settings]) == 1 / 16
