"""Reading MCMC draws from an array of chains or from what ArviZ makes of them, in its old and its new form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_vpm.arrays import LARGEST, Floats

FEWEST_PAIRS = 20
"""Pairs of successive draws below which nothing is said: the bootstrap of `post_process_mcmc` resamples 20 pieces."""


def as_chains(samples: Any) -> tuple[Floats, tuple[str, ...]]:
    """Return the draws as an array of shape (chains, draws, d), and the names of the d coordinates.

    Args:
        samples: an array of that shape; or variables with the axes chain and draw, as `InferenceData` (ArviZ before
            1.0) and `DataTree` (since) have them in their group `posterior`, or as an xarray `Dataset` or
            `DataArray`. ArviZ itself is not imported.
    """
    posterior = getattr(samples, "posterior", samples)
    if posterior is samples and callable(getattr(samples, "groups", None)):  # InferenceData
        held = ", ".join(samples.groups()) or "none"
        raise ValueError(f"samples must have a group named posterior, with the draws: its groups are {held}")
    if not hasattr(posterior, "data_vars") and {"chain", "draw"} <= set(getattr(posterior, "dims", ())):
        posterior = posterior.to_dataset(name=posterior.name or "x")
    chains, names = _flatten(posterior) if hasattr(posterior, "data_vars") else (_array(samples), ())
    if chains.shape[1] < 2:
        raise ValueError(f"a chain needs at least 2 draws to make a pair: got {chains.shape[1]}")
    pairs = chains.shape[0] * (chains.shape[1] - 1)
    if pairs < FEWEST_PAIRS or chains.shape[2] == 0:
        raise ValueError(
            f"samples must have at least {FEWEST_PAIRS} pairs of successive draws, and a coordinate: got shape "
            f"{chains.shape}, (chains, draws, d)"
        )
    _check_numbers(chains)
    return chains, names or tuple(f"x[{number}]" for number in range(chains.shape[2]))


def _array(samples: Any) -> Floats:
    try:
        chains = np.asarray(samples)
    except ValueError as error:  # NumPy's own words are about arrays, not about chains
        raise ValueError(
            "samples must have as many draws in every chain, and as many coordinates in every draw: got lists of "
            "different lengths (cut the longer chains)"
        ) from error
    if chains.dtype.kind not in "iuf":
        raise TypeError(f"samples must be numbers: got dtype {chains.dtype} (flags are numbers as .astype(float))")
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
        variable = posterior[name]
        if not {"chain", "draw"} <= set(variable.dims):
            raise ValueError(f"the posterior's {name} must have the axes chain and draw: got {variable.dims}")
        values = np.asarray(variable.transpose("chain", "draw", ...).values, dtype=np.float64)
        parts.append(values.reshape(*values.shape[:2], -1))
        inner = list(np.ndindex(values.shape[2:]))
        names += [f"{name}{list(index)}" if index else str(name) for index in inner]
    if not parts:
        raise ValueError("the posterior holds no variables: give the draws in a group named posterior")
    return np.concatenate(parts, axis=2), tuple(names)


def _check_numbers(chains: Floats) -> None:
    if not np.isfinite(chains).all():
        chain, draw, _ = np.argwhere(~np.isfinite(chains))[0]
        raise ValueError(f"samples must be finite: chain {chain}, draw {draw} is {chains[chain, draw]}")
    if np.abs(chains).max() > LARGEST:
        raise ValueError(f"samples must not go beyond {LARGEST:g}, whose squares overflow: give them in another unit")
    spread = np.ptp(chains, axis=(0, 1))
    if ((spread > 0) & (spread < 1 / LARGEST)).any():
        raise ValueError(
            f"samples must not lie within {1 / LARGEST:g} of each other, where squares of distances are 0: give them "
            "in another unit"
        )
