"""Off-policy evaluation: logged data and a target policy into transitions, and the ratio into a value."""

from ope_vpm.ope.encoding import Encoder, Standardisation
from ope_vpm.ope.pairs import Pairs, check_match, pairs
from ope_vpm.ope.steps import Steps, steps

__all__ = ["Encoder", "Pairs", "Standardisation", "Steps", "check_match", "pairs", "steps"]
