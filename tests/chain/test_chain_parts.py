"""Small parts of chains and their solvers, each on numbers worked out by hand."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import ope_vpm as ov
from ope_vpm.chain.diagnostics import Diagnostics, StationarityTest, far_from_data, pareto_k
from ope_vpm.chain.finite.chain import FiniteChain, names_of_classes, reducibility
from ope_vpm.chain.finite.counts import StateIndex, count, least_seen
from ope_vpm.chain.finite.pooling import likeliest_strength, pooled
from ope_vpm.chain.finite.reversible import reversible, reversible_kernel
from ope_vpm.chain.finite.solve import closed_classes, period, poisson, stationary_distribution
from ope_vpm.chain.monitor import Monitor, schedule
from ope_vpm.chain.solvers.kernel import Kernel
from ope_vpm.chain.solvers.network import HiddenFeatures, NeuralRatio
from ope_vpm.chain.solvers.neural import Neural, _as_good, with_preset
from ope_vpm.chain.solvers.ratio_network import RatioNetwork
from ope_vpm.chain.solvers.solution import select
from ope_vpm.chain.solvers.tabular import Tabular, choose_unseen
from ope_vpm.chain.solvers.tabular_ratio import TabularRatio
from ope_vpm.linear.features import FourierFeatures, Standardiser

# -- Finite chains


@pytest.mark.parametrize(
    ("unseen", "times", "found"),
    [
        ([0.15, 0.15], [1, 19], "good-turing"),  # 3 times the twentieth of the rows that is a state seen once
        ([0.16, 0.16], [1, 19], "restart"),
        ([0.0, 0.0], [1, 1], "restart"),  # nothing is unseen
        ([0.1, 0.1], [2, 18], "restart"),  # no state was seen once
    ],
)
def test_states_seen_once_stand_for_unseen_ones_unless_these_are_too_many(unseen, times, found):
    times = np.array(times)
    assert choose_unseen(times / times.sum(), np.array(unseen), times) == found


def test_states_are_looked_up_in_a_table_unless_their_numbers_are_too_large():
    """Three labels: up to 10·3 + 1000 there is a table."""
    table, sparse_labels = StateIndex.of(np.array([5, 2, 1030])), StateIndex.of(np.array([5, 2, 1031]))
    assert table.table is not None
    assert sparse_labels.table is None
    for index, last in ((table, 1030), (sparse_labels, 1031)):
        assert index.states.tolist() == [2, 5, last]
        asked = np.array([2, 5, last, 0, 3, last + 1, 10**9])
        assert index(asked).tolist() == [0, 1, 2, -1, -1, -1, -1]


def test_the_rarest_states_share_what_is_lost():
    assert least_seen(np.array([3, 1, 1, 5])).tolist() == [0, 0.5, 0.5, 0]
    assert least_seen(np.array([3, 2, 4])).tolist() == [0, 1, 0]


def test_a_row_whose_successors_are_all_unknown_is_left_out_of_a_restricted_chain():
    """From 0 to 1 once and to 9 once: restricted, always to 1; from 1 only to 9: all is lost."""
    pairs = ov.Transitions([0, 0, 1], [1, 9, 9], x_initial=[0, 9, 0, 1], initial_weight=[1.0, 4, 1, 2])
    chain = count(pairs, "restrict")
    np.testing.assert_allclose(chain.kernel.toarray(), [[0, 1], [0, 0]])
    np.testing.assert_allclose(chain.lost, [0, 1])
    np.testing.assert_allclose(chain.unseen, [0.5, 1])
    np.testing.assert_allclose(chain.known_initial, [0.5, 0.5])
    plain = count(pairs, "restart")
    np.testing.assert_allclose(plain.lost, [0.5, 1])
    np.testing.assert_allclose(plain.known_initial, [0.25, 0.25])
    np.testing.assert_allclose(plain.initial, np.array([0.25, 0.25]) + 0.5 * np.array([2, 1]) / 3)
    with pytest.raises(ValueError, match="no initial states"):
        _ = count(ov.Transitions([0, 1], [1, 0]), "restart").initial


def test_the_largest_closed_class_comes_first():
    kernel = sparse.csr_array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0.5, 0, 0, 0.5]])
    assert [members.tolist() for members in closed_classes(kernel)] == [[1, 2], [0]]


def test_cycles_of_two_and_three_steps_have_no_period_and_of_two_and_four_have_two():
    mixed = np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]])
    assert period(sparse.csr_array(mixed), np.zeros(3, dtype=bool)) == 1
    even = np.array([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    assert period(sparse.csr_array(even), np.zeros(4, dtype=bool)) == 2
    through = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])  # the last takes no time
    assert period(sparse.csr_array(through), np.array([False, False, True])) == 2


@pytest.mark.parametrize("size", [3, 12])
def test_both_ways_to_a_stationary_distribution_agree_with_a_queue(monkeypatch, size):
    """Up with probability ¼ and down with ½: each state has half the probability of the one below it."""
    kernel = np.diag(np.full(size - 1, 0.25), 1) + np.diag(np.full(size - 1, 0.5), -1)
    kernel += np.diag(1 - kernel.sum(axis=1))
    expected = 0.5 ** np.arange(size) / np.sum(0.5 ** np.arange(size))
    start = np.full(size, 1 / size)
    np.testing.assert_allclose(stationary_distribution(sparse.csr_array(kernel), start), expected, rtol=1e-12)
    monkeypatch.setattr("ope_vpm.chain.finite.solve.DENSE_STATES", 1)
    np.testing.assert_allclose(stationary_distribution(sparse.csr_array(kernel), start), expected, rtol=1e-9)
    reward = np.arange(float(size))
    centred = reward - expected @ reward
    h = poisson(sparse.csr_array(kernel), expected, centred)
    np.testing.assert_allclose(h - kernel @ h, centred, atol=1e-10)


def test_what_is_said_of_reducible_chains():
    apart = FiniteChain.plain(sparse.csr_array(np.eye(7)))
    named = names_of_classes(apart, lambda members: str(members.tolist()))
    assert named == "[0]; [1]; [2]; [3]; [4]; …"
    five = FiniteChain.plain(sparse.csr_array(np.eye(5)))
    assert names_of_classes(five, lambda members: str(members[0])) == "0; 1; 2; 3; 4"
    assert reducibility(five, lambda _: 1.0, lambda _: "x").startswith("the counted chain is reducible: 5 closed")
    one = FiniteChain.plain(sparse.csr_array([[0.5, 0.5], [0.5, 0.5]]))
    assert reducibility(one, lambda _: 0.95, lambda _: "x") is None
    assert "a closed class with 94% of the rows, x" in reducibility(one, lambda _: 0.94, lambda _: "x")


def test_pooling_is_as_strong_as_the_counts_are_alike():
    """Two states that move alike are pooled entirely; two that move apart, as little as possible."""
    prior = sparse.csr_array(np.full((2, 2), 0.5))
    assert likeliest_strength(sparse.csr_array([[50.0, 50], [50, 50]]), prior) == 1e5
    assert likeliest_strength(sparse.csr_array([[100.0, 0], [0, 100]]), prior) == 0.1
    middle = likeliest_strength(sparse.csr_array([[60.0, 40], [35, 65]]), prior)
    assert 1 < middle < 1e4


def test_too_wide_a_range_cannot_be_pooled(monkeypatch):
    """States 0 to 10 and two increments are 22 entries."""
    pairs = ov.Transitions([0, 10], [1, 8])
    monkeypatch.setattr("ope_vpm.chain.finite.pooling.MOST_ENTRIES", 21)
    with pytest.raises(ValueError, match="11 states x 2 increments"):
        pooled(pairs, 1.0)
    monkeypatch.setattr("ope_vpm.chain.finite.pooling.MOST_ENTRIES", 22)
    assert pooled(pairs, 1.0).unseen.sum() == 9


def test_a_pooled_chain_with_weighted_successors():
    """From 0 to 1 or 2 by halves, from 1 to 1 with weight 3: increments 1, 2 and 0 with shares ⅛, ⅛ and ¾."""
    pairs = ov.Transitions([0, 1], [[1, 2], [1, 1]], weight=[1.0, 3.0], next_weight=[[0.5, 0.5], [1.0, 0.0]])
    found = pooled(pairs, 1.0)
    np.testing.assert_allclose(found.p, [0.25, 0.75, 0])
    pool = np.array([[0.75, 0.125, 0.125], [0, 0.75, 0.25], [0, 0, 1]])
    counts = np.array([[0, 0.25, 0.25], [0, 1.5, 0], [0, 0, 0]])
    np.testing.assert_allclose(found.kernel.toarray(), (counts + pool) / (counts.sum(axis=1) + 1)[:, None])
    assert found.times.tolist() == [1, 1, 0]


def test_reversible_chains_begin_where_they_are_told():
    pairs = ov.Transitions(
        [0, 1, 1], [1, 0, 1], weight=[1.0, 2, 1], x_initial=[1, 5, 1, 0], initial_weight=[1, 2, 3, 2]
    )
    found = reversible(pairs)
    np.testing.assert_allclose(found.known_initial, [0.25, 0.5])
    np.testing.assert_allclose(found.p, [0.25, 0.75])
    np.testing.assert_allclose(found.kernel.toarray(), [[0, 1], [2 / 3, 1 / 3]], atol=1e-9)
    assert reversible(ov.Transitions([0, 1], [1, 0])).known_initial is None


def test_a_reversible_triangle_by_hand():
    """Three moves 0 → 1, two 1 → 2 and one of each way back between 2 and 0: rows sum to one, flows are equal."""
    counts = np.array([[0, 3.0, 1], [0, 0, 2], [1, 0, 0]])
    kernel = reversible_kernel(sparse.csr_array(counts)).toarray()
    np.testing.assert_allclose(kernel.sum(axis=1), 1)
    mu = np.linalg.matrix_power(0.5 * np.eye(3) + 0.5 * kernel, 4096)[0]
    flow = mu[:, None] * kernel
    np.testing.assert_allclose(flow, flow.T, atol=1e-9)
    left = counts.sum(axis=1)
    both = counts + counts.T
    expected = both / (left[:, None] / mu[:, None] + left[None] / mu[None])  # where the likelihood's slope is 0
    np.testing.assert_allclose(flow / flow.sum(), expected / expected.sum(), atol=1e-8)


def test_the_value_of_states_that_were_never_left():
    """h of an unknown state is that of where lost mass restarts; h of rows of weight 3 counts thrice."""
    pairs = ov.Transitions([0, 0, 1], [1, 0, 9], weight=[1.0, 1, 2])
    ratio = ov.VPM(unseen="restart").fit(pairs)._ratio
    assert isinstance(ratio, TabularRatio)
    h = ratio.value_function(pairs, np.array([2.0, 6, 1]), 0.5)
    at = h(np.array([0, 1]))
    assert h(np.array([9]))[0] == pytest.approx(0.5 * at[0] + 0.5 * at[1])
    assert at[0] == pytest.approx(4 + 0.5 * (0.5 * at[0] + 0.5 * at[1]))
    assert at[1] == pytest.approx(1 + 0.5 * h(np.array([9]))[0])


# -- How far a fit can be trusted


def weighted_test():
    """Two rows of weights ½ and 3/2, two functions: differences 1, 2 and -1, 4."""
    return StationarityTest(np.array([0, 1]), np.array([[1.0, 2.0], [-1.0, 4.0]]), np.array([0.5, 1.5]))


def test_residual_and_noise_by_hand():
    """τ = (3, 1) makes the weights equal: means 0 and 3, squares (1 + 1)/4 and (4 + 16)/4."""
    found = weighted_test()

    def ratio(x):
        return np.where(x == 0, 3.0, 1.0)

    assert found.residual(ratio) == pytest.approx(np.sqrt((0 + 9) / 2))
    assert found.noise(ratio) == pytest.approx(np.sqrt((0.5 + 5) / 2))
    assert found.residual(lambda x: 0.0 * x) == 0


def test_the_differences_of_a_discounted_chain():
    """At γ = ½, x' = 1 or 2 by quarters: ½(¼g(1) + ¾g(2)) - g(0) + ½·(g(1) + 3g(3))/4."""
    pairs = ov.Transitions(
        np.array([0]), np.array([[1, 2]]), next_weight=[[0.25, 0.75]], x_initial=[1, 3], initial_weight=[1.0, 3.0]
    )
    drawn = StationarityTest.draw(pairs, 0.5, np.random.default_rng(0))
    zero = StationarityTest.draw(
        ov.Transitions(np.array([0]), np.array([0]), x_initial=[0]), 0.0, np.random.default_rng(0)
    )
    np.testing.assert_array_equal(zero.difference, 0)  # g(x₀) - g(x) of one state
    unit = 0.125  # every term is a multiple of ⅛ but for a whole number
    np.testing.assert_allclose(drawn.difference / unit, np.round(drawn.difference / unit), atol=1e-9)
    assert np.abs(drawn.difference).max() <= 2
    assert (np.abs(drawn.difference) == 2).any()  # g(0) unlike all others, once in eight functions


def test_the_share_of_next_states_far_from_all_data():
    """Rows on a line of steps 1; half of the weight leads 50 beyond it, or by one of two successors."""
    x = np.arange(100.0)[:, None]
    far = np.where(np.arange(100)[:, None] % 2, x + 500, x)
    rng = np.random.default_rng(0)
    weights = np.where(np.arange(100) % 2, 3.0, 1.0)
    assert far_from_data(ov.Transitions(x, far), weights, rng) == pytest.approx(0.75)
    both = ov.Transitions(x, np.stack([x, x + 500], axis=1), next_weight=np.tile([0.9, 0.1], (100, 1)))
    assert far_from_data(both, np.ones(100), rng) == pytest.approx(0.1)


def test_the_table_of_diagnostics():
    report = Diagnostics(
        solver="mine", rows=200, mean_ratio=1.0, effective_sample_size=50.0, stationarity_residual=0.1,
        stationarity_noise=0.2, unseen_mass=0.25, convergence=np.array([0.5, 0.25]), pareto_k=0.71,
        settings={"ridge": 0.5, "states": 7}, notes=("odd",),
    )  # fmt: skip
    table = dict(report.rows_of_table())
    assert table["effective sample size"] == "50 of 200 (25.0%)"
    assert table["last change of τ"] == "0.25 after 2 steps"
    assert "a heavy tail" in table["Pareto k̂ of weights"]
    assert (table["ridge"], table["states"], table["note"]) == ("0.5", "7", "odd")
    light = Diagnostics(**{**vars(report), "pareto_k": 0.69})
    assert "fine" in dict(light.rows_of_table())["Pareto k̂ of weights"]
    exact = Diagnostics(**{**vars(report), "convergence": np.zeros(0), "pareto_k": float("nan")})
    assert dict(exact.rows_of_table())["last change of τ"] == "exact"
    assert "too few" in dict(exact.rows_of_table())["Pareto k̂ of weights"]


def test_tails_need_five_weights_beyond_a_threshold():
    """Of 25 weights the largest fifth are 5; of 24 they are 5 as well, of 20 only 4."""
    rng = np.random.default_rng(0)
    weights = rng.random(25) ** -0.8
    assert np.isfinite(pareto_k(weights))
    assert np.isnan(pareto_k(weights[:20]))
    few = np.ones(100)
    few[:4] = [2.0, 3, 4, 5]
    assert np.isnan(pareto_k(few))
    few[4] = 6.0
    assert np.isfinite(pareto_k(few))


def test_an_iteration_ends_when_it_settles():
    changes = [0.5, 0.2, 0.1, 0.05]
    steps = ((np.array([float(k)]), change) for k, change in enumerate(changes, 1))
    monitor = Monitor("steps", 10)
    assert monitor.follow(steps, np.zeros(1), 0.15) == [3.0]
    assert [info["change"] for info in monitor.history] == changes[:3]
    short = Monitor("steps", 2)
    assert short.follow(((np.array([float(k)]), 1.0) for k in (1, 2, 3)), np.zeros(1), 0.0) == [2.0]
    assert Monitor("steps", 2).follow(iter(()), np.array([7.0]), 0.0) == [7.0]


def test_a_bar_appears_after_its_delay(monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with Monitor("steps", 2) as early:
        early.report(1, {"change": 1.0})
        assert early._bar is None
        early._start -= 1.01
        early.report(2, {"change": 1.0})
        assert early._bar is not None


def test_what_a_function_of_the_step_may_give():
    """Numbers in (0, 1]."""
    assert schedule(lambda step: 1.0)(3) == 1
    for wrong in (0.0, 1.01, -0.5):
        with pytest.raises(ValueError, match="at step 2 it gave"):
            schedule(lambda step, wrong=wrong: wrong)(2)
    assert schedule(1.0)(7) == 1


# -- Continuous states


def test_settings_at_their_limits():
    assert Kernel(steps=1, n_features=2).steps == 1
    assert Kernel(steps=np.int64(4)).steps == 4
    for wrong in ({"steps": 0}, {"n_features": 1}, {"bandwidth": 0.0}, {"ridge": 0.0}):
        with pytest.raises(ValueError, match=r"at least|positive"):
            Kernel(**wrong)
    assert Neural(steps=1, inner_steps=1, batch_size=1).steps == 1
    for name in ("steps", "inner_steps", "batch_size", "learning_rate", "lam"):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            Neural(**{name: 0})
    assert Tabular(steps=1).steps == 1
    assert ov.VPM(gamma=0.0, seed=0).gamma == 0
    for wrong in ({"gamma": -0.1}, {"seed": -1}):
        with pytest.raises(ValueError, match="must be"):
            ov.VPM(**wrong)


@pytest.mark.parametrize(("rows", "features"), [(20, 5), (41, 10), (400, 12)])
def test_there_are_four_rows_for_each_feature(rows, features):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 1))
    found = ov.VPM(solver="kernel", n_features=12, bandwidth=1.0, ridge=0.1).fit(ov.Transitions(x, x / 2))
    assert len(found._ratio.beta) == 1 + 2 * (features // 2)  # a constant, and pairs of waves
    few = ov.Transitions(x[:19], x[:19] / 2)
    with pytest.raises(ValueError, match="at least 20 rows"):
        ov.VPM(solver="kernel").fit(few)


def test_a_solved_last_layer_is_kept_within_twice_the_residual():
    """The larger of the network's residual 0.3 and its noise 0.4 counts."""

    def judge(solved, trained, noise):
        test = SimpleNamespace(residual=lambda ratio: ratio, noise=lambda _: noise)
        return _as_good(test, solved, trained)

    assert judge(0.8, 0.3, 0.4)
    assert not judge(0.81, 0.3, 0.4)
    assert judge(0.8, 0.4, 0.3)
    assert not judge(0.81, 0.4, 0.3)


def network():
    """x → (max(x, 0), max(-x, 0)), τ = softplus of the sum of both."""
    import torch

    made = RatioNetwork(1, (2,), start_at_one=False)
    with torch.no_grad():
        made.body[0].weight[:] = torch.tensor([[1.0], [-1.0]])
        made.body[0].bias.zero_()
        made.head.weight.fill_(1.0)
        made.head.bias.zero_()
    return NeuralRatio(made, Standardiser.unit(1), 2.0)


def test_a_network_with_known_weights():
    x = np.array([[-2.0], [0.0], [3.0]])
    found = network()
    np.testing.assert_allclose(found(x), 2 * np.log1p(np.exp([2.0, 0, 3])), rtol=1e-6)
    np.testing.assert_allclose(found.hidden(x), [[1, 0, 2], [1, 0, 0], [1, 3, 0]])


def test_hidden_directions_are_uncorrelated_and_of_unit_size():
    x = np.random.default_rng(0).standard_normal((500, 1))
    features = HiddenFeatures.of(network(), x)(x)
    np.testing.assert_allclose(features[:, 0], 1)
    np.testing.assert_allclose(features[:, 1:].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.cov(features[:, 1:].T), np.eye(2), atol=1e-5)
    positive = np.abs(x)  # then the second unit never varies
    assert HiddenFeatures.of(network(), positive)(positive).shape == (500, 2)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e-3])
@pytest.mark.parametrize(("share", "kept"), [(2e-3, 1), (5e-3, 2)])
def test_directions_of_less_than_a_hundred_thousandth_of_the_variance_are_left_out(unit, share, kept):
    """The second unit's deviation is this share of the first one's, its variance 4·10⁻⁶ or 2.5·10⁻⁵ of it."""
    spread = np.random.default_rng(0).uniform(1, 2, (2, 400)) * [[1.0], [share]]
    trained = SimpleNamespace(hidden=lambda sample: np.column_stack([np.ones(400), *(unit * spread)]))
    assert HiddenFeatures.of(trained, np.zeros((400, 1))).whitening.shape == (2, kept)


def test_the_value_function_of_a_network_on_a_line():
    """x' = x/2 and f = |x| at γ = ½: h = |x|/(1 - ¼), which the hidden units hold, but for a ridge of 10⁻⁴."""
    x = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    pairs = ov.Transitions(x, x / 2, x_initial=x[:3])
    h = network().value_function(pairs, np.abs(x[:, 0]), 0.5)
    np.testing.assert_allclose(h(x), np.abs(x[:, 0]) / 0.75, atol=2e-3)
    average = network().value_function(pairs, np.full(400, 5.0), 1.0)
    np.testing.assert_allclose(average(x), 0, atol=1e-6)  # what pays the same everywhere is worth nothing more


def test_the_settings_that_are_documented():
    """Algorithm 1 with our changes: see `Neural`, `Kernel` and `Tabular`."""
    neural = Neural()
    assert (neural.learning_rate, neural.lam, neural.damping, neural.average) == (1e-3, 1.0, 0.5, 0.9)
    assert (Kernel().damping, Tabular().damping, Tabular().lam) == (1.0, 1.0, 1.0)
    assert with_preset("paper").learning_rate == 3e-4


@pytest.mark.parametrize(("residuals", "kept"), [([1.0, 1.09, 2.0], 2), ([1.0, 1.11, 2.0], 1), ([2.0, 1.0, 1.2], 2)])
def test_the_last_network_about_as_good_as_the_best_is_kept(monkeypatch, residuals, kept):
    """Residuals up to 1.1 times the least so far are as good: so often a network is copied to be kept."""
    left, seen = iter(residuals), []
    monkeypatch.setattr(StationarityTest, "residual", lambda self, ratio: next(left, 9.0))
    monkeypatch.setattr("ope_vpm.chain.solvers.neural.copy.deepcopy", lambda net: seen.append(net) or deepcopy(net))
    x = np.random.default_rng(0).standard_normal((40, 1))
    settings = {"steps": 3, "inner_steps": 1, "batch_size": 5, "hidden": (2,), "refit": False}
    Neural(**settings).fit(ov.Transitions(x, x / 2), 1.0, 0, None)
    assert len(seen) == 2 + kept  # two to begin with


def test_presets_can_be_changed():
    assert with_preset("paper").hidden == (64, 64)
    assert not with_preset("paper", decay=False).refit


def test_of_many_rows_blocks_of_neighbours_are_held_out_together(monkeypatch):
    """12 rows in 4 blocks of 3, one a fold; a feature that tells blocks apart is no use on the others."""
    monkeypatch.setattr("ope_vpm.chain.solvers.solution.BLOCKS", 4)
    seen = []

    class Step:
        def __init__(self, *_):
            pass

        def held_out_objectives(self, fold, ridges):
            seen.append(fold)
            return np.ones((4, len(ridges)))

    monkeypatch.setattr("ope_vpm.chain.solvers.solution.PowerStep", Step)
    x = np.linspace(0, 1, 12)[:, None]
    line = FourierFeatures(Standardiser.unit(1), np.zeros((1, 0)), linear=True)
    chosen = select(ov.Transitions(x, x), [line], 0.5, 1.0, np.random.default_rng(0))
    assert seen[0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert (chosen.place, chosen.ridge, chosen.objective) == (0, 0.5, 1.0)
