"""Rows that are not in the order of time, in logs without next states."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm import LoggedDataset, inspect
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian


def without_next(data, order=None):
    """The same rows, or others in their place, and no next states."""
    rows = np.arange(len(data)) if order is None else order
    return LoggedDataset.from_arrays(
        data.observations[rows],
        data.actions[rows],
        data.rewards[rows],
        terminated=data.terminated,
        truncated=data.truncated,
        episode=data.episode,
    )


def shuffled(data, seed):
    rng = np.random.default_rng(seed)
    return without_next(data, np.lexsort((rng.random(len(data)), data.episode)))


def found(data):
    return any(finding.code == "rows-shuffled" for finding in inspect(data).findings)


def test_a_shuffled_log_is_never_reliable():
    """In order 20 of 20 are reliable; shuffled, the value is that of another process."""
    seeds = range(10)
    logs = [LinearGaussian().dataset(100, 50, BEHAVIOUR, seed) for seed in seeds]
    assert not any(found(without_next(log)) for log in logs)
    mixed = [shuffled(log, seed) for seed, log in zip(seeds, logs, strict=True)]
    assert all(found(log) for log in mixed)
    value = ov.evaluate(mixed[0], TARGET.policy(), "vpm")
    assert value.verdict != "reliable"
    assert any("the rows look shuffled" in reason for reason in value.reasons)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_environments(env, rollout):
    data = rollout(env, 3000)
    assert not found(without_next(data))
    assert found(shuffled(data, 0))


def made(draw, episodes=50, length=50, seed=0):
    """A log whose episodes `draw(rng, length)` gives."""
    rng = np.random.default_rng(seed)
    states = np.concatenate([draw(rng, length) for _ in range(episodes)])
    rows = len(states)
    actions, rewards = rng.normal(size=(rows, 1)), rng.normal(size=rows)
    return LoggedDataset.from_arrays(states, actions, rewards, episode=np.repeat(np.arange(episodes), length))


def autoregressive(factor):
    def draw(rng, length):
        states = [rng.normal(size=2)]
        for _ in range(length - 1):
            states.append(factor * states[-1] + np.sqrt(1 - factor**2) * rng.normal(size=2))
        return np.array(states)

    return draw


def teleporting(rng, length):
    """Every second step, on average, to anywhere."""
    states = [rng.normal(size=2)]
    for _ in range(length - 1):
        states.append(3 * rng.normal(size=2) if rng.random() < 0.5 else states[-1] + 0.1 * rng.normal(size=2))
    return np.array(states)


def chaotic(rng, length):
    """The logistic map: neighbours are as far apart as any two states."""
    states = [rng.uniform(0.01, 0.99, 2)]
    for _ in range(length - 1):
        states.append(np.clip(4 * states[-1] * (1 - states[-1]), 1e-9, 1 - 1e-9))
    return np.array(states)


HONEST = {
    "independent": lambda rng, length: rng.normal(size=(length, 3)),
    "independent, heavy tails": lambda rng, length: rng.standard_cauchy(size=(length, 3)),
    "few values": lambda rng, length: rng.integers(0, 3, size=(length, 2)).astype(float),
    "constant": lambda rng, length: np.ones((length, 2)),
    "a goal of each episode": lambda rng, length: np.hstack(
        [np.tile(rng.normal(size=2), (length, 1)), rng.normal(size=(length, 2))]
    ),
    "two sides in turn": lambda rng, length: (np.arange(length) % 2 * 6.0)[:, None] + rng.normal(size=(length, 2)),
    "weak memory": autoregressive(0.1),
    "strong memory": autoregressive(0.95),
    "negative memory": autoregressive(-0.5),
    "teleporting": teleporting,
    "chaotic": chaotic,
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_logs(kind):
    assert sum(found(made(HONEST[kind], seed=seed)) for seed in range(10)) == 0


def test_noise_around_a_level_of_each_episode():
    """The hardest honest case, without any order: rare false alarms (3 % in 300 logs of this size)."""
    logs = [made(lambda rng, n: rng.normal(size=3) + rng.normal(size=(n, 3)), seed=seed) for seed in range(20)]
    assert sum(map(found, logs)) <= 4  # above that with probability 0.0002


def test_where_next_states_are_known_they_decide():
    """The exact comparison of next states with the rows that follow is enough there."""
    data = LinearGaussian().dataset(50, 50, BEHAVIOUR, seed=0)
    order = np.lexsort((np.random.default_rng(0).random(len(data)), data.episode))
    mixed = LoggedDataset.from_arrays(
        *(getattr(data, name)[order] for name in ("observations", "actions", "rewards", "next_observations")),
        truncated=data.truncated,
    )
    assert [finding.code for finding in inspect(mixed).findings] == ["broken-chain"]
