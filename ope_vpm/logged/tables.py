"""`from_table`: a log from a table with named columns, whatever library it comes from.

A column plays the role that the user says, or the one that its name suggests.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, get_args

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.table_columns import Column, read_table
from ope_vpm.logged.table_steps import End, Table
from ope_vpm.suggestions import suggestion

GUESSES: dict[str, tuple[str, ...]] = {
    "action": ("action", "actions", "arm", "treatment", "decision", "offer", "chosen_model", "model"),
    "reward": ("reward", "rewards", "outcome", "revenue", "payoff", "next.reward"),
    "episode": (
        "episode", "episode_id", "episode_index", "trajectory", "session", "session_id", "patient", "customer", "user",
    ),
    "time": ("time", "step", "t", "timestep", "frame_index", "date", "datetime", "timestamp"),
    "propensity": ("propensity", "propensity_score", "pscore", "p", "action_prob"),
    "terminal": ("terminal", "terminals", "terminated", "done", "next.done"),
    "truncated": ("truncated", "timeout", "timeouts"),
}  # fmt: skip
"""Names by which a role that was not given is recognised, small letters or capitals, the first that occurs."""
MAY_BE_STATE = ("time",)
"""Roles whose column may be part of the state as well."""


def names_of(columns: Mapping[str, Column], given: str | Collection[str], what: str) -> list[str]:
    """Names of columns that there are; the name of a column of lists stands for the columns of its entries."""
    found = []
    for name in [given] if isinstance(given, str) else given:
        entries = [each for each in columns if each == name or _whole(each) == name]
        if not entries:
            raise ValueError(
                f"{what} names the column {name!r}, which the table does not have: {suggestion(str(name), columns)}"
            )
        found += entries
    return found


def _whole(name: str) -> str:
    """The name of the column of lists that an entry such as `features[0]` belongs to; others as they are."""
    return name.partition("[")[0] if name.endswith("]") else name


def roles_of(columns: Mapping[str, Column], given: Mapping[str, Any], state: Any) -> dict[str, list[str]]:
    """The columns of each role: as given, otherwise by their names; the state takes what is left."""
    roles: dict[str, list[str]] = {}
    played = {name for role, names in given.items() if names for name in names_of(columns, names, role)}
    states = set() if state is None else set(names_of(columns, state, "state"))
    for role, names in given.items():
        if names is None:
            taken = played if role in MAY_BE_STATE else played | states
            small = {_whole(name).lower(): _whole(name) for name in columns if name not in taken}
            guessed = next((small[name] for name in GUESSES[role] if name in small), ())
            roles[role] = names_of(columns, guessed, role)
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


Missing = Literal["fill", "refuse"]
Role = str | Literal[False] | None


def from_table(
    table: Any,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    reward: str | None = None,
    *,
    episode: Role = None,
    time: Role = None,
    propensity: Role = None,
    terminal: Role = None,
    truncated: Role = None,
    one_step: bool | None = None,
    drop: str | Collection[str] = (),
    missing: Missing = "fill",
    ends: End | None = None,
    labels: str | Collection[str] = (),
    numbers: str | Collection[str] = (),
    verbose: bool = True,
) -> LoggedDataset:
    """A log from a table, one row a step; what each column was taken for is printed in one line.

    Texts, categories and flags are encoded, and their names kept in `data.encoding`: policies may then speak of
    columns and actions by name. One state column of texts, categories, flags or recurring whole numbers gives finite
    states. Otherwise every column becomes features: a number itself, a flag 0 or 1, one feature for each level of texts
    and categories, and a date the days since the episode's start (the first `time` of the episode where that is a date,
    otherwise the column's own first date there; where each row is an episode, the first date of the table).

    Args:
        table: a pandas, polars or pyarrow table, a dict of columns, a list of records, or the path of a .csv, .parquet
            or .jsonl file.
        state: the columns of the state; without it, all that have no other role.
        action: the column of the action; several columns of numbers are one continuous action. Texts, categories,
            flags and at most 50 different whole numbers are discrete actions.
        reward: the column of the reward.
        episode: the column that says to which episode a row belongs. Without it, episodes end where `terminal` or
            `truncated` says so; without these either, see `one_step`.
        time: the column by which the rows of an episode are sorted; without it they keep their order.
        propensity: the probability (or density) with which the logged action was taken.
        terminal: the column that says where the task ended; an episode without it was cut off.
        truncated: the column that says where an episode was cut off, although the task had not ended.
        one_step: of a table without episodes and ends. True: each row is an episode of one step, as of a bandit. False:
            all rows are one trajectory. By default True where no column says the order of time, and an error that asks
            where one does, for such rows may be either.
        drop: columns to leave out altogether.
        missing: "fill" puts the mean (0 for flags and dates) in place of a missing number of the state, beside a
            feature that says so, and makes a missing name a level of its own; "refuse" names the rows instead.
        ends: without `terminal` and `truncated`, what the last row of an episode is: "terminated", the task ended
            there, so that the sum of an episode's rewards is its return; or "truncated", the logging stopped there, and
            the last row has no known next state. By default "terminated", and "truncated" of one trajectory.
        labels: columns whose whole numbers are names.
        numbers: columns whose whole numbers are amounts.
        verbose: whether to print the line.

    A role that is not given is recognised by the column's name; False says that there is none.

    ```python
    import ope_vpm as ov

    table = {"customer": ["a", "a", "b"], "basket": [20.0, 35.0, 12.0], "offer": ["none", "mail", "mail"],
             "revenue": [0.0, 3.0, 1.0]}
    log = ov.from_table(table, action="offer", reward="revenue", episode="customer", verbose=False)
    assert log.n_episodes == 2 and log.encoding.actions == ("mail", "none")
    ```
    """
    if missing not in get_args(Missing) or ends not in (None, *get_args(End)):
        raise ValueError(
            f"missing must be 'fill' or 'refuse', and ends 'terminated' or 'truncated': got {missing!r}, {ends!r}"
        )
    columns, frame_kind = read_table(table)
    dropped = names_of(columns, drop, "drop")
    kept = {name: column for name, column in columns.items() if name not in dropped}
    given = {"action": action, "reward": reward, "episode": episode, "time": time, "propensity": propensity}
    roles = roles_of(kept, {**given, "terminal": terminal, "truncated": truncated}, state)
    single = single_steps(roles, one_step)
    forced = names_of(kept, labels, "labels"), names_of(kept, numbers, "numbers")
    last: End = ends or ("terminated" if single or roles["episode"] else "truncated")
    made = Table(kept, roles, *forced, missing == "refuse", last, single, frame_kind).sorted()
    data = made.dataset()
    made.ask()
    if verbose and data.encoding is not None:
        print(data.encoding.taken)
    return data
