"""What would help, in numbers of episodes."""

from ope_vpm.ope.inference.doubts import FEW, advise


def test_the_number_of_episodes_that_would_help():
    assert advise(FEW.of(4.0, 4)) == ("log 6 more episodes of this kind",)  # ten are enough
    assert advise(FEW.of(8.0, 50)) == ("log 13 more episodes of this kind",)  # 50·(10/8 - 1), rounded up


def test_no_number_helps_where_nothing_counts():
    assert any("many more" in advice for advice in advise(FEW.of(0.0, 50)))
