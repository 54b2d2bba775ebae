"""A log looked over: what the doctor says of it, and the rows to draw."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.describe import describe, described
from ope_vpm.logged.doctor import Report, check_ignored, examined
from ope_vpm.logged.facts import episodes_of, examine, facts_of, fitting
from ope_vpm.logged.fingerprint import number_contents
from ope_vpm.logged.streamed import StreamedDataset

SAMPLE_ROWS = 100_000
"""Rows of the sample, as many as an evaluation has; a log that is no longer is read whole."""


def looked_over(data: LoggedDataset | StreamedDataset, ignore: Collection[str] = ()) -> tuple[Report, LoggedDataset]:
    """The doctor's report, and the rows to draw: all of them, or a sample of whole episodes.

    Args:
        data: the log; one that is read in parts is read whole where it is short.
        ignore: codes of findings that are known to be harmless.
    """
    check_ignored(ignore)
    if isinstance(data, StreamedDataset) and len(data) <= SAMPLE_ROWS:
        data = data.read()
    if isinstance(data, LoggedDataset):
        return Report(describe(data), examined(data, ignore)), data
    facts = data.total(facts_of, tuple(ignore), title="looking")
    data = data.of_facts(facts)
    order = np.argsort(number_contents(facts.episodes.prints), kind="stable")
    sample = episodes_of(data, order[: fitting(data.lengths[order], SAMPLE_ROWS)], SAMPLE_ROWS)
    columns = facts.paid.ranges()[0], facts.observations.ranges(), facts.actions.ranges()
    description = described(data, len(data) - facts.known, *columns)
    return Report(description, tuple(examine(data, facts, sample, ignore)), sampled=len(sample)), sample
