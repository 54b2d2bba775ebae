"""ArviZ's own k̂ and R̂, before and since its version 1."""

import numpy as np
import pytest


def shape_of_arviz(log_weights):
    """The k̂ of log-weights by the ArviZ that is installed."""
    arviz = pytest.importorskip("arviz")
    if int(arviz.__version__.partition(".")[0]) < 1:
        return float(arviz.psislw(log_weights)[1])
    from arviz_stats.base import array_stats

    if len(log_weights) > 225:  # n/5 rows are the tail of both up to 3·√n
        pytest.skip("ArviZ 1 counts the rows of longer tails otherwise")
    return float(array_stats.psislw(-np.asarray(log_weights))[1])


def rhat_of_arviz(chains):
    """The R̂ of chains of shape (chains, draws) by the ArviZ that is installed."""
    arviz = pytest.importorskip("arviz", exc_type=ImportError)
    if int(arviz.__version__.partition(".")[0]) < 1:
        return float(arviz.rhat(chains))
    from arviz_stats.base import array_stats

    return float(array_stats.rhat(chains))
