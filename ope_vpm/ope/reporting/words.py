"""What a value means, in sentences, and numbers with as many digits as their uncertainty leaves."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.ends import ending_rows
from ope_vpm.ope.inference.logged_mean import weights_by_time
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.problem import Question

Values = PolicyValue | Mapping[Any, Any] | Sequence[Any]


def by_name(values: Values) -> dict[str, PolicyValue]:
    """All values in one dict: nested names are joined, lists are numbered, and discounts are called so."""
    if isinstance(values, PolicyValue):
        return {values.estimator: values}
    items = values.items() if isinstance(values, Mapping) else [(f"policy {n}", v) for n, v in enumerate(values)]
    named: dict[str, PolicyValue] = {}
    for key, value in items:
        name = f"γ = {key:g}" if isinstance(key, float) else str(key)
        if isinstance(value, PolicyValue):
            named[name] = value
        else:
            named |= {f"{name}, {inner}": one for inner, one in by_name(value).items()}
    if not named:
        raise ValueError("values must hold at least one PolicyValue: got none")
    return named


def logged_mean(value: PolicyValue, data: LoggedDataset | None) -> float | None:
    """The value of the policy that logged the data: the mean reward, below γ = 1 weighted by γ^t."""
    if data is None or value.question is None:
        return None
    asked = value.question
    by_time, tail = weights_by_time(data, asked.gamma, asked.on_end, asked.time_limit)
    mass = float(by_time.sum() + tail.sum())
    return float(by_time @ data.rewards) / mass if mass > 0 else None


def logged_lead(value: PolicyValue, data: LoggedDataset | None) -> float | None:
    """The logged number beside what leads: the mean return of an episode, or what `logged_mean` says."""
    if data is None or value.question is None or value.per == "step":
        return logged_mean(value, data)
    ends = int(ending_rows(data, value.question.time_limit).sum())
    return float(data.rewards.sum()) / ends if ends else None


def leads(named: Mapping[str, PolicyValue], leader: str) -> dict[str, PolicyValue | EpisodeReturn]:
    """The estimates to compare: returns of episodes where that is the leader's headline, otherwise values per step."""
    if named[leader].per == "step":
        return dict(named)
    return {name: value.lead for name, value in named.items() if value.per == "episode"}


LARGEST, SMALLEST = 1e7, 1e-4
"""Numbers beyond are written with an exponent: more zeros than these nobody counts."""

VERDICTS = {"reliable": "reliable", "caution": "with caution", "unreliable": "do not rely on it"}


def number(value: float, spread: float | None = None) -> str:
    """A number with the digits that its uncertainty leaves: four where that is not known.

    Args:
        value: the number.
        spread: half the width of its interval; digits are shown down to a third of it.
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if math.isnan(value):
        return "none"
    if spread is None or not math.isfinite(spread) or spread <= 0 or not SMALLEST <= max(abs(value), spread) < LARGEST:
        return f"{value:.4g}"
    decimals = min(max(-math.floor(math.log10(spread / 3)), 0), 9)
    return f"{value:.{decimals}f}"


def half_width(interval: tuple[float, float] | None) -> float | None:
    """Half the width of an interval, where there is one."""
    return None if interval is None else (interval[1] - interval[0]) / 2


def between(interval: tuple[float, float] | None) -> str:
    """The interval in brackets, or that there is none."""
    width = half_width(interval)
    return "no interval" if interval is None else f"[{number(interval[0], width)}, {number(interval[1], width)}]"


def unit(gamma: float) -> str:
    """The unit of a value at a discount."""
    return "average reward per step" if gamma == 1 else f"reward per step, discounted by γ = {gamma:.12g}"


def found(value: PolicyValue) -> str:
    """The headline number with its interval, as half a sentence."""
    lead = value.lead
    what = "value" if lead is value else "return of an episode"
    width = half_width(lead.interval)
    said = f"puts the {what} at {number(lead.value, width)}"
    if lead.interval is None:
        return f"{said}, without an interval"
    low, high = (number(end, width) for end in lead.interval)
    return f"{said}, between {low} and {high}"


def subject(name: str, value: PolicyValue) -> str:
    """The subject of a sentence about a value, which may be named by its estimator, a policy or a discount."""
    if name.startswith(value.estimator):
        return name
    return f"For {name}" if name.endswith(f", {value.estimator}") else f"For {name}, {value.estimator}"


def headline(name: str, value: PolicyValue) -> str:
    """The sentence on top of the page."""
    if not math.isfinite(value.value):
        return f"{name} found no value: {', '.join(value.reasons)}."
    lead = value.lead
    if lead.verdict == "reliable":
        return f"{name} {found(value)}; nothing speaks against it."
    first = lead.reasons[0] if lead.reasons else "its evidence is weak"
    if lead.verdict == "caution":
        return f"{name} {found(value)}; take it with caution: {first}."
    return f"Do not rely on this: {first}. {name} {found(value)}."


def would_help(value: PolicyValue) -> str:
    """A sentence of advice; empty where there is none."""
    return f"What would help: {'; '.join(value.advice)}." if value.advice and value.lead.verdict != "reliable" else ""


def compared(value: PolicyValue, logged: float | None) -> str:
    """How the target stands to the policy that logged the data, by what leads."""
    lead = value.lead
    if logged is None or lead.interval is None or lead.verdict == "unreliable":
        return ""
    low, high = lead.interval
    said = f"The logged data themselves average {number(logged, half_width(lead.interval))}"
    if low <= logged <= high:
        return (
            f"{said}, which lies within that interval: the target may be no better and no worse than what was logged."
        )
    return f"{said}: the target looks {'better' if low > logged else 'worse'} than what was logged."


def ranked(values: Mapping[str, PolicyValue]) -> str:
    """Which of several policies is worth most, and which ones cannot be told apart from it by their intervals."""
    leads = {name: value.lead for name, value in values.items()}
    best = max(leads, key=lambda name: leads[name].value if math.isfinite(leads[name].value) else -math.inf)
    top = leads[best].interval
    near = [
        name
        for name, value in leads.items()
        if name != best and top is not None and value.interval is not None and value.interval[1] >= top[0]
    ]
    said = f"Of {len(values)} policies, {best} has the highest {'value' if values[best].per == 'step' else 'return'}"
    return f"{said}; its interval overlaps with that of {', '.join(near)}." if near else f"{said}."


def the_return(value: PolicyValue) -> tuple[float, tuple[float, float] | None] | None:
    """The return and its interval, where the value has one."""
    try:
        total = value.as_return()
    except ValueError:
        return None
    return total, value.return_interval


def return_name(gamma: float) -> str:
    """The name of the return at a discount."""
    return "return of an episode" if gamma == 1 else f"discounted return, value / (1 - {gamma:.12g})"


def assumed(question: Question, data: LoggedDataset | None) -> list[str]:
    """The assumptions behind the numbers: the discount, the ends, the truncations."""
    lines = [_meaning(question.gamma), _on_end(question, data), _time_limit(question, data)]
    if data is not None and not data.next_known.all():
        unknown = int((~data.next_known & ~data.terminated).sum())
        if unknown:
            lines.append(f"{unknown} rows whose next state was not logged are left out where it is needed.")
    return lines


ASSUMPTIONS = {
    "Overlap: the log holds what the target does.": ("support", "few", "unseen"),
    "Observations are states: what happened before says nothing more about what follows.": ("past", "placebo"),
    "No hidden causes: the log's policy acted by what was logged, and by chance.": ("hidden_causes",),
    "No luck: the target was not learnt from this log.": ("learnt",),
}
"""What every estimate from a log rests on, and the codes of the doubts that test it."""


def tested(value: PolicyValue) -> list[str]:
    """Each assumption in plain words, with what its tests said."""
    lines = []
    for assumption, codes in ASSUMPTIONS.items():
        found = [doubt for doubt in value.doubts if doubt.code in codes]
        against = [doubt.sentence for doubt in found if doubt.level]
        said = f"Tested, and doubtful: {'; '.join(against)}." if against else "Tested: nothing speaks against it."
        lines.append(f"{assumption} {said if found else 'Not tested here.'}")
    return lines


def _meaning(gamma: float) -> str:
    if gamma == 1:
        return "γ = 1: the value is the long-run average reward per step."
    return (
        f"γ = {gamma:.12g}: the value is (1 - γ) · E[Σ γᵗ rₜ] from the logged initial states, on the scale of one "
        f"reward; it looks about {1 / (1 - gamma):.0f} steps ahead."
    )


def _on_end(question: Question, data: LoggedDataset | None) -> str:
    if data is not None and not data.terminated.any():
        return "No episode terminated: the task does not end by itself in this log."
    count = "" if data is None else f" ({int(data.terminated.sum())} of {data.n_episodes} episodes)"
    after = "the task starts again from a logged initial state" if question.on_end == "restart" else "the reward is 0"
    return f"Where an episode terminated{count}, {after}{' from then on' if question.on_end == 'absorb' else ''}."


def _time_limit(question: Question, data: LoggedDataset | None) -> str:
    number_cut = None if data is None else int((data.truncated & ~data.terminated).sum())
    if number_cut == 0:
        return "No episode was truncated."
    cut = "" if data is None else f" ({number_cut} of {data.n_episodes} episodes)"
    if question.time_limit == "continue":
        return (
            f"Where an episode was truncated{cut}, only the logging stopped: the task goes on (time_limit='continue')."
        )
    return (
        f"Where an episode was truncated{cut}, the time limit is part of the task, which ends (time_limit='restart')."
    )
