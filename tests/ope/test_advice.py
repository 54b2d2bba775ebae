"""What would help, in numbers of episodes."""

import pytest

from ope_vpm.ope.inference.doubts import DEPARTURE, EFFECTIVE_EPISODES, EPISODES, RARE_REWARDS, advise, judge


@pytest.mark.parametrize(
    ("doubts", "more"),
    [
        (EPISODES.of(4, 4), 6),  # ten are enough
        (RARE_REWARDS.of(4.0, 50), 75),  # 50·(10/4 - 1)
        (EFFECTIVE_EPISODES.of(8.0, 50), 13),  # 50·(10/8 - 1), rounded up
    ],
)
def test_the_number_of_episodes_that_would_help(doubts, more):
    assert any(f"{more} more" in advice for advice in advise(doubts))


def test_no_number_helps_where_nothing_counts():
    assert any("many more" in advice for advice in advise(EFFECTIVE_EPISODES.of(0.0, 50)))


def test_leaving_the_logged_states_is_judged():
    levels = [judge(DEPARTURE.of(share))[0] for share in (0.05, 0.2, 0.5)]
    assert levels == ["reliable", "caution", "unreliable"]
    assert "leaves the logged states" in judge(DEPARTURE.of(0.5))[1][0]
