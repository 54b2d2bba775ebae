"""What is a policy worth, from data somebody else logged?"""

from ope_vpm.catalogue import built_in_estimators
from ope_vpm.chain import VPM, Diagnostics, Expectation, StationaryEstimate, StationaryWarning, Transitions
from ope_vpm.logged import LoggedDataset, inspect, load_dataset
from ope_vpm.mcmc import post_process_mcmc
from ope_vpm.ope import PolicyValue, estimators, evaluate
from ope_vpm.ope.estimator import provide
from ope_vpm.paths import stationary
from ope_vpm.policy import as_policy, load_policy, with_noise

__all__ = [
    "VPM",
    "Diagnostics",
    "Expectation",
    "LoggedDataset",
    "PolicyValue",
    "StationaryEstimate",
    "StationaryWarning",
    "Transitions",
    "as_policy",
    "estimators",
    "evaluate",
    "inspect",
    "load_dataset",
    "load_policy",
    "post_process_mcmc",
    "stationary",
    "with_noise",
]
__version__ = "0.1.0"

provide(built_in_estimators)
