"""Is it better? Errors of differences by hand, known truths, streams that are looked at again, the commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from typer.testing import CliRunner

import ope_vpm as ov
from ope_vpm.cli import app
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.questions.compare import Comparison
from ope_vpm.ope.questions.gate import sequence_quantile
from ope_vpm.ope.questions.paired import Evaluated
from ope_vpm.plugins.selection import ranked


def value(number=5.0, verdict="reliable", advice=()):
    reasons = () if verdict == "reliable" else ("it is made up",)
    return PolicyValue("made-up", number, 1.0, 1.0, (4, 6), None, verdict, reasons, advice=advice)


def test_differences_are_paired_by_episodes():
    """Influences (3, -3, 0) and (1, -1, 0): noise √((4 + 4)·3/2) = √12. They are in step, ρ = 1: what both suspect
    under one code is subtracted, (3 - 4)² = 1; what each suspects alone stays, 2² + 5².
    """
    one = Evaluated(value(), np.array([3.0, -3.0, 0.0]), {"shared": 3.0, "own": 2.0})
    other = Evaluated(value(), np.array([1.0, -1.0, 0.0]), {"shared": 4.0, "its": 5.0})
    found = one.less(other)
    assert (found.noise, found.error) == pytest.approx((np.sqrt(12), np.sqrt(12 + 1 + 4 + 25)))
    assert one.less(one).error == 0
    assert one.less(Evaluated(value())).error == pytest.approx(np.sqrt(2))


def test_biases_are_shared_as_far_as_the_same_episodes_move_both():
    """Influences at an angle of 60°, ρ = ½: 3² + 4² - 2·½·3·4 = 13; at a right angle or against each other 25."""
    one = Evaluated(value(), np.array([2.0, 0.0, 0.0]), {"shared": 3.0})
    for influence, squares in (((1.0, np.sqrt(3), 0.0), 13.0), ((0.0, 1.0, 0.0), 25.0), ((-1.0, 0.0, 0.0), 25.0)):
        other = Evaluated(value(), np.array(influence), {"shared": 4.0})
        found = one.less(other)
        assert found.error**2 - found.noise**2 == pytest.approx(squares)


WIDE = replace(value(), interval=(-1000.0, 1000.0))


@pytest.mark.parametrize(
    ("influence", "sides"),
    [
        ((2.0, 0.0, 0.0), (3 - 1, 6 - 3)),  # one cause: down by 3 and 1, or up by 6 and 3
        ((1.0, np.sqrt(3), 0.0), (np.sqrt((4 + 3**2 + 3**2) / 2), np.sqrt((9 + 6**2 + 1**2) / 2))),
        ((0.0, 1.0, 0.0), (np.hypot(3, 3), np.hypot(6, 1))),  # two: down by 3 and up by 3, or up by 6 and down by 1
    ],
    ids=["in step", "at 60°", "apart"],
)
def test_what_intervals_hold_beyond_their_errors_is_paired_side_by_side(influence, sides):
    one = Evaluated(WIDE, np.array([2.0, 0.0, 0.0]), beyond=(3.0, 6.0))
    found = one.less(Evaluated(WIDE, np.array(influence), beyond=(1.0, 3.0)))
    assert found.sides == pytest.approx(tuple(np.hypot(found.error, side) for side in sides))


def test_a_side_is_never_longer_than_the_two_intervals_allow():
    """Of 5 in (4, 6) and in (3, 9), errors 10 each: (1, 4) below and (1, 2) above, over t = 4.3027, or their sums where
    the same episodes move the values against each other."""
    one = Evaluated(value(), np.array([10.0, -10.0, 0.0]))
    for influence, sides in (([0.0, 0.0, 10.0], np.sqrt([17, 5])), ([-10.0, 10.0, 0.0], (5, 3))):
        found = one.less(Evaluated(replace(value(), interval=(3, 9)), np.array(influence)))
        assert np.multiply(found.sides, 4.302653) == pytest.approx(sides)


@pytest.mark.parametrize("seed", range(12))
def test_a_difference_is_known_as_well_as_two_values_at_least(seed):
    """Of intervals and of errors, where episodes do not move the two values against each other."""
    task = RandomMDP.draw(6, 3, seed)
    data = task.dataset(25, 15, task.policy(seed, 1.5), seed)  # some pairs are never logged
    policies = [task.policy(1000 * seed + k, 1.5) for k in (1, 2)]
    found = ov.compare(data, *policies, "vpm", gamma=(0.9, 1.0)[seed % 2])
    assert found.standard_error <= found.new.standard_error + found.old.standard_error
    (low, high), (least, most) = found.new.interval, found.old.interval
    assert low - most <= found.interval[0] <= found.value <= found.interval[1] <= high - least
    itself = ov.compare(data, policies[0], policies[0].copy(), "vpm")
    assert (itself.value, itself.standard_error, itself.interval) == (0, 0, (0, 0))


def comparison(difference=0.6, error=0.5, noise=0.4, verdict="reliable", episodes=25, advice=()):
    reach = stats.t.ppf(0.975, episodes - 1) * error
    return Comparison(
        new=value(verdict=verdict, advice=advice),
        old=value(),
        value=difference,
        standard_error=error,
        noise=noise,
        interval=(difference - reach, difference + reach),
        probability=None,
        verdict=verdict,
        reasons=(),
        episodes=episodes,
        per="step",
        widest=np.inf,
    )


def test_episodes_needed_by_hand():
    """25 episodes, noise 0.4, bias 0.3: 0.6 is t·√(0.16·25/n + 0.09) at n = 4/((0.6/t)² - 0.09), t = 2.0639 the present
    one; half of the difference cannot be told from the bias."""
    assert comparison(1.0).episodes_needed == np.ceil(4 / ((1.0 / 2.063899) ** 2 - 0.09)) == 28
    assert comparison(0.6).episodes_needed is None
    assert comparison(2.0, 0.4, 0.4).episodes_needed == np.ceil(4 / (2.0 / 2.063899) ** 2) == 5


def test_gate_by_hand():
    better, worse, wide = comparison(1.5), comparison(-1.5), comparison(0.9)
    assert [each.gate().exit_code for each in (better, worse, wide)] == [0, 3, 4]
    assert [each.gate(1.5).decision for each in (better, worse)] == ["not decided", "worse"]
    assert better.gate(min_gain=-3).decision == worse.gate(min_gain=-3).decision == "better"
    assert wide.gate().would_decide == "about 40 episodes of this kind, 15 more, if the difference is as it looks"
    doubted = comparison(1.5, verdict="unreliable", advice=("log more",))
    assert (doubted.gate().decision, doubted.gate().would_decide) == ("not decided", "log more")
    assert better.gate(anytime=True).interval[0] < better.interval[0]
    json.dumps([each.gate(anytime=True).as_dict() for each in (better, worse, wide)])
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="min_gain must be a finite number"):
            better.gate(wrong)


def test_the_confidence_sequence_is_robbins_mixture():
    """At its boundary the martingale ∫ exp(λx - λ²n/2) N(λ; 0, ρ²) dλ of a sum x of n standard normals is 1/α = 20."""
    rho = np.sqrt((-2 * np.log(0.05) + np.log(-2 * np.log(0.05)) + 1) / 200)
    for n in (10, 200, 3000):
        x = np.sqrt(n) * sequence_quantile(n)
        mixture = lambda slope, x=x, n=n: np.exp(slope * x - slope**2 * n / 2) * stats.norm.pdf(slope, scale=rho)  # noqa: E731
        total = integrate.quad(mixture, -2, 2, points=[x / n], limit=500)[0]
        assert total == pytest.approx(20, rel=1e-6)


def test_looks_at_a_growing_log_are_wrong_together_in_less_than_five_percent():
    """1000 streams of 50 to 500 normal episodes whose mean is 0, looked at after every ten of them."""
    rng = np.random.default_rng(0)
    steps = np.arange(10, 501, 10)
    sums = rng.standard_normal((1000, 500)).cumsum(axis=1)[:, steps - 1]
    reach = np.array([sequence_quantile(n) for n in steps]) * np.sqrt(steps)
    assert np.mean((np.abs(sums) > reach).any(axis=1)) < 0.05
    assert np.mean((np.abs(sums) > 1.96 * np.sqrt(steps)).any(axis=1)) > 0.2  # what a single interval would do


def test_differences_hold_their_truth_and_are_narrower_than_two_intervals():
    task, held, narrower = LinearGaussian(), [], []
    new = GaussianController((0.0, 0.0), 0.2, 0.4)
    old = GaussianController((0.0, -0.1), 0.1, 0.4)
    for seed in range(12):
        data = task.dataset(30, 20, BEHAVIOUR, seed)
        for against, truth in ((old.policy(), task.average_reward(old)), ("logged", task.average_reward(BEHAVIOUR))):
            found = ov.compare(data, new.policy(), against, "vpm", n_features=50)
            low, high = found.interval
            held.append(low <= task.average_reward(new) - truth <= high)
            narrower.append(found.standard_error / np.hypot(found.new.standard_error, found.old.standard_error))
    assert np.mean(held) >= 0.85  # 24 intervals that hold 95 %
    assert np.mean(narrower) < 0.95


def test_a_policy_against_itself_is_no_better_and_no_worse():
    data, policy = LinearGaussian().dataset(20, 20, BEHAVIOUR, 0), BEHAVIOUR.policy()
    found = ov.compare(data, policy, BEHAVIOUR.policy(), gamma=0.9)
    assert (found.value, found.interval, found.probability, found.verdict) == (0, (0, 0), 0.5, "reliable")
    assert found.episodes_needed is None


def bandit(seed=0, episodes=400):
    """Action 1 pays 1 with probability 0.8, action 0 with probability 0.3; the log takes both equally often."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, episodes)
    rewards = (rng.random(episodes) < np.where(actions == 1, 0.8, 0.3)).astype(float)
    states = np.zeros(episodes, dtype=int)
    return ov.LoggedDataset.from_arrays(states, actions, rewards, states, terminated=np.ones(episodes, dtype=bool))


def test_returns_lead_where_episodes_end():
    """In a bandit the difference is that of two means of rewards, to the rounding of exact counts."""
    data = bandit()
    found = ov.compare(data, [[0.0, 1.0]], [[1.0, 0.0]], "vpm")
    means = [data.rewards[data.actions == action].mean() for action in (0, 1)]
    assert found.per == "episode"
    assert found.value == pytest.approx(means[1] - means[0])
    against_log = ov.compare(data, [[0.0, 1.0]], estimator="vpm")
    assert against_log.value == pytest.approx(means[1] - data.rewards.mean())
    assert against_log.old.estimator == "logged"
    assert found.decision == against_log.decision == "better"
    assert found.probability > 0.999
    assert found.to_frame()["policy"].tolist() == ["new", "old", "difference"]
    assert found.plot().get_xlabel() == "return of an episode"
    assert str(found).startswith("vpm: new is better: new less old +0.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    bandit().save(folder / "log.npz")
    for name, table in (("good", [0.0, 1.0]), ("bad", [1.0, 0.0]), ("same", [0.49, 0.51])):
        np.save(folder / f"{name}.npy", np.array([table]))
    np.save(folder / "three.npy", np.full((1, 3), 1 / 3))
    return folder


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_commands(folder):
    log = folder / "log.npz"
    printed = json.loads(run("compare", log, "--policy", folder / "good.npy", "--baseline", "logged", "--json").stdout)
    direct = ov.compare(ov.load_dataset(log), ov.load_policy(folder / "good.npy"))
    assert printed["value"] == pytest.approx(direct.value)
    assert printed["interval"] == pytest.approx(direct.interval)
    assert (
        "new less old" in run("compare", log, "--policy", folder / "good.npy", "--baseline", folder / "bad.npy").stdout
    )
    for name, code, decision in (("good", 0, "better"), ("bad", 3, "worse"), ("same", 4, "not decided")):
        for more in ([], ["--anytime"]):
            found = run("gate", log, "--candidate", folder / f"{name}.npy", "--baseline", "logged", "--json", *more)
            assert (found.exit_code, json.loads(found.stdout)["decision"]) == (code, decision)
            assert bool(json.loads(found.stdout)["would_decide"]) == (decision == "not decided")
    assert run("gate", log, "--candidate", folder / "good.npy", "--min-gain", "0.9").exit_code == 3
    often = run("gate", log, "--candidate", folder / "good.npy", "--anytime").stdout
    assert "  at all looks together [{:.6g}, {:.6g}]".format(*direct.anytime_interval) in often


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--candidate", "good.npy", "--baseline", "none.zip"), "there is no file none.zip"),
        (("--candidate", "none.zip"), "there is no file none.zip"),
        (("--candidate", "good.npy", "--min-gain", "nan"), "min_gain must be a finite number"),
        (("--candidate", "good.npy", "--baseline", "three.npy"), "must choose from the same actions: 2 != 3"),
        (("--candidate", "good.npy", "--estimator", "atuo"), "did you mean 'auto'"),
        (("--candidate", "good.npy", "--gamma", "2"), "gamma must be between 0 and 1"),
    ],
)
def test_wrong_input_is_refused(folder, monkeypatch, options, said):
    monkeypatch.chdir(folder)
    found = run("gate", "log.npz", *options)
    assert isinstance(found.exception, ValueError | TypeError | OSError)  # which `main` turns into exit code 2
    assert said in str(found.exception)


def test_a_baseline_that_is_none_is_refused():
    for old in ("loged", None):
        with pytest.raises(ValueError, match="old must be 'logged' or a policy"):
            ov.compare(bandit(), [[0.0, 1.0]], old)


def test_known_propensities_are_taken_where_they_are_asked_for():
    """The log took action 1 with probability 0.2 and says 0.5: cloned, its mean is that of its own rewards; with the
    propensities that it says, that of their sum over ten rewards."""
    actions = np.array([1, 0, 0, 0, 0] * 8)
    rewards = np.arange(40.0)
    data = ov.LoggedDataset.from_arrays(
        np.zeros(40, dtype=int), actions, rewards, np.zeros(40, dtype=int), terminated=np.ones(40, dtype=bool),
        behaviour_log_prob=np.log(np.where(np.arange(40) % 10 == 0, 0.1, 0.5)),
    )  # fmt: skip
    weights = np.where(actions == 1, 1 / np.exp(data.behaviour_log_prob), 0)
    for behaviour, expected in (
        ("logged", weights @ rewards / weights.sum()),
        ("cloned", rewards[actions == 1].mean()),
    ):
        found = ov.compare(data, [[0.0, 1.0]], estimator="onestep", behaviour=behaviour)
        assert found.value == pytest.approx(expected - rewards.mean())
        chosen = ov.select(data, {"new": [[0.0, 1.0]]}, "onestep", behaviour=behaviour)
        assert chosen.best.lead.value == pytest.approx(expected)


def climbing(seed, episodes=60, length=20):
    """Episodes begin in state 0, which pays nothing, and go to state 1, which pays 1, with probability 0.1 a step."""
    rng = np.random.default_rng(seed)
    arrived = rng.geometric(0.1, episodes)
    time = np.arange(length)
    states = (time[None] >= arrived[:, None]).astype(int)
    after = (time[None] + 1 >= arrived[:, None]).astype(int)
    actions, last = rng.integers(0, 2, states.size), np.tile(time == length - 1, episodes)
    rewards = states.ravel() + 0.1 * rng.standard_normal(states.size)
    return ov.LoggedDataset.from_arrays(states.ravel(), actions, rewards, after.ravel(), truncated=last)


def test_a_log_that_has_not_forgotten_its_beginning_is_doubted():
    """Its policy's long-run average is 1, and its mean about 0.57; below γ = 1 its discounted mean is its own value."""
    data = climbing(0)
    found = ov.compare(data, np.full((2, 2), 0.5), "logged", "vpm")
    assert data.rewards.mean() < 0.65
    assert found.verdict == "caution"
    assert "later halves of episodes pay otherwise" in " ".join(found.reasons)
    assert found.interval[0] < 0 < found.interval[1]  # the log's own policy is no better than itself
    steady = LinearGaussian().dataset(30, 30, BEHAVIOUR, 0)
    assert ov.compare(steady, BEHAVIOUR.policy(), "logged", "vpm", n_features=20).reasons == ()


def test_notebooks_show_the_words():
    found = ov.compare(bandit(), [[0.0, 1.0]], estimator="vpm")
    assert found._repr_html_().startswith("<pre>vpm: new is better")
    assert found.gate()._repr_html_().startswith("<pre>better (exit code 0)")
    with pytest.raises(TypeError, match="no option 'gama': did you mean 'gamma'"):
        ov.evaluate(bandit(), [[0.0, 1.0]], gama=0.9)


@pytest.mark.parametrize("old", ["logged", TARGET.policy()])
def test_the_logged_mean_does_not_call_all_policies_the_same(old):
    """To `naive` every policy is worth what the log is: no difference that can be believed."""
    data = LinearGaussian().dataset(20, 20, BEHAVIOUR, 0)
    found = ov.compare(data, BEHAVIOUR.policy(), old, "naive")
    assert (found.value, found.verdict) == (0, "caution")
    assert "whatever the target does" in found.reasons[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gamma": [0.9, 1.0]}, "gamma must be between 0 and 1"),
        ({"gamma": "1"}, "gamma must be between 0 and 1"),
        ({"estimator": ["auto", "dr"]}, "estimator must be one name or instance"),
    ],
)
def test_one_question_at_a_time(wrong, said):
    data = LinearGaussian().dataset(5, 5, BEHAVIOUR, 0)
    with pytest.raises((TypeError, ValueError), match=said):
        ov.compare(data, BEHAVIOUR.policy(), **wrong)


@pytest.mark.parametrize("gain", ["much", None, [1.0], float("inf")])
def test_a_gain_is_a_number(gain):
    found = ov.compare(bandit(), [[0.0, 1.0]], [[1.0, 0.0]], "vpm")
    with pytest.raises(ValueError, match="min_gain must be a finite number"):
        found.gate(gain)


def test_differences_stay_within_what_the_rewards_allow():
    """Returns of episodes of one step lie between 0 and 1, and in episodes of three steps between 0 and 3."""
    data = bandit(episodes=12)
    assert ov.compare(data, [[0.0, 1.0]], [[1.0, 0.0]], "vpm").widest == 1
    rng = np.random.default_rng(0)
    states, actions = np.tile([0, 1, 2], 20), rng.integers(0, 2, 60)
    rewards = np.where(states == 2, 1.0, 0.0) * (rng.random(60) < 0.5) + 1.0
    three = ov.LoggedDataset.from_arrays(states, actions, rewards, (states + 1) % 3, terminated=states == 2)
    found = ov.compare(three, np.tile([0.0, 1.0], (3, 1)), np.tile([1.0, 0.0], (3, 1)), "vpm")
    assert found.per == "episode"
    assert found.widest > 1  # one reward more or less is all that the value per step allows


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_a_log_in_which_everything_pays_the_same_calls_no_two_policies_alike(gamma):
    rng = np.random.default_rng(0)
    states, actions, last = rng.integers(0, 3, 200), rng.integers(0, 2, 200), np.arange(200) % 10 == 9
    data = ov.LoggedDataset.from_arrays(states, actions, np.ones(200), np.roll(states, -1), truncated=last)
    found = ov.compare(data, np.tile([0.1, 0.9], (3, 1)), np.tile([0.9, 0.1], (3, 1)), "vpm", gamma=gamma)
    assert (found.value, found.verdict) == (0, "unreliable")
    assert found.gate().decision == "not decided"
    assert "every logged step pays the same" in found.reasons[0]


def test_rounding_is_no_difference():
    """1 and 1 - 1e-16, which no episode moves."""
    one, other = (Evaluated(value(number), np.zeros(10)) for number in (1.0, 1 - 1e-16))
    assert one.less(other).value == 0
    (_, second), known = ranked({"one": one, "other": other}, "value", 10).candidates, ("not told apart", 0.0)
    assert (second.against_first, second.regret) == known


def test_the_time_after_a_cut_is_told_by_the_state_it_was_cut_in():
    """0 → 1 → 2 → 0 pays 0, 0, 3, so that V(2) = 3/(1 - γ³) and V(0) = γ²V(2), for two thirds and one third of the
    episodes; two steps are logged, whose mean, 0 and 1½, would have the log's policy at 0.505.
    """
    first = np.repeat([0, 2], [40, 20])
    state = np.stack([first, (first + 1) % 3], axis=1).ravel()
    rewards = 3.0 * (state == 2) + 1e-9 * np.random.default_rng(0).standard_normal(120)  # no two episodes are copies
    data = ov.LoggedDataset.from_arrays(
        state, np.arange(120) % 2, rewards, (state + 1) % 3, truncated=np.arange(120) % 2 == 1
    )
    far = 3 / (1 - 0.9**3)
    truth = 0.1 * (2 * 0.81 * far + far) / 3
    assert ov.evaluate(data, np.full((3, 2), 0.5), "naive", gamma=0.9).value == pytest.approx(0.505, abs=1e-6)
    found = ov.compare(data, np.full((3, 2), 0.5), "logged", gamma=0.9)
    assert found.old.value == pytest.approx(truth, abs=1e-6)
    (doubt,) = (each for each in found.old.doubts if each.bias)
    assert doubt.bias == pytest.approx((truth - 0.505) / 2, abs=1e-6)
    assert "episodes were cut" in " ".join(found.reasons)
