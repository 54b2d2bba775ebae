"""Stationary distributions from transitions alone: the paper's sections 2 and 3.

No rewards, no policies, no environments: those live in the layers above, which import from here.
"""

from typing import TYPE_CHECKING

from ope_vpm.lazy import names_of

if TYPE_CHECKING:
    from ope_vpm.chain.diagnostics import Diagnostics
    from ope_vpm.chain.estimate import Expectation, StationaryEstimate
    from ope_vpm.chain.finite.solve import StationaryWarning
    from ope_vpm.chain.reweighting import FrameWeights, WeightingEstimator, weights
    from ope_vpm.chain.transitions import Transitions
    from ope_vpm.chain.vpm import VPM
else:
    __getattr__ = names_of(
        __name__,
        {
            "diagnostics": ("Diagnostics",),
            "estimate": ("Expectation", "StationaryEstimate"),
            "finite.solve": ("StationaryWarning",),
            "reweighting": ("FrameWeights", "WeightingEstimator", "weights"),
            "transitions": ("Transitions",),
            "vpm": ("VPM",),
        },
    )

__all__ = [
    "VPM",
    "Diagnostics",
    "Expectation",
    "FrameWeights",
    "StationaryEstimate",
    "StationaryWarning",
    "Transitions",
    "WeightingEstimator",
    "weights",
]
