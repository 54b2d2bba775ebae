"""The README's first command: every estimator and every solver appears, with the right answer beside it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from rich.console import Console

import ope_vpm as ov
from ope_vpm.leaderboard import chains, policies


def test_every_estimator_is_in_the_table_and_vpm_beats_the_logged_mean():
    table = policies.run(1, Console(quiet=True))
    names, errors = (list(table.columns[i].cells) for i in (0, 1))
    assert set(names) == set(ov.estimators())
    by_name = dict(zip(names, map(float, errors), strict=True))
    assert by_name["vpm"] < 0.2 * by_name["naive"]


@pytest.mark.parametrize("task", chains.tasks(), ids=lambda task: task.name)
def test_truths_agree_with_a_long_simulation_or_a_large_sample(task):
    pairs, values = task.data(0)
    assert len(pairs) == len(values)
    solver = "tabular, increments pooled" if pairs.finite else "kernel"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ov.StationaryWarning)
        errors = [chains._estimate(task, solver, seed) - task.truth for seed in range(10)]
    assert abs(np.mean(errors)) < 4 * np.std(errors, ddof=1) / np.sqrt(10)
