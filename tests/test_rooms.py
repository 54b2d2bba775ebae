"""The rooms of the package: short files and functions, and calls from a room only into rooms below it."""

import ast
import inspect
import sys
from pathlib import Path

import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP

ROOT = Path(ov.__file__).parent
MOST_LINES, MOST_STATEMENT_LINES = 300, 40

LONG_FILES = {"logged.dataset"}
LONG_FUNCTIONS = {"logged.dataset.from_arrays", "ope.evaluate.evaluate"}
CALLS_UP = {
    "linear -> ope.adapter",  # batches of features, which the passes over rows iterate over
    "ope.estimator -> ope.vpm",  # the estimator itself, which its base class calls
}
"""What still breaks a rule: these sets only shrink, and who mends a file, a function or a call takes its name out."""

ROOMS = (
    "arrays",
    "suggestions",
    "others",
    "linear",
    "chain",
    "logged",
    "policy",
    "ope.adapter.ends",
    "ope.log",
    "ope.adapter.named",
    "ope.adapter.given",
    "ope.adapter.pairs",
    "ope.problem",
    "ope.adapter",
    "ope.behaviour",
    "ope.inference",
    "ope.estimator",
    "ope.linear",
    "ope.q",
    "ope.finite",
    "ope.ratio",
    "ope.dynamics",
    "ope.vpm",
    "ope.auto",
    "ope.questions",
    "ope.evaluate",
)
"""From the lowest to the highest; modules that stand between rooms are named themselves."""


def sources():
    """Every module of the package by its name, with its text."""
    paths = (path for path in ROOT.rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text() for path in paths}


def length(function):
    """Lines of a function without its docstring."""
    body = function.body
    told = body[0] if ast.get_docstring(function) is not None else None
    return function.end_lineno - function.lineno + 1 - (told.end_lineno - told.lineno + 1 if told else 0)


def test_files_are_short():
    assert {name for name, text in sources().items() if text.count("\n") > MOST_LINES} <= LONG_FILES


def test_functions_are_short():
    found = {
        f"{name}.{node.name}"
        for name, text in sources().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and length(node) > MOST_STATEMENT_LINES
    }
    assert found <= LONG_FUNCTIONS


PASSED_OVER = {ROOT / "ope" / "memory.py", ROOT / "threads.py"}
"""What they are given is called by those who ask for it: functions that are remembered or work at once, properties."""


def module_of(frame):
    """The module of the nearest caller in this package; None where there is none."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and path not in PASSED_OVER:
            return ".".join(path.relative_to(ROOT).with_suffix("").parts)
        frame = frame.f_back
    return None


def calls_of(function):
    """The calls between modules of this package while a function runs, as pairs of names."""
    calls = set()

    def follow(frame, event, _):
        path = Path(frame.f_code.co_filename)
        resumed = frame.f_code.co_flags & inspect.CO_GENERATOR  # it runs where it is asked, not where it was made
        if event == "call" and path.is_relative_to(ROOT) and path not in PASSED_OVER and not resumed:
            calls.add((module_of(frame.f_back), ".".join(path.relative_to(ROOT).with_suffix("").parts)))

    sys.setprofile(follow)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {
        (start, to) for start, to in calls if start and not {start.partition(".")[0], to.partition(".")[0]} & {"envs"}
    }


def room(module):
    """The room of a module: the longest name that it begins with, or its own name where it stands in none."""
    return max((name for name in ROOMS if f"{module}.".startswith(f"{name}.")), key=len, default=module)


def height(name):
    """How high a room stands; those that are not named are highest."""
    return ROOMS.index(name) if name in ROOMS else len(ROOMS)


@pytest.fixture(scope="module")
def calls():
    system, mdp = LinearGaussian(), RandomMDP.draw(6, 2, seed=0)
    asked = [
        (system.dataset(20, 30, BEHAVIOUR, seed=0), TARGET.policy()),
        (mdp.dataset(20, 30, mdp.policy(1), 2), ov.as_policy(mdp.policy(3))),
    ]
    for data, policy in asked:
        ov.evaluate(data, policy, "vpm", gamma=0.9)  # imports run code, too, and are not part of the way
    return set().union(*(calls_of(lambda d=d, p=p: ov.evaluate(d, p, "vpm", gamma=0.9)) for d, p in asked))


def test_calls_go_down(calls):
    """What is remembered counts as called by those who ask for it; once it is known, nothing is called."""
    pairs = {(room(start), room(to)) for start, to in calls}
    assert {f"{start} -> {to}" for start, to in pairs if height(to) > height(start)} <= CALLS_UP
