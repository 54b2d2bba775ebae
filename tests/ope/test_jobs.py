"""Several policies at once: the answers are those of one after another, and what they share is computed once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import memory
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.threads import FEW_ROWS, at_once

DATA = LinearGaussian().dataset(30, 20, BEHAVIOUR, seed=3)


def policies():
    gains = (0.0, 0.1, 0.2, 0.3, 0.4)
    return {str(k): replace(TARGET, gain=(TARGET.gain[0] + k, TARGET.gain[1])).policy() for k in gains}


def told(value):
    return value.value, value.standard_error, value.interval, value.verdict, value.reasons, value.diagnostics


@pytest.mark.parametrize("gamma", [1.0, [0.9, 0.99]])
def test_answers_do_not_depend_on_the_number_of_jobs(gamma):
    found = [ov.evaluate(DATA, policies(), "auto", gamma=gamma, jobs=jobs) for jobs in (1, 3, None)]
    flat = [[each] if isinstance(gamma, float) else list(each.values()) for one in found for each in one.values()]
    number = len(policies())
    for one, three, usual in zip(flat[:number], flat[number : 2 * number], flat[2 * number :], strict=True):
        for first, *others in zip(one, three, usual, strict=True):
            for other in others:
                assert repr(told(first)) == repr(told(other))
                np.testing.assert_array_equal(first.weights, other.weights)


def test_nor_do_selections_and_comparisons():
    selected = [ov.select(DATA, policies(), gamma=0.9, jobs=jobs) for jobs in (1, 4)]
    assert str(selected[0]) == str(selected[1])
    pair = list(policies().values())[:2]
    compared = [ov.compare(DATA, *pair, gamma=0.9, jobs=jobs) for jobs in (1, 2)]
    assert compared[0].as_dict() == compared[1].as_dict()


def test_nor_do_finite_states():
    mdp = RandomMDP.draw(6, 3, seed=0)
    data, several = mdp.dataset(40, 15, mdp.policy(9), seed=0), [mdp.policy(seed) for seed in range(4)]
    one, other = (ov.evaluate(data, several, gamma=0.9, jobs=jobs) for jobs in (1, 4))
    assert [repr(told(each)) for each in one] == [repr(told(each)) for each in other]


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True])
def test_a_number_of_jobs_that_is_none_is_refused(jobs):
    for ask in (ov.evaluate, ov.select):
        with pytest.raises(ValueError, match="jobs must be a whole number"):
            ask(DATA, policies(), jobs=jobs)


def test_works_meet_in_threads_and_come_in_their_order():
    meeting = threading.Barrier(2, timeout=20)

    def work(number):
        meeting.wait()
        return number

    assert list(at_once(work, [3, 1, 2, 0], 10, jobs=2)) == [3, 1, 2, 0]


def test_large_logs_are_worked_on_one_after_another():
    threads = set(at_once(lambda _: threading.get_ident(), range(4), FEW_ROWS, jobs=4))
    assert threads == {threading.get_ident()}


def test_an_error_of_one_is_that_of_all_and_gives_threads_back():
    def work(number):
        if number == 2:
            raise ValueError("two")
        return number

    with threadpool_limits(2):
        with pytest.raises(ValueError, match="two"):
            list(at_once(work, range(6), 10, jobs=2))
        assert max(library["num_threads"] for library in threadpool_info()) == 2


class Holder:
    """Something with a memory."""

    def __init__(self):
        self.memory = Memory()


def test_what_several_threads_ask_for_is_computed_once_for_all_of_them():
    asked, meeting = [], threading.Barrier(4, timeout=20)

    @remembered
    def slow(holder, number):
        asked.append(number)
        threading.Event().wait(0.05)
        return [number]

    holder = Holder()

    def work(_):
        meeting.wait()
        return slow(holder, 7)

    found = list(at_once(work, range(4), 10, jobs=4))
    assert asked == [7]
    assert all(each is found[0] for each in found)


def test_what_failed_is_tried_again():
    calls = []

    @remembered
    def once(holder):
        calls.append(holder)
        if len(calls) == 1:
            raise ValueError("the first time")
        return 3

    holder = Holder()
    with pytest.raises(ValueError, match="the first time"):
        once(holder)
    assert once(holder) == once(holder) == 3
    assert len(calls) == 2


def test_a_policy_can_be_forgotten():
    kept, policy = Memory(), TARGET.policy()
    first = kept.of(policy)
    assert kept.of(policy) is first
    kept.forget(policy)
    assert kept.of(policy) is not first
    assert isinstance(first, memory.Memory)


def test_functions_are_asked_by_one_thread_at_a_time():
    """One that keeps what it was asked last gives the answers of one after another."""
    asked = {}

    def acting(seen):
        asked["rows"] = len(seen)
        time.sleep(0.005)
        return np.zeros((asked["rows"], 1))

    policy = ov.as_policy(acting).recognised(np.zeros((2, 3)))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda rows: policy.sample(np.zeros((rows, 3)), np.random.default_rng(0)), [16, 80] * 5))
    assert [len(each) for each in found] == [16, 80] * 5
