"""d3rlpy's own fitted Q evaluation, as a cross-check on greedy d3rlpy policies: it knows no others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.logged.formats.d3rlpy import to_d3rlpy
from ope_vpm.ope.authoring import Bootstrap, Problem, ProblemEstimator, RawEstimate
from ope_vpm.ope.inference.doubts import remarks
from ope_vpm.ope.inference.uncertainty import initial_sums
from ope_vpm.optional import is_from, library, own_generator


@contextmanager
def _numpy_generator(seed: int) -> Iterator[None]:
    """NumPy's global generator, from which d3rlpy draws batches, seeded and put back as it was."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(seed % 2**32)  # noqa: NPY002
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


@dataclass(frozen=True, kw_only=True)
class D3rlpyFQE(ProblemEstimator):
    """(1-γ) times the mean of d3rlpy's Q at initial states and greedy actions."""

    name: ClassVar[str] = "d3rlpy_fqe"

    training_steps: int = 10_000
    learning_rate: float = 1e-4
    """d3rlpy's default."""
    batch_size: int = 100
    """d3rlpy's default."""

    def check(self, problem: Problem) -> None:
        """It discounts, absorbs ends, and asks a d3rlpy algorithm for its greedy action."""
        if not is_from(problem.policy.made_from, "d3rlpy"):
            raise ValueError(
                "d3rlpy_fqe needs the greedy policy of a d3rlpy algorithm (as_policy(algo, deterministic=True)): "
                "use fqe, which takes any policy"
            )
        if problem.gamma == 1:
            raise ValueError("d3rlpy_fqe has no average reward: use gamma < 1, or fqe")
        if problem.on_end != "absorb" or problem.time_limit != "continue":
            raise ValueError("d3rlpy_fqe ends episodes where they were terminated: use fqe for restarts")

    def find(self, problem: Problem) -> RawEstimate:
        """Train it, and ask it about the initial states."""
        values = (1 - problem.gamma) * self._initial_values(problem)
        return RawEstimate(
            value=float(values.mean()),
            uncertainty=Bootstrap(episodes=initial_sums(problem, 1.0, values)),
            doubts=remarks(["the interval takes d3rlpy's Q as known"]),
            diagnostics={"solver": "d3rlpy"},
        )

    def _initial_values(self, problem: Problem) -> Floats:
        ope, logging = library("d3rlpy.ope", "d3rlpy"), library("d3rlpy.logging", "d3rlpy")
        algo, first = problem.policy.made_from, problem.log.initial_observations
        discrete = problem.data.discrete_actions
        settings: dict[str, Any] = {"observation_scaler": algo.observation_scaler, "action_scaler": algo.action_scaler}
        config = ope.FQEConfig(
            gamma=problem.gamma, learning_rate=self.learning_rate, batch_size=self.batch_size, **settings
        )
        fqe = (ope.DiscreteFQE if discrete else ope.FQE)(algo=algo, config=config)
        with own_generator(problem.seed), _numpy_generator(problem.seed):
            fqe.fit(
                to_d3rlpy(problem.data.select(problem.log.episodes)),
                n_steps=self.training_steps,
                n_steps_per_epoch=self.training_steps,
                logger_adapter=logging.NoopAdapterFactory(),
                show_progress=False,
            )
            observations = np.asarray(first, dtype=np.float32).reshape(len(first), *algo.observation_shape)
            values = fqe.predict_value(observations, algo.predict(observations))
        return np.asarray(values, dtype=np.float64).reshape(-1)
