"""Are the tests any good? Change one expression at a time and see whether a test fails: `make mutants`.

Each mutant is one change of one expression (a sign, a turned comparison, a dropped discount, a doubled constant …),
drawn at random by a seed, the same number from each room. It is tried by the tests that run its line, those of its own
room first and the fast ones first, until one fails; a mutant that none of them notices survives and is printed.

Which tests run which line is measured first, one test file at a time, and kept in `results/mutants`; so is what became
of every mutant, so that a run that was stopped goes on where it was. After new tests, `--survivors` tries again those
that survived. A draw leaves out the mutants that were tried for other seeds, so that a new seed gives a fair figure:
nobody has seen its survivors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.mutation.changes import ROOT, Mutant, mutants
from tests.mutation.measured import Lines, measure, measured
from tests.mutation.process import first_failure, preload

ROOMS = ("ope_vpm/linear", "ope_vpm/chain", "ope_vpm/ope", "ope_vpm/logged", "baselines")
WITHIN = ("ope_vpm/ope/finite",)
"""Rooms within others, drawn from where they are named."""
SURVIVED, NEVER_RUN = "survived", "no test runs it"
MOST_SECONDS = 15.0
"""Of the tests of one mutant, by the time that they took without it; those beyond are not tried. Most mutants are
noticed by the first test, and one that comes after so many others is not the test that is meant to notice."""


def main() -> None:
    """Measure, draw, try, print."""
    options = _options()
    preload()
    measure(options.output / "lines", options.without)
    if options.number:
        seen = read_log(options.output / "mutants.jsonl", "seed")
        before = {key for key, seed in seen.items() if seed != options.seed}
        chosen = [mutant for room in options.rooms for mutant in drawn(room, options.number, options.seed, before)]
        try_all(chosen, measured(options.output / "lines"), options)


def try_all(chosen: list[Mutant], lines: Lines, options: argparse.Namespace) -> None:
    """Try the mutants that were not tried before, and print what became of all."""
    log = options.output / "mutants.jsonl"
    known = read_log(log, "outcome")
    for number, mutant in enumerate(chosen, 1):
        again = options.survivors and known.get(mutant.key) in (SURVIVED, NEVER_RUN)
        if mutant.key not in known or again:
            begin = time.monotonic()
            known[mutant.key] = outcome(mutant, lines)
            entry = {"key": mutant.key, "file": mutant.file, "line": mutant.line, "outcome": known[mutant.key]}
            entry |= {"before": mutant.before, "after": mutant.after, "seconds": round(time.monotonic() - begin, 1)}
            entry |= {"seed": options.seed}
            with log.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        print(f"{number}/{len(chosen)} {mutant.file}:{mutant.line}: {known[mutant.key]}", flush=True)
        if known[mutant.key] in (SURVIVED, NEVER_RUN):
            print(f"    {mutant.before}\n    {mutant.after}", flush=True)
    for room in options.rooms:
        results = [known[mutant.key] for mutant in chosen if mutant.file.startswith(room)]
        left = sum(result in (SURVIVED, NEVER_RUN) for result in results)
        print(f"{room}: {len(results) - left} of {len(results)} noticed")
    left = sum(known[mutant.key] in (SURVIVED, NEVER_RUN) for mutant in chosen)
    print(f"all: {len(chosen) - left} of {len(chosen)} noticed, {1 - left / len(chosen):.1%}, seed {options.seed}")


def outcome(mutant: Mutant, lines: Lines) -> str:
    """The test that noticed, or that none did."""
    names = lines.of(mutant.file, mutant.line, on_import=not mutant.in_function)
    if names is None:
        return NEVER_RUN
    tests = ordered(names, mutant.file, lines.seconds)
    usual = sum(lines.seconds[name] for name in tests)
    return first_failure(mutant, tests, 20 + 4 * usual) or SURVIVED


def ordered(names: list[str], file: str, seconds: dict[str, float]) -> list[str]:
    """The nearest tests first, among these the fast ones, as many as there is time for (one at least)."""
    nearest = sorted(names, key=lambda name: (-nearness(name, file), seconds[name]))
    spent = np.cumsum([seconds[name] for name in nearest])
    return [name for name, total in zip(nearest, spent, strict=True) if total <= MOST_SECONDS] or nearest[:1]


def nearness(test: str, file: str) -> int:
    """How many folders a test and a source file share, and the file's name."""
    source = Path(file.removeprefix("ope_vpm/"))
    place = Path(test.split("::")[0].removeprefix("tests/"))
    folders = zip(source.parts[:-1], place.parts[:-1], strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], folders))
    return shared + (shared > 0 and place.stem == f"test_{source.stem}")


def drawn(room: str, number: int, seed: int, before: set[str]) -> list[Mutant]:
    """Some mutants of a room, at random, without those that were tried for another seed."""
    files = sorted(file for file in (ROOT / room).rglob("*.py") if not file.is_symlink())
    every = [make for file in files for make in mutants(file)]
    order = np.random.default_rng([seed, (*ROOMS, *WITHIN).index(room)]).permutation(len(every))
    fresh = (mutant for mutant in (every[place]() for place in order) if mutant.key not in before)
    return list(itertools.islice(fresh, number))


def read_log(log: Path, what: str) -> dict[str, Any]:
    """The outcome or the seed of mutants that were tried, by key; the last word counts."""
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return {entry["key"]: entry[what] for entry in entries}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=32, help="mutants of each room; 0 measures the tests only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", choices=(*ROOMS, *WITHIN), default=ROOMS)
    parser.add_argument("--survivors", action="store_true", help="try again those that survived before")
    parser.add_argument("--without", nargs="*", default=(), help="names of test files that are not measured, nor tried")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "mutants")
    return parser.parse_args()


if __name__ == "__main__":
    main()
