"""Off-policy evaluation: logged data and a target policy into transitions, and the ratio into a value."""

from ope_vpm.ope.adapter.encoding import Encoder
from ope_vpm.ope.adapter.pairs import Pairs, check_match, pairs
from ope_vpm.ope.adapter.steps import Steps, steps
from ope_vpm.ope.estimator import Estimator, ProblemEstimator
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.registry import estimators

__all__ = [
    "Encoder",
    "Estimator",
    "Pairs",
    "PolicyValue",
    "Problem",
    "ProblemEstimator",
    "Steps",
    "check_match",
    "estimators",
    "evaluate",
    "pairs",
    "steps",
]
