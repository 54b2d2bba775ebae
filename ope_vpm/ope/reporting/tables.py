"""Several values as a table: plain rows, a data frame, LaTeX."""

from collections.abc import Mapping, Sequence
from typing import Any

from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.reporting.words import between, half_width, number
from ope_vpm.optional import library

SPECIAL = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "γ": r"$\gamma$"}
)
"""Characters that LaTeX takes for commands, or that its usual fonts lack."""


def rows_of(values: Any, path: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """One row per value: estimator, policy, gamma, value, low, high, per, verdict, reasons.

    Args:
        values: what `evaluate` returned: a value, or dicts and lists of values.
        path: the keys that led to them.
    """
    if isinstance(values, PolicyValue):
        return [_row(values, path)]
    items = values.items() if isinstance(values, Mapping) else enumerate(values)
    return [row for key, value in items for row in rows_of(value, (*path, key))]


def _row(value: PolicyValue, path: tuple[Any, ...]) -> dict[str, Any]:
    """The number that leads, and what belongs to it; keys that are no discount and no estimator name the policy."""
    by_estimator = bool(path) and isinstance(path[-1], str) and path[-1].startswith(value.estimator)
    names = [key for key in (path[:-1] if by_estimator else path) if not isinstance(key, float)]
    asked = None if value.question is None else value.question.policy
    lead = value.lead
    low, high = lead.interval or (float("nan"), float("nan"))
    return {
        "estimator": path[-1] if by_estimator else value.estimator,
        "policy": str(names[0]) if names else asked,
        "gamma": value.gamma,
        "value": lead.value,
        "low": low,
        "high": high,
        "per": value.per,
        "verdict": lead.verdict,
        "reasons": "; ".join(lead.reasons),
    }


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a data frame of pandas."""
    return library("pandas", "pandas").DataFrame(list(rows))


def latex(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a LaTeX table, for `booktabs`; values have the digits that their intervals leave.

    Columns that are the same in all rows (the policy, the discount, the estimator) are left out, but not all of them.
    """
    shown = [_latex_row(row) for row in rows]
    varies = [name for name in ("policy", "estimator", "gamma") if len({row[name] for row in rows}) > 1]
    head = [*(varies or ["estimator"]), "value", "interval", "per", "verdict"]
    kinds = "".join("r" if name in ("value", "interval", "gamma") else "l" for name in head)
    lines = [" & ".join(row[name].translate(SPECIAL) for name in head) + r" \\" for row in shown]
    title = " & ".join({"interval": r"95\,\% interval", "gamma": r"$\gamma$"}.get(name, name) for name in head) + r" \\"
    return "\n".join(
        [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", title, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    )


def _latex_row(row: Mapping[str, Any]) -> dict[str, str]:
    known = row["low"] == row["low"]
    interval = (row["low"], row["high"]) if known else None
    value = number(row["value"], half_width(interval))
    plain = {name: str(row[name]) for name in ("policy", "estimator", "per", "verdict")}
    return {**plain, "gamma": f"{row['gamma']:.12g}", "value": value, "interval": between(interval)}
