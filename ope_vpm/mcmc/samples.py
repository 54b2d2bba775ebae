"""Reading MCMC draws from an array of chains or from ArviZ's InferenceData."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_vpm.arrays import Floats


def as_chains(samples: Any) -> tuple[Floats, tuple[str, ...]]:
    """Return the draws as an array of shape (chains, draws, d), and the names of the d coordinates.

    Args:
        samples: an array of that shape; or an object with a `posterior` group of variables with the axes
            (chain, draw, ...), such as ArviZ's `InferenceData`. ArviZ itself is not imported.
    """
    posterior = getattr(samples, "posterior", None)
    chains, names = (_array(samples), ()) if posterior is None else _flatten(posterior)
    if chains.shape[1] < 2:
        raise ValueError(f"a chain needs at least 2 draws to make a pair: got {chains.shape[1]}")
    _check_finite(chains)
    return chains, names or tuple(f"x[{number}]" for number in range(chains.shape[2]))


def _array(samples: Any) -> Floats:
    chains = np.asarray(samples)
    if chains.dtype.kind not in "iuf":
        raise TypeError(f"samples must be numbers: got dtype {chains.dtype}")
    if chains.ndim != 3:
        raise ValueError(
            f"samples must have three axes (chains, draws, d): got shape {chains.shape} "
            "(one chain: samples[None]; one coordinate: samples[..., None])"
        )
    return chains.astype(np.float64, copy=False)


def _flatten(posterior: Any) -> tuple[Floats, tuple[str, ...]]:
    """Concatenate all variables along the last axis, each with its further axes flattened."""
    parts, names = [], []
    for name in posterior.data_vars:
        values = np.asarray(posterior[name].values, dtype=np.float64)
        if values.ndim < 2:
            raise ValueError(f"the posterior's {name} must have the axes (chain, draw): got shape {values.shape}")
        parts.append(values.reshape(*values.shape[:2], -1))
        inner = list(np.ndindex(values.shape[2:]))
        names += [f"{name}{list(index)}" if index else str(name) for index in inner]
    if not parts:
        raise ValueError("the posterior holds no variables")
    return np.concatenate(parts, axis=2), tuple(names)


def _check_finite(chains: Floats) -> None:
    if not np.isfinite(chains).all():
        chain, draw, _ = np.argwhere(~np.isfinite(chains))[0]
        raise ValueError(f"samples must be finite: chain {chain}, draw {draw} is {chains[chain, draw]}")
