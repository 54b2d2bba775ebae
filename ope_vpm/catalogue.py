"""Every estimator of this package by name, the order being that of tables, and where it is."""

ESTIMATORS = {
    "vpm": "ope_vpm.ope.vpm.estimator:VPMEstimator",
    "naive": "ope_vpm.baselines.naive:Naive",
    "onestep": "ope_vpm.baselines.onestep:OneStep",
    "wist": "ope_vpm.baselines.importance_sampling:TrajectoryWise",
    "wiss": "ope_vpm.baselines.importance_sampling:StepWise",
    "model": "ope_vpm.baselines.model:ModelBased",
    "liu": "ope_vpm.baselines.liu:Liu2018",
    "auto": "ope_vpm.ope.auto.estimator:Auto",
    "fqe": "ope_vpm.baselines.fqe:FQE",
    "d3rlpy_fqe": "ope_vpm.baselines.d3rlpy_fqe:D3rlpyFQE",
    "dr": "ope_vpm.baselines.doubly_robust:DoublyRobust",
    "wdr": "ope_vpm.baselines.wdr:WeightedDoublyRobust",
    "magic": "ope_vpm.baselines.wdr:Magic",
    "dualdice": "ope_vpm.baselines.dice:DualDice",
    "gendice": "ope_vpm.baselines.dice:GenDice",
    "gradientdice": "ope_vpm.baselines.dice:GradientDice",
    "bestdice": "ope_vpm.baselines.dice:BestDice",
    "mwl": "ope_vpm.baselines.minimax:MinimaxWeights",
    "mql": "ope_vpm.baselines.minimax:MinimaxQ",
}
