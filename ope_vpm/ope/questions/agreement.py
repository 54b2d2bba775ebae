"""Which estimator can I trust here? All of them on one question: which solve the same equations, which disagree."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ope_vpm.ope.inference.doubts import PLACEBO, among
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.inference.values import PolicyValues
from ope_vpm.outside import printable

EQUAL = 1e-6
"""A share of the larger standard error: nearer values solve the same equations, and their agreement proves nothing."""
APART = 2.0
"""Standard errors of both together from which on two kinds are said to disagree."""


class AllValues(PolicyValues[str, PolicyValue]):
    """The values of every estimator that fits, by name, and what they say of each other."""

    left_out: dict[str, str]
    """Why the others do not fit, in their own words."""

    def __init__(self, values: Any, left_out: dict[str, str]) -> None:
        super().__init__(values)
        self.left_out = left_out

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The names of estimators that found the same number, for they solve the same equations."""
        groups: list[list[str]] = []
        for name, value in self.items():
            error = value.lead.standard_error or 0.0
            same = (g for g in groups if abs(self[g[0]].lead.value - value.lead.value) <= EQUAL * error)
            group = next(same, None)
            if group is None:
                groups.append([name])
            else:
                group.append(name)
        return [tuple(group) for group in groups]

    @property
    def disagreements(self) -> dict[tuple[str, str], float]:
        """Distances of groups that disagree, in standard errors, the largest first; the logged mean is left out."""
        found = {}
        kinds = [group[0] for group in self.groups if "naive" not in group]
        for one, other in combinations(kinds, 2):
            mine, its = self[one].lead, self[other].lead
            error = np.hypot(mine.standard_error or np.inf, its.standard_error or np.inf)
            distance = abs(mine.value - its.value) / error if error > 0 else np.inf
            if distance > APART:
                found[one, other] = float(distance)
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "values": [value.as_dict() for value in self.values()],
            "groups": [list(group) for group in self.groups],
            "disagreements": [[*pair, size] for pair, size in self.disagreements.items()],
            "left_out": self.left_out,
        }

    def to_frame(self) -> Any:
        """The frame of `PolicyValues`, with the number of the group of estimators that solve the same equations."""
        number = {name: place for place, group in enumerate(self.groups) for name in group}
        return super().to_frame().assign(equations=[number[name] for name in self])

    @property
    def agreement(self) -> tuple[str, ...]:
        """Which solve the same equations, which disagree, what the placebo says of each, and which do not fit."""
        lines = [f"the same equations: {', '.join(group)}" for group in self.groups if len(group) > 1]
        apart = [f"{one} and {other} lie {size:.1f} errors apart" for (one, other), size in self.disagreements.items()]
        lines += apart or [f"no two kinds lie more than {APART:g} errors apart"]
        if any(value.gamma < 1 for value in self.values()):
            against = [name for name, value in self.items() if among(value.doubts, PLACEBO)]
            lines.append(f"the placebo, the log's own policy, speaks against {', '.join(against) or 'none of them'}")
        return (*lines, *(f"left out: {name} ({why})" for name, why in self.left_out.items()))

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *map(printable, self.agreement)])
