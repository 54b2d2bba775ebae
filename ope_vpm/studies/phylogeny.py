"""Figure `fig:OUP` (d): Ornstein–Uhlenbeck with the parameters of two phylogeny studies."""

from __future__ import annotations

from ope_vpm.studies.sde import PHYLOGENY, sde_study
from ope_vpm.studies.study import Study


def study(quick: bool) -> Study:
    """Return the study with the parameters of Beaulieu et al. (2012) and Santana et al. (2012)."""
    return sde_study("phylogeny", "Phylogeny studies (fig:OUP d): log MMD", PHYLOGENY, quick)
