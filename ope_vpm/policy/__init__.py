"""Target policies in: tables, functions, and the policies of other libraries."""

from ope_vpm.policy.continuous import DeterministicPolicy, GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy, TablePolicy, table_of
from ope_vpm.policy.load import as_policy, load_policy
from ope_vpm.policy.noise import with_noise, with_variance
from ope_vpm.policy.target import TargetPolicy

__all__ = [
    "CategoricalPolicy",
    "DeterministicPolicy",
    "GaussianPolicy",
    "TablePolicy",
    "TargetPolicy",
    "as_policy",
    "load_policy",
    "table_of",
    "with_noise",
    "with_variance",
]
