"""A plain page about a selection: one sentence, and a table with the intervals drawn on one scale."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from ope_vpm.outside import write_text
from ope_vpm.plugins.selection import Candidate, Selection

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Which policy?</title>
<style>
:root {{ color-scheme: light dark; --bar: light-dark(#b33, #f77); --line: light-dark(#ddd, #444); }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }}
td.number {{ text-align: right; }}
.wide {{ overflow-x: auto; }}
svg {{ width: 12rem; height: 1.2rem; }} line {{ stroke: var(--bar); stroke-width: 2; }} circle {{ fill: var(--bar); }}
small {{ opacity: .75; }}
</style></head><body>
<h1>Which policy?</h1>
<p>{sentence}</p>
<div class="wide"><table>
<tr><th></th><th>policy</th><th>value</th><th>95 % interval</th><th></th><th>verdict</th><th>against the first</th>
<th>regret at most</th></tr>
{rows}
</table></div>
<p><small>Estimator {estimator}, γ = {gamma:g}. Values are on the scale of one reward. Differences are judged on the
same episodes, with Bonferroni's correction. The regret is what choosing a policy costs at most, compared with the best
of these, with a probability of 95 %.</small></p>
</body></html>
"""


def write_page(selection: Selection, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    first = selection.best.value
    ends = [end for each in selection.candidates for end in (each.value.interval or (each.value.value,) * 2)]
    known = [end for end in ends if np.isfinite(end)] or [0.0]
    scale = min(known), max(known)
    rows = "\n".join(_row(number, each, scale) for number, each in enumerate(selection.candidates, 1))
    page = PAGE.format(
        sentence=escape(selection.sentence()), rows=rows, estimator=escape(first.estimator), gamma=first.gamma
    )
    write_text(path, page)


def _row(number: int, candidate: Candidate, scale: tuple[float, float]) -> str:
    value = candidate.value
    between = "none" if value.interval is None else "{:.4g} … {:.4g}".format(*value.interval)
    apart = "" if number == 1 else candidate.against_first
    reasons = "".join(f"<br><small>{escape(reason)}</small>" for reason in value.reasons)
    regret = f"{candidate.regret:.4g}" if np.isfinite(candidate.regret) else "unknown"
    return (
        f"<tr><td>{number}</td><td>{escape(candidate.name)}</td><td class=number>{value.value:.4g}</td>"
        f"<td>{between}</td><td>{_drawn(candidate, scale)}</td><td>{value.verdict}{reasons}</td><td>{apart}</td>"
        f"<td class=number>{regret}</td></tr>"
    )


def _drawn(candidate: Candidate, scale: tuple[float, float]) -> str:
    """The interval as a line and the value as a dot, from 0 to 100 on the scale of all intervals."""
    low, high = scale
    width = high - low if high > low else 1.0

    def place(number: float) -> float:
        return 2 + 96 * (number - low) / width

    if not np.isfinite(candidate.value.value):
        return ""
    ends = candidate.value.interval or (candidate.value.value,) * 2
    return (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><line x1="{place(ends[0]):.1f}" '
        f'x2="{place(ends[1]):.1f}" y1="5" y2="5"/><circle cx="{place(candidate.value.value):.1f}" cy="5" r="2"/></svg>'
    )
