"""What is a policy worth, from data somebody else logged?"""

from ope_vpm.chain import Transitions

__all__ = ["Transitions"]
__version__ = "0.1.0"
