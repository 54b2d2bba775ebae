"""Continuous states: Algorithm 1, the power step by stochastic gradients on a softplus network."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ope_vpm.chain.batches import sample_rows
from ope_vpm.chain.diagnostics import StationarityTest
from ope_vpm.chain.divergence import Divergence, divergence
from ope_vpm.chain.monitor import Callback, Damping, Monitor, schedule
from ope_vpm.chain.objective import damped_discounted_loss, saddle_penalty
from ope_vpm.chain.solvers.kernel import FEWEST_ROWS, Kernel
from ope_vpm.chain.solvers.network import HiddenFeatures, NeuralRatio
from ope_vpm.chain.solvers.solution import Ratio, Solution, select
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Standardiser
from ope_vpm.optional import own_generator, torch

if TYPE_CHECKING:
    from ope_vpm.chain.solvers.ratio_network import RatioNetwork

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "steps": 200, "inner_steps": 10, "batch_size": 1000, "learning_rate": 3e-4, "damping": "sqrt",
        "average": 0.0, "patience": None, "start_at_one": False, "decay": False, "exact_dual": False,
        "refit": False,
    },
    "default": {},
}  # fmt: skip

WORSE = 1.1
"""A held-out residual this many times another one is worse; smaller differences are noise."""


@dataclass(frozen=True, kw_only=True)
class Neural:
    """Algorithm 1 and our changes to it.

    `with_preset("paper")` is Algorithm 1 with the settings of the paper's off-policy experiments. The default starts at
    τ = 1, damps by a constant, maximises over v exactly, lets the learning rate fall, averages the network,
    keeps the last average whose stationarity residual on held-out rows is about the lowest, and then solves for the
    fixed point in the span of that network's last hidden layer, as the kernel solver does in its features: what is
    left of the optimiser's error goes, and the standard errors are those of a closed form.
    """

    name = "neural"

    preset: str = "default"
    """The name of the settings, for the record: see `with_preset`."""
    hidden: tuple[int, ...] = (64, 64)
    """Paper: 64, 64; its MCMC study has 128 four times."""
    steps: int = 200
    """T, power steps. Paper: 50 (SDE), 150 (MCMC), 200 (off-policy)."""
    inner_steps: int = 10
    """M, gradient steps a power step. Paper: 10."""
    batch_size: int = 2000
    """B. Paper: 1000."""
    learning_rate: float = 1e-3
    """Paper: 5e-4 (SDE), 1e-3 (MCMC), 3e-4 (off-policy)."""
    decay: bool = True
    """Let the learning rate fall to 0 over the power steps, along a cosine. Paper: no."""
    lam: float = 1.0
    """λ. Paper: 1."""
    damping: Damping = 0.5
    """α. Paper: 1/√t."""
    divergence: str | Divergence = "quadratic"
    average: float = 0.9
    """How much of the averaged network a power step keeps; 0: no average, as in the paper."""
    patience: int | None = 50
    """Power steps in a row with a held-out residual over 1.1 times the lowest before stopping; None: run all,
    nothing held out."""
    start_at_one: bool = True
    exact_dual: bool = True
    """Maximise over the scalar v exactly on each batch; False: gradient ascent, as in the paper."""
    refit: bool = True
    """Solve for the last layer exactly, and keep that unless held-out rows speak against it. Paper: no."""
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("steps", "inner_steps", "batch_size", "learning_rate", "lam"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive: got {getattr(self, name)}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype must be "float32" or "float64": got {self.dtype!r}')
        schedule(self.damping)
        divergence(self.divergence)

    def fit(self, transitions: Transitions, gamma: float, seed: int, callback: Callback | None) -> Solution:
        """Find the ratio."""
        rng = np.random.default_rng(seed)
        sample = sample_rows(transitions, rng)
        standardise = Standardiser.fit(sample).within_range(sample)
        training, held_out = _split(transitions, self.patience is not None, rng)
        batches = Batches(training, standardise, self, rng)
        network, best = self._networks(transitions.dimension, int(rng.integers(2**31)))

        def wrap(net: RatioNetwork) -> NeuralRatio:
            return NeuralRatio(net, standardise, 1.0)

        test = None if held_out is None else StationarityTest.draw(held_out, gamma, rng)
        trainer = Trainer(self, network, batches, gamma)
        lowest, since = np.inf, 0
        with Monitor("power steps", self.steps, callback) as monitor:
            for step in range(1, self.steps + 1):
                change = trainer.power_step(step)
                residual = float("nan") if test is None else test.residual(wrap(trainer.averaged))
                if not residual > WORSE * lowest:  # the last of those as good as the best: the lowest is often luck
                    best, since = copy.deepcopy(trainer.averaged), 0
                lowest = min(lowest, residual)
                monitor.report(step, {"change": change, "residual": residual})
                since += 1
                if self.patience is not None and since > self.patience:
                    break
        mean_ratio = float(np.mean(transitions.row_weights * wrap(best)(transitions.x)))
        ratio = NeuralRatio(best, standardise, 1 / mean_ratio)
        solution = Solution(
            ratio=ratio,
            mean_ratio=mean_ratio,
            convergence=np.array([info["change"] for info in monitor.history]),
            notes=["stopped by the user"] if monitor.interrupted else [],
            settings={"preset": self.preset, "held-out residual": lowest} if test else {"preset": self.preset},
        )
        if self.refit and not monitor.interrupted and len(transitions) >= FEWEST_ROWS:
            return _refit(solution, ratio, transitions, gamma, test, rng)
        return solution

    def _networks(self, dimension: int, seed: int) -> tuple[RatioNetwork, RatioNetwork]:
        """The network to train, seeded without touching the global generator, and a copy."""
        from ope_vpm.chain.solvers.ratio_network import RatioNetwork  # which needs torch

        with own_generator(seed):
            network = RatioNetwork(dimension, tuple(self.hidden), self.start_at_one)
        network = network.to(device=self.device, dtype=getattr(torch, self.dtype))
        return network, copy.deepcopy(network)


def with_preset(preset: str = "default", **options: Any) -> Neural:
    """The settings of a preset, but for the options given."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}: known are {', '.join(sorted(PRESETS))}")
    return Neural(preset=preset, **(PRESETS[preset] | options))


class Batches:
    """Standardised rows as tensors, and random batches of them."""

    def __init__(self, data: Transitions, standardise: Standardiser, settings: Neural, rng: np.random.Generator):
        def tensor(values: Any) -> torch.Tensor:
            dtype = getattr(torch, settings.dtype)
            return torch.as_tensor(np.asarray(values), dtype=dtype, device=settings.device)

        self.x = tensor(standardise(data.x))
        self.successors = tensor(standardise(data.successors))
        self.initial = None if data.x_initial is None else tensor(standardise(data.x_initial))
        self._probability = None if data.weight is None else data.weight / data.weight.sum()
        self._initial_probability = (
            data.initial_weights / data.initial_weights.sum() if self.initial is not None else None
        )
        self._cumulative = None if data.next_weight is None else np.cumsum(data.next_weight, axis=1)
        self._size, self._rng = settings.batch_size, rng

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Row numbers (by weight), and one successor of each (by its probability)."""
        if self._probability is None:
            rows = self._rng.integers(len(self.x), size=self._size)
        else:
            rows = self._rng.choice(len(self.x), size=self._size, p=self._probability)
        index = torch.from_numpy(rows)
        if self._cumulative is None:
            return index, self.successors[index, 0]
        uniform = self._rng.uniform(size=(self._size, 1))
        which = np.minimum((uniform > self._cumulative[rows]).sum(axis=1), self._cumulative.shape[1] - 1)
        return index, self.successors[index, torch.from_numpy(which)]

    def draw_initial(self) -> torch.Tensor:
        """Draw initial states with probabilities proportional to their weights."""
        if self.initial is None:
            raise ValueError("gamma < 1 needs initial states: give x_initial to Transitions")
        rows = self._rng.choice(len(self.initial), size=self._size, p=self._initial_probability)
        return self.initial[torch.from_numpy(rows)]


class Trainer:
    """The inner loop of Algorithm 1."""

    def __init__(self, settings: Neural, network: RatioNetwork, batches: Batches, gamma: float) -> None:
        self.network = network
        self.averaged = copy.deepcopy(network)
        self._settings, self._batches, self._gamma = settings, batches, gamma
        self._phi, self._alpha = divergence(settings.divergence), schedule(settings.damping)
        self._v = torch.zeros((), dtype=batches.x.dtype, device=batches.x.device, requires_grad=True)
        betas = (0.5, 0.999)
        self._optimisers = [torch.optim.Adam(network.parameters(), settings.learning_rate, betas, fused=True)]
        if not settings.exact_dual:
            self._optimisers.append(torch.optim.Adam([self._v], settings.learning_rate, betas, maximize=True))

    def power_step(self, step: int) -> float:
        """M gradient steps towards 𝒯_p τ_t / p, then τ_t is what the network has become."""
        if self._settings.decay:
            for group in self._optimisers[0].param_groups:
                group["lr"] = (
                    self._settings.learning_rate * (1 + math.cos(math.pi * (step - 1) / self._settings.steps)) / 2
                )
        drawn = [self.draw() for _ in range(self._settings.inner_steps)]
        with torch.no_grad():  # τ_t, where this step asks for it: on long logs all rows are several times as many
            references = self.network(torch.cat([parts[0] for parts in drawn])).split(self._settings.batch_size)
        for parts, reference in zip(drawn, references, strict=True):
            self.inner_step(parts, reference, self._alpha(step))
        with torch.no_grad():
            change = float((self.network(drawn[-1][0]) - references[-1]).abs().mean())
            keep = self._settings.average if step > 1 else 0.0
            for mean, value in zip(self.averaged.parameters(), self.network.parameters(), strict=True):
                mean.lerp_(value, 1 - keep)
        return change

    def draw(self) -> list[torch.Tensor]:
        """A batch of x, of its successors and, if γ < 1, of initial states."""
        rows, successor = self._batches.draw()
        parts = [self._batches.x[rows], successor]
        return parts if self._gamma == 1 else [*parts, self._batches.draw_initial()]

    def inner_step(self, parts: list[torch.Tensor], reference: torch.Tensor, alpha: float) -> None:
        """One gradient step on eq:damped_saddle_ratio (any φ, any γ): down in θ, up in v."""
        tau_everywhere = self.network(torch.cat(parts))
        tau = tau_everywhere[: len(reference)]
        nu, nu_next, *nu_initial = self._phi.dual(tau_everywhere).split(len(reference))
        start = nu_initial[0] if nu_initial else None
        loss = damped_discounted_loss(nu, nu_next, start, reference, self._phi, alpha, self._gamma)
        v = (tau.mean() - 1).detach() if self._settings.exact_dual else self._v
        loss = loss + saddle_penalty(tau, v, self._settings.lam)
        loss.backward()
        for optimiser in self._optimisers:
            optimiser.step()
            optimiser.zero_grad()


def _refit(
    trained: Solution,
    network: NeuralRatio,
    transitions: Transitions,
    gamma: float,
    test: StationarityTest | None,
    rng: np.random.Generator,
) -> Solution:
    """The fixed point in the span of the last hidden layer; the network as it was where held-out rows prefer it."""
    features = HiddenFeatures.of(network, sample_rows(transitions, rng))
    ridge = select(transitions, [features], None, gamma, rng).ridge
    solved = Kernel().fit_in_span(transitions, gamma, features, ridge, rng, None, {})
    if test is not None and not _as_good(test, solved.ratio, network):
        note = "the last layer as trained: solved exactly, it left a larger residual on held-out rows"
        return replace(trained, notes=[*trained.notes, note])
    settings = {**trained.settings, "last layer": "solved exactly", "ridge": ridge}
    return replace(
        trained,
        ratio=solved.ratio,
        mean_ratio=solved.mean_ratio,
        notes=[*trained.notes, *solved.notes],
        settings=settings,
    )


def _as_good(test: StationarityTest, solved: Ratio, trained: Ratio) -> bool:
    """Within twice the residual that the network or noise has: the network was chosen on these very rows."""
    return test.residual(solved) <= 2 * max(test.residual(trained), test.noise(trained))


def _split(
    transitions: Transitions, hold_out: bool, rng: np.random.Generator
) -> tuple[Transitions, Transitions | None]:
    """Nine tenths to train on, the rest to judge by."""
    if not hold_out or len(transitions) < 20:
        return transitions, None
    order = rng.permutation(len(transitions))
    cut = len(transitions) // 10
    return transitions.select(np.sort(order[cut:])), transitions.select(np.sort(order[:cut]))
