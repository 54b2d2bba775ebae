"""What an evaluation remembers is freed with it: nothing waits until Python looks for cycles."""

import gc
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import log as log_module
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.ope.problem import Problem

CONTINUOUS = ("vpm", "auto", "dr", "fqe", "mwl", "mql", "gendice", "wdr", "wiss", "onestep", "model", "naive")
QUICK = {"fqe": {"training_steps": 20}, "model": {"training_steps": 20}}


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept():
    """What is alive of all that evaluations build upon."""
    return [each for each in gc.get_objects() if issubclass(type(each), Log | Problem | PairEquations | Memory)]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("gamma", [1.0, 0.95])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_nothing_is_left_of_an_evaluation(name, gamma):
    """Of a second one: what torch imports when it first trains a network keeps the frames of its caller."""
    data = LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=0)

    def left():
        value = ov.evaluate(data, TARGET.policy(), name, gamma=gamma, **QUICK.get(name, {}))
        assert np.isfinite(value.value)
        return len(kept())

    assert left() == left()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("name", ["vpm", "auto", "dr", "model", "wist", "liu"])
def test_nor_of_one_of_counts(name):
    before = len(kept())
    states, actions = np.tile([0, 1, 1, 0, 1, 0], 20), np.tile([0, 1, 0, 1, 1, 0], 20)
    last = np.arange(120) % 6 == 5
    data = ov.LoggedDataset.from_arrays(
        states, actions, states + 0.5 * actions, np.append(states[1:], 0), truncated=last
    )
    ov.evaluate(data, np.array([[0.5, 0.5], [0.2, 0.8]]), name, gamma=0.9)
    assert len(kept()) == before


@pytest.mark.usefixtures("no_collector")
def test_nor_of_one_that_looked_at_a_sample(monkeypatch):
    monkeypatch.setattr(log_module, "SAMPLE_ROWS", 200)
    before = len(kept())
    ov.evaluate(LinearGaussian().dataset(40, 20, BEHAVIOUR, seed=0), TARGET.policy(), "auto", gamma=0.9)
    assert len(kept()) == before


def test_a_lent_memory_is_that_of_its_owner_while_there_is_one():
    calls = []

    @remembered
    def make(keeper, number):
        calls.append(number)
        return number + 1

    owner = SimpleNamespace(memory=Memory())
    lent = SimpleNamespace(memory=owner.memory.lent())
    again = SimpleNamespace(memory=lent.memory.lent())
    assert make(lent, 1) == make(owner, 1) == make(again, 1) == 2
    assert calls == [1]
    del owner
    assert [make(lent, 5) for _ in range(2)] == [6, 6]  # it remembers nothing, and still answers
    assert calls == [1, 5, 5]


def test_a_memory_in_another_process_is_empty():
    memory = Memory()
    memory.results["a"] = 1
    assert pickle.loads(pickle.dumps(memory)).results == {}
