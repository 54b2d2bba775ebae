"""Which column of a table plays which role: as the user says, otherwise by the columns' names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ope_vpm.logged.table_columns import Column
from ope_vpm.suggestions import suggestion

if TYPE_CHECKING:
    from ope_vpm.logged.encoding import Encoding

GUESSES: dict[str, tuple[str, ...]] = {
    "action": ("action", "actions", "arm", "treatment", "decision", "offer", "chosen_model"),
    "reward": ("reward", "rewards", "outcome", "revenue", "payoff"),
    "episode": ("episode", "episode_id", "trajectory", "session", "session_id", "patient", "customer", "user"),
    "time": ("time", "step", "t", "timestep", "date", "datetime", "timestamp"),
    "propensity": ("propensity", "propensity_score", "pscore", "p", "action_prob"),
    "terminal": ("terminal", "terminals", "terminated", "done"),
    "truncated": ("truncated", "timeout", "timeouts"),
}
"""Names by which a role that was not given is recognised, small letters or capitals, the first that occurs."""
MAY_BE_STATE = ("time",)
"""Roles whose column may be part of the state as well."""


def names_of(columns: Mapping[str, Column], given: str | Collection[str], what: str) -> list[str]:
    """Names of columns that there are."""
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in columns:
            raise ValueError(
                f"{what} names the column {name!r}, which the table does not have: {suggestion(str(name), columns)}"
            )
    return names


def roles_of(columns: Mapping[str, Column], given: Mapping[str, Any], state: Any) -> dict[str, list[str]]:
    """The columns of each role: as given, otherwise by their names; the state takes what is left."""
    roles: dict[str, list[str]] = {}
    played = {name for role, names in given.items() if names for name in names_of(columns, names, role)}
    states = set() if state is None else set(names_of(columns, state, "state"))
    for role, names in given.items():
        if names is None:
            taken = played if role in MAY_BE_STATE else played | states
            small = {name.lower(): name for name in columns if name not in taken}
            guessed = next((small[name] for name in GUESSES[role] if name in small), None)
            roles[role] = [] if guessed is None else [guessed]
        else:
            roles[role] = names_of(columns, names or (), role)
        if not roles[role] and role in ("action", "reward"):
            raise ValueError(
                f"the column of the {role} must be named, as in {role}={next(iter(columns))!r}: "
                f"the table has {', '.join(columns)}"
            )
        if len(roles[role]) > 1 and role != "action":
            raise ValueError(f"{role} must be one column: got {', '.join(roles[role])}")
    used = [name for names in roles.values() for name in names]
    roles["state"] = (
        [name for name in columns if name not in used] if state is None else names_of(columns, state, "state")
    )
    if not roles["state"]:
        raise ValueError(f"the state needs at least one column: all of {', '.join(columns)} have other roles")
    outcome = set(roles["state"]) & {*roles["action"], *roles["reward"]}
    if outcome:
        raise ValueError(
            f"the state is what was known before the action: {', '.join(sorted(outcome))} cannot be part of it"
        )
    return roles


def single_steps(roles: Mapping[str, list[str]], one_step: bool | None) -> bool:
    """Whether each row is an episode of one step.

    Args:
        roles: the columns of each role.
        one_step: what the user says, or None.
    """
    bounds = [name for role in ("episode", "terminal", "truncated") for name in roles[role]]
    if one_step and bounds:
        raise ValueError(
            f"one_step=True makes each row an episode, and {', '.join(bounds)} says which rows belong together: "
            "give one of the two (episode=False, terminal=False and truncated=False for none)"
        )
    if one_step is None and roles["time"] and not bounds:
        raise ValueError(
            f"{roles['time'][0]!r} puts the rows in order, and no column says which belong to one episode: say "
            "one_step=True if each row is a decision of its own, as of a bandit, one_step=False if all rows are one "
            "trajectory, or episode='...'"
        )
    return not bounds and one_step is not False


def described(roles: Mapping[str, list[str]], encoding: Encoding) -> str:
    """Which column plays which role."""
    states = f"{len(encoding.state[0].levels or ())} finite states"
    if not encoding.finite:
        states = f"{len(encoding.features)} features"
    words = [f"state {', '.join(roles['state'])} ({states})"]
    actions = "continuous" if encoding.actions is None else _few(encoding.actions)
    words.append(f"action {', '.join(roles['action'])} ({actions})")
    words += [f"{role} {names[0]}" for role, names in roles.items() if role not in ("state", "action") and names]
    return "; ".join(words)


def _few(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a list."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
