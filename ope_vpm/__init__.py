"""What is a policy worth, from data somebody else logged?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ope_vpm.catalogue import ESTIMATORS
from ope_vpm.lazy import names_of
from ope_vpm.others import PLACES

if TYPE_CHECKING:
    from ope_vpm.chain import VPM, Diagnostics, Expectation, StationaryEstimate, StationaryWarning, Transitions
    from ope_vpm.logged import LoggedDataset, from_table, inspect, load_dataset, scan_dataset
    from ope_vpm.mcmc import post_process_mcmc
    from ope_vpm.ope import PolicyValue, estimators
    from ope_vpm.ope.evaluate import evaluate
    from ope_vpm.ope.questions.compare import Comparison, compare
    from ope_vpm.ope.reporting import report
    from ope_vpm.paths import stationary, timescales
    from ope_vpm.plugins import select
    from ope_vpm.policy import as_policy, load_policy, with_noise

__all__ = [
    "VPM",
    "Comparison",
    "Diagnostics",
    "Expectation",
    "LoggedDataset",
    "PolicyValue",
    "StationaryEstimate",
    "StationaryWarning",
    "Transitions",
    "as_policy",
    "compare",
    "estimators",
    "evaluate",
    "from_table",
    "inspect",
    "load_dataset",
    "load_policy",
    "post_process_mcmc",
    "report",
    "scan_dataset",
    "select",
    "stationary",
    "timescales",
    "with_noise",
]
__version__ = "0.2.0"

PLACES.update(ESTIMATORS)


__getattr__ = names_of(
    __name__,
    {
        "chain": ("VPM", "Diagnostics", "Expectation", "StationaryEstimate", "StationaryWarning", "Transitions"),
        "logged": ("LoggedDataset", "from_table", "inspect", "load_dataset", "scan_dataset"),
        "mcmc": ("post_process_mcmc",),
        "ope": ("PolicyValue", "estimators"),
        "ope.evaluate": ("evaluate",),
        "ope.questions.compare": ("Comparison", "compare"),
        "ope.reporting": ("report",),
        "paths": ("stationary", "timescales"),
        "plugins": ("select",),
        "policy": ("as_policy", "load_policy", "with_noise"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
