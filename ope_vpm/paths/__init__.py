"""Logged trajectories, and the law they are heading for."""

from ope_vpm.paths.stationary import StationaryLaw, stationary

__all__ = ["StationaryLaw", "stationary"]
