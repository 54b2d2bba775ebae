"""Works that take turns and share passes, on logs whose passes are counted."""

import threading
from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.logged.sums import merged
from ope_vpm.threads import MOST_WORKS, at_once, gathered, held, works

LOG = object()


def passing(passes):
    """A pass that doubles what is asked, and is counted."""

    def make(asked):
        passes.append(list(asked))
        return [2 * each for each in asked]

    return make


def test_works_that_ask_together_share_a_pass():
    passes = []

    def work(number):
        first = gathered(LOG, passing(passes), number)
        return first + gathered(LOG, passing(passes), 10 * number)

    assert list(works(work, [1, 2, 3])) == [22, 44, 66]
    assert [sorted(each) for each in passes] == [[1, 2, 3], [10, 20, 30]]


def test_alone_there_is_nobody_to_wait_for():
    passes = []
    assert gathered(LOG, passing(passes), 4) == 8
    assert passes == [[4]]


def test_who_asks_nothing_or_less_keeps_nobody_waiting():
    passes = []

    def work(number):
        return sum(gathered(LOG, passing(passes), number) for _ in range(number))

    assert list(works(work, [0, 1, 2])) == [0, 2, 8]
    assert sorted(map(len, passes)) == [1, 2]


def test_different_logs_have_different_passes():
    passes, logs = [], [object(), object()]
    assert list(works(lambda k: gathered(logs[k % 2], passing(passes), k), range(4))) == [0, 2, 4, 6]
    assert sorted(sorted(each) for each in passes) == [[0, 2], [1, 3]]


def test_works_of_works_share_passes_with_all_others():
    passes = []

    def part(number):
        return gathered(LOG, passing(passes), number)

    def work(number):
        return sum(works(part, [number, 10 * number]))

    assert list(works(work, [1, 2])) == [22, 44]
    assert [sorted(each) for each in passes] == [[1, 2, 10, 20]]


def test_one_works_at_a_time_and_what_one_holds_does_not_stop_the_others():
    passes, lock, inside = [], threading.RLock(), []

    def work(number):
        inside.append(number)
        with held(lock):  # the first one asks while it holds what the others wait for
            found = gathered(LOG, passing(passes), number)
        inside.remove(number)
        return found

    assert list(works(work, range(4))) == [0, 2, 4, 6]
    assert sorted(number for each in passes for number in each) == [0, 1, 2, 3]


def test_a_pass_that_fails_fails_for_those_who_asked():
    def fails(asked):
        raise OSError("a disk")

    with pytest.raises(OSError, match="a disk"):
        list(works(lambda number: gathered(LOG, fails, number), range(3)))


def test_after_an_error_nobody_passes_over_the_log_again():
    passes = []

    def work(number):
        if number == 1:
            raise ValueError("one")
        gathered(LOG, passing(passes), number)
        return gathered(LOG, passing(passes), number)

    with pytest.raises(ValueError, match="one"):
        list(works(work, range(3)))
    assert len(passes) <= 1


def test_so_many_work_together_and_the_others_later():
    passes = []
    found = list(works(lambda number: gathered(LOG, passing(passes), number), range(MOST_WORKS + 3)))
    assert found == [2 * number for number in range(MOST_WORKS + 3)]
    assert [len(each) for each in passes] == [MOST_WORKS, 3]


class Total:
    """A number that is added at once."""

    adds_up = True
    waiting = 0

    def __init__(self, number):
        self.number = number

    def merge(self, other):
        return Total(self.number + other.number)


def test_what_adds_up_is_added_in_any_number_of_parts():
    assert merged(range(7), Total, (), None).number == 21


@pytest.fixture
def counted(monkeypatch):
    """The passes over all parts of any log."""
    passes, parts = [], StreamedDataset.parts

    def counting(self, only=None):
        passes.append(only)
        return parts(self, only)

    monkeypatch.setattr(StreamedDataset, "parts", counting)
    return passes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("ope_vpm.ope.log.SAMPLE_ROWS", 300)
    monkeypatch.setattr("ope_vpm.logged.streamed.PART_ROWS", 256)
    LinearGaussian().dataset(60, 20, BEHAVIOUR, seed=3).save(tmp_path / "log.parquet")
    return tmp_path


def several(number):
    gains = np.linspace(0, 0.3, number)
    return {str(k): replace(TARGET, gain=(TARGET.gain[0] + k, TARGET.gain[1])).policy() for k in gains}


@pytest.mark.parametrize(("estimator", "gamma"), [("auto", 0.9), ("vpm", 0.9), ("auto", 1.0)])
def test_five_policies_take_the_passes_of_one_and_have_its_answers(folder, counted, estimator, gamma):
    settings = {"gamma": gamma, "n_features": 30}
    data, policies = ov.scan_dataset(folder), several(5)
    alone = {name: ov.evaluate(data, policy, estimator, **settings) for name, policy in policies.items()}
    each = len(counted) / 5
    counted.clear()
    together = ov.evaluate(data, policies, estimator, **settings)
    assert len(counted) == each <= 4
    for name, value in alone.items():
        assert together[name].value == pytest.approx(value.value, rel=1e-10)
        assert together[name].interval == pytest.approx(value.interval, rel=1e-10)
        assert together[name].verdict == value.verdict


def test_a_selection_takes_few_passes(folder, counted):
    found = ov.select(ov.scan_dataset(folder), several(6), gamma=0.9, n_features=30)
    assert len(found.candidates) == 6
    assert len(counted) <= 4


def test_comparisons_share_passes(folder, counted):
    new, old = several(2).values()
    ov.compare(ov.scan_dataset(folder), new, old, gamma=0.9, n_features=30)
    assert len(counted) <= 4


def test_in_parts_the_number_of_jobs_does_not_matter():
    assert list(at_once(lambda number: 2 * number, [1, 2], 10**6, jobs=1, in_parts=True)) == [2, 4]
