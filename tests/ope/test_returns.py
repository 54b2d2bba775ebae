"""The undiscounted return of an episode at γ = 1: by hand, in closed form, and its intervals over many logs."""

import json
from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import RETURN_SAYS
from ope_vpm.ope.inference.estimate import return_range
from ope_vpm.ope.inference.returns import NO_LIMIT, share_limits
from ope_vpm.policy import CategoricalPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def gamble(episodes, seed=0, stop=0.5, last=1.0, other=2.0, **flags):
    """One state: action 0 pays `last` and ends, action 1 pays `other` and goes on."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(stop, size=episodes)
    ends = np.zeros(lengths.sum(), dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    zeros = np.zeros(len(ends), dtype=int)
    rewards = np.where(ends, last, other)
    return ov.LoggedDataset.from_arrays(zeros, (~ends).astype(int), rewards, zeros, **(flags or {"terminated": ends}))


def asked(data, policy, estimator="vpm", **choices):
    return ov.evaluate(data, policy, estimator, ignore=QUIET, **choices)


QUARTER = [[0.25, 0.75]]
"""Stops with probability ¼: three steps before the last one on average."""


@pytest.mark.parametrize("name", ["vpm", "auto", "model", "fqe", "dr", "mwl", "mql", "dualdice"])
def test_counted_estimators_are_exact_where_every_pair_was_seen(name):
    """Return 1 + 3·2 = 7 over 4 steps."""
    found = asked(gamble(40), QUARTER, name)
    assert found.value == pytest.approx(7 / 4)
    assert found.as_return() == pytest.approx(7)
    assert found.return_interval[0] <= 7 + 1e-9
    assert found.return_interval[1] >= 7 - 1e-9


def test_one_more_reward_per_step_adds_the_mean_length():
    data = gamble(40)
    richer = replace(data, rewards=3 * data.rewards + 1)
    assert asked(richer, QUARTER).as_return() == pytest.approx(3 * 7 + 4)


def test_power_steps_have_the_same_return():
    assert asked(gamble(40), QUARTER, preset="paper").as_return() == pytest.approx(7, rel=1e-4)


def test_where_every_step_pays_the_same_the_verdict_is_about_the_return():
    """A pole that falls after four steps on average: each step pays 1."""
    found = asked(gamble(40, last=1.0, other=1.0), QUARTER)
    assert found.value == 1
    assert found.as_return() == pytest.approx(4)
    assert found.reasons[0] == RETURN_SAYS
    assert found.verdict == found.return_verdict == found.episode_return.verdict
    assert asked(gamble(40, last=1.0, other=1.0), QUARTER, "naive").verdict == "caution"


def bandit(rewards, actions, lengths, ended=None):
    last = np.zeros(len(rewards), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    terminated = last.copy()
    if ended is not None:
        terminated[np.cumsum(lengths) - 1] = ended
    zeros = np.zeros(len(rewards), dtype=int)
    flags = {"terminated": terminated, "truncated": last & ~terminated}
    return ov.LoggedDataset.from_arrays(zeros, actions, rewards, zeros, **flags)


# Ratios π/b: 0.5 for action 0, 1.5 for action 1; episodes that pay 1 + 2 and 4.
TWO = bandit([1.0, 2.0, 4.0], [0, 1, 1], [2, 1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("naive", 7 / 2),
        ("onestep", (0.5 * 1 + 1.5 * 2 + 1.5 * 4) / (1.5 + 1.5)),
        ("wist", (0.75 * 3 + 1.5 * 4) / (0.75 + 1.5)),
        ("wiss", (0.5 * 1 + 1.5 * 4) / 2 + 0.75 * 2 / 2.25),
    ],
)
def test_weighted_returns_by_hand(name, expected):
    settings = {} if name == "naive" else {"behaviour": ov.as_policy([[0.5, 0.5]])}
    assert asked(TWO, QUARTER, name, **settings).as_return() == pytest.approx(expected)


def test_wiss_divides_by_its_ends_where_some_episodes_were_cut():
    """t = 0: rewards 3.25 and ends 1.5/2; at t = 1 the first episode has 0.75 of 2.25, pays 2 and does not end."""
    found = asked(
        bandit([1.0, 2.0, 4.0], [0, 1, 1], [2, 1], ended=[False, True]),
        QUARTER,
        "wiss",
        behaviour=ov.as_policy([[0.5, 0.5]]),
    )
    assert found.as_return() == pytest.approx((3.25 + 2 / 3) / 0.75)


def test_the_error_of_the_mean_return_is_that_of_a_mean():
    """Episodes that all end: the standard error of the mean of their sums of rewards."""
    data = gamble(200, seed=1)
    sums = np.add.reduceat(data.rewards, data.starts)
    found = asked(data, QUARTER, "naive")
    assert found.as_return() == pytest.approx(sums.mean())
    assert found.episode_return.standard_error == pytest.approx(sums.std(ddof=1) / np.sqrt(200), rel=0.15)


@pytest.mark.parametrize(("ends", "few"), [(25, False), (8, True), (3, True), (2, True)])
def test_an_uncertain_rate_of_ends(ends, few):
    """As many ends in a hundred episodes as long: the relative error of their number k is √((1 - k/100)/k).

    A rate with the relative error ε is known as if 1/ε² = k/(1 - k/100) ends had been counted: 3
    are worth 3.1, just enough for caution, and 2 are too few.
    """
    ended = np.arange(100) < ends
    data = bandit(np.arange(400) % 5 / 4, np.tile([1, 1, 0, 1], 100), [4] * 100, ended)
    found = asked(data, [[0.25, 0.75]], "naive").episode_return
    said = f"how often the target reaches an end is known from few of them, worth {ends / (1 - ends / 100):.1f}"
    assert (said in found.reasons) == few
    assert any("few of them" in reason for reason in found.reasons) == few
    assert found.verdict == ("unreliable" if ends == 2 else "caution")  # naive knows nothing of the target


def test_a_return_from_hardly_any_ends_says_what_its_interval_takes_for_known():
    """Steps that pay 1 or 2 and end with probability 1/1000: a return of 1500, of which 40 logs hold 2 ends on average.

    Whatever is not called unreliable has to hold it; what is has a finite interval, and says under which condition.
    """
    seen, missed = {"unreliable": 0, "caution": 0}, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ended, action = rng.random(100) < 1 - 0.999**20, rng.integers(2, size=2000)
        data = bandit(1.0 + action, action, [20] * 100, ended)
        found = asked(data, [[0.5, 0.5]], "naive").episode_return
        if found is None:  # no end at all
            continue
        seen[found.verdict] += 1
        assert np.isfinite(found.interval).all()
        assert (found.verdict == "unreliable") == (NO_LIMIT in found.reasons)
        missed += found.verdict != "unreliable" and not found.interval[0] <= 1500 <= found.interval[1]
    assert seen["unreliable"] > 20
    assert missed <= 0.05 * 40


# -- What has no return


def test_where_nothing_ends_there_is_no_return():
    endless = bandit([1.0, 2.0, 4.0], [0, 1, 1], [2, 1], ended=[False, False])
    found = asked(endless, QUARTER, "naive")
    assert found.return_interval is None
    assert found.return_verdict is None
    with pytest.raises(ValueError, match=r"no logged episode ends: use gamma < 1, or time_limit='restart'"):
        found.as_return()
    assert asked(endless, QUARTER, "naive", time_limit="restart").as_return() == pytest.approx(7 / 2)


@pytest.mark.parametrize("name", ["vpm", "model", "onestep"])
def test_a_target_that_never_stops_has_no_return(name):
    with pytest.raises(ValueError, match="the target reaches no end: use gamma < 1"):
        asked(gamble(40), [[0.0, 1.0]], name).as_return()


def test_below_gamma_one_value_and_interval_are_divided():
    found = asked(gamble(40), QUARTER, gamma=0.9)
    assert found.as_return() == pytest.approx(10 * found.value)
    assert found.return_interval == pytest.approx(tuple(10 * end for end in found.interval))


# -- What rewards allow


def test_a_probability_of_survival_stays_one():
    """Only ends pay, 0 or 1: no return and no interval lies beyond."""
    data = gamble(12, last=1.0, other=0.0)
    problem = Problem.pose(data, QUARTER, ignore=QUIET)
    allowed = return_range(problem)
    assert (allowed.low, allowed.high) == (0, 1)
    found = asked(data, QUARTER)
    assert found.as_return() == pytest.approx(1)
    assert found.return_interval[1] <= 1


def test_a_time_limit_bounds_returns():
    """Rewards of -1 and 2, five steps at most; without the limit nothing bounds the sum."""
    data = bandit([2.0] * 5 + [-1.0], [1] * 6, [5, 1], ended=[False, True])
    limited = return_range(Problem.pose(data, QUARTER, ignore=QUIET, time_limit="restart"))
    assert (limited.low, limited.high) == (-5, 10)
    free = return_range(Problem.pose(data, QUARTER, ignore=QUIET))
    assert (free.low, free.high) == (-np.inf, np.inf)


# -- A random finite MDP that ends


class Maze:
    """Twelve states, three actions, an end from every state with a probability of its own."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.end = rng.uniform(0, 0.3, size=(12, 3))
        self.next = rng.dirichlet(np.full(12, 0.3), size=(12, 3))
        self.reward = rng.uniform(-1, 2, size=(12, 3))
        self.first = rng.dirichlet(np.ones(12))
        self.behaviour, self.target = (rng.dirichlet(np.ones(3), size=12) * 0.8 + 0.2 / 3 for _ in range(2))

    def truth(self, policy):
        """The expected return: d₀ᵀ(I - P_π)⁻¹r_π, where the rows of P_π sum to less than 1."""
        stays = np.einsum("sa,sa,sat->st", policy, 1 - self.end, self.next)
        return self.first @ np.linalg.solve(np.eye(12) - stays, (policy * self.reward).sum(axis=1))

    def log(self, episodes, policy, seed):
        rng = np.random.default_rng(seed)
        rows = []

        def drawn(probabilities):
            return min(int(np.searchsorted(np.cumsum(probabilities), rng.random())), len(probabilities) - 1)

        for _ in range(episodes):
            state, ended = drawn(self.first), False
            while not ended:
                action = drawn(policy[state])
                ended, following = rng.random() < self.end[state, action], drawn(self.next[state, action])
                rows.append((state, action, self.reward[state, action] + rng.standard_normal(), following, ended))
                state = following
        states, actions, rewards, following, ended = map(np.array, zip(*rows, strict=True))
        return ov.LoggedDataset.from_arrays(states, actions, rewards, following, terminated=ended)


def test_intervals_of_finite_returns_hold_the_truth():
    """100 logs; 95 of 100 are meant, and 87 is what a binomial draw of 93 in 100 falls below once in 40."""
    maze = Maze(0)
    truth = maze.truth(maze.target)
    found = [asked(maze.log(60, maze.behaviour, seed), maze.target, seed=seed) for seed in range(100)]
    errors = np.array([each.as_return() - truth for each in found])
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / 10
    held = sum(each.return_interval[0] <= truth <= each.return_interval[1] for each in found)
    assert held >= 87
    claimed = np.mean([each.episode_return.standard_error for each in found])
    assert claimed == pytest.approx(errors.std(ddof=1), rel=0.3)


def test_the_return_is_the_value_over_the_rate_of_ends():
    maze = Maze(1)
    data = maze.log(80, maze.behaviour, 0)
    rate = asked(replace(data, rewards=data.terminated.astype(float)), maze.target).value
    found = asked(data, maze.target)
    assert found.as_return() == pytest.approx(found.value / rate, rel=1e-9)


# -- Continuous states


STOP = np.array([0.1, 0.3])
"""The probability of an end after each action."""
PROBABILITIES = np.array([0.2, 0.8])
"""Of the target's actions. Its return is E[s² + a] / P(end) = 1.8 / 0.26."""


def fresh_states(episodes, seed):
    """Continuous states drawn anew at every step, actions at random, reward s² + a, ends by the action alone."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(episodes):
        ended = False
        while not ended:
            action = rng.integers(2)
            ended = rng.random() < STOP[action]
            rows.append((action, ended))
    actions, ends = map(np.array, zip(*rows, strict=True))
    states = rng.standard_normal((len(rows) + 1, 2))
    rewards = states[:-1, 0] ** 2 + actions
    following = rng.standard_normal(states[:-1].shape)
    inner = ~ends
    following[inner] = states[1:][inner]
    return ov.LoggedDataset.from_arrays(states[:-1], actions, rewards, following, terminated=ends)


TILTED = CategoricalPolicy(lambda states: np.tile(PROBABILITIES, (len(states), 1)), n_actions=2)


@pytest.mark.parametrize("name", ["vpm", "auto", "dr", "mwl", "dualdice", "mql", "fqe linear"])
def test_continuous_returns_are_within_their_errors(name):
    """Ten logs: their mean within four standard errors of the truth, most intervals hold it."""
    kind, _, solver = name.partition(" ")
    truth, settings = 1.8 / 0.26, {"n_features": 50} | ({"solver": solver} if solver else {})
    found = [ov.evaluate(fresh_states(100, seed), TILTED, kind, seed=seed, **settings) for seed in range(10)]
    errors = np.array([each.as_return() - truth for each in found])
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(10)
    assert sum(each.return_interval[0] <= truth <= each.return_interval[1] for each in found) >= 8


def test_a_given_ridge_gives_the_ratio_of_two_values():
    data = fresh_states(60, 0)
    ends = replace(data, rewards=data.terminated.astype(float))
    both = [ov.evaluate(each, TILTED, "vpm", ridge=1e-3, ignore=QUIET) for each in (data, ends)]
    assert both[0].as_return() == pytest.approx(both[0].value / both[1].value, rel=1e-6)


@pytest.mark.parametrize("name", ["vpm", "auto", "naive"])
def test_a_fixed_length_multiplies_the_value(name):
    data = LinearGaussian().dataset(20, 25, BEHAVIOUR, seed=0)
    found = ov.evaluate(data, TARGET.policy(), name, time_limit="restart")
    assert found.as_return() == pytest.approx(25 * found.value)
    assert found.return_interval == pytest.approx(tuple(25 * end for end in found.interval))


def test_networks_have_returns():
    """One log and few steps: within a third of the truth, which no mean reward per step is."""
    data, truth = fresh_states(60, 0), 1.8 / 0.26
    for name in ("fqe", "model"):
        settings = {"solver": "neural"} if name == "fqe" else {}
        found = ov.evaluate(data, TILTED, name, training_steps=150, members=2, **settings)
        assert found.as_return() == pytest.approx(truth, rel=1 / 3)
        assert found.return_interval[0] < found.as_return() < found.return_interval[1]


# -- How it is shown


def test_text_and_json_name_what_they_are():
    found = asked(gamble(40), QUARTER)
    first, *others = str(found).splitlines()
    assert first.startswith("vpm: return 7  [")
    assert "per episode at γ = 1" in first
    assert any(line.startswith("  1.75  [") and "per step" in line for line in others)
    held = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert held["per"] == "step"
    assert held["return"] == pytest.approx(7)
    assert held["return_interval"] == pytest.approx(list(found.return_interval))
    assert "return 17" in str(replace(found, gamma=0.9, value=1.7, episode_return=None))


def test_where_a_time_limit_alone_ends_equal_steps_the_return_is_not_known():
    """A hundred steps that pay -1 each, whatever is done: the log cannot know that another policy would stop sooner."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((30 * 20 + 1, 1))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.integers(2, size=600), np.full(600, -1.0), states[1:], truncated=np.arange(600) % 20 == 19
    )
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    value = ov.evaluate(data, policy, "vpm", gamma=1.0, time_limit="restart", ignore=("one-row-off",), n_features=20)
    assert value.as_return() == pytest.approx(-20)
    assert value.return_verdict == value.verdict == "unreliable"
    assert value.return_interval == (-20, -1)  # an episode has at least one step


def test_an_unreliable_return_without_a_limit_has_an_interval_with_two_ends():
    """Two of three episodes say nothing, and nothing limits how long a fourth goes on."""
    value = asked(gamble(2), QUARTER)
    assert value.return_verdict == "unreliable"
    low, high = value.return_interval
    assert low == 1
    assert value.as_return() < high < np.inf
    assert value.as_dict()["return_interval"] == [low, high]
    assert NO_LIMIT in value.episode_return.reasons


@pytest.mark.parametrize(
    ("events", "trials", "limits"), [(3, 10, (0.0667, 0.6525)), (0, 20, (0.0, 0.1684)), (20, 20, (0.8316, 1.0))]
)
def test_limits_of_a_share_are_clopper_and_pearsons(events, trials, limits):
    assert share_limits(events, trials) == pytest.approx(limits, abs=1e-4)


def test_a_survival_that_was_never_missed_is_not_certain():
    """Twenty ends by the target itself that all pay 1 and one that pays 0: the interval is that of 20 in 21."""
    rewards = np.append(np.ones(20), 0.0)
    zeros = np.zeros(21, dtype=int)
    data = ov.LoggedDataset.from_arrays(zeros, zeros, rewards, zeros, terminated=np.ones(21, dtype=bool))
    found = ov.evaluate(data, [[1.0]], "vpm", ignore=QUIET)
    low, high = found.return_interval
    assert found.as_return() == pytest.approx(20 / 21)
    assert low <= 0.7618 + 1e-3
    assert high >= 0.9988 - 1e-3


def test_ends_that_all_pay_the_same_say_nothing_of_others():
    zeros = np.zeros(20, dtype=int)
    data = ov.LoggedDataset.from_arrays(zeros, zeros, np.zeros(20), zeros, terminated=np.ones(20, dtype=bool))
    found = ov.evaluate(data, [[1.0]], "vpm", ignore=QUIET)
    assert found.return_verdict == "unreliable"
