"""Estimates that rest on linear ones: the weighted mean of several, and solutions by other means with their doubts.

The factored ratio of vpm and LSTD-Q solve the same equations with and without weights of the rows: the weights make
the value depend less on how well the features fit Q, and vary more. Which of both is nearer changes from log to log.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.doubts import DISAGREEMENT, FEW, FITTED, RIDGE, SUPPORT, Doubts, among, joined, remarks_among
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.doubts import Rows, row_doubt, sample_rows, with_doubts, without_error
from ope_vpm.ope.linear.estimate import LinearEstimate, leverage, leverage_factor


def mixture(parts: Sequence[LinearEstimate]) -> RawEstimate:
    """The weighted mean of linear estimates: v = Σ w_k v_k, w_k ∝ 1/(se_k² + b_k²).

    se_k is the standard error and b_k how far the value moves when the ridge is ten times larger. Influence functions,
    ratios and Bellman residuals of the mean are those of the parts with the same weights; the return of an episode has
    weights of its own. How far the value depends on which features were drawn is that of the first part.

    Args:
        parts: the estimates, before their features are doubted.
    """
    found, of_return, equations = mixed(parts), None, parts[0].equations
    if found.per_episode is not None:
        returns = [each.per_episode for each in parts if each.per_episode is not None]
        of_return = row_doubt(equations, *_mixed_rows(returns))
    return with_doubts(found, row_doubt(equations, *_mixed_rows(parts)), of_return)


def mixed(estimates: Sequence[LinearEstimate]) -> RawEstimate:
    """The weighted mean with its influence function, weights of rows, and the doubts of all parts.

    Half of the distance of the parts that lie farthest apart is suspected as bias, beside the mean of what they suspect
    themselves: one of them at least is wrong by that.
    """
    shares, values = shares_of(estimates), np.array([each.value for each in estimates])
    of_ridge = RIDGE.suspects(float(shares @ [each.size(RIDGE) or 0.0 for each in estimates]))
    others = (doubt for each in estimates for doubt in each.doubts if doubt.code != RIDGE.code)
    sums = [each.sums.scaled(share) for each, share in zip(estimates, shares, strict=True) if each.sums is not None]
    rows = [each.weights for each in estimates if each.weights is not None]
    returns = [each.per_episode for each in estimates if each.per_episode is not None]
    whole, ridges = len(estimates), [each.ridge for each in estimates]
    return RawEstimate(
        value=float(shares @ values),
        uncertainty=Bootstrap(episodes=reduce(EpisodeSums.beside, sums)),
        weights=shares @ np.stack(rows) if len(rows) == whole else None,
        rows_worth=min((each.rows_worth for each in estimates if each.rows_worth is not None), default=None),
        doubts=joined(of_ridge, DISAGREEMENT.suspects(float(np.ptp(values)) / 2), tuple(others)),
        diagnostics={"solver": "mixture", "ridges": ridges, "shares": shares.tolist()} | _about_rows(estimates[0]),
        per_episode=mixed(returns) if len(returns) == whole else None,
    )


def _about_rows(estimate: LinearEstimate) -> dict[str, Any]:
    """Diagnostics of the rows, which are those of every part."""
    known = estimate.diagnostics
    return {name: known[name] for name in ("clock", "dropped", "ended") if name in known}


def shares_of(estimates: Sequence[LinearEstimate]) -> Floats:
    """How much each estimate counts, w_k ∝ 1/(se_k² + b_k²): for errors 1 and 2 four fifths and one fifth."""
    known = [np.inf if each.sums is None else each.sums.standard_error for each in estimates]
    limits = np.finfo(float)  # without any error all count alike, and one whose error is not known counts nothing
    errors = np.hypot(known, [each.size(RIDGE) or 0.0 for each in estimates])
    errors = np.clip(np.nan_to_num(errors, nan=np.inf), limits.tiny, limits.max)
    precision = (errors.min() / errors) ** 2
    return precision / precision.sum()


def _mixed_rows(parts: Sequence[LinearEstimate]) -> tuple[Floats, Floats]:
    """The ratio and the Bellman residual of the weighted mean at each row of the log's sample."""
    shares, rows = shares_of(parts), [sample_rows(part) for part in parts]
    tau, residual = (np.tensordot(shares, np.stack(each), axes=1) for each in zip(*rows, strict=True))
    return tau, residual


def with_linear_doubt(
    linear: LinearEstimate, found: RawEstimate, rows: Rows, of_return: Rows | None = None
) -> RawEstimate:
    """An estimate by other means, doubted as the solution of linear equations is.

    Networks, saddle points and minimax solutions begin from the features of LSTD-Q or lie in their span, and an
    influence function knows as little of their bias. So they have the doubts of LSTD-Q, and B, what the past predicts
    and what is missed are those of the estimate's own ratio and Bellman residuals. These are fitted to the same rows
    with as many features, so that errors are stretched as those of LSTD-Q are (`leverage_factor`).

    Args:
        linear: LSTD-Q, on a log in memory.
        found: the estimate, with an influence function.
        rows: its ratio τ and its Bellman residual δ at each row of the equations.
        of_return: the same of the return of an episode; None where the estimate has none.
    """
    equations = linear.equations
    if without_error(equations, found) or not np.isfinite(linear.value):
        return found
    doubt, doubt_of_return = row_doubt(equations, *rows.on_sample(equations)), None
    per_episode = found.per_episode
    if per_episode is not None and linear.per_episode is not None and of_return is not None:
        doubt_of_return = row_doubt(equations, *of_return.on_sample(equations))
        per_episode = replace(per_episode, doubts=_of_linear(per_episode.doubts, linear.per_episode.doubts))
        per_episode = _stretched(per_episode, leverage_factor(leverage(equations, linear.per_episode.ridge)))
    found = _stretched(found, leverage_factor(leverage(equations, linear.ridge)))
    found = replace(found, doubts=_of_linear(found.doubts, linear.doubts), per_episode=per_episode)
    return with_doubts(found, doubt, doubt_of_return)


def _stretched(found: RawEstimate, factor: float) -> RawEstimate:
    """The estimate with a sampling error that is larger by a factor."""
    if found.sums is None:
        return found
    return replace(found, uncertainty=Bootstrap(episodes=found.sums.stretched(factor)))


def _of_linear(own: Doubts, linear: Doubts) -> Doubts:
    """The doubts about an estimate with those about the linear solution that it rests on.

    An estimate without weights of its own (`fqe`, `mql`) has an interval by LSTD-Q's ratio, which is worth as many
    episodes as that one.
    """
    return joined(own, among(linear, FEW, SUPPORT, FITTED, RIDGE), remarks_among(linear))
