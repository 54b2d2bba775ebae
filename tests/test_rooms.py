"""The way of one evaluation through the rooms: few files, and calls from a room only into rooms below it."""

import inspect
import sys
from pathlib import Path

import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian

ROOT = Path(ov.__file__).parent
ROOMS = (
    "arrays",
    "suggestions",
    "linear",
    "chain",
    "logged",
    "policy",
    "ope.adapter.ends",
    "ope.log",
    "ope.adapter.named",
    "ope.adapter.encoding",
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
    "ope.vpm",
    "ope.auto",
    "ope.evaluate",
)
"""From the lowest to the highest; modules that stand between rooms are named themselves."""
PASSED_ON = {
    "result",
    "recall",
    "shared",
    "of_policy",
    "answer",
    "make",
    "accumulate",
    "accumulate_initial",
    "apply_all",
    "expected",
}
"""Functions that call what they are given, for whoever gave it to them: a function, an estimator, batches of rows."""


def module_of(frame):
    """The module of the nearest caller in this package that does not only pass a call on; None where there is none."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and frame.f_code.co_name not in PASSED_ON:
            return ".".join(path.relative_to(ROOT).with_suffix("").parts)
        frame = frame.f_back
    return None


def calls_of(function):
    """The calls between modules of this package while a function runs, as pairs of names."""
    calls = set()

    def follow(frame, event, _):
        path = Path(frame.f_code.co_filename)
        resumed = (
            frame.f_code.co_flags & inspect.CO_GENERATOR
        )  # a generator runs where it is asked, not where it was made
        if event == "call" and path.is_relative_to(ROOT) and not resumed:
            calls.add((module_of(frame.f_back), ".".join(path.relative_to(ROOT).with_suffix("").parts)))

    sys.setprofile(follow)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {(start, to) for start, to in calls if not to.startswith("envs") and start and not start.startswith("envs")}


def height(module):
    """How high a module stands: the place of the longest name that it begins with."""
    return ROOMS.index(max((name for name in ROOMS if f"{module}.".startswith(f"{name}.")), key=len))


@pytest.fixture(scope="module")
def calls():
    data, policy = LinearGaussian().dataset(20, 30, BEHAVIOUR, seed=0), TARGET.policy()
    ov.evaluate(data, policy, "vpm")  # imports run code, too, and are not part of the way
    return calls_of(lambda: ov.evaluate(data, policy, "vpm", gamma=0.9))


def test_an_evaluation_visits_few_files(calls):
    """From the door to the value: ten of them are the doctor's, the policy's and the arrays' own."""
    files = {to for _, to in calls}
    assert len(files) <= 29, sorted(files)


def test_calls_go_down(calls):
    assert not sorted(f"{start} calls {to}" for start, to in calls if height(to) > height(start))
