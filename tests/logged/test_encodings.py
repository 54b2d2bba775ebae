"""Numbers of a table that are read back from features."""

import numpy as np
import pytest

import ope_vpm as ov


@pytest.mark.parametrize(
    ("column", "kind"), [([50, 61, 70], "i"), ([50.0, 61.0, 70.0], "f"), ([50.5, 61.0, 70.0], "f")]
)
def test_whole_numbers_are_whole_again_and_others_are_not(column, kind):
    """Floats that happen to be whole stay floats; whole numbers become ones, but where a state lies between them."""
    table = {"weight": column, "action": ["l", "r", "l"], "reward": [1.0, 0.0, 1.0]}
    encoding = ov.from_table(table, state="weight", numbers="weight", verbose=False).encoding
    found = encoding.state[0].decode(np.array(column, dtype=float)[:, None])
    assert found.dtype.kind == kind
    np.testing.assert_array_equal(found, column)
    assert encoding.state[0].decode(np.array([[50.25]])).tolist() == [50.25]
