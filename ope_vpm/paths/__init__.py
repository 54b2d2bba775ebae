"""The stationary distribution of a quantity, estimated from logged trajectories of it."""

from ope_vpm.paths.stationary import StationaryDistribution, stationary

__all__ = ["StationaryDistribution", "stationary"]
