"""What pages and pictures set side by side: values by name, what leads each of them, and the logged number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.ends import ending_rows
from ope_vpm.ope.inference.logged_mean import weights_by_time
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue

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
    """What the policy that logged the data is worth: the mean reward, below γ = 1 weighted by γ^t."""
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
    """What is set side by side: the returns of episodes where that of the leader leads, otherwise values per step."""
    if named[leader].per == "step":
        return dict(named)
    return {name: value.lead for name, value in named.items() if value.per == "episode"}
