"""Post-processing of Markov chain Monte Carlo: weights that correct the draws of any sampler."""

from ope_vpm.mcmc.cells import cell_ratio
from ope_vpm.mcmc.post_process import Corrected, PostProcessed, post_process_mcmc

__all__ = ["Corrected", "PostProcessed", "cell_ratio", "post_process_mcmc"]
