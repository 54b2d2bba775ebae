"""Several policy values, as `evaluate` returns them: a dict that prints itself and writes a page."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

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
