"""Inside other people's loops: d3rlpy, stable-baselines3, RLlib, gymnasium, and the choice among checkpoints."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ope_vpm.plugins.d3rlpy import BestEpoch, OPEEvaluator, best_epoch
    from ope_vpm.plugins.gymnasium import LogTransitions, LogVectorTransitions
    from ope_vpm.plugins.rllib import OPERunner, to_rllib
    from ope_vpm.plugins.sb3 import OPECallback, log_to_dataset
    from ope_vpm.plugins.selection import Candidate, Selection, select
    from ope_vpm.plugins.valuation import as_numbers

__all__ = [
    "BestEpoch",
    "Candidate",
    "LogTransitions",
    "LogVectorTransitions",
    "OPECallback",
    "OPEEvaluator",
    "OPERunner",
    "Selection",
    "as_numbers",
    "best_epoch",
    "log_to_dataset",
    "select",
    "to_rllib",
]

_HOMES = {
    "BestEpoch": "d3rlpy",
    "Candidate": "selection",
    "LogTransitions": "gymnasium",
    "LogVectorTransitions": "gymnasium",
    "OPECallback": "sb3",
    "OPEEvaluator": "d3rlpy",
    "OPERunner": "rllib",
    "Selection": "selection",
    "as_numbers": "valuation",
    "best_epoch": "d3rlpy",
    "log_to_dataset": "sb3",
    "select": "selection",
    "to_rllib": "rllib",
}
"""The module of each name: a library is imported when a name that needs it is used."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
