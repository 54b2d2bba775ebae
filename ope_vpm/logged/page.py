"""The doctor's report on data of any kind, as text and as a page.

A log that is read in parts is described by all its rows, and drawn by a sample of whole episodes.
"""

import base64
import io
from collections.abc import Collection
from pathlib import Path

import numpy as np

from ope_vpm import pages
from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.describe import describe, described
from ope_vpm.logged.doctor import Report, check_ignored, examined
from ope_vpm.logged.facts import episodes_of, examine, facts_of, fitting
from ope_vpm.logged.fingerprint import number_contents
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.pages.html import element, joined

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


MOST = 12
"""Columns of observations and of actions that are drawn."""


def write_page(data: LoggedDataset, report: Report, path: str | Path, title: str = "Logged data") -> None:
    """Write the page, whole or not at all."""
    findings = [element("p", str(finding), class_=f"finding {finding.level}") for finding in report.findings]
    said = joined(*(findings or [element("p", "Nothing looks wrong.")]), element("pre", str(report.description)))
    drawn = "histograms of episode lengths, returns, rewards, observations and actions"
    pages.write_page(path, title, joined(said, element("img", alt=drawn, src=_picture(data))))


def _picture(data: LoggedDataset) -> str:
    """A PNG of all histograms, as a data address."""
    from matplotlib.figure import Figure

    panels = _panels(data)
    rows = -(-len(panels) // 4)
    figure = Figure(figsize=(12, 2.4 * rows), layout="constrained")
    for axes, (name, values) in zip(figure.subplots(rows, 4, squeeze=False).flat, panels, strict=False):
        finite = values[np.isfinite(values)]
        axes.hist(finite, bins=min(30, max(5, len(np.unique(finite)))), color="#4878a8")
        axes.set_title(name, fontsize=10)
        axes.set_yticks([])
    for axes in figure.axes[len(panels) :]:
        axes.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _panels(data: LoggedDataset) -> list[tuple[str, Array]]:
    panels = [("episode length", data.lengths), ("episode return", data.returns), ("reward", data.rewards)]
    for name, column in (("observation", data.observations), ("action", data.actions)):
        table = column.reshape(len(column), -1)[:, :MOST]
        panels += [(f"{name} {index}", table[:, index]) for index in range(table.shape[1])]
    return panels
