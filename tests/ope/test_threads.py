"""Small problems run on one thread, and the number of threads does not change an answer."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope.authoring import ProblemEstimator, RawEstimate
from ope_vpm.threads import FEW_ROWS, threads_for


class Counting(ProblemEstimator):
    """Its value is the largest number of threads that any library may use while it works."""

    name = "counting"

    def find(self, problem):
        return RawEstimate(value=float(most_threads()))


def most_threads():
    return max(library["num_threads"] for library in threadpool_info())


def test_an_estimator_on_a_small_log_has_one_thread_and_gives_the_others_back():
    data = ov.LoggedDataset.from_arrays(np.zeros(4, dtype=int), np.zeros(4, dtype=int), [0.0, 1.0, 2.0, 3.0])
    with threadpool_limits(2):
        assert ov.evaluate(data, np.ones((1, 1)), Counting()).value == 1
        assert most_threads() == 2


def test_large_work_keeps_the_threads_that_it_has():
    with threadpool_limits(2), threads_for(FEW_ROWS):
        assert most_threads() == 2


def test_the_number_of_threads_does_not_change_the_answer(monkeypatch):
    monkeypatch.setattr("ope_vpm.threads.FEW_ROWS", 0)
    data, values = LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=0), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            values.append(ov.evaluate(data, TARGET.policy(), "vpm", gamma=0.99, n_features=60).value)
    assert values[0] == pytest.approx(values[1], rel=1e-10)
