"""The page: one HTML file without scripts and with nothing to fetch, and the small card for notebooks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.logged import LoggedDataset, inspect
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.inference.values import PolicyValues
from ope_vpm.ope.reporting import weights, words
from ope_vpm.ope.reporting.words import Values, between, by_name, leads, logged_lead, number
from ope_vpm.optional import versions
from ope_vpm.pages import svg, write_page
from ope_vpm.pages.html import EMPTY, Html, element, joined, listed, table

LIBRARIES = ("ope-vpm", "numpy", "scipy", "torch", "gymnasium")
"""Whose versions can change a number."""
LEADER = "auto"
"""The estimator that the sentence on top is about, where it is among several: it chooses among the others."""
CONTROL = "naive"
"""The estimator that is the logged mean, with an interval."""
NOTHING = "–"
"""In a table where a number is not known."""
LONGEST = 400
"""Characters of a diagnostic that are shown."""


def report(values: Values, path: str | Path, data: LoggedDataset | None = None, title: str | None = None) -> None:
    """Write a page about one policy value or several, one HTML file that needs nothing else.

    Args:
        values: what `evaluate` returned: a value, a dict of values by estimator or by policy, or a list of these.
        path: the file to write, such as "report.html".
        data: the log that was evaluated; with it the page shows where the weight sits and what the doctor found.
        title: the heading.
    """
    named = by_name(values)
    for name, value in named.items():
        if data is not None and value.weights is not None and len(value.weights) != len(data):
            raise ValueError(
                f"data must be the log that was evaluated: {name} has {len(value.weights)} weights, "
                f"and the data have {len(data)} rows"
            )
    heading = title or "What is the policy worth?"
    said = values.agreement if isinstance(values, PolicyValues) else ()
    write_page(path, heading, joined(*_sections(named, data, said)))


def card(value: PolicyValue) -> Html:
    """A value in a notebook: the sentence, the reasons, and what would help."""
    colour = {"reliable": "#2e9e63", "caution": "#c98500", "unreliable": "#d1493f"}[value.lead.verdict]
    parts = [element("b", words.headline(value.estimator, value)), _meaning(value), listed(value.lead.reasons[1:])]
    return element("div", parts, style=f"border-left:4px solid {colour};padding:.2em .8em;max-width:50em")


def cards(values: Values) -> str:
    """Several values in a notebook, each with its name above it."""
    return joined(*(joined(element("p", element("b", name)), card(value)) for name, value in by_name(values).items()))


def _sections(named: dict[str, PolicyValue], data: LoggedDataset | None, agreement: Sequence[str]) -> list[Html]:
    leader = LEADER if LEADER in named else next(iter(named))
    value = named[leader]
    logged = logged_lead(value, data)
    return [
        _top(named, leader, logged),
        section("The estimates side by side", _pictures(named, leader, logged), _values_table(named, leader, logged)),
        *([section("Which estimators agree", listed(agreement))] if agreement else []),
        *_weight_sections(leader, value, data),
        *_doctor(data),
        *_risks(value, data),
        section("What was assumed", _assumptions(value, data)),
        section("How it was computed", _computed(value), *(_details(name, one) for name, one in named.items())),
    ]


def section(title: str, *parts: Html) -> Html:
    """A part of the page under a heading of its own."""
    return element("section", element("h2", title), *parts)


def _top(named: dict[str, PolicyValue], leader: str, logged: float | None) -> Html:
    """The sentence in plain words, and what goes with it."""
    value = named[leader]
    one_question = len({(one.estimator, one.gamma) for one in named.values()}) == 1
    several = len(named) > 1 and one_question and value.estimator not in named  # the same but for the policy
    parts = [element("p", words.headline(words.subject(leader, value), value), class_="headline")]
    parts += [element("p", said) for said in (words.would_help(value), words.compared(value, logged)) if said]
    parts += [element("p", words.ranked(named))] if several else []
    parts += [_meaning(value)]
    if len(value.lead.reasons) > 1:
        parts += [element("p", "All that speaks against it:"), listed(value.lead.reasons)]
    return element("div", parts, class_=f"top {value.lead.verdict}")


def _meaning(value: PolicyValue) -> Html:
    """The unit, and the number that does not lead, unless it says nothing."""
    if value.per == "episode":
        if value.same_pay:
            return element("p", "The sum of an episode's rewards. Every step pays the same.", class_="quiet")
        step = f"{number(value.value, words.half_width(value.interval))} {between(value.interval)}"
        return element("p", f"The sum of an episode's rewards. The average reward per step: {step}.", class_="quiet")
    said = f"In units of {words.unit(value.gamma)}."
    found = words.the_return(value)
    if found is not None:
        total, interval = found
        width = words.half_width(interval)
        said += f" As a {words.return_name(value.gamma)}: {number(total, width)}"
        said += "." if interval is None else f", 95 % interval {between(interval)}."
    return element("p", said, class_="quiet")


def _pictures(named: dict[str, PolicyValue], leader: str, logged: float | None) -> Html:
    """The returns of an episode where they lead, otherwise the values per step."""
    said = [element("p", "Returns of an episode.")] if named[leader].per == "episode" else []
    return joined(*said, side_by_side(leads(named, leader), logged))


def side_by_side(named: Mapping[str, PolicyValue | EpisodeReturn], logged: float | None = None) -> Html:
    """One line per estimate: its interval as a bar, its value as a dot, the logged mean as a dashed line.

    The axis holds all values, and the intervals of those that can be relied on: beside a wide one of an unreliable
    estimate they would be too short to be seen. Where no estimate can be relied on, it holds all intervals. What does
    not fit goes on to the end of the axis.
    """
    usable = [value for value in named.values() if value.verdict != "unreliable"] or list(named.values())
    given = [value.value for value in named.values()] + [end for value in usable for end in value.interval or ()]
    ends = [number for number in (*given, *([] if logged is None else [logged])) if np.isfinite(number)]
    if not ends:
        return EMPTY
    low, high = svg.spanning(ends)
    cut = any(end < low or end > high for value in named.values() for end in value.interval or ())
    axis = svg.Axis(low, high, 0.0, 100.0)
    mean = "" if logged is None else element("i", class_="mean", style=f"left:{axis(logged):.2f}%")
    rows = [
        element("div", element("span", name, class_="name"), _track(value, axis, mean), class_="estimate")
        for name, value in named.items()
    ]
    ticks = [element("span", f"{tick:.6g}", style=f"left:{axis(tick):.2f}%") for tick in axis.ticks()]
    scale = element("div", element("span", class_="name"), element("span", ticks, class_="ticks"), class_="estimate")
    note = "Dots are values, bars are 95 % intervals." + (
        "" if logged is None else " The dashed line is the logged mean."
    )
    note += " Bars that reach an end of the axis go on beyond it." if cut else ""
    return element("div", rows, scale, element("p", note, class_="quiet"), class_="estimates")


def _track(value: PolicyValue | EpisodeReturn, axis: svg.Axis, mean: str) -> Html:
    marks: list[str] = [mean]
    if value.interval is not None:
        start, end = (axis(min(max(end, axis.low), axis.high)) for end in value.interval)
        marks.append(element("i", class_="bar", style=f"left:{start:.2f}%;width:{max(end - start, 0):.2f}%"))
    if np.isfinite(value.value):
        marks.append(element("i", class_="dot", style=f"left:{axis(value.value):.2f}%"))
    return element("span", marks, class_=f"track {value.verdict}")


def _values_table(named: dict[str, PolicyValue], leader: str, logged: float | None) -> Html:
    per_episode = named[leader].per == "episode"
    rows = [(_return_row if per_episode else _row)(name, value) for name, value in named.items()]
    if logged is not None and CONTROL not in named:
        rows.append({"estimate": "the logged mean", "return" if per_episode else "value": number(logged)})
    head = [key for key in rows[0] if any(row.get(key, NOTHING) != NOTHING for row in rows)]
    texts = [place for place, key in enumerate(head) if key in ("estimate", "verdict")]
    return table(head, [[row.get(key, NOTHING) for key in head] for row in rows], text_columns=texts)


def _row(name: str, value: PolicyValue) -> dict[str, str]:
    found = words.the_return(value)
    size = value.effective_sample_size
    return {
        "estimate": name,
        "value": number(value.value, words.half_width(value.interval)),
        "95 % interval": between(value.interval),
        "verdict": element("span", words.VERDICTS[value.verdict], class_=value.verdict),
        "return": NOTHING if found is None else number(found[0], words.half_width(found[1])),
        "effective sample size": NOTHING if size is None else f"{size:.0f}",
    }


def _return_row(name: str, value: PolicyValue) -> dict[str, str]:
    """A line of the table: the return of an episode first, and the value per step unless all steps pay the same."""
    found, row = value.episode_return, _row(name, value)
    interval, level = (None, value.verdict) if found is None else (found.interval, found.verdict)
    return {
        "estimate": name,
        "return": row["return"],
        "95 % interval": NOTHING if found is None else between(interval),
        "verdict": element("span", words.VERDICTS[level], class_=level),
        "per step": NOTHING if value.same_pay else row["value"],
        "effective sample size": row["effective sample size"],
    }


def _weight_sections(leader: str, value: PolicyValue, data: LoggedDataset | None) -> list[Html]:
    if value.weights is None:
        said = f"{leader} does not weight the logged rows, so there is nothing to show here."
        return [section("Where the weight sits", element("p", said))]
    drawn = [weights.histogram(value.weights)]
    if data is None:
        said = element("p", "With the data, as in value.report(path, data), this page also shows where these rows are.")
        return [section("Where the weight sits", element("div", drawn, class_="figures"), said)]
    drawn += [weights.over_episodes(data, value.weights), weights.over_time(data, value.weights)]
    states = weights.over_states(data, value.weights)
    drawn += [] if states is None else [states]
    said = f"How much each logged row counts for {leader}: the target's time there, relative to the log's."
    return [
        section("Where the weight sits", element("p", said), element("div", drawn, class_="figures")),
        section("The rows with the largest weights", weights.heaviest_rows(data, value.weights)),
        section("The episodes with the largest weights", weights.heaviest_episodes(data, value.weights)),
    ]


def _doctor(data: LoggedDataset | None) -> list[Html]:
    if data is None:
        return []
    seen = inspect(data)
    findings = listed((str(found) for found in seen.findings), class_="findings")
    numbers = element("details", element("summary", "The log in numbers"), element("pre", str(seen.description)))
    return [section("What the doctor found in the data", findings or element("p", "Nothing looks wrong."), numbers)]


def _risks(value: PolicyValue, data: LoggedDataset | None) -> list[Html]:
    """How bad a single return can get, and what hidden causes could make of the value, where that can be told."""
    if data is None:
        return []
    said: list[Html] = []
    with suppress(ValueError):  # it says why: here nobody has asked
        said.append(element("pre", str(value.distribution(data))))
    with suppress(ValueError):
        said.append(element("p", value.sensitivity(data=data).sentence))
    return [section("How bad it can get, and what if the log hides something", *said)] if said else []


def _assumptions(value: PolicyValue, data: LoggedDataset | None) -> Html:
    if value.question is None:
        return element("p", "The estimator did not say what it assumed.")
    return listed([*words.assumed(value.question, data), *words.tested(value)])


def _computed(value: PolicyValue) -> Html:
    asked = value.question
    rows = [] if asked is None else [("policy", asked.policy), ("data", asked.data), ("seed", str(asked.seed))]
    known = versions(LIBRARIES)
    rows += [("Python", known["python"]), *((name, known.get(name, "not installed")) for name in LIBRARIES)]
    rows += [("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))]
    return _definitions(rows)


def _definitions(entries: Sequence[tuple[str, str]]) -> Html:
    return element("dl", [joined(element("dt", name), element("dd", said)) for name, said in entries])


def _details(name: str, value: PolicyValue) -> Html:
    """Every diagnostic of one estimate, behind its name."""
    entries = [
        ("reasons", "; ".join(value.reasons) or "none"),
        *((key, _short(one)) for key, one in value.diagnostics.items()),
    ]
    return element("details", element("summary", f"{name}: reasons and diagnostics"), _definitions(entries))


def _short(value: Any) -> str:
    said = _said(value)
    return said if len(said) <= LONGEST else said[:LONGEST] + "…"


def _said(value: Any) -> str:
    """A diagnostic as people write it: lists by commas, dicts by colons."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_said(each)}" for name, each in value.items())
    return ", ".join(map(_said, value)) if isinstance(value, list | tuple) else str(value)
