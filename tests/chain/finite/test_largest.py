"""Chains that fall apart: the largest communicating class is kept, as deeptime does, and what was left out is said."""

import warnings

import numpy as np
import pytest
from deeptime.markov import TransitionCountEstimator
from deeptime.markov.msm import MaximumLikelihoodMSM

import ope_vpm as ov

STATES = 40
"""Queue lengths of M/M/3: beyond 39 the stationary distribution has less than 1e-6."""


def queue():
    """M/M/3 with arrivals at rate 2 and services at rate 1, in steps of 1/5: transition matrix and distribution."""
    arrivals, services = np.full(STATES, 2.0), np.minimum(np.arange(STATES), 3.0)
    arrivals[-1] = 0
    kernel = (np.diag(arrivals[:-1], 1) + np.diag(services[1:], -1)) / 5
    kernel += np.diag(1 - kernel.sum(axis=1))
    weight = np.cumprod(np.append(1.0, arrivals[:-1] / services[1:]))
    return kernel, weight / weight.sum()


def short_runs(runs, steps, seed):
    """Paths of a few steps from starts that are even over 0 … 14."""
    rng = np.random.default_rng(seed)
    total = queue()[0].cumsum(axis=1)
    path = [rng.integers(0, 15, runs)]
    for _ in range(steps - 1):
        path.append((rng.random(runs)[:, None] > total[path[-1]]).sum(axis=1))
    return list(np.stack(path, axis=1))


def by_deeptime(paths, reversible):
    counts = TransitionCountEstimator(1, "sliding", n_states=STATES).fit_fetch(paths).submodel_largest()
    found = np.zeros(STATES)
    found[counts.state_symbols] = MaximumLikelihoodMSM(reversible=reversible).fit_fetch(counts).stationary_distribution
    return found


def fitted(paths, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ov.StationaryWarning)
        return ov.VPM(**options).fit(ov.Transitions.from_paths(paths))


def divergence(found):
    """KL from the truth, with 1e-12 where there is none."""
    truth = queue()[1]
    found = np.maximum(found, 1e-12)
    return float(truth @ np.log(truth / (found / found.sum())))


def test_a_rare_state_that_is_never_left_is_left_out():
    """0 ↔ 1 evenly with 40 rows; one more row leads from 1 to 2, and one stays there."""
    x = [0, 0, 1, 1] * 10 + [1, 2]
    x_next = [0, 1, 0, 1] * 10 + [2, 2]
    with pytest.warns(ov.StationaryWarning, match=r"kept are 2 states \{0, 1\}.* 95.2% .*left out are 1 state \{2\}"):
        estimate = ov.VPM().fit(ov.Transitions(x, x_next))
    np.testing.assert_allclose(estimate.probabilities(), [0.5, 0.5, 0.0], atol=1e-12)
    assert estimate.expectation(lambda state: state == 1) == pytest.approx(0.5)
    assert estimate.diagnostics.settings["left out"] == pytest.approx(2 / 42)
    assert estimate.diagnostics.doubts == ()
    with pytest.warns(ov.StationaryWarning, match="all mass ends in a closed class"):
        everything = ov.VPM(classes="all").fit(ov.Transitions(x, x_next))
    np.testing.assert_allclose(everything.probabilities(), [0.0, 0.0, 1.0], atol=1e-12)


def test_leaving_out_much_is_a_doubt():
    x, x_next = [0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 2, 2]
    with pytest.warns(ov.StationaryWarning, match=r"66.7% of the transitions"):
        estimate = ov.VPM().fit(ov.Transitions(x, x_next))
    assert len(estimate.diagnostics.doubts) == 1


@pytest.mark.filterwarnings("ignore:the counted chain is periodic")
def test_the_largest_has_the_most_transitions_and_not_the_most_states():
    x, x_next = [0, 1, 2] + [3, 4] * 5, [1, 2, 0] + [4, 3] * 5
    with pytest.warns(ov.StationaryWarning, match=r"kept are 2 states \{3, 4\}"):
        assert ov.VPM().fit(ov.Transitions(x, x_next)).probabilities() == pytest.approx([0, 0, 0, 0.5, 0.5])
    with pytest.warns(ov.StationaryWarning, match=r"kept are 3 states \{0, 1, 2\}"):
        ov.VPM().fit(ov.Transitions(x, x_next, weight=[9.0] * 3 + [1.0] * 10))


@pytest.mark.parametrize("reversible", [False, True])
def test_short_runs_of_a_queue_as_by_deeptime(reversible):
    """All probability went to one to three rows of a closed class before: a mean divergence of 7.8."""
    ours, theirs = [], []
    for seed in range(10):
        paths = short_runs(100, 10, seed)
        found = fitted(paths, reversible=reversible).probabilities(np.arange(STATES))
        deep = by_deeptime(paths, reversible)
        np.testing.assert_allclose(found[deep > 0], deep[deep > 0], atol=0.02)
        ours.append(divergence(found))
        theirs.append(divergence(deep))
    assert np.mean(ours) < 1.1 * np.mean(theirs) < 0.2


def test_a_saved_estimate_has_the_same_errors(tmp_path):
    estimate = fitted(short_runs(50, 10, 0))
    estimate.save(tmp_path / "estimate.npz")
    again = ov.StationaryEstimate.load(tmp_path / "estimate.npz")
    first, second = (each.expectation(lambda x: x) for each in (estimate, again))
    assert first == second
    assert first.standard_error == second.standard_error > 0


def test_discounting_keeps_all_classes():
    pairs = ov.Transitions([0, 0, 1], [0, 1, 1], x_initial=[0])
    np.testing.assert_allclose(ov.VPM(gamma=0.5).fit(pairs).probabilities(), [2 / 3, 1 / 3])


def test_unknown_choices_are_refused():
    with pytest.raises(ValueError, match="unknown choice of classes 'some': known are largest, all"):
        ov.VPM(solver="tabular", classes="some")
