"""No answer changes unnoticed. `make pins` prints what moved; `python -m tests.pins --write` takes the new answers."""

import pytest

from tests.pins.answers import compute, differences, read
from tests.pins.cases import cases


@pytest.mark.parametrize("case", cases())
def test_answers_are_as_pinned(case):
    moved = list(differences(case, read()[case], compute(case)))
    assert not moved, "\n".join(moved)


def test_at_least_five_hundred():
    assert sum(map(len, read().values())) >= 500


def test_most_are_answers():
    refused = [answer for found in read().values() for answer in found.values() if "refused" in answer]
    assert len(refused) < 150, refused
