"""Speed, as ratios within one run: the time of a fit relative to the work that cannot be avoided."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg

import ope_vpm as ov
from benchmarks._timing import fastest
from ope_vpm.chain.batches import TransitionBatches
from ope_vpm.chain.solvers.neural import Batches, Neural, Trainer
from ope_vpm.chain.solvers.ratio_network import RatioNetwork
from ope_vpm.linear.features import BATCH_ROWS, FourierFeatures, Standardiser
from ope_vpm.linear.moments import accumulate


def tabular() -> None:
    """Time a fit of a million transitions over 100 000 ordered states (jumps of at most 2), relative to scipy alone."""
    states, rows = 100_000, 1_000_000
    x = np.repeat(np.arange(states), rows // states)
    jump = np.tile([-2, -1, -1, -1, 0, 0, 1, 1, 1, 2], states)
    x_next = np.clip(x + jump, 0, states - 1)
    pairs = ov.Transitions(x, x_next)

    def plain() -> None:
        counts = sparse.coo_array((np.ones(rows), (x, x_next)), shape=(states, states)).tocsr()
        kernel = sparse.diags_array(1 / counts.sum(axis=1)) @ counts
        system = (sparse.identity(states) - kernel.T).tocsc()[:-1, :-1]
        linalg.spsolve(system, np.ones(states - 1))

    unavoidable, ours = fastest(plain, 3), fastest(lambda: ov.VPM().fit(pairs), 3)
    print(f"tabular: scipy {unavoidable:.2f} s, whole fit {ours:.2f} s: ratio {ours / unavoidable:.2f} (at most 4)")
    rng = np.random.default_rng(0)
    mixing = ov.Transitions(rng.integers(states, size=rows), rng.permutation(x))
    seconds = fastest(lambda: ov.VPM().fit(mixing), 1)
    print(f"tabular, a well-connected chain, whose factorisation would not fit in memory: {seconds:.2f} s")


def kernel() -> None:
    """The moments pass at D = 512, against the same matrix products on data that is already there."""
    rng = np.random.default_rng(0)
    pairs = ov.Transitions(rng.normal(size=(50_000, 10)), rng.normal(size=(50_000, 10)))
    features = FourierFeatures.draw(pairs.x[:2000], 511, 1.0, rng)
    here = rng.normal(size=(BATCH_ROWS, 512))
    both = rng.normal(size=(BATCH_ROWS, 1024))
    product = fastest(lambda: here.T @ both, 10) * len(pairs) / BATCH_ROWS
    ours = fastest(lambda: accumulate(TransitionBatches(pairs, features)), 3)
    print(
        f"kernel: products {product:.2f} s, moments pass {ours:.2f} s: {product / ours:.0%} of the GEMM rate", end=" "
    )
    print("(at least 50 %)")


def neural() -> None:
    """Time one inner step (batch 1000, 2 x 64), relative to its matrix products, forward and backward."""
    rng = np.random.default_rng(0)
    pairs = ov.Transitions(rng.normal(size=(20_000, 10)), rng.normal(size=(20_000, 10)))
    settings = Neural(batch_size=1000)
    batches = Batches(pairs, Standardiser.fit(pairs.x).within_range(pairs.x), settings, rng)
    trainer = Trainer(settings, RatioNetwork(10, (64, 64), start_at_one=True), batches, 1.0)
    sizes = [(2000, 10, 64), (2000, 64, 64), (2000, 64, 1)]
    operands = [(torch.randn(n, a), torch.randn(a, b), torch.randn(n, b)) for n, a, b in sizes]

    def products() -> None:
        for inputs, weights, gradient in operands:
            torch.mm(inputs, weights)
            torch.mm(inputs.T, gradient)
            torch.mm(gradient, weights.T)

    def steps() -> None:
        for _ in range(50):
            parts = trainer.draw()
            with torch.no_grad():
                reference = trainer.network(parts[0])
            trainer.inner_step(parts, reference, 0.5)

    bare, ours = fastest(lambda: [products() for _ in range(50)], 10) / 50, fastest(steps, 10) / 50
    print(f"neural: products {bare * 1e3:.2f} ms, inner step {ours * 1e3:.2f} ms: ratio {ours / bare:.2f} (at most 3)")


def main() -> None:
    tabular()
    kernel()
    for threads in (torch.get_num_threads(), 1):
        torch.set_num_threads(threads)
        print(f"torch threads: {threads}", end="; ")
        neural()
