"""Off-policy evaluation: logged data and a target policy into transitions, and the ratio into a value."""

from ope_vpm.ope.estimator import Estimator, ProblemEstimator, estimators
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem

__all__ = ["Estimator", "PolicyValue", "Problem", "ProblemEstimator", "estimators", "evaluate"]
