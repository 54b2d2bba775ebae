"""Episodes that a time limit ends, on finite states: by hand, by dense algebra, by derivatives, over many logs."""

from functools import cache

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.finite import episodes as clocked
from ope_vpm.ope.finite.episodes import Course, TimedSums, course_of, limited_steps, ongoing, total, unseen_weight
from ope_vpm.ope.finite.estimate import limited_estimate
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import exact_model

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")
LIMIT = 6
KERNEL = np.array(
    [
        [[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1]],
        [[0.2, 0.6, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]],
        [[0.0, 0.1, 0.8, 0.1], [0.4, 0.3, 0.2, 0.1]],
    ]
)
"""Of three states and two actions; the last column ends the episode."""
REWARD = np.array([[0.0, 1.0], [2.0, -1.0], [3.0, 0.5]])
TARGET = np.array([[0.8, 0.2], [0.7, 0.3], [0.9, 0.1]])


def log(seed, episodes=40, limit=LIMIT):
    """Both actions equally likely, from state 0 or 1."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(episodes):
        state = int(rng.integers(2))
        for time in range(limit):
            action = int(rng.integers(2))
            after = int(rng.choice(4, p=KERNEL[state, action]))
            ended = after == 3
            following = 0 if ended else after
            cut = not ended and time == limit - 1
            columns.append((state, action, REWARD[state, action] + rng.normal(), following, ended, cut))
            if ended:
                break
            state = after
    observations, actions, rewards, following, terminated, truncated = map(np.array, zip(*columns, strict=True))
    return ov.LoggedDataset.from_arrays(
        observations, actions, rewards, following, terminated=terminated, truncated=truncated
    )


def asked(data, target=TARGET, estimator="vpm", **choices):
    return ov.evaluate(data, target, estimator, time_limit="restart", ignore=QUIET, **choices)


def followed(kernel, reward, target, initial, gamma=1.0, limit=LIMIT):
    """(Σ γ^t r_t, Σ γ^t) of an episode, by dense powers."""
    step, pays = np.einsum("sa,sat->st", target, kernel), (target * reward).sum(axis=1)
    at, paid, lasts = initial, 0.0, 0.0
    for time in range(limit):
        paid, lasts = paid + gamma**time * at @ pays, lasts + gamma**time * at.sum()
        at = at @ step
    return paid, lasts


def counted(data):
    """The kernel, the mean rewards and the initial distribution, counted with loops."""
    kernel, reward, times = np.zeros((3, 2, 3)), np.zeros((3, 2)), np.zeros((3, 2))
    for state, action, pay, after, ended in zip(
        data.observations, data.actions, data.rewards, data.next_observations, data.terminated, strict=True
    ):
        times[state, action] += 1
        reward[state, action] += pay
        kernel[state, action, after] += not ended
    first = np.bincount(data.observations[data.starts], minlength=3)
    return kernel / times[..., None], reward / times, first / first.sum()


def one_state(limit=3):
    """Action 0 pays 1 and ends, action 1 pays 2 and goes on, three steps at most: 16 episodes, each half as usual."""
    stops = [1, 1, 2, 2, 3, 3, None, None] * 2
    ends = np.concatenate([[False] * ((stop or limit + 1) - 1) + [True] * (stop is not None) for stop in stops])
    ends = np.asarray(ends, dtype=bool)
    cut = np.zeros(len(ends), dtype=bool)
    lengths = np.array([stop or limit for stop in stops])
    cut[np.cumsum(lengths) - 1] = ~ends[np.cumsum(lengths) - 1]
    zeros = np.zeros(len(ends), dtype=int)
    return ov.LoggedDataset.from_arrays(
        zeros, (~ends).astype(int), np.where(ends, 1.0, 2.0), zeros, terminated=ends, truncated=cut
    )


@pytest.mark.parametrize("name", ["vpm", "auto", "model", "fqe", "dualdice"])
def test_by_hand(name):
    """Stopping with probability ¼, a step pays ¼ + ¾·2 = 1.75, and 1 + ¾ + 9/16 = 37/16 of them are made."""
    found = asked(one_state(), [[0.25, 0.75]], name)
    assert found.value == pytest.approx(1.75)
    assert found.as_return() == pytest.approx(1.75 * 37 / 16)


def test_by_hand_with_a_discount():
    """At γ = ½ an episode has 1 + 3/8 + 9/64 = 97/64 discounted steps; without a restart nothing follows them."""
    assert asked(one_state(), [[0.25, 0.75]], gamma=0.5, on_end="restart").value == pytest.approx(1.75)
    assert asked(one_state(), [[0.25, 0.75]], gamma=0.5).value == pytest.approx(0.5 * 1.75 * 97 / 64)


@pytest.mark.parametrize(("gamma", "on_end"), [(1.0, "restart"), (0.9, "restart"), (0.9, "absorb")])
def test_the_counted_model_is_followed_for_as_many_steps(gamma, on_end):
    data = log(0)
    paid, lasts = followed(*counted(data)[:2], TARGET, counted(data)[2], gamma)
    found = asked(data, gamma=gamma, on_end=on_end)
    assert found.value == pytest.approx(paid / lasts if on_end == "restart" else (1 - gamma) * paid)
    if gamma == 1:
        assert found.as_return() == pytest.approx(paid)
        assert found.diagnostics["episode_length"] == pytest.approx(lasts)


@pytest.mark.parametrize(("gamma", "on_end"), [(1.0, "restart"), (0.9, "restart"), (0.9, "absorb")])
def test_the_influence_is_the_derivative_by_an_episodes_weight(gamma, on_end):
    """A log many times over, and one episode once more: the value moves by that episode's influence."""
    data, copies = log(1, episodes=12), 200
    many = np.tile(np.arange(12), copies)
    problem = Problem.pose(chosen(data, many), TARGET, gamma=gamma, on_end=on_end, time_limit="restart", ignore=QUIET)
    sums = ov.estimators()["vpm"]().find(problem)
    for episode in (0, 5, 11):
        more = asked(chosen(data, [*many, episode]), gamma=gamma, on_end=on_end)
        assert more.value - sums.value == pytest.approx(sums.sums.influence[episode], rel=0.02, abs=1e-8)
        if gamma == 1:
            of_return = sums.per_episode
            moved = more.as_return() - of_return.value
            assert moved == pytest.approx(of_return.sums.influence[episode], rel=0.02, abs=1e-8)


def chosen(data, episodes):
    """Some episodes of a log, as often as they are named."""
    rows = np.concatenate([np.flatnonzero(data.episode == each) for each in episodes])
    number = np.repeat(np.arange(len(episodes)), data.lengths[np.asarray(episodes)])
    return ov.LoggedDataset.from_arrays(
        data.observations[rows],
        data.actions[rows],
        data.rewards[rows],
        data.next_observations[rows],
        terminated=data.terminated[rows],
        truncated=data.truncated[rows],
        episode=number,
    )


@cache
def many_logs():
    return [asked(log(seed)) for seed in range(40)]


def test_errors_have_mean_zero_and_the_size_that_is_given():
    """40 logs: with 95 % intervals, fewer than 33 covered has a probability below 0.001."""
    paid, lasts = followed(KERNEL[..., :3], REWARD, TARGET, np.array([0.5, 0.5, 0.0]))
    for truth, values, errors, intervals in (
        (paid / lasts, *zip(*((each.value, each.standard_error, each.interval) for each in many_logs()), strict=True)),
        (
            paid,
            *zip(
                *((each.as_return(), each.episode_return.standard_error, each.return_interval) for each in many_logs()),
                strict=True,
            ),
        ),
    ):
        spread = np.std(values, ddof=1)
        assert np.mean(values) == pytest.approx(truth, abs=4 * spread / np.sqrt(40))
        assert np.mean(errors) == pytest.approx(spread, rel=0.25)
        assert sum(low <= truth <= high for low, high in intervals) >= 33


def test_the_limit_taken_for_an_end_anywhere_is_biased():
    """Which is what other treatments do, and say: an end by time comes late, when the target is elsewhere."""
    paid, _ = followed(KERNEL[..., :3], REWARD, TARGET, np.array([0.5, 0.5, 0.0]))
    data = log(0, episodes=8000)
    plain, found = asked(data, unseen="pooled"), asked(data)
    assert abs(plain.as_return() - paid) > 3 * plain.episode_return.standard_error
    assert abs(found.as_return() - paid) < 3 * found.episode_return.standard_error
    assert any("states do not hold the time" in reason for reason in plain.reasons)
    assert not any("states do not hold the time" in reason for reason in found.reasons)


def partly_unseen(seed=0):
    """A log in which action 1 was never taken in state 2."""
    data = log(seed, episodes=80)
    first = [np.flatnonzero(data.episode == each) for each in range(data.n_episodes)]
    kept = [each for each, rows in enumerate(first) if not _holds(data, rows)]
    return chosen(data, kept)


def _holds(data, rows):
    return bool(((data.observations[rows] == 2) & (data.actions[rows] == 1)).any())


def test_other_units_and_another_level_of_rewards():
    data = partly_unseen()
    other = ov.LoggedDataset.from_arrays(
        data.observations,
        data.actions,
        3 * data.rewards + 1,
        data.next_observations,
        terminated=data.terminated,
        truncated=data.truncated,
    )
    found, scaled = asked(data), asked(other)
    length = found.diagnostics["episode_length"]
    assert found.diagnostics["unseen_mass"] > 0.01
    assert scaled.value == pytest.approx(3 * found.value + 1)
    assert scaled.as_return() == pytest.approx(3 * found.as_return() + length)
    assert scaled.standard_error == pytest.approx(3 * found.standard_error, rel=1e-6)


def test_unseen_pairs_widen_values_and_returns():
    finite = finite_problem(ongoing(posed(partly_unseen())))
    course, fit = course_of(finite, LIMIT)
    of_return = total(finite, course, fit, course.values(finite.counts.reward[:, None])[..., 0])
    unseen = float(course.visits @ finite.unseen)
    assert unseen == pytest.approx(course.visits[2] * 0.1)  # the target's probability of the action never seen there
    assert of_return.error > 0
    assert of_return.reach[0] < 0 < of_return.reach[1]
    share = unseen_weight(course, finite)
    np.testing.assert_allclose(share, course.states[:, 2] * 0.1)


def posed(data, target=TARGET, **choices):
    return Problem.pose(data, target, time_limit="restart", ignore=QUIET, **choices)


def test_where_it_is_followed(monkeypatch):
    data = log(0)
    assert limited_steps(posed(data)) == LIMIT
    assert limited_steps(Problem.pose(data, TARGET, ignore=QUIET)) is None
    ended = chosen(data, np.flatnonzero(data.terminated[data.ends]))
    assert limited_steps(posed(ended)) is None
    transitions = finite_problem(ongoing(posed(data))).counts.transitions
    monkeypatch.setattr(clocked, "MOST_PRODUCTS", LIMIT * (transitions.nnz + 3))
    assert limited_steps(posed(data)) == LIMIT
    monkeypatch.setattr(clocked, "MOST_PRODUCTS", LIMIT * (transitions.nnz + 3) - 1)
    assert limited_steps(posed(data)) is None


def test_episodes_that_are_over_are_not_followed():
    """Two steps that always end leave nobody for the third."""
    states, ends = np.tile([0, 1], 6), np.tile([False, True], 6)
    cut = np.zeros(12, dtype=bool)
    data = ov.LoggedDataset.from_arrays(
        states, np.zeros(12, dtype=int), np.ones(12), np.tile([1, 0], 6), terminated=ends, truncated=cut
    )
    finite = finite_problem(ongoing(posed(data, [[1.0], [1.0]])))
    course = Course.follow(finite, exact_model(finite), 50)
    assert course.length == pytest.approx(2)
    assert len(course.states) == 2


def test_ends_that_the_weighted_log_is_worth_by_hand():
    """Kish: (Σw)²/Σw² of ends with the weights 1, 1 and 2; none where there is no end."""
    assert TimedSums(0, np.zeros((1, 2)), np.array([4.0, 6.0])).ends_worth == pytest.approx(16 / 6)
    assert TimedSums(0, np.zeros((1, 2)), np.zeros(2)).ends_worth == 0


def test_a_return_within_a_limit_reaches_as_far_as_the_value_times_the_length():
    """Episodes of four coins, cut by the task; one in ten coins pays: the value's exact limits, times four."""
    rng = np.random.default_rng(0)
    states = np.zeros(160, dtype=int)
    rewards, last = (rng.random(160) < 0.1).astype(float), np.arange(160) % 4 == 3
    data = ov.LoggedDataset.from_arrays(states, rng.integers(0, 2, 160), rewards, states, truncated=last)
    problem = Problem.pose(data, [[0.5, 0.5]], time_limit="restart", ignore=QUIET)
    found = limited_estimate(problem, 4)
    low, high = found.uncertainty.limits
    begin, end = found.per_episode.uncertainty.limits
    assert (begin, end) == (pytest.approx(4 * low), pytest.approx(4 * high))
