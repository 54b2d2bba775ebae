"""Several policy values, as `evaluate` returns them: a dict that prints itself and writes a page."""

from pathlib import Path
from typing import Any, TypeVar

from ope_vpm.logged import LoggedDataset
from ope_vpm.outside import printable

Key = TypeVar("Key")
Value = TypeVar("Value")


class PolicyValues(dict[Key, Value]):
    """Values by the name of the estimator, the discount or the policy; dicts of dicts where several were asked for."""

    def report(self, path: str | Path, data: LoggedDataset | None = None, title: str | None = None) -> None:
        """Write one page about all of them, one HTML file; arguments as in `ope_vpm.report`."""
        from ope_vpm.ope.reporting import report

        report(self, path, data, title)

    def to_frame(self) -> Any:
        """A data frame of pandas, a row per value: estimator, policy, gamma, value, low, high, per, verdict, reasons.

        The value is what leads: the return of an episode ("per" episode) at gamma = 1 where episodes end, otherwise the
        value per step.
        """
        from ope_vpm.ope.reporting.tables import frame, rows_of

        return frame(rows_of(self))

    def to_latex(self) -> str:
        """The values as a LaTeX table, for the package `booktabs`."""
        from ope_vpm.ope.reporting.tables import latex, rows_of

        return latex(rows_of(self))

    def plot(self, data: LoggedDataset | None = None, ax: Any = None) -> Any:
        """All values and intervals on axes of matplotlib, which are returned; with `data` beside what was logged."""
        from ope_vpm.ope.reporting.plots import plot

        return plot(self, data, ax)

    def _repr_html_(self) -> str:
        """For notebooks: a card for each."""
        from ope_vpm.ope.reporting import cards

        return cards(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        """The values one below the other; names of policies and discounts stand above what they hold."""
        lines: list[str] = []
        for name, value in self.items():
            if isinstance(value, PolicyValues):
                lines += [printable(f"{name}:"), *(f"  {line}" for line in str(value).splitlines())]
            elif str(value).startswith(printable(f"{name}:")):
                lines.append(str(value))
            else:
                lines.append(f"{printable(str(name))}, {value}")
        return lines
