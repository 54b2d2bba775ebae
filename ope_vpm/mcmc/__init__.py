"""Draws from any Markov chain Monte Carlo sampler, corrected."""

from ope_vpm.mcmc.cells import cell_ratio

__all__ = ["cell_ratio"]
