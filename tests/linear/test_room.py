"""Memory that the batches of a pass share."""

import numpy as np

from ope_vpm.linear.moments import Room


def test_memory_is_used_again_where_it_fits():
    room = Room()
    first = room.like(np.zeros((3, 2)), "a")
    assert np.shares_memory(first, room.like(np.zeros((3, 2)), "a"))
    shorter = room.like(np.zeros((2, 2)), "a")
    assert shorter.shape == (2, 2)
    assert np.shares_memory(first, shorter)
    for other in (np.zeros((3, 4)), np.zeros((5, 2)), np.zeros((3, 2), np.float32)):
        fresh = room.like(other, "a")
        assert (fresh.shape, fresh.dtype) == (other.shape, other.dtype)
    assert not np.shares_memory(room.like(first, "a"), room.like(first, "b"))
