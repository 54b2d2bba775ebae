"""Stationary distributions from transitions alone: the paper's sections 2 and 3.

No rewards, no policies, no environments: those live in the layers above, which import from here.
"""

from ope_vpm.chain.transitions import Transitions

__all__ = ["Transitions"]
