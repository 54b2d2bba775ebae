"""Which policy? Comparisons worked out by hand, differences with known truths, and the command."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from stable_baselines3 import PPO
from typer.testing import CliRunner

import ope_vpm as ov
from ope_vpm.cli import app
from ope_vpm.envs.collect import collect
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.logged import streamed
from ope_vpm.ope import log as logs
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.questions.paired import Evaluated
from ope_vpm.plugins import select
from ope_vpm.plugins.command import found_files
from ope_vpm.plugins.selection import ranked


def value(number, low, high, verdict="reliable"):
    reasons = () if verdict == "reliable" else ("it is made up",)
    return PolicyValue("made-up", number, 1.0, 1.0, (low, high), None, verdict, reasons)


def test_order_and_regret_by_hand():
    """Three policies whose differences have standard errors 0.1 (a, b), 0.1·√2 (a, c) and 0.1·√5 (b, c)."""
    step = 0.1 / np.sqrt(2 * 10 / 9)  # the influences (x, -x, 0, …) of ten episodes have standard error x·√(2·10/9)
    tilt = np.zeros(10)
    tilt[:2] = step, -step
    turn = np.zeros(10)
    turn[2:4] = step, -step
    found = {
        "a": Evaluated(value(2.0, 1.0, 3.0), np.zeros(10)),
        "b": Evaluated(value(2.1, 0.5, 3.0), tilt),
        "c": Evaluated(value(0.5, 0.9, 1.0), tilt * 0 + turn + np.roll(turn, 2)),
    }
    chosen = ranked(found, "lower", 10)
    assert [each.name for each in chosen.candidates] == ["a", "c", "b"]
    reach = stats.t.ppf(1 - 0.05 / 4, 9)
    a, c, b = chosen.candidates
    assert (a.behind, c.behind, b.behind) == pytest.approx((0.0, 1.5, -0.1))
    assert (c.behind_error, b.behind_error) == pytest.approx((0.1 * np.sqrt(2), 0.1))
    assert c.told_apart
    assert not b.told_apart
    assert a.regret == pytest.approx(0.1 + reach * 0.1)
    assert b.regret == pytest.approx(max(0.0, -0.1 + reach * 0.1))
    assert c.regret == pytest.approx(max(1.5 + reach * 0.1 * np.sqrt(2), 1.6 + reach * 0.1 * np.sqrt(3)))
    assert [each.name for each in chosen.not_told_apart] == ["b"]
    assert [each.name for each in ranked(found, "value", 10).candidates] == ["b", "a", "c"]
    assert (
        "a has the highest lower end of the interval: its value is 2, between 1 and 3 (95 %); 1 of 2 others cannot"
        in chosen.sentence()
    )


def test_without_intervals_the_value_decides_and_the_sentence_says_so():
    """As on a log of one episode, which has no interval."""
    found = {name: Evaluated(replace(value(number, 0, 1), interval=None)) for name, number in (("a", 0.2), ("b", 0.7))}
    chosen = ranked(found, "lower", 1)
    assert [each.name for each in chosen.candidates] == ["b", "a"]
    assert "b has the highest value: its value is 0.7; the other cannot be told apart from it" in chosen.sentence()


def test_the_regret_is_at_most_what_the_rewards_allow():
    """With one episode nothing is known of the difference, and values between 0 and 4 differ by at most 4."""
    found = {"a": Evaluated(value(2.0, 1.0, 3.0), np.zeros(1)), "b": Evaluated(value(3.0, 0.0, 4.0), np.ones(1))}
    assert [each.regret for each in ranked(found, "lower", 1).candidates] == [np.inf, np.inf]
    assert [each.regret for each in ranked(found, "lower", 1, widest=4.0).candidates] == [4.0, 4.0]
    data = LinearGaussian().dataset(
        2, 20, BEHAVIOUR, 0
    )  # Student's quantile is 25.5 for two comparisons by two episodes
    policies = [GaussianController(gain=(0.0, 0.0), shift=shift, deviation=0.5).policy() for shift in (-1, 0, 1)]
    chosen = select(data, policies, "onestep")
    assert max(each.regret for each in chosen.candidates) <= np.ptp(data.rewards)


def test_unreliable_ones_come_last_and_those_without_a_value_do_not_count():
    nothing = PolicyValue("made-up", float("nan"), 1.0, None, None, None, "unreliable", ("no value",))
    found = {
        "wild": Evaluated(value(9, 8, 10, "unreliable"), np.zeros(4)),
        "nothing": Evaluated(nothing),
        "tame": Evaluated(value(1, 0, 2, "caution"), np.zeros(4)),
    }
    chosen = ranked(found, "lower", 4)
    assert [each.name for each in chosen.candidates] == ["tame", "wild", "nothing"]
    assert chosen.best.regret == 8.0
    assert np.isinf(chosen.candidates[2].regret)
    assert "Its verdict is caution: it is made up." in chosen.sentence()


CONTROLLERS = {
    f"{shift:+.1f}": GaussianController(gain=(-0.2, 0.1), shift=shift, deviation=0.3) for shift in (-0.3, 0.0, 0.3)
}


def test_differences_hold_their_truth():
    """Over twelve logs, differences lie within four of their standard errors, which are smaller than unpaired ones."""
    task = LinearGaussian()
    truth = {name: task.average_reward(controller) for name, controller in CONTROLLERS.items()}
    policies = {name: controller.policy() for name, controller in CONTROLLERS.items()}
    distances, gains = [], []
    for seed in range(12):
        chosen = select(task.dataset(30, 20, BEHAVIOUR, seed), policies, "vpm", n_features=50)
        first = chosen.best
        for each in chosen.candidates[1:]:
            distances.append((each.behind - (truth[first.name] - truth[each.name])) / each.behind_error)
            gains.append(each.behind_error / np.hypot(first.value.standard_error, each.value.standard_error))
    assert np.abs(distances).max() < 4
    assert np.mean(np.abs(distances) < 2) > 0.8
    assert np.mean(gains) < 0.95
    assert chosen.best.name == max(truth, key=truth.get)


def test_values_are_those_of_single_evaluations():
    data = LinearGaussian().dataset(20, 20, BEHAVIOUR, 0)
    policies = [controller.policy() for controller in CONTROLLERS.values()]
    chosen = select(data, policies, "auto", gamma=0.9, n_features=50)
    direct = [ov.evaluate(data, policy, "auto", gamma=0.9, n_features=50) for policy in policies]
    for each in chosen.candidates:
        assert each.value.value == pytest.approx(direct[int(each.name)].value, rel=1e-9)
        assert each.value.interval == pytest.approx(direct[int(each.name)].interval, rel=1e-9)


def test_a_log_in_parts_gives_the_order_of_the_log_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "PART_ROWS", 256)
    monkeypatch.setattr(logs, "SAMPLE_ROWS", 300)
    data = LinearGaussian().dataset(40, 20, BEHAVIOUR, 0)
    for number in range(2):
        data.select(slice(20 * number, 20 * number + 20)).save(tmp_path / f"part-{number}.parquet")
    policies = {name: controller.policy() for name, controller in CONTROLLERS.items()}
    in_memory = select(data, policies, "vpm", n_features=50)
    in_parts = select(tmp_path / "*.parquet", policies, "vpm", n_features=50)
    for here, there in zip(in_parts.candidates, in_memory.candidates, strict=True):
        assert here.name == there.name
        assert (here.behind, here.behind_error) == pytest.approx((there.behind, there.behind_error), rel=1e-8)
        assert here.value.weights is None
    with pytest.raises(ValueError, match=r"wist .*load_dataset"):
        select(tmp_path / "*.parquet", policies, "wist")


def test_the_logged_mean_tells_nothing_apart():
    data = LinearGaussian().dataset(20, 20, BEHAVIOUR, 0)
    chosen = select(data, {name: each.policy() for name, each in CONTROLLERS.items()}, "naive")
    assert len(chosen.not_told_apart) == 2
    assert all(each.regret == 0 for each in chosen.candidates)


def test_wrong_questions_are_refused():
    data = LinearGaussian().dataset(5, 5, BEHAVIOUR, 0)
    with pytest.raises(ValueError, match="rank_by must be 'lower', 'value' or 'cvar': got 'upper'"):
        select(data, [BEHAVIOUR.policy()], rank_by="upper")
    with pytest.raises(ValueError, match="at least one policy"):
        select(data, {})
    with pytest.raises(TypeError, match=r"no option 'n_featurs': did you mean 'n_features'\?"):
        select("nowhere.npz", [BEHAVIOUR.policy()], "vpm", n_featurs=5)  # before the file is looked for


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log of CartPole and three checkpoints."""
    folder = tmp_path_factory.mktemp("select")
    for number in (2, 10, 3):
        model = PPO("MlpPolicy", "CartPole-v1", seed=number, policy_kwargs={"net_arch": [8]})
        model.save(folder / f"step_{number}.zip")
    collect("CartPole-v1", ov.as_policy(model), 30, 50, seed=0).save(folder / "log.npz")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["select", *map(str, arguments)], catch_exceptions=False)


def test_the_command(folder):
    page = folder / "page.html"
    given = (folder / "log.npz", "--policies", folder / "step_*.zip", "--gamma", "0.9", "--estimator", "vpm")
    printed = json.loads(run(*given, "--json", "--report", page).stdout)
    found = {each["name"]: each for each in printed["candidates"]}
    assert set(found) == {"step_2.zip", "step_3.zip", "step_10.zip"}
    data = ov.load_dataset(folder / "log.npz")
    for name, each in found.items():
        direct = ov.evaluate(data, ov.load_policy(folder / name), "vpm", gamma=0.9)
        assert each["value"] == pytest.approx(direct.value, rel=1e-9)
        assert each["verdict"] == direct.verdict
    lower = [each["interval"][0] for each in printed["candidates"] if each["verdict"] != "unreliable"]
    assert lower == sorted(lower, reverse=True)
    text = page.read_text()
    assert printed["best"] in text
    assert "://" not in text  # nothing is fetched
    assert "against the first" in text
    assert run(*given).stdout.startswith(f"{printed['best']} has the highest lower end")


def test_the_command_takes_a_table_with_names_of_its_own(tmp_path):
    np.save(tmp_path / "one.npy", np.tile([0.2, 0.8], (2, 1)))
    rows = [f"{k // 5},{k % 2},{k % 3 % 2},{k % 4},0" for k in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["visit,place,move,score,over", *rows]) + "\n")
    names = {"observations": "place", "actions": "move", "rewards": "score", "terminated": "over", "episode": "visit"}
    given = [word for ours, theirs in names.items() for word in ("--columns", f"{ours}={theirs}")]
    printed = json.loads(run(tmp_path / "log.csv", "--policies", tmp_path / "one.npy", "--json", *given).stdout)
    data = ov.load_dataset(tmp_path / "log.csv", columns=names)
    direct = ov.evaluate(data, ov.load_policy(tmp_path / "one.npy"), "auto")
    assert printed["candidates"][0]["value"] == direct.value


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder of .*page\.html does not exist"):
        run("none.npz", "--policies", "none.zip", "--page", tmp_path / "nowhere" / "page.html")


def test_files_come_by_pattern_in_the_order_of_their_numbers(folder):
    assert list(found_files([str(folder / "*.zip")])) == ["step_2.zip", "step_3.zip", "step_10.zip"]
    assert list(found_files([str(folder / "step_3.zip"), str(folder / "step_3.zip")])) == ["step_3.zip"]
    there = Path.cwd()
    try:
        os.chdir(folder)
        assert found_files(["step_*.zip"])["step_2.zip"] == Path("step_2.zip")
    finally:
        os.chdir(there)
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing_\*\.zip: --policies takes"):
        found_files([str(folder / "nothing_*.zip")])
    for given in (".", "/", "a**b", ""):
        with pytest.raises(FileNotFoundError, match=r"there is no file .*: --policies takes files, or a pattern"):
            found_files([given])
    with pytest.raises(FileNotFoundError, match=rf"a pattern such as '{folder}/\*'"):
        found_files([str(folder)])


def test_returns_are_compared_where_episodes_end():
    """Action 1 ends an episode and pays 1; action 0 pays 0.9 and goes on: more per step, and less per episode, is 1."""
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 600)
    actions[-1] = 1
    states = np.zeros(600, dtype=int)
    rewards = np.where(actions == 1, 1.0, 0.9)
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, states, terminated=actions == 1)
    ignore = ("constant-columns", "duplicated-episodes")
    chosen = ov.select(data, {"ends": [[0.2, 0.8]], "goes on": [[0.8, 0.2]]}, "vpm", ignore=ignore)
    # Going on with probability q pays 0.9·q/(1 - q) + 1 in an episode, and 0.9·q + (1 - q) per step.
    assert [each.name for each in chosen.candidates] == ["goes on", "ends"]
    assert chosen.best.lead.value == pytest.approx(0.9 * 4 + 1, rel=1e-6)
    assert chosen.candidates[1].lead.value == pytest.approx(0.9 / 4 + 1, rel=1e-6)
    assert chosen.candidates[1].behind == pytest.approx(0.9 * 3.75, rel=1e-6)
    assert chosen.best.value.value < chosen.candidates[1].value.value  # per step the other is first
    assert "its return is 4.6" in chosen.sentence()
    assert chosen.to_frame()["policy"].tolist() == ["goes on", "ends"]
    assert [label.get_text() for label in chosen.plot().get_yticklabels()] == ["goes on", "ends"]
    assert "its return is 4.6" in chosen._repr_html_()


def test_the_worst_tenth_prefers_what_is_safe():
    """Action 0 pays 1 or 1.5; action 1 pays 3 four times of five and -2 otherwise, which is more in the mean."""
    states, actions = np.zeros(400, dtype=int), np.arange(400) % 2
    rewards = np.where(actions == 0, 1 + np.arange(400) % 4 / 4, np.where(np.arange(400) % 10 == 1, -2.0, 3.0))
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, states, terminated=np.ones(400, dtype=bool))
    policies = {"safe": [[1.0, 0.0]], "bold": [[0.0, 1.0]]}
    ignore = ("duplicated-episodes", "constant-columns")
    assert select(data, policies, "vpm", ignore=ignore).best.name == "bold"
    chosen = select(data, policies, "vpm", rank_by="cvar", ignore=ignore)
    assert [each.name for each in chosen.candidates] == ["safe", "bold"]
    assert [each.lead.value for each in chosen.candidates] == pytest.approx([1, -2])
    assert chosen.candidates[1].told_apart
    assert chosen.candidates[1].regret >= 3
    assert chosen.sentence().startswith("safe has the highest mean of the worst tenth of returns: it is 1,")
    assert chosen.to_frame()["compared"].tolist() == pytest.approx([1, -2])
    json.dumps(chosen.as_dict())


def test_a_policy_that_does_not_fit_is_named():
    mdp = RandomMDP.draw(4, 2, seed=0)
    data, wrong = mdp.dataset(5, 5, mdp.policy(1), 2), {"right": mdp.policy(2), "wrong": mdp.policy(3)[:2]}
    with pytest.raises(ValueError, match=r"^wrong: the table knows states below \(2,\)"):
        select(data, wrong)
    with pytest.raises(TypeError, match="policies must be a mapping from names to policies, or a list"):
        select(data, ov.as_policy(mdp.policy(2)))
