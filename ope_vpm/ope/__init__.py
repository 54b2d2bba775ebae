"""Off-policy evaluation: logged data and a target policy into transitions, and the ratio into a value."""

from ope_vpm.ope.adapter.encoding import Encoder, check_match
from ope_vpm.ope.adapter.ends import Steps, steps
from ope_vpm.ope.adapter.pairs import Pairs, pairs
from ope_vpm.ope.estimator import Estimator, ProblemEstimator, estimators
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem

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
