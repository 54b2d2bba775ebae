"""What would help, in numbers of episodes."""

import pytest

from ope_vpm.ope.inference.verdict import Evidence, advise, judge


@pytest.mark.parametrize(
    ("evidence", "episodes", "more"),
    [
        (Evidence(), 4, 6),  # ten are enough
        (Evidence(rare_reward_episodes=4.0), 50, 75),  # 50·(10/4 - 1)
        (Evidence(effective_episodes=8.0), 50, 13),  # 50·(10/8 - 1), rounded up
    ],
)
def test_the_number_of_episodes_that_would_help(evidence, episodes, more):
    assert any(f"{more} more" in advice for advice in advise(evidence, episodes, ()))


def test_no_number_helps_where_nothing_counts():
    assert any("many more" in advice for advice in advise(Evidence(effective_episodes=0.0), 50, ()))


def test_leaving_the_logged_states_is_judged():
    levels = [judge(Evidence(departure=share), 50, ())[0] for share in (0.05, 0.2, 0.5)]
    assert levels == ["reliable", "caution", "unreliable"]
    assert "leaves the logged states" in judge(Evidence(departure=0.5), 50, ())[1][0]
