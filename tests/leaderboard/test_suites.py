"""Suites: what they expand to, and what is told about a wrong one before anything runs."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.envs.wild import wild_tasks
from ope_vpm.leaderboard.jobs import code_version, plan
from ope_vpm.leaderboard.runner import checked_suite
from ope_vpm.leaderboard.suite_files import SuiteError
from ope_vpm.leaderboard.suites import read_suite, shipped

TASK = '[[tasks]]\nname = "mdp"\nkind = "random_mdp"\n'


@pytest.fixture
def suite(tmp_path):
    """Write a suite, and read it."""

    def write(text, check=checked_suite):
        file = tmp_path / "own.toml"
        file.write_text(text)
        return check(str(file))

    return write


@pytest.fixture
def files(tmp_path):
    mdp = RandomMDP.draw(5, 2, seed=0)
    mdp.dataset(20, 30, mdp.policy(1), seed=2).save(tmp_path / "log.npz")
    np.save(tmp_path / "old.npy", mdp.policy(3))
    np.save(tmp_path / "new.npy", mdp.policy(4))
    np.save(tmp_path / "three-actions.npy", np.full((5, 3), 1 / 3))
    return tmp_path


def problems(suite, text):
    with pytest.raises(SuiteError) as caught:
        suite(text)
    return caught.value.problems


@pytest.mark.parametrize("name", shipped())
def test_shipped_suites_are_sound(name):
    assert checked_suite(name).settings


@pytest.mark.parametrize(("name", "half"), [("wild-tuning", "tuning"), ("wild", "reporting")])
def test_suites_of_wild_tasks_have_all_of_their_half(name, half):
    found = {setting.task.environment for setting in read_suite(name).settings}
    assert found == set(wild_tasks(half))


def test_one_size_varies_at_a_time(suite):
    sizes = "trajectories = [20, 5, 10]\nlength = [30, 60]\ngamma = [1.0, 0.9]\n"
    found = suite(f'estimators = ["vpm"]\n{TASK}{sizes}')
    of_gamma_one = [(s.task.trajectories, s.task.length) for s in found.settings if s.gamma == 1]
    assert of_gamma_one == [(20, 30), (5, 30), (10, 30), (20, 60)]
    assert len(found.settings) == 8
    whole = suite(f'estimators = ["vpm"]\n{TASK}{sizes}vary = "all"\n')
    assert len(whole.settings) == 2 * 3 * 2
    (few,) = suite(f'estimators = ["vpm"]\n{TASK}runs = 2\n').settings
    assert list(found.seeds(few)) == [0, 1]
    assert found.settings[0].label == "mdp, n=20, T=30, α=0, γ=1"


def test_every_cell_is_planned_once_and_keys_tell_cells_apart(suite):
    found = suite(
        'runs = 3\nestimators = ["vpm", { name = "vpm", label = "b", settings = { draws = 2 } }]\n'
        f"{TASK}policies = 2\n"
    )
    jobs = plan(found)
    assert len(jobs) == 2 + 3 * 2 * 2  # the references of two policies, then runs x policies x estimators
    assert len({job.key for job in jobs}) == len(jobs)
    assert [job.key for job in jobs] == [job.key for job in plan(found)]
    assert [job.run for job in jobs[2:]] == sorted(job.run for job in jobs[2:])


def test_estimators_all_and_restricted_ones(suite):
    import ope_vpm as ov

    found = suite(
        'estimators = ["all", { name = "vpm", label = "elsewhere", tasks = ["two"] }]\n'
        f'{TASK}\n[[tasks]]\nname = "two"\nkind = "linear_gaussian"\n'
    )
    names = {entry.label for entry in found.competitors(found.settings[0])}
    assert {"vpm", "naive", "model"} < names <= set(ov.estimators())
    assert names | {label for label, task, _ in found.left_out if task == "mdp"} == set(ov.estimators())
    assert found.competitors(found.settings[1])[-1].label == "elsewhere"


def test_all_problems_come_at_once_with_the_nearest_names(suite):
    text = """
    runs = 0
    titel = "?"
    estimators = ["vmp", "naive", { name = "liu", label = "liu", settings = { training_step = 3 } }, { name = "naive" }]
    [[tasks]]
    name = "one"
    kind = "random_mpd"
    [[tasks]]
    name = "two"
    kind = "linear_gaussian"
    lenght = 3
    trajectories = "many"
    gamma = 1.5
    [[tasks]]
    name = "three"
    kind = "random_mdp"
    alpha = [0.5, 2]
    """
    found = problems(suite, text)
    expected = [
        "runs must be at least 1, first_seed 0: got 0 and 0",
        "there is no field 'titel': did you mean 'title'?",
        "estimator 'vmp': there is no estimator 'vmp': did you mean 'vpm'?",
        "estimator 'liu': the estimator 'liu' has no option 'training_step': did you mean 'training_steps'?",
        "estimator 'naive' is there twice: give each its own label",
        "task 'one': there is no kind of task 'random_mpd': did you mean 'random_mdp'?",
        "task 'two': there is no field 'lenght': did you mean 'length'?",
        "task 'two': trajectories must be a whole number: got 'many'",
        "task 'two': gamma must be a number between 0 and 1: got 1.5",
        "task 'three': alpha must be between 0 and 1: got 2",
    ]
    for sentence in expected:
        assert sentence in found, found
    assert len(found) == len(expected)


def test_estimators_that_cannot_are_told_before_anything_runs(suite):
    simulate = '{ name = "model", settings = { method = "simulate" } }'
    tabular = '{ name = "vpm", settings = { solver = "tabular" } }'
    text = f'estimators = [{simulate}, {tabular}]\n[[tasks]]\nname = "lg"\nkind = "linear_gaussian"\n'
    found = problems(suite, text)
    assert len(found) == 2
    assert "estimator 'model' on task 'lg', γ=1: method='simulate' rolls out counts of finite pairs" in found[0]
    assert "solver 'tabular' does not fit continuous pairs" in found[1]


OWN = '[[tasks]]\nname = "own"\nkind = "files"\ndataset = "log.npz"\n'


def test_own_files_by_path_seen_from_the_suite(suite, files):
    policies = 'policies = { old = "old.npy", new = "new.npy" }\n'
    text = f'runs = 4\nestimators = ["vpm"]\n{OWN}{policies}truth = {{ old = 1 }}\n'
    found = suite(text)
    (setting,) = found.settings
    assert setting.task.dataset(0).n_episodes == 20
    assert setting.task.reference("old", 1.0).truth == 1
    assert setting.task.reference("new", 1.0) is None
    assert len(found.seeds(setting)) == 1  # one log taken whole is one run
    drawn = suite(text + "trajectories = [10, 5]\n")
    assert [(s.task.dataset(1).n_episodes, len(drawn.seeds(s))) for s in drawn.settings] == [(10, 4), (5, 4)]


def test_keys_follow_the_content_of_files(suite, files):
    text = f'estimators = ["vpm"]\n{OWN}policies = {{ old = "old.npy" }}\n'
    before = [job.key for job in plan(suite(text))]
    np.save(files / "new.npy", np.load(files / "new.npy"))
    assert [job.key for job in plan(suite(text))] == before
    np.save(files / "old.npy", np.load(files / "new.npy"))
    assert [job.key for job in plan(suite(text))] != before


def test_keys_follow_the_code_of_other_packages(suite, trouble):
    text = f'estimators = ["naive", "constant"]\n{TASK}policies = 1\nruns = 1\n'
    reference, naive, constant = (job.key for job in plan(suite(text)))
    with (trouble / "trouble_estimators.py").open("a") as module:
        module.write("# another version\n")
    code_version.cache_clear()
    after = [job.key for job in plan(suite(text))]
    assert after[:2] == [reference, naive]
    assert after[2] != constant


def test_wrong_files_are_told_at_once(suite, files):
    text = f'estimators = ["vpm"]\n{OWN}policies = {{ a = "none.npy", b = "three-actions.npy" }}\ntruth = {{ c = 1 }}\n'
    found = problems(suite, text)
    assert any("there is no policy 'c'" in sentence for sentence in found)
    assert any("none.npy" in sentence for sentence in found)
    (misfit,) = problems(suite, text.replace('a = "none.npy", ', "").replace("c = 1", "b = 1"))
    assert misfit.startswith("task 'own', policy 'b': ")
    assert "they do not fit" in misfit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("runs = = 3", "this is not TOML"),
        ("runs = 3", "a suite needs at least one [[tasks]] table"),
        (f"estimators = []\n{TASK}", "a suite needs at least one estimator"),
        (f"estimators = [3]\n{TASK}", "an estimator is a name or a table: got 3"),
        (f'estimators = ["vpm"]\n{TASK}{TASK}', "task 'mdp' is there twice"),
        (f'estimators = ["vpm"]\n{TASK}trajectories = []\n', "trajectories must not be an empty list"),
        ('estimators = ["vpm"]\ntasks = 3\n', "a suite needs at least one [[tasks]] table"),
        (f'estimators = ["all", 3]\n{TASK}', "an estimator is a name or a table: got 3"),
        (f'estimators = [{{ name = "vpm", tasks = "mdp" }}]\n{TASK}', "tasks must be a list, each text: got 'mdp'"),
        (f'estimators = [{{ name = "vpm", settings = 3 }}]\n{TASK}', "settings must be a table: got 3"),
        (f'estimators = ["vpm"]\n{TASK}gamma = []\n', "gamma must not be an empty list"),
        (f'estimators = ["vpm"]\n{TASK}runs = 0\n', "runs must be a whole number, at least 1: got 0"),
        (f'estimators = ["vpm"]\n{TASK}states = true\n', "states must be a whole number: got True"),
        ('estimators = ["vpm"]\n[[tasks]]\nname = "f"\nkind = "files"\n', "dataset is missing"),
        (f'estimators = [{{ name = "vpm", tasks = ["mpd"] }}]\n{TASK}', "did you mean 'mdp'?"),
    ],
)
def test_other_mistakes(suite, text, expected):
    with pytest.raises(SuiteError, match=re.escape(expected)):
        suite(text)


def test_an_unknown_suite_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'quick'"):
        read_suite("quik")
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        read_suite("none.toml")


HOSTILE = {
    "nested lists": ("estimators = " + "[" * 100_000, "this is not TOML"),
    "nested keys": ("a." * 20_000 + "b = 1\n", "there is no field|nested|recursion"),
    "many runs": ("runs = 1000000000000\n", "runs must be at most 10000000"),
    "many digits": ("runs = 0x" + "f" * 100_000 + "\n", "runs must be at most 10000000: got a whole number of 400000"),
    "too many digits": ("runs = " + "9" * 10_000 + "\n", "this is not TOML"),
    "not a number": (f"{TASK}alpha = nan\n", "alpha must be a finite number"),
    "infinite": (f"{TASK}alpha = -inf\n", "alpha must be a finite number"),
    "a log that fills the memory": (f"{TASK}trajectories = 1000000\nlength = 1000000\n", "trajectories times length"),
    "too many settings": (
        f"vary_all = 1\n{TASK}vary = 'all'\ntrajectories = {list(range(2, 1000))}\nlength = {list(range(1, 1000))}\n",
        "lists make 997002 settings",
    ),
    "too many cells": (f"runs = 2000000\n{TASK}", "at most 1000000 cells"),
    "too many estimators": (f"estimators = {['vpm'] * 100_000}\n{TASK}", "at most 1000 estimators: got 100000"),
    "too many tasks": (TASK * 20_000, "at most 1000 tasks: got 20000"),
    "too many fields": ("".join(f"a{number} = 1\n" for number in range(50_000)) + TASK, "there is no field 'a0'"),
    "paths that are none": (
        OWN.replace("log.npz", "x" * 5000)
        + 'policies = { a = "nul\\u0000", b = "~nobody/x", c = "'
        + "y" * 5000
        + '" }\n',
        "task 'own'",
    ),
    "settings of an estimator": (
        f"estimators = [{{ name = 'liu', settings = {{ training_steps = 1{'0' * 15} }} }}]\n{TASK}",
        "training_steps must be at most",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_absurd_suites_are_told_in_sentences(kind, suite):
    text, expected = HOSTILE[kind]
    estimators = "" if "estimators" in text else 'estimators = ["vpm"]\n'
    assert any(re.search(expected, problem) for problem in problems(suite, estimators + text))


def test_a_suite_cannot_trust_its_own_files(suite, files):
    """The file of a suite may come from the same stranger as the pickles beside it."""

    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("the pickle was loaded",)

    (files / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    own = '[[tasks]]\nname = "own"\nkind = "files"\ndataset = "bomb.pkl"\ntrust = true\n'
    text = f'estimators = ["vpm"]\n{own}policies = {{ old = "old.npy" }}\n'
    assert problems(suite, text) == ("trust = true lets its files run code: pass --trust if you know them",)
    good = text.replace("bomb.pkl", "log.npz")
    assert problems(suite, good) == ("trust = true lets its files run code: pass --trust if you know them",)
    assert suite(good, lambda name: checked_suite(name, trust=True)).settings


def test_returns_of_episodes_need_a_truth_and_gamma_one(suite):
    wild = '[[tasks]]\nname = "pole"\nkind = "wild"\nenvironment = "CartPole-v1"\nper = "episode"\n'
    found = suite(f'estimators = ["naive"]\n{wild}', read_suite)
    assert found.settings[0].label == "pole, n=50, T=300, per episode"
    told = problems(suite, f'estimators = ["naive"]\n{wild}gamma = [1.0, 0.99]\n')
    rule = "per = 'episode' is the undiscounted return, so that gamma must be 1"
    assert told == (f"task 'pole': {rule}: got [1.0, 0.99]",)
    told = problems(suite, f'estimators = ["naive"]\n{TASK}per = "episode"\n')
    assert told == ("task 'mdp': per must be one of step for the kind 'random_mdp': got 'episode'",)
