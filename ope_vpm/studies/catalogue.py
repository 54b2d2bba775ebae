"""The studies by name."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from ope_vpm.studies.study import Study
from ope_vpm.suggestions import suggestion

MODULES = {
    "queue": "queue",
    "sde": "sde",
    "phylogeny": "phylogeny",
    "mcmc": "mcmc",
    "mcmc-evolution": "mcmc_evolution",
    "convergence": "convergence",
    "reacher": "control",
    "halfcheetah": "control",
    "ant": "control",
    "taxi": "taxi",
}
SHARED = ("control",)
"""Modules with several studies, told apart by name."""


def find_study(name: str, quick: bool) -> Study:
    """A study by name; its quick form has a name of its own, so that results do not mix."""
    if name not in MODULES:
        raise ValueError(f"there is no figure {name!r}: {suggestion(name, MODULES)}")
    module = import_module(f"ope_vpm.studies.{MODULES[name]}")
    study: Study = module.study(name, quick) if MODULES[name] in SHARED else module.study(quick)
    return replace(study, name=f"{name}-quick") if quick else study
