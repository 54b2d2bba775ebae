"""The page of a selection: one HTML file without scripts, in the style of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ope_vpm.ope.reporting import words
from ope_vpm.ope.reporting.page import NOTHING, section, side_by_side
from ope_vpm.ope.reporting.words import between, number
from ope_vpm.pages import write_page
from ope_vpm.pages.html import EMPTY, Html, element, joined, listed, table

if TYPE_CHECKING:
    from ope_vpm.plugins.selection import Candidate, Selection

HEAD = ("", "policy", "value", "95 % interval", "verdict", "against the first", "regret at most")
EXPLAINED = (
    "Two policies are compared on the same episodes, with Bonferroni's correction for all comparisons of a policy. The "
    "regret is what choosing a policy costs at most, compared with the best of these, with a probability of 95 %."
)


def write_selection(selection: Selection, path: str | Path) -> None:
    """Write the page, whole or not at all."""
    write_page(path, "Which policy?", body(selection))


def body(selection: Selection) -> Html:
    """The sentence, all policies best first, and what speaks against them."""
    first = selection.best.value
    unit = f"{selection.what}s" if selection.best.of else f"units of {words.unit(first.gamma)}"
    top = element(
        "div",
        element("p", selection.sentence(), class_="headline"),
        element("p", f"By {first.estimator}, in {unit}.", class_="quiet"),
        class_=f"top {selection.best.lead.verdict}",
    )
    intervals = side_by_side({each.name: each.lead for each in selection.candidates})
    rows = [_row(place, each) for place, each in enumerate(selection.candidates, 1)]
    ranked = joined(table(HEAD, rows, text_columns=(1, 4, 5)), element("p", EXPLAINED, class_="quiet"))
    parts = [top, section("All of them, best first", intervals, ranked)]
    return joined(*parts, _doubts(selection))


def _row(place: int, candidate: Candidate) -> list[str]:
    value = candidate.lead
    return [
        str(place),
        candidate.name,
        number(value.value, words.half_width(value.interval)),
        between(value.interval),
        element("span", words.VERDICTS[value.verdict], class_=value.verdict),
        NOTHING if place == 1 else candidate.against_first,
        number(candidate.regret) if np.isfinite(candidate.regret) else "unknown",
    ]


def _doubts(selection: Selection) -> Html:
    """The reasons against the values, policy by policy."""
    doubted = [each for each in selection.candidates if each.lead.reasons]
    if not doubted:
        return EMPTY
    lists = [joined(element("p", element("b", each.name)), listed(each.lead.reasons)) for each in doubted]
    return section("What speaks against them", *lists)
