"""Are the tests any good? Change one line at a time and see whether a test fails: `make mutants`.

Each mutant is one change of one expression (a sign, a comparison, a dropped discount, a doubled constant …). The tests
that run its line, by a coverage map made first, are run on a copy of the sources; a mutant that none of them notices
survives and is printed. Mutants are drawn at random by a seed, the same number from each room.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

ROOT = Path(__file__).parent.parent
ROOMS = ("ope_vpm/linear", "ope_vpm/chain", "ope_vpm/ope", "ope_vpm/logged", "baselines")
SECONDS = 300
"""After which a mutant that still runs counts as noticed: an endless loop is a failure that anybody would see."""
MOST_TESTS = 60
"""Tests of one line that are run, spread over all that run it: a line that hundreds of tests run needs not all."""
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One changed file."""

    file: str
    line: int
    before: str
    after: str
    source: str


def main() -> None:
    options = _options()
    covered = coverage_map(options.map, options.refresh)
    rng = np.random.default_rng(options.seed)
    chosen = [mutant for room in ROOMS for mutant in drawn(room, options.number, covered, rng)]
    tests = [spread(covered[mutant.file, mutant.line]) for mutant in chosen]
    work = (delayed(noticed)(mutant, names) for mutant, names in zip(chosen, tests, strict=True))
    killed = 0
    results = Parallel(n_jobs=options.jobs, return_as="generator")(work)
    for number, (mutant, found) in enumerate(zip(chosen, results, strict=True), 1):
        killed += found
        if not found:
            print(f"SURVIVES {mutant.file}:{mutant.line}\n    {mutant.before}\n    {mutant.after}", flush=True)
        print(f"{number}/{len(chosen)}: {killed} noticed, {killed / number:.0%}", flush=True)


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a file."""
    text = file.read_text()
    tree = ast.parse(text)
    lines = text.splitlines()
    for place, node in enumerate(ast.walk(tree)):
        for variant in range(2):
            changed = copy.deepcopy(tree)
            target = next(each for index, each in enumerate(ast.walk(changed)) if index == place)
            if not isinstance(node, ast.expr) or not change(target, variant):
                continue
            line = node.lineno
            yield Mutant(
                str(file.relative_to(ROOT)), line, lines[line - 1].strip(), ast.unparse(target), ast.unparse(changed)
            )


def change(node: ast.AST, variant: int) -> bool:
    """Change one expression in place; False where there is nothing to change."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED and variant == 0:
        node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        return True
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED and variant == 0:
        node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[call-overload]
        return True
    if isinstance(node, ast.BinOp):
        return _without_discount(node) if variant == 1 else False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        node.op = ast.UAdd()
        return variant == 0
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value not in (0.0, np.inf):
        node.value = 2 * node.value
        return variant == 0
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.sqrt" and variant == 0:
        node.func = ast.Name("abs", ast.Load())
        return True
    return False


def _without_discount(node: ast.BinOp) -> bool:
    """A factor γ left out."""
    for side in ("left", "right"):
        if ast.unparse(getattr(node, side)).split(".")[-1] == "gamma" and isinstance(node.op, ast.Mult):
            setattr(node, side, ast.Constant(1.0))
            return True
    return False


def drawn(room: str, number: int, covered: dict[tuple[str, int], list[str]], rng: np.random.Generator) -> list[Mutant]:
    """Some mutants of a room, on lines that a test runs."""
    files = sorted((ROOT / room).rglob("*.py"))
    every = [mutant for file in files if not file.is_symlink() for mutant in mutants(file)]
    known = [mutant for mutant in every if (mutant.file, mutant.line) in covered]
    chosen = rng.choice(len(known), min(number, len(known)), replace=False)
    return [known[index] for index in sorted(chosen)]


def coverage_map(file: Path, refresh: bool) -> dict[tuple[str, int], list[str]]:
    """The tests that run each line, by one run of all tests under coverage, kept in a file."""
    import coverage

    if refresh or not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov", "--cov-context=test"]
        command += ["--cov-report=", "tests/linear", "tests/chain", "tests/ope", "tests/logged", "tests/baselines"]
        subprocess.run(command, cwd=ROOT, env=os.environ | {"COVERAGE_FILE": str(file)}, check=True)
    data = coverage.CoverageData(str(file))
    data.read()
    found: dict[tuple[str, int], list[str]] = {}
    for name in data.measured_files():
        place = str(Path(name).resolve().relative_to(ROOT))
        for line, contexts in data.contexts_by_lineno(name).items():
            tests = sorted({context.partition("|")[0] for context in contexts if context})
            if tests:
                found.setdefault((place, line), []).extend(tests)
    return found


def spread(tests: list[str]) -> list[str]:
    """At most so many of the tests, evenly spread."""
    step = max(1, -(-len(tests) // MOST_TESTS))
    return tests[::step]


def noticed(mutant: Mutant, tests: list[str]) -> bool:
    """Whether one of the tests fails on the changed sources."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "sources"
        ignore = shutil.ignore_patterns(".git", ".venv", "docs", "__pycache__", "results", "leaderboard")
        shutil.copytree(ROOT, copied, symlinks=True, ignore=ignore)
        if (ROOT / "ope_vpm/leaderboard").exists():
            shutil.copytree(ROOT / "ope_vpm/leaderboard", copied / "ope_vpm/leaderboard")
        (copied / mutant.file).write_text(mutant.source)
        environment = os.environ | {"PYTHONPATH": str(copied), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(command, cwd=copied, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=20, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--map", type=Path, default=ROOT / "results" / "coverage-map")
    parser.add_argument("--refresh", action="store_true", help="make the coverage map anew")
    return parser.parse_args()


if __name__ == "__main__":
    main()
