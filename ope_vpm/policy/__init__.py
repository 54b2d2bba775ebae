"""Target policies in: tables, functions, and the policies of other libraries."""

from ope_vpm.policy.load import as_policy, load_policy
from ope_vpm.policy.noise import with_noise
from ope_vpm.policy.target import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, TablePolicy, TargetPolicy

__all__ = [
    "CategoricalPolicy",
    "DeterministicPolicy",
    "GaussianPolicy",
    "TablePolicy",
    "TargetPolicy",
    "as_policy",
    "load_policy",
    "with_noise",
]
