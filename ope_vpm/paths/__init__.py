"""The stationary distribution of a quantity, estimated from logged trajectories of it."""

from ope_vpm.paths.stationary import StationaryDistribution, stationary
from ope_vpm.paths.timescales import ChapmanKolmogorov, Timescales, chapman_kolmogorov, timescales

__all__ = [
    "ChapmanKolmogorov",
    "StationaryDistribution",
    "Timescales",
    "chapman_kolmogorov",
    "stationary",
    "timescales",
]
