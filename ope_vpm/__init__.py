"""What is a policy worth, from data somebody else logged?"""

from ope_vpm.chain import VPM, Diagnostics, Expectation, StationaryEstimate, StationaryWarning, Transitions

__all__ = ["VPM", "Diagnostics", "Expectation", "StationaryEstimate", "StationaryWarning", "Transitions"]
__version__ = "0.1.0"
