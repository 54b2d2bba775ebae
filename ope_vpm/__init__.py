"""What is a policy worth, from data somebody else logged?"""

from ope_vpm.chain import Transitions
from ope_vpm.logged import LoggedDataset, inspect, load_dataset

__all__ = ["LoggedDataset", "Transitions", "inspect", "load_dataset"]
__version__ = "0.1.0"
