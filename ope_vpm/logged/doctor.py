"""The doctor: what looks wrong in a dataset, each finding with the rows it is about."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.describe import Description
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.outside import printable

Level = Literal["error", "warning", "note"]
SHOWN = 10
"""How many rows a finding lists."""


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong."""

    code: str
    """A short fixed name, as in docs/bring-your-data.md; `inspect(data, ignore=[code])` passes over it."""
    level: Level
    """Errors stop an evaluation; warnings are carried into its result and ask for caution; notes are only shown."""
    message: str
    rows: tuple[int, ...]
    """The first rows concerned."""
    count: int
    """How many rows are concerned."""

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.rows) else ""
        where = f" [{self.count} rows: {', '.join(map(str, self.rows))}{more}]" if self.rows else ""
        return printable(f"{self.level} {self.code}: {self.message}{where}")


@dataclass(frozen=True)
class Report:
    """The doctor's description of a log and the findings."""

    description: Description
    findings: tuple[Finding, ...]
    sampled: int | None = None
    """Rows of the sample that some checks looked at instead of all; None where all saw every row."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop an evaluation."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that an evaluation carries into its result."""
        return tuple(finding for finding in self.findings if finding.level == "warning")

    def raise_for_errors(self) -> None:
        """Refuse data with errors, in one sentence."""
        refuse_errors(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        findings = [{**vars(finding), "rows": list(finding.rows)} for finding in self.findings]
        return {"description": self.description.as_dict(), "findings": findings, "sampled": self.sampled}

    def __str__(self) -> str:
        found = "\n".join(map(str, self.findings)) or "nothing looks wrong"
        seen = "" if self.sampled is None else f"\n(every row was read; some checks looked at {self.sampled} of them)"
        return f"{self.description}\n\n{found}{seen}"


Check = Callable[[LoggedDataset], Finding | None]


def inspect(data: LoggedDataset | StreamedDataset, ignore: Collection[str] = ()) -> Report:
    """Check a log for common mistakes.

    Args:
        data: what to look at. Of what `scan_dataset` has opened every row is read, some ten thousand at a time, and
            checks that ask more of a row than the next one look at a sample of episodes.
        ignore: codes of findings that you know to be harmless here.

    Returns:
        Counts and ranges, and findings, each with the rows it is about.

    ```python
    import numpy as np
    import ope_vpm as ov

    states = np.arange(6.0)
    log = ov.LoggedDataset.from_arrays(states, np.zeros(6, dtype=int), states, np.roll(states, 1))
    (found,) = ov.inspect(log).errors  # the states after the steps are not those of the next rows
    assert found.code == "broken-chain"
    ```
    """
    from ope_vpm.logged.page import looked_over

    return looked_over(data, ignore)[0]


def examined(data: LoggedDataset, ignore: Collection[str] = ()) -> tuple[Finding, ...]:
    """The findings alone; arguments as in `inspect`."""
    from ope_vpm.logged.checks import CHECKS

    check_ignored(ignore)
    found = [check(data) for code, check in CHECKS.items() if code not in ignore]
    return tuple(finding for finding in found if finding is not None)


def check_ignored(ignore: Collection[str]) -> None:
    """Refuse codes that no finding has."""
    from ope_vpm.logged.checks import CHECKS

    if isinstance(ignore, str):  # a text is a collection of letters, too
        raise TypeError(f"ignore must be a list of findings: got {ignore!r} (write ignore=[{ignore!r}])")
    unknown = sorted(set(ignore) - set(CHECKS))
    if unknown:
        raise ValueError(f"ignore must name findings out of {', '.join(CHECKS)}: got {', '.join(unknown)}")


def refuse_errors(findings: Sequence[Finding]) -> None:
    """Refuse data with errors, in one sentence."""
    errors = [found for found in findings if found.level == "error"]
    if errors:
        worst = errors[0]
        where = [f"rows from {worst.rows[0]} on, {worst.count} in all"] if worst.rows else []
        others = len(errors) - 1
        more = [f"{others} more error{'s' * (others > 1)}"] if others else []
        told = "; ".join([*where, *more, "see ov.inspect or ope-vpm inspect"])
        raise ValueError(f"the data look wrong: {worst.message} ({told})")


def finding(code: str, level: Level, message: str, rows: Array) -> Finding | None:
    """A finding about some rows (numbers, or a mask); None where there are none."""
    numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    if len(numbers) == 0:
        return None
    return Finding(code, level, message, tuple(int(row) for row in numbers[:SHOWN]), len(numbers))
