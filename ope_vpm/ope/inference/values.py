"""What every answer of `evaluate` can do for people, and several of them as a dict that prints itself."""

from pathlib import Path
from typing import Any, TypeVar

from ope_vpm.logged import LoggedDataset
from ope_vpm.outside import printable

Key = TypeVar("Key")
Value = TypeVar("Value")


class Reported:
    """What every answer can do for people, one value or several."""

    def report(self: Any, path: str | Path, data: LoggedDataset | None = None, title: str | None = None) -> None:
        """Write a page about it, one HTML file, with the `data` also on where the weight sits: see `ope_vpm.report`."""
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
        """A LaTeX table, for the package `booktabs`."""
        from ope_vpm.ope.reporting.tables import latex, rows_of

        return latex(rows_of(self))

    def plot(self, data: LoggedDataset | None = None, ax: Any = None) -> Any:
        """Values and intervals on axes of matplotlib, which are returned; with `data` beside what was logged."""
        from ope_vpm.ope.reporting.plots import plot

        return plot(self, data, ax)


class PolicyValues(Reported, dict[Key, Value]):
    """Values by the name of the estimator, the discount or the policy; dicts of dicts where several were asked for."""

    @property
    def agreement(self) -> tuple[str, ...]:
        """What they say of each other, where they are of every estimator."""
        return ()

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
