"""Standardisers and feature maps against closed forms."""

import numpy as np
import pytest

from ope_vpm.linear.features import (
    FEATURES,
    DistinctColumns,
    FourierFeatures,
    Standardiser,
    combination,
    draw_frequencies,
    median_bandwidth,
)


def test_standardising_by_hand():
    """Columns (0, 2, 4) and (7, 7, 7): mean 2 and deviation √(8/3); the constant one is in units of itself."""
    standardise = Standardiser.fit(np.array([[0, 7], [2, 7], [4, 7]]))
    assert standardise.mean.tolist() == [2, 7]
    np.testing.assert_allclose(standardise.std, [np.sqrt(8 / 3), 7])
    np.testing.assert_allclose(standardise(np.array([[6.0, 8.0]])), [[4 / np.sqrt(8 / 3), 1 / 7]])
    assert standardise(np.array([[1e9, 0.0]]))[0, 0] > 1e8


def test_limits_in_deviations_and_in_the_range_of_the_data():
    sample = np.arange(1001.0)[:, None]
    standardise = Standardiser.fit(sample)
    far = np.array([[-1e6], [1e6]])
    assert standardise.within(5.0)(far).tolist() == [[-5], [5]]
    np.testing.assert_allclose(standardise.within_range(sample)(far) * standardise.std + 500, [[1], [999]])
    assert Standardiser.unit(2).within(3.0)(np.array([[1.0, 7.0]])).tolist() == [[1, 3]]


def test_a_column_of_one_value_and_rounding_is_constant():
    sample = 1e6 + np.array([[0.0], [1e-9], [2e-9]])
    assert Standardiser.fit(sample).std[0] == sample.max()


def test_random_features_approximate_the_gaussian_kernel():
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(300, 2))
    z = Standardiser.fit(sample).within_range(sample)(sample)
    exact = np.exp(-((z[:, None] - z[None]) ** 2).sum(-1) / (2 * 1.5**2))
    fourier = FEATURES["fourier"].draw(sample, 20_000, 1.5, rng)(sample)[:, 1:]
    np.testing.assert_allclose(fourier @ fourier.T / 10_000, exact, atol=0.05)  # 300² draws of deviation 0.007
    nystrom = FEATURES["nystrom"].draw(sample, 300, 1.5, rng)(sample)[:, 1:]
    np.testing.assert_allclose(nystrom @ nystrom.T, exact, atol=1e-6)


def test_fourier_features_with_the_coordinates_themselves():
    """At ω = (π, 0) and z = (½, 3): cos ½π = 0 and sin ½π = 1."""
    features = FourierFeatures(Standardiser.unit(2).within(2.0), np.array([[np.pi], [0.0]]), linear=True)
    assert features.size == 5
    np.testing.assert_allclose(features(np.array([[0.5, 3.0]])), [[1, 0.5, 2, 0, 1]], atol=1e-15)
    assert FourierFeatures(Standardiser.unit(2), np.zeros((2, 0)), linear=True)(np.zeros((4, 2))).shape == (4, 3)


def test_frequencies_are_drawn_for_the_bandwidth():
    drawn = draw_frequencies(3, 200_000, 2.0, np.random.default_rng(0))
    assert drawn.shape == (3, 100_000)
    assert drawn.std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * 300_000))


def test_a_combination_of_features_over_several_batches():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9000, 2))
    features = FourierFeatures.draw(x, 20, 1.0, rng)
    coefficients = rng.standard_normal(21)
    np.testing.assert_allclose(combination(features, x, coefficients), features(x) @ coefficients, atol=1e-12)


def test_median_bandwidth_of_a_known_sample():
    states = np.repeat([[0.0], [1.0], [2.0]], 600, axis=0)[np.random.default_rng(0).permutation(1800)]
    assert median_bandwidth(states) == pytest.approx(1 / np.std([0, 1, 2]))
    assert median_bandwidth(np.zeros((5, 1))) == 1.0


def test_large_negative_columns_of_one_value_and_rounding_are_constant():
    assert Standardiser.fit(-1e6 + np.array([[0.0], [1e-9], [2e-9]])).std.tolist() == [1e6]
    assert Standardiser.fit(-1e6 + np.array([[0.0], [1.0], [2.0]])).std[0] == pytest.approx(np.sqrt(2 / 3))


def test_without_limits_there_are_infinite_ones():
    for standardise in (Standardiser.fit(np.arange(6.0).reshape(3, 2)), Standardiser.unit(2)):
        assert standardise.low.tolist() == [-np.inf] * 2
        assert standardise.high.tolist() == [np.inf] * 2
        one_sided = Standardiser(standardise.mean, standardise.std, standardise.low, np.array([1.0, np.inf]))
        np.testing.assert_allclose(one_sided(standardise.mean + 9 * standardise.std), [1, 9])
        np.testing.assert_allclose(one_sided(standardise.mean - 9 * standardise.std), [-9, -9])


def test_a_standardiser_is_read_as_it_was_written():
    written = Standardiser.fit(np.arange(6.0).reshape(3, 2)).within(2.0)
    read = Standardiser.from_arrays(written.arrays())
    x = np.random.default_rng(0).standard_normal((20, 2)) * 10
    np.testing.assert_array_equal(read(x), written(x))
    assert np.abs(written(x)).max() == 2


def test_deviations_below_a_billionth_of_a_thousandth_of_the_values_are_rounding():
    """1.5·10⁻¹² about 1 is a deviation, 0.5·10⁻¹² is not, and about 0 every deviation is one, in whatever units."""
    tiny = np.array([[-1.0], [1.0]])
    for unit in (1e-15, 1.0, 1e15):
        assert Standardiser.fit(unit * (1 + 1.5e-12 * tiny)).std[0] == pytest.approx(1.5e-12 * unit, rel=1e-3)
        assert Standardiser.fit(unit * (1 + 0.5e-12 * tiny)).std[0] == pytest.approx(unit)
        assert Standardiser.fit(1e-15 * unit * tiny).std[0] == pytest.approx(1e-15 * unit)
    assert Standardiser.fit(0 * tiny).std[0] == 1


def test_a_column_counts_once_whatever_its_units_and_its_place():
    x, time = np.random.default_rng(0).exponential(size=(50, 3)), np.arange(50)
    plain = DistinctColumns.fit(x, time)
    more = np.column_stack([x[:, 2] * 1e-15, np.full(50, 0.3), x[:, 0] + 1e7, x[:, 2], 1e15 * x[:, 1]])
    found = DistinctColumns.fit(more, time)
    assert (plain.size, found.size) == (3, 3)
    np.testing.assert_allclose(found(more), plain(x), atol=1e-7)  # 10⁷ leaves nine digits
    np.testing.assert_allclose(found.restored(found(more)), more, rtol=1e-9)
    assert found.source.tolist().count(-1) == 1


def test_where_no_column_varies_one_is_left():
    found = DistinctColumns.fit(np.full((4, 2), 0.1), np.arange(4))
    assert found(np.full((4, 2), 0.1)).tolist() == [[0.0]] * 4
    assert found.restored(np.zeros((1, 1))).tolist() == [[0.1, 0.1]]


@pytest.mark.parametrize("size", [1e-150, 1e-15, 0.0, 0.3, 1e15, 1e150])
def test_a_constant_of_any_size_is_no_coordinate(size):
    """The mean of 240 equal numbers is off by some of their last bits, which is more than 1 where they are 1e15."""
    rng = np.random.default_rng(0)
    sample = np.column_stack([rng.standard_normal(240), np.full(240, 6.11873206123 * size), rng.random(240)])
    found = DistinctColumns.fit(sample, np.arange(240) % 20)
    assert sorted(found.columns) == [0, 2]
    assert np.abs(Standardiser.fit(sample)(sample)[:, 1]).max() < 1e-9
