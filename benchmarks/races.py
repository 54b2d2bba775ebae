"""Does the race keep the best of many policies? `python -m benchmarks races --races 500 --seed 70000`.

Twenty linear policies on the log of each generated task with continuous states, half of them near the task's own
target and half anywhere. A race is lost where the best one by simulation was screened. Races are lines of a JSONL
file, and none is run again; `docs/results/races.json` has their sums.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks._generated import Task, generated, worth
from benchmarks._systems import Linear
from ope_vpm.ope.adapter.given import target_of
from ope_vpm.plugins.race import REACH, screened
from ope_vpm.plugins.valuation import Choices, Valuation

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "races.json"
POLICIES, NEAR = 20, 0.3
"""Policies of a race; how far from the target half of them are at most, as a share of the way to another policy."""
FEW, MANY = 400, 6000
"""Simulated episodes of each policy, and of those that may be the best by the first ones."""
SURE = 3.0
"""Standard errors within which the first simulation leaves open which policy is the best."""
ROWS = 10_000
"""Rows of a log at most, and ten times as many in one log of ten: on the smallest logs nobody is screened."""
GAMMA = 0.97
"""In place of 1, where returns of episodes and rewards per step are two questions."""


@dataclass(frozen=True)
class Race:
    """How a race ended: which policies stayed, and which one is best."""

    seed: int
    rows: int
    gamma: float
    stayed: int
    behind: float
    """By how many floors the best policy of all is better than the best that stayed; 0 where it stayed."""
    behind_error: float
    """The standard error of that, by simulation."""
    error: str = ""

    @property
    def lost(self) -> bool:
        """Whether the best policy was screened."""
        return self.behind > 0


def policies_of(task: Task, target: Linear) -> dict[str, Linear]:
    """Policies between the task's target and random ones."""
    rng = np.random.default_rng([task.seed, 5])
    size = float(np.sqrt(np.mean(target.gain**2)))
    found = {}
    for number in range(POLICIES):
        gain, shift = size * rng.standard_normal(target.gain.shape), 0.5 * rng.standard_normal(len(target.shift))
        share = rng.uniform(0, NEAR if number % 2 else 1)
        found[str(number)] = target.changed(share, replace(target, gain=gain, shift=shift), target.spread)
    return found


def raced(task: Task, target: Linear) -> Race:
    """Race the policies of a task, and simulate those that decide whether it was lost."""
    data, policies = task.log(), policies_of(task, target)
    choices = Choices(gamma=task.gamma, seed=task.seed, time_limit=task.time_limit)
    about = Race(task.seed, len(data), task.gamma, POLICIES, 0.0, 0.0)
    try:
        valuation = Valuation.of(data, choices)
        targets = {name: target_of(data, policy.policy()) for name, policy in policies.items()}
        left = set(screened(valuation, targets))
    except Exception as error:  # a log that is refused is no race
        return replace(about, error=f"{type(error).__name__}: {error}")
    about = replace(about, stayed=POLICIES - len(left))
    if not left:
        return about
    truths = {name: _simulated(task, each, FEW) for name, each in policies.items()}
    best = max(value - SURE * error for value, error, _ in truths.values())
    open_ = [name for name, (value, error, _) in truths.items() if value + SURE * error >= best]
    if left.intersection(open_) and left.symmetric_difference(open_):
        truths |= {name: _simulated(task, policies[name], MANY) for name in open_}
    out, stayed = (max(truths[name] for name in some) for some in (left, policies.keys() - left))
    behind, floor = max(out[0] - stayed[0], 0.0), max(stayed[2], 1e-12)
    return replace(about, behind=behind / floor, behind_error=float(np.hypot(out[1], stayed[1])) / floor)


def _simulated(task: Task, policy: Linear, episodes: int) -> tuple[float, float, float]:
    """The value, its standard error and the floor; episodes begin alike for all policies."""
    return worth(task, policy, episodes, np.random.default_rng([task.seed, 6]))


def summary(races: Sequence[Race], command: str) -> dict[str, object]:
    """How often the best policy stayed, and how much the others cost."""
    run = [each for each in races if not each.error]
    some, lost = [each for each in run if each.stayed < POLICIES], [each for each in run if each.lost]
    return {
        "command": command,
        "reach": REACH,
        "races": len(run),
        "refused": len(races) - len(run),
        "with somebody screened": len(some),
        "stayed, in the mean": round(float(np.mean([each.stayed for each in run])), 2),
        "best screened": len(lost),
        "best kept": round(1 - len(lost) / max(len(run), 1), 4),
        "lost, in floors": [[round(each.behind, 3), round(each.behind_error, 3)] for each in lost],
        "seeds of the lost": [each.seed for each in lost],
    }


def read(file: Path) -> list[Race]:
    """The lines of a file; none where there is no file."""
    return [Race(**json.loads(line)) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks races", description=__doc__)
    parser.add_argument("--races", type=int, default=500)
    parser.add_argument("--seed", type=int, default=70_000, help="of the first task; 20000 and up chose the reach")
    parser.add_argument("--output", type=Path, default=Path("results/races.jsonl"))
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    races = {race.seed: race for race in read(options.output) if race.seed >= options.seed}
    for seed in count(options.seed):
        if len(races) >= options.races:
            break
        task = generated(seed, ROWS) if seed not in races else None
        if task is None or not isinstance(task.target, Linear):  # finite states are not raced
            continue
        task = replace(task, gamma=min(task.gamma, 0.99) if task.gamma < 1 else GAMMA, time_limit="continue")
        races[seed] = raced(task, task.target)  # type: ignore[arg-type]
        with options.output.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(asdict(races[seed])) + "\n")
    command = f"python -m benchmarks races --races {options.races} --seed {options.seed}"
    found = summary(list(races.values()), command)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
