"""d3rlpy: the value of the policy that is being trained as a metric of every epoch, and the choice of a checkpoint.

evaluator = OPEEvaluator(gamma=0.99)
algo.fit(dataset, n_steps=10000, n_steps_per_epoch=1000, evaluators=evaluator.metrics())
best = best_epoch("d3rlpy_logs/TD3PlusBC_20260101120000")
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partialmethod
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.ope.estimator import Estimator
from ope_vpm.ope.inference.doubts import LEVELS
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.questions.gate import Gate
from ope_vpm.outside import Shown, printable
from ope_vpm.plugins.valuation import NAN, CallbackChoices, Choices, Valuation, as_numbers
from ope_vpm.policy.d3rlpy import from_d3rlpy

Metric = Callable[[Any, Any], float]
"""d3rlpy's `EvaluatorProtocol`: a number from an algorithm and its dataset."""


class OPEEvaluator:
    """An evaluator for `algo.fit(dataset, evaluators=...)`: the estimated value of the algorithm's policy.

    It returns the value; `lower`, `upper` and `verdict` are evaluators of the same computation, which is done once an
    epoch however many of them are used. What depends on the log alone is made at the first epoch and kept.

    Args:
        estimator: a name out of `ov.estimators()`, or an instance.
        gamma: the discount; the algorithm's own if not given.
        n_episodes: evaluate on so many episodes of the log, drawn once; on all of them if not given.
        every: evaluate at every so many epochs, the first included. Other epochs log NaN: no value was computed.
        data: logged data to evaluate on, or where they are, such as episodes that are not trained on; d3rlpy's dataset
            if not given.
        deterministic: the greedy action of `predict`, as in d3rlpy's `EnvironmentEvaluator`, instead of the draws of
            `sample_action`; the same for algorithms whose policy is deterministic.
        asked: `seed`, `on_end`, `time_limit`, `ignore` and `behaviour` as in `ov.evaluate`; `baseline`, "logged" or a
            policy that the algorithm has to beat by `min_gain`, makes evaluators of `gain` and `gate`, too; and the
            estimator's own settings.
    """

    def __init__(
        self,
        estimator: str | Estimator = "auto",
        gamma: float | None = None,
        n_episodes: int | None = None,
        every: int = 1,
        *,
        data: LoggedDataset | str | Path | None = None,
        deterministic: bool = False,
        **asked: Unpack[CallbackChoices],
    ) -> None:
        for name, number in (("every", every), ("n_episodes", n_episodes)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ValueError(f"{name} must be a whole number, at least 1: got {number!r}")
        self._gamma, self._n_episodes, self._every = gamma, n_episodes, every
        self._data = None if data is None else load_dataset(data)
        self._deterministic = deterministic
        self._choices = Choices.of(estimator, gamma, asked)
        self._valuation: Valuation | None = None
        self._log_key: tuple[Any, ...] = ()
        self._round: tuple[Any, ...] | None = None
        self._asked: set[str] = set()
        self._rounds = 0
        self.last: PolicyValue | None = None
        """The latest value, with its reasons and diagnostics; None in epochs that are passed over."""
        self._gate: Gate | None = None

    def __call__(self, algo: Any, dataset: Any) -> float:
        """The estimated value, on the scale of one reward; see `PolicyValue.value`."""
        return self._number("value", algo, dataset)

    def _number(self, metric: str, algo: Any, dataset: Any) -> float:
        """One of the numbers; a new epoch has begun where the algorithm has learnt or a metric is asked again."""
        now = (id(algo), getattr(algo, "_grad_step", None), id(dataset))
        if now != self._round or metric in self._asked:
            self._round, self._asked = now, set()
            due = self._rounds % self._every == 0
            self._rounds += 1
            self.last, self._gate = self._evaluate(algo, dataset) if due else (None, None)
        self._asked.add(metric)
        return NAN if self.last is None else as_numbers(self.last, self._gate)[metric]

    lower = partialmethod(_number, "lower")
    """The lower end of the interval; NaN where there is none."""
    upper = partialmethod(_number, "upper")
    """The upper end of the interval; NaN where there is none."""
    verdict = partialmethod(_number, "verdict")
    """0 for reliable, 1 for caution, 2 for unreliable."""
    gain = partialmethod(_number, "gain")
    """How much better than the baseline."""
    gate = partialmethod(_number, "gate")
    """The exit code of `ope-vpm gate --anytime`: 0 better than the baseline, 3 worse, 4 not decided."""

    def metrics(self, name: str = "value") -> dict[str, Metric]:
        """All evaluators, for `evaluators=`; the first has the given name, the others begin with it."""
        judged = {} if self._choices.baseline is None else {f"{name}_gain": self.gain, f"{name}_gate": self.gate}
        return {
            name: self,
            f"{name}_lower": self.lower,
            f"{name}_upper": self.upper,
            f"{name}_verdict": self.verdict,
            **judged,
        }

    def _evaluate(self, algo: Any, dataset: Any) -> tuple[PolicyValue, Gate | None]:
        gamma = float(algo.gamma) if self._gamma is None else self._gamma
        # A buffer that has grown since, as in online training, is another log.
        key = (gamma,) if self._data is not None else (gamma, id(dataset), dataset.transition_count)
        if self._valuation is None or key != self._log_key:
            data = load_dataset(dataset) if self._data is None else self._data
            self._valuation = Valuation.of(self._chosen(data), replace(self._choices, gamma=gamma))
            self._log_key = key
        return self._valuation.answered(from_d3rlpy(algo, deterministic=self._deterministic))

    def _chosen(self, data: LoggedDataset) -> LoggedDataset:
        """The episodes to evaluate on, in the order of the log."""
        if self._n_episodes is None or self._n_episodes >= data.n_episodes:
            return data
        rng = np.random.default_rng(self._choices.seed)
        return data.select(np.sort(rng.choice(data.n_episodes, self._n_episodes, replace=False)))


@dataclass(frozen=True)
class BestEpoch(Shown):
    """An epoch that was chosen by the lower end of its interval."""

    epoch: int
    step: int
    """Gradient steps until then."""
    lower: float
    value: float
    upper: float
    """NaN where it was not logged."""
    reliable: bool
    """Whether its verdict is better than unreliable; True where verdicts were not logged."""
    checkpoint: Path | None
    """The saved model, for `ov.load_policy` or `d3rlpy.load_learnable`; None where none was saved at this epoch."""
    epochs: tuple[BestEpoch, ...] = field(default=(), repr=False)
    """All epochs with an interval, in their order."""

    def plot(self, ax: Any = None) -> Any:
        """All epochs with their intervals, and the chosen one, on axes of matplotlib, which are returned."""
        from ope_vpm.ope.reporting.plots import plot_epochs

        shown = [(each.epoch, each.value, each.lower, each.upper) for each in self.epochs]
        return plot_epochs(shown, self.epoch, ax)

    def __str__(self) -> str:
        saved = "no checkpoint" if self.checkpoint is None else printable(str(self.checkpoint))
        return f"epoch {self.epoch}: {self.value:.6g}  [{self.lower:.6g}, {self.upper:.6g}]  {saved}"


def best_epoch(log_dir: str | Path, name: str = "value") -> BestEpoch:
    """The epoch with the highest lower end, from the files that d3rlpy logged.

    Only epochs whose model was saved are considered, where any was; and those called unreliable are passed over, unless
    all of them are.

    Args:
        log_dir: the folder of one training run, such as `d3rlpy_logs/TD3PlusBC_20260101120000`.
        name: of the metrics, as it was given to `OPEEvaluator.metrics`.
    """
    folder = Path(log_dir)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {folder}: give that of one training run, with d3rlpy's CSV files")
    lower, value = _column(folder / f"{name}_lower.csv"), _column(folder / f"{name}.csv")
    verdict, upper = (
        _column(file) if (file := folder / f"{name}_{each}.csv").exists() else {} for each in ("verdict", "upper")
    )
    every = [
        BestEpoch(*at, low, value.get(at, NAN), upper.get(at, NAN), _usable(verdict.get(at)), _saved(folder, at[1]))
        for at, low in lower.items()
        if not math.isnan(low)
    ]
    if not every:
        raise ValueError(f"{folder} has no epoch with an interval: log {name}_lower by OPEEvaluator.metrics()")
    found = [each for each in every if each.checkpoint] or every
    found = [each for each in found if each.reliable] or found
    return replace(max(found, key=lambda each: each.lower), epochs=tuple(every))


def _usable(verdict: float | None) -> bool:
    return verdict is None or verdict < LEVELS.index("unreliable")


def _saved(folder: Path, step: int) -> Path | None:
    model = folder / f"model_{step}.d3"
    return model if model.exists() else None


def _column(path: Path) -> dict[tuple[int, int], float]:
    """A metric by epoch and step, from lines `epoch,step,value`."""
    if not path.exists():
        others = sorted(each.stem.removesuffix("_lower") for each in path.parent.glob("*_lower.csv"))
        known = f"pass name={others[0]!r}" if others else "log it by evaluators=OPEEvaluator(...).metrics()"
        raise FileNotFoundError(f"there is no {path}: {known}")
    rows = [line.split(",") for line in path.read_text(encoding="utf-8").split()]
    try:
        return {(int(epoch), int(step)): float(number) for epoch, step, number in rows}
    except ValueError as error:
        raise ValueError(f"{path} must hold lines of epoch, step and number, as d3rlpy writes them: {error}") from error
