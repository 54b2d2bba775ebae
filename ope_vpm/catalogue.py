"""Every estimator of this package by name, the order being that of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_vpm.ope.estimator import Estimator


def built_in_estimators() -> dict[str, type[Estimator]]:
    """Import all of them: done when the first one is asked for, so that `import ope_vpm` stays quick."""
    from ope_vpm.baselines.bestdice import BestDice
    from ope_vpm.baselines.d3rlpy_fqe import D3rlpyFQE
    from ope_vpm.baselines.doubly_robust import DoublyRobust
    from ope_vpm.baselines.dualdice import DualDice
    from ope_vpm.baselines.fqe import FQE
    from ope_vpm.baselines.gendice import GenDice
    from ope_vpm.baselines.gradientdice import GradientDice
    from ope_vpm.baselines.importance_sampling import StepWise, TrajectoryWise
    from ope_vpm.baselines.liu import Liu2018
    from ope_vpm.baselines.model import ModelBased
    from ope_vpm.baselines.mql import MinimaxQ
    from ope_vpm.baselines.mwl import MinimaxWeights
    from ope_vpm.baselines.naive import Naive
    from ope_vpm.baselines.onestep import OneStep
    from ope_vpm.baselines.wdr import Magic, WeightedDoublyRobust
    from ope_vpm.ope.auto.estimator import Auto
    from ope_vpm.ope.vpm.estimator import VPMEstimator

    classes: list[type[Estimator]] = [
        VPMEstimator,
        Naive,
        OneStep,
        TrajectoryWise,
        StepWise,
        ModelBased,
        Liu2018,
        Auto,
        FQE,
        D3rlpyFQE,
        DoublyRobust,
        WeightedDoublyRobust,
        Magic,
        DualDice,
        GenDice,
        GradientDice,
        BestDice,
        MinimaxWeights,
        MinimaxQ,
    ]
    return {kind.name: kind for kind in classes}
