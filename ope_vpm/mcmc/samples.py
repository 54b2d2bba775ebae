"""Reading MCMC draws from an array of chains or from what ArviZ makes of them, in its old and its new form."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_vpm.arrays import LARGEST, Array, Floats

FEWEST_PAIRS = 20
"""Pairs of successive draws below which nothing is said: the bootstrap of `post_process_mcmc` resamples 20 pieces."""


Variables = dict[str, Array]
"""Arrays of shape (chains, draws, …) by name."""


def as_chains(
    samples: Any, chains: int | None = None, var_names: str | Sequence[str] | None = None
) -> tuple[Floats, tuple[str, ...]]:
    """Return the draws as an array of shape (chains, draws, d), and the names of the d coordinates.

    Args:
        samples: an array of that shape, of shape (chains, draws) for one coordinate or (draws,) for one chain of it; a
            dictionary of arrays of shape (chains, draws, …), as NumPyro's `get_samples(group_by_chain=True)` gives it;
            or variables with the axes chain and draw, as `InferenceData` (ArviZ before 1.0) and `DataTree` (since) have
            them in their group `posterior`, or as an xarray `Dataset` or `DataArray`. ArviZ itself is not imported.
        chains: how many chains there are, which tells the first two axes apart where they have no names.
        var_names: the variables to take; None: all of them.
    """
    posterior = getattr(samples, "posterior", samples)
    if posterior is samples and callable(getattr(samples, "groups", None)):  # InferenceData
        held = ", ".join(samples.groups()) or "none"
        raise ValueError(f"samples must have a group named posterior, with the draws: its groups are {held}")
    if not hasattr(posterior, "data_vars") and {"chain", "draw"} <= set(getattr(posterior, "dims", ())):
        posterior = posterior.to_dataset(name=posterior.name or "x")
    if hasattr(posterior, "data_vars"):
        variables = {str(name): _by_axes(name, posterior[name]) for name in _chosen(posterior.data_vars, var_names)}
    elif isinstance(samples, Mapping):
        variables = {name: _chains_first(_numbers(samples[name]), chains) for name in _chosen(samples, var_names)}
    elif var_names is None:
        array = _numbers(samples)
        variables = {"x": _chains_first(array[None] if array.ndim == 1 else array, chains)}
    else:
        raise ValueError(f"var_names are for variables that have names: got {var_names!r} with an array")
    draws, names = _flatten(variables)
    _check_size(draws)
    _check_numbers(draws)
    return draws, names


def _chosen(held: Any, var_names: str | Sequence[str] | None) -> list[Any]:
    """The names of the variables to take."""
    chosen = list(held) if var_names is None else [var_names] if isinstance(var_names, str) else list(var_names)
    if not chosen:
        raise ValueError("the posterior holds no variables: give the draws in a group named posterior")
    for name in chosen:
        if name not in held:
            raise ValueError(f"var_names must be variables of the draws: there is no {name!r}, there are {list(held)}")
    return chosen


def _by_axes(name: Any, variable: Any) -> Array:
    """A variable of xarray with the axes chain and draw first."""
    if not {"chain", "draw"} <= set(variable.dims):
        raise ValueError(f"the posterior's {name} must have the axes chain and draw: got {variable.dims}")
    return _numbers(variable.transpose("chain", "draw", ...).values)


def _numbers(samples: Any) -> Array:
    try:
        values = np.asarray(samples)
    except ValueError as error:  # NumPy's own words are about arrays, not about chains
        raise ValueError(
            "samples must have as many draws in every chain, and as many coordinates in every draw: got lists of "
            "different lengths (cut the longer chains)"
        ) from error
    if values.dtype.kind not in "iuf":
        raise TypeError(f"samples must be numbers: got dtype {values.dtype} (flags are numbers as .astype(float))")
    return values


def _chains_first(values: Array, chains: int | None) -> Array:
    """An array with chains on its first axis and draws on its second, where the axes have no names."""
    if values.ndim < 2:
        raise ValueError(
            f"samples by name must have the axes (chains, draws, …): got shape {values.shape} "
            "(NumPyro: get_samples(group_by_chain=True))"
        )
    first, second = values.shape[:2]
    if chains is None and first > second > 0:
        raise ValueError(
            f"samples must have the axes (chains, draws, …), and of shape {values.shape} they have more chains than "
            f"draws: pass chains={first} if they are so many short chains, chains={second} if steps come first, as in "
            "emcee (as samples.swapaxes(0, 1) does), or samples[None] if they are one chain of vectors"
        )
    if chains in (None, first):
        return values
    if chains == second:
        return values.swapaxes(0, 1)
    raise ValueError(f"samples must have chains={chains} on one of their first two axes: got shape {values.shape}")


def _flatten(variables: Variables) -> tuple[Floats, tuple[str, ...]]:
    """Concatenate all variables along the last axis, each with its further axes flattened."""
    names: list[str] = []
    shapes = {values.shape[:2] for values in variables.values()}
    if len(shapes) > 1:
        raise ValueError(f"all variables must have as many chains and draws: got {sorted(shapes)}")
    for name, values in variables.items():
        names += [f"{name}{list(index)}" if index else name for index in np.ndindex(values.shape[2:])]
    parts = [values.reshape(*values.shape[:2], -1) for values in variables.values()]
    return np.concatenate(parts, axis=2).astype(np.float64, copy=False), tuple(names)


def _check_size(chains: Floats) -> None:
    if chains.shape[1] < 2:
        raise ValueError(f"a chain needs at least 2 draws to make a pair: got {chains.shape[1]}")
    pairs = chains.shape[0] * (chains.shape[1] - 1)
    if pairs < FEWEST_PAIRS or chains.shape[2] == 0:
        raise ValueError(
            f"samples must have at least {FEWEST_PAIRS} pairs of successive draws, and a coordinate: got shape "
            f"{chains.shape}, (chains, draws, d)"
        )


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
