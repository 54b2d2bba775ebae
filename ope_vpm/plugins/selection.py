"""Which of several policies? Values of all of them from one log, and which paired differences are more than noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np

from ope_vpm.logged import LoggedDataset, scan_dataset
from ope_vpm.ope.adapter.given import QuestionChoices, divided, target_of
from ope_vpm.ope.estimator import Estimator
from ope_vpm.ope.inference.estimate import return_range, reward_range
from ope_vpm.ope.inference.uncertainty import LEVEL
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.questions.paired import Evaluated, student
from ope_vpm.ope.questions.returns import worst_tenth
from ope_vpm.outside import about, printable
from ope_vpm.plugins.race import Rough, screened, worth_a_race
from ope_vpm.plugins.valuation import Choices, Valuation

RankBy = Literal["lower", "value", "cvar"]
WORST_RETURNS = "mean of the worst tenth of returns"


@dataclass(frozen=True)
class Candidate:
    """One policy in the order of a selection."""

    name: str
    value: PolicyValue
    behind: float
    """How much less than the first one's its value is; negative where it is more."""
    behind_error: float
    """The standard error of that difference, paired by episodes; infinite where it is not known."""
    told_apart: bool
    """Whether it differs from the first by more than noise, all comparisons with the first holding together."""
    regret: float
    """What choosing it costs at most, compared with the best of all, with a probability of 95 %; never more than the
    difference of the largest and the least value that the rewards allow."""
    of: EpisodeReturn | None = None
    """The quantity compared, if it is not the value per step: the return of an episode, which leads at gamma = 1
    where episodes end, or the mean of the worst tenth of returns."""

    @property
    def lead(self) -> PolicyValue | EpisodeReturn:
        """The number by which it was compared."""
        return self.of or self.value

    @property
    def screened(self) -> bool:
        """Whether a rough solution put it too far behind for a full answer."""
        return self.value.estimator == Rough.name

    @property
    def against_first(self) -> str:
        """How it compares with the first, in words."""
        if self.screened:
            return "screened"
        if not self.told_apart:
            return "not told apart"
        return "worse" if self.behind > 0 else "better"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        lead, compared = self.lead, ("behind", "behind_error", "told_apart", "regret", "screened")
        between = None if lead.interval is None else list(lead.interval)
        about = {"compared": lead.value, "compared_interval": between}
        return {"name": self.name, **self.value.as_dict(), **about, **{each: getattr(self, each) for each in compared}}


@dataclass(frozen=True)
class Selection:
    """Policies in order, the one to choose first."""

    candidates: tuple[Candidate, ...]
    rank_by: RankBy

    @property
    def best(self) -> Candidate:
        """The one to choose."""
        return self.candidates[0]

    @property
    def not_told_apart(self) -> tuple[Candidate, ...]:
        """The others that may be just as good as the first."""
        return tuple(each for each in self.candidates[1:] if not (each.told_apart or each.screened))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "best": self.best.name,
            "rank_by": self.rank_by,
            "not_told_apart": [each.name for each in self.not_told_apart],
            "candidates": [each.as_dict() for each in self.candidates],
        }

    @property
    def what(self) -> str:
        """The name of the quantity that was compared."""
        return WORST_RETURNS if self.rank_by == "cvar" else "return" if self.best.of else "value"

    def sentence(self) -> str:
        """A summary in one sentence."""
        best, rest = self.best, len(self.not_told_apart)
        lead, what = best.lead, self.what
        its = "it" if self.rank_by == "cvar" else f"its {what}"
        lower = self.rank_by == "lower" and lead.interval is not None
        by = "highest lower end of the interval" if lower else f"highest {what}"
        between = "" if lead.interval is None else ", between {:.4g} and {:.4g} (95 %)".format(*lead.interval)
        others = (
            f"{'the other differs' if len(self.candidates) == 2 else 'all others differ'} from it by more than noise"
            if rest == 0
            else "the other cannot be told apart from it"
            if len(self.candidates) == 2
            else f"{rest} of {len(self.candidates) - 1} others cannot be told apart from it"
        )
        if len(self.candidates) == 1:
            others = "there is nothing to compare it with"
        better = sum(each.told_apart and each.behind < 0 for each in self.candidates)
        if better:
            others += f", and {better} look{'s' * (better == 1)} better, but on less that can be relied on"
        cost = f"; choosing it costs at most {best.regret:.4g}" if 0 < best.regret < np.inf else ""
        doubt = "" if lead.verdict == "reliable" else f" Its verdict is {lead.verdict}: {lead.reasons[0]}."
        return f"{best.name} has the {by}: {its} is {lead.value:.4g}{between}; {others}{cost}.{doubt}"

    def to_frame(self) -> Any:
        """A data frame of pandas, a row per policy, best first: that of the values, and how they compare."""
        from ope_vpm.ope.reporting.tables import frame, rows_of

        rows = rows_of({each.name: each.value for each in self.candidates})
        for row, each in zip(rows, self.candidates, strict=True):
            row |= {"compared": each.lead.value, "against_first": each.against_first, "regret": each.regret}
        return frame(rows)

    def plot(self, data: LoggedDataset | None = None, ax: Any = None) -> Any:
        """All values and intervals on axes of matplotlib, which are returned; with `data` beside what was logged."""
        from ope_vpm.ope.reporting.plots import plot

        return plot({each.name: each.value for each in self.candidates}, data, ax)

    def _repr_html_(self) -> str:
        """The page's body, for notebooks."""
        from ope_vpm.plugins.selection_page import body

        return body(self)

    def page(self, path: str | Path) -> None:
        """Write a page with the table and the intervals."""
        from ope_vpm.plugins.selection_page import write_selection

        write_selection(self, path)

    def __str__(self) -> str:
        rows = [
            (
                str(place),
                each.name,
                f"{each.lead.value:.6g}",
                "no interval" if each.lead.interval is None else "[{:.6g}, {:.6g}]".format(*each.lead.interval),
                each.lead.verdict,
                "" if place == 1 else each.against_first,
            )
            for place, each in enumerate(self.candidates, 1)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(map(printable, [self.sentence(), "", *lines]))


def select(
    data: Any,
    policies: Mapping[str, Any] | Sequence[Any],
    estimator: str | Estimator = "auto",
    gamma: float = 1.0,
    *,
    rank_by: RankBy = "lower",
    race: bool = True,
    progress: Callable[[int], None] | None = None,
    jobs: int | None = None,
    **choices: Unpack[QuestionChoices],
) -> Selection:
    """Evaluate all policies on one log and put them in order.

    Policies whose verdict is "unreliable" come after all others. Of many policies on continuous states, `auto` and
    `vpm` answer about those alone that may be the best by a rough solution (`ope_vpm.plugins.race`); the others come
    last, with that solution, and are called "screened".

    Args:
        data: the log, or whatever `ov.evaluate` takes for one: Parquet files that are too many for memory are read in
            parts, two or three times for each policy.
        policies: targets by name, or a list of them, which are then called by their number.
        estimator: a name out of `ov.estimators()`, or an instance.
        gamma: the discount; at 1 returns of an episode are compared where episodes end, otherwise values per step.
        rank_by: "lower" for the lower end of the interval, "value", or "cvar" for the mean of the worst tenth of
            returns, see `PolicyValue.distribution`.
        race: whether policies far behind may be screened; False answers about all of them.
        jobs: how many policies are worked on at once, see `ov.evaluate`.
        progress: called with the number of policies that are done.
        choices: `seed`, `on_end`, `time_limit`, `ignore`, `behaviour` and the estimator's settings: see `ov.evaluate`.

    Returns:
        The policies, best first, with what choosing each may cost compared with the best of all.

    ```python
    import numpy as np
    import ope_vpm as ov

    context, action = np.random.default_rng(0).integers(2, size=(2, 400))  # a coin decided what was done
    log = ov.LoggedDataset.from_arrays(context, action, 1.0 * (context == action), terminated=np.ones(400))
    found = ov.select(log, {"match": np.eye(2), "coin": np.full((2, 2), 0.5)})
    assert found.best.name == "match" and found.not_told_apart == ()
    ```
    """
    if rank_by not in get_args(RankBy):
        raise ValueError(f"rank_by must be 'lower', 'value' or 'cvar': got {rank_by!r}")
    named = _named(policies)
    question, options = divided(choices)
    asked = Choices(estimator=estimator, gamma=gamma, options=options, **question)
    asked.check(gamma)  # a misspelt name is answered before a large file is read
    valuation = Valuation.of(scan_dataset(data), asked)
    targets = {name: target_of(valuation.log.data, policy) for name, policy in named.items()}
    first = next(iter(targets))
    with about(first):
        problem = valuation.problem(targets[first])
    raced = race and rank_by != "cvar" and worth_a_race(valuation.estimator, problem, len(targets))
    found = screened(valuation, targets, jobs) if raced else {}
    left = [name for name in targets if name not in found]
    answers = valuation.each([targets[name] for name in left], jobs)
    for name in left:
        with about(name):
            found[name] = next(answers)
        if progress is not None:
            progress(len(found))
    if rank_by == "cvar":
        worst = {name: worst_tenth(valuation.problem(targets[name]), each.value) for name, each in found.items()}
        return ranked(worst, rank_by, valuation.log.data.n_episodes)
    returns = {name: each.of_return for name, each in found.items() if each.of_return is not None}
    compared = returns if len(returns) == len(found) else found
    allowed = (return_range if compared is returns else reward_range)(problem)
    return ranked(compared, rank_by, valuation.log.data.n_episodes, allowed.high - allowed.low)


def _named(policies: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Policies by name; those of a list by their number."""
    if not isinstance(policies, Mapping | list | tuple):
        raise TypeError(f"policies must be a mapping from names to policies, or a list of them: got {policies!r:.80}")
    named = dict(policies) if isinstance(policies, Mapping) else {str(n): each for n, each in enumerate(policies)}
    if not named:
        raise ValueError("there must be at least one policy to choose from: got none")
    return named


def ranked(found: Mapping[str, Evaluated], rank_by: RankBy, episodes: int, widest: float = np.inf) -> Selection:
    """Put estimates in order and compare them with the first.

    Bonferroni's correction for the number of other policies makes all statements about one policy hold together with
    a probability of 95 %.

    Args:
        found: estimates on one log by name.
        rank_by: see `select`.
        episodes: of the log.
        widest: the largest difference of two values that the rewards allow.
    """
    order = sorted(found, key=lambda name: _rank(found[name], rank_by), reverse=True)
    values = np.array([found[name].lead.value for name in order])
    reach = student(episodes, 1 - (1 - LEVEL) / max(len(order) - 1, 1))
    less = [[found[other].less(found[one]) for other in order] for one in order]
    ahead = np.array([[each.most(reach) for each in row] for row in less])  # how much better columns may be than rows
    apart = (ahead < 0) | (ahead.T < 0)
    ahead[np.isnan(ahead)] = -np.inf  # a policy without a value says nothing about the regret of others
    regret = np.where(np.isnan(values), np.inf, np.clip(ahead.max(axis=1), 0.0, widest))
    candidates = tuple(
        Candidate(
            name,
            found[name].value,
            behind=float(values[0] - values[place]),
            behind_error=less[place][0].error,
            told_apart=bool(apart[0, place]),
            regret=float(regret[place]),
            of=found[name].of,
        )
        for place, name in enumerate(order)
    )
    return Selection(candidates, rank_by)


def _rank(found: Evaluated, rank_by: RankBy) -> tuple[bool, bool, float, float]:
    """The sort key of a candidate, the largest first: usable ones, then by the lower end or the value."""
    value, screened = found.lead, found.value.estimator == Rough.name
    known = -np.inf if np.isnan(value.value) else float(value.value)
    usable = value.verdict != "unreliable", not screened
    if rank_by == "lower" and value.interval is not None:
        return *usable, float(value.interval[0]), 0.0
    return *usable, -np.inf if rank_by == "lower" else known, known
