"""The catalogue of studies, by the names that `ope-vpm reproduce` takes."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

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
    "sepsis": "sepsis",
}
"""The module of each study."""
PAPERS = sorted(path.stem for path in (Path(__file__).parent / "papers").glob("*.toml"))
"""The papers of others whose figures are reproduced, one file each."""
MODULES |= dict.fromkeys(PAPERS, "papers.paper")
SHARED = ("control", "sde", "papers.paper")
"""The modules with several studies, whose `study` function takes the name first."""


def find_study(name: str, quick: bool, data: Path | None = None) -> Study:
    """Return a study by name.

    Args:
        name: such as "queue".
        quick: whether to return its small version, which is named "queue-quick" so that results do not mix.
        data: the file with a paper's own log, where it may not be part of this package.
    """
    if name not in MODULES:
        raise ValueError(unknown("figure", name, MODULES))
    module = import_module(f"ope_vpm.studies.{MODULES[name]}")
    if data is not None and name not in PAPERS:
        raise ValueError(f"only papers have a log of their own, {', '.join(PAPERS)}: {name} takes no data")
    own = {} if data is None else {"data": data}
    study: Study = module.study(name, quick, **own) if MODULES[name] in SHARED else module.study(quick)
    return replace(study, name=f"{name}-quick") if quick else study
