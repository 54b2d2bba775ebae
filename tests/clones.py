"""Clones of the behaviour as tests ask for them: what they say of the logged actions."""

from ope_vpm.ope.behaviour.categorical import fit_categorical
from ope_vpm.ope.behaviour.clone import Clone
from ope_vpm.ope.behaviour.gaussian import CloneRows, fit_gaussians


def fit_clone(draws, design, held_out, episode):
    """Gaussians around the target."""
    clone, logs = fit_gaussians(draws, CloneRows(design, held_out, episode))
    return Clone(logs, clone.held_out_log_likelihood)


def categorical_clone(probabilities, actions, features, held_out):
    """Discrete actions, the target's probabilities tilted."""
    clone = fit_categorical(probabilities, actions, features, held_out)
    return Clone(clone.log_prob(probabilities, actions, features), clone.held_out_log_likelihood)
