"""Coverage of what is said beside a value, where the truth is known: `python -m benchmarks questions --ask compare`.

`--ask compare` prints how often the interval of a difference holds it, how wide it is beside that of two intervals
taken as independent, and S beside the root of the sum of squares of theirs; `--ask gate` how often a policy that is no
better is called better in a stream that is looked at after every ten episodes; `--ask distribution` how often bands and
intervals hold; `--ask pictures` draws those of the docs. Seeds 0 to 99 are reported, others chose.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ope_vpm as ov
from benchmarks._generated import generated, worth
from ope_vpm.arrays import Floats
from ope_vpm.envs import taxi
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.uncertainty import LEVEL
from ope_vpm.ope.questions.distribution import Sample


@dataclass(frozen=True)
class Asked:
    """A log and policies with known values on it."""

    kind: str
    data: LoggedDataset
    policies: tuple[Any, ...]
    truths: tuple[float, ...]
    """The value of each policy, and last of the one that logged the data."""
    gamma: float
    error: float = 0.0
    """The standard error of a difference of true values, where these are simulated."""


def linear(seed: int, episodes: int = 40) -> Asked:
    """Two controllers near the behaviour's, on the linear system with Gaussian noise."""
    rng, task = np.random.default_rng(seed), LinearGaussian()
    drawn = [rng.normal((0.0, 0.0, 0.1), (0.1, 0.1, 0.15)) for _ in range(2)]
    controllers = [GaussianController((x, y), z, deviation=0.4) for x, y, z in drawn]
    truths = tuple(task.average_reward(each) for each in (*controllers, BEHAVIOUR))
    return Asked(
        "linear", task.dataset(episodes, 30, BEHAVIOUR, seed), tuple(c.policy() for c in controllers), truths, 1.0
    )


def finite(seed: int, episodes: int = 40) -> Asked:
    """Two softmax policies on a random process with 12 states and 3 actions, logged by a third one."""
    task, gamma = RandomMDP.draw(12, 3, seed), (1.0, 0.9)[seed % 2]
    behaviour, *targets = (task.policy(1000 * seed + k, spread) for k, spread in enumerate((0.5, 1.0, 1.0)))
    truths = tuple(task.value(each, gamma) for each in (*targets, behaviour))
    return Asked("finite", task.dataset(episodes, 30, behaviour, seed), tuple(targets), truths, gamma)


def small_taxi(seed: int, episodes: int = 50) -> Asked:
    """Two checkpoints of Liu's Taxi, logged by a mixture with a third one."""
    first, second, behaviour = (taxi.shipped(n) for n in (1000, 550, 300))
    log = taxi.mixed(first, behaviour, 0.3)
    return Asked(
        "taxi", taxi.simulate(log, episodes, 200, seed), (first, second), tuple(map(_taxi, (1000, 550, 0))), 1.0
    )


@cache
def _taxi(iteration: int) -> float:
    if iteration == 0:
        return taxi.exact_value(taxi.mixed(taxi.shipped(1000), taxi.shipped(300), 0.3))
    return taxi.exact_value(taxi.shipped(iteration))


def drawn(seed: int) -> Asked:
    """A generated task at γ < 1: its target, and the policy that logged the first episodes and sees what is logged."""
    tasks = (generated(50_000 + 100 * seed + k) for k in range(100))
    task = next(each for each in tasks if each.gamma < 1 and not each.behaviours[0].informed)
    shares, policies = len(task.behaviours), (task.target, *task.behaviours)
    found = [worth(task, each, WALKS, np.random.default_rng([task.seed, 9])) for each in policies]
    sizes = np.diff([k * task.episodes // shares for k in range(shares + 1)])
    logged = float(sizes @ [each.value for each in found[1:]] / task.episodes)
    truths = (found[0].value, found[1].value, logged)
    two = task.target.policy(), task.behaviours[0].policy()
    return Asked("generated", task.log(), two, truths, task.gamma, float(np.hypot(found[0].error, found[1].error)))


WALKS = 4000
"""Simulated episodes of each policy of a generated task."""
TASKS: dict[str, Callable[..., Asked]] = {"linear": linear, "finite": finite, "taxi": small_taxi, "generated": drawn}


def differences(asked: Asked) -> Iterator[dict[str, Any]]:
    """New against old, and new against the log."""
    for name, old, place in (("other policy", asked.policies[1], 1), ("the log", "logged", -1)):
        found = ov.compare(asked.data, asked.policies[0], old, gamma=asked.gamma)
        truth = asked.truths[0] - asked.truths[place]
        assert found.interval is not None
        low, high = found.interval
        both = [(each.lead.value, *(each.lead.interval or (np.nan, np.nan))) for each in (found.new, found.old)]
        (new, least, most), (other, lowest, highest) = both
        apart = np.hypot(new - least, highest - other) + np.hypot(most - new, other - lowest)
        errors = np.hypot(found.new.lead.standard_error or np.nan, found.old.lead.standard_error or np.nan)
        yield {
            "kind": f"{asked.kind}, {name}",
            "held": low - 1.96 * asked.error <= truth <= high + 1.96 * asked.error,
            "width": (high - low) / apart,
            "error": (found.standard_error or np.nan) / errors,
            "wrong": found.gate().decision not in ("not decided", "better" if truth > 0 else "worse"),
            "decided": found.gate().decision != "not decided",
            "verdict": found.verdict,
        }


def bands(kind: str, seed: int) -> dict[str, Any]:
    """Whether the band holds the CDF of simulated returns, intervals their numbers, and one more episode its own."""
    gamma, longest = 0.9, 120
    if kind == "linear":
        task = LinearGaussian()
        target = GaussianController((0.08, -0.08), 0.05, 0.57)
        data, policy = task.dataset(200, 40, BEHAVIOUR, seed), target.policy()
        simulated = task.dataset(3000, longest, target, 10_000 + seed)
    else:
        process = RandomMDP.draw(12, 3, seed)
        policy = process.policy(1000 * seed + 1)
        data = process.dataset(60, 40, process.policy(1000 * seed, 0.5), seed)
        simulated = process.dataset(3000, longest, policy, 10_000 + seed)
    discounts = gamma ** np.arange(longest)
    truth = Sample.of(simulated.rewards.reshape(3000, longest) @ discounts)
    found = ov.evaluate(data, policy, gamma=gamma).distribution()
    at = np.unique(np.concatenate([truth.returns, found.sample.returns]))
    low, high = found.band(at)
    noise = 1.36 / np.sqrt(3000)  # of the simulated CDF itself, at 95 %
    first, last = found.next_episode()
    row: dict[str, Any] = {"kind": f"{kind}, {found.source}", "verdict": found.verdict, "half_width": found.half_width}
    row["band"] = bool(np.all((truth.cdf(at) >= low - noise) & (truth.cdf(at) <= high + noise)))
    for name, statistic in NUMBERS.items():
        start, end = found.interval(statistic)
        row[name] = start <= statistic(truth) <= end
    row["next_episode"] = float(truth.cdf(last)) - truth.probability_below(first)
    return row


NUMBERS: dict[str, Callable[[Sample], float]] = {
    "cvar_10": lambda sample: sample.cvar(0.1),
    "median": lambda sample: sample.quantile(0.5),
    "quantile_10": lambda sample: sample.quantile(0.1),
    "variance": lambda sample: sample.variance,
}


def stream(seed: int, look: int = 10, longest: int = 200) -> dict[str, Any]:
    """Whether a policy that is worth as much as the log's is ever called better, looking after every ten episodes."""
    rng = np.random.default_rng(seed)
    task = RandomMDP.draw(4, 2, seed)
    behaviour, target = task.policy(seed, 0.5), task.policy(seed + 1, 0.7)
    even = _even(task, behaviour, target)
    data = even.dataset(longest, 10, behaviour, int(rng.integers(2**31)))
    called = {"anytime": False, "single": False}
    for episodes in range(look, longest + 1, look):
        found = ov.compare(data.select(slice(0, episodes)), target, "logged", "vpm")
        called["anytime"] |= found.gate(anytime=True).decision == "better"
        called["single"] |= found.gate().decision == "better"
    return {"kind": "equal policies", **called}


def _even(task: RandomMDP, behaviour: Floats, target: Floats) -> RandomMDP:
    """This process with rewards by which both policies are worth the same.

    It begins where the behaviour spends its time, so that the mean of a log is the behaviour's long-run average.
    """
    kernel = np.einsum("sa,sat->st", behaviour, task.transition)
    start = np.linalg.matrix_power(kernel, 1000)[0]
    apart = target - behaviour
    gap = task.value(target, 1.0) - task.value(behaviour, 1.0)
    bonus = RandomMDP(task.transition, apart, task.initial, task.noise)
    slope = bonus.value(target, 1.0) - bonus.value(behaviour, 1.0)
    return RandomMDP(task.transition, task.reward - gap / slope * apart, start, task.noise)


def pictures(folder: Path) -> None:
    """The three pictures of docs/questions.md, on the log of its first block."""
    page = (folder.parent / "questions.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        exec(re.search(r"<!-- setup\n(.*?)-->", page, re.DOTALL)[1], names)  # type: ignore[index]
    value = ov.evaluate(names["data"], names["careful"])
    drawn = {
        "compare": ov.compare(names["data"], names["careful"]).plot(),
        "distribution": value.distribution().plot(),
        "sensitivity": value.sensitivity().plot(),
    }
    for name, axes in drawn.items():
        axes.figure.savefig(folder / f"questions-{name}.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ask", choices=("compare", "gate", "distribution", "pictures"), default="compare")
    parser.add_argument("--kinds", nargs="*", default=list(TASKS))
    parser.add_argument("--first", type=int, default=0, help="The first seed.")
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if given.ask == "pictures":
        pictures(Path(__file__).parents[1] / "docs" / "results")
    elif given.ask == "compare":
        rows = []
        for kind, seed in itertools.product(given.kinds, seeds):
            with contextlib.suppress(ValueError):  # a generated log that the doctor refuses is no answer
                rows += differences(TASKS[kind](seed))
        report(rows)
    elif given.ask == "gate":
        report([stream(seed) for seed in seeds])
    else:
        report([bands(kind, seed) for kind in given.kinds if kind in ("linear", "finite") for seed in seeds])


def report(rows: list[dict[str, Any]]) -> None:
    """A line per kind: how many, and the mean of every number."""
    for kind in dict.fromkeys(row["kind"] for row in rows):
        some = [row for row in rows if row["kind"] == kind]
        numbers = [name for name in some[0] if name not in ("kind", "verdict")]
        means = ", ".join(f"{name} {np.mean([row[name] for row in some]):.3f}" for name in numbers)
        verdicts = {v: sum(row.get("verdict") == v for row in some) for v in ("reliable", "caution", "unreliable")}
        print(f"{kind}: {len(some)} at {LEVEL:.0%}; {means}; {verdicts}", flush=True)


if __name__ == "__main__":
    main()
