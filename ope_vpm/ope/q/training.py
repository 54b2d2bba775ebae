"""Small networks, trained repeatably: two hidden layers of 64, Adam, early stopping on held-out rows."""

import copy
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ope_vpm.arrays import Integers
from ope_vpm.optional import own_generator, torch

BATCH = 256
"""Rows in each gradient."""
CHECK_EVERY = 100
"""Gradient steps between two looks at the held-out rows: these then cost little beside the steps."""
HIDDEN = 64
"""Units of each hidden layer, as in the paper's networks."""


class Ensemble(torch.nn.Module):
    """Networks of two hidden layers, side by side in one product of matrices."""

    def __init__(self, members: int, inputs: int, outputs: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = [inputs, HIDDEN, HIDDEN, outputs]
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for before, after in pairwise(sizes):
            drawn = torch.randn((members, before, after), generator=generator) / before**0.5
            self.weights.append(torch.nn.Parameter(drawn))
            self.biases.append(torch.nn.Parameter(torch.zeros((members, 1, after))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(members, n, inputs) to (members, n, outputs)."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = torch.nn.functional.silu(x) if layer < 2 else x
        return x


def mlp(inputs: int, outputs: int, seed: int) -> torch.nn.Sequential:
    """Tanh layers; initialised from the seed without touching the global generator."""
    with own_generator(seed):
        return torch.nn.Sequential(
            torch.nn.Linear(inputs, HIDDEN),
            torch.nn.Tanh(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.Tanh(),
            torch.nn.Linear(HIDDEN, outputs),
        )


def train(
    network: torch.nn.Module,
    loss: Callable[[torch.Tensor], torch.Tensor],
    rows: Integers,
    held_out: Integers,
    *,
    steps: int,
    learning_rate: float,
    patience: int,
    seed: int,
) -> float:
    """Minimise `loss(row numbers)` on batches; keep the network that was best on held-out rows, and say how good.

    Args:
        network: changed in place.
        loss: the mean loss of some rows.
        rows: to train on.
        held_out: to judge by; where there are none the last network is kept.
        steps: at most.
        learning_rate: of Adam.
        patience: checks (one every 100 steps) without improvement before stopping.
        seed: of the batches.
    """
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(network.parameters(), learning_rate, fused=True)
    judge = torch.from_numpy(held_out)
    best, lowest, since = copy.deepcopy(network.state_dict()), np.inf, 0
    for step in range(1, steps + 1):
        batch = torch.from_numpy(rng.choice(rows, size=min(BATCH, len(rows))))
        optimiser.zero_grad()
        loss(batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % CHECK_EVERY == 0 and len(held_out):
            with torch.no_grad():
                now = float(loss(judge))
            since += 1
            if now < lowest:
                best, lowest, since = copy.deepcopy(network.state_dict()), now, 0
            if since >= patience:
                break
    if len(held_out) and np.isfinite(lowest):
        network.load_state_dict(best)
    return lowest
