"""The catalogue of studies, by the names that `ope-vpm reproduce` takes."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from ope_vpm.studies.study import Study
from ope_vpm.suggestions import unknown

MODULES = {
    "queue": "queue",
    "sde": "sde",
    "phylogeny": "sde",
    "mcmc": "mcmc",
    "mcmc-evolution": "mcmc_evolution",
    "convergence": "convergence",
    "reacher": "control",
    "halfcheetah": "control",
    "ant": "control",
    "taxi": "taxi",
    "open-bandit": "open_bandit",
    "sepsis": "sepsis",
}
"""The module of each study."""
SHARED = ("control", "sde")
"""The modules with several studies, whose `study` function takes the name first."""


def find_study(name: str, quick: bool) -> Study:
    """Return a study by name.

    Args:
        name: such as "queue".
        quick: whether to return its small version, which is named "queue-quick" so that results do not mix.
    """
    if name not in MODULES:
        raise ValueError(unknown("figure", name, MODULES))
    module = import_module(f"ope_vpm.studies.{MODULES[name]}")
    study: Study = module.study(name, quick) if MODULES[name] in SHARED else module.study(quick)
    return replace(study, name=f"{name}-quick") if quick else study
