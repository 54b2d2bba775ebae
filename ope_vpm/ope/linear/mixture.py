"""Several linear estimates of one value as one estimate, each weighted by what is known of its error.

The factored ratio of vpm and LSTD-Q solve the same equations with and without weights of the rows: the weights make
the value depend less on how well the features fit Q, and vary more. Which of both is nearer changes from log to log.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.doubts import DISAGREEMENT, RIDGE, joined
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.sensitivity import row_doubt, sample_rows, with_doubts


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
