"""The one call: lists, mappings, sharing, and mistakes answered in one sentence."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.policy import DeterministicPolicy

MDP = RandomMDP.draw(5, 2, seed=0)
DATA = MDP.dataset(20, 30, MDP.policy(1), seed=2)
TABLES = {"first": MDP.policy(3), "second": MDP.policy(4)}
POINTS = LinearGaussian().dataset(10, 20, BEHAVIOUR, seed=0)
NO_DENSITY = DeterministicPolicy(lambda states: np.zeros((len(states), 1)))


def test_several_estimators_and_policies_agree_with_one_at_a_time():
    both = ov.evaluate(DATA, TABLES, ["vpm", "wiss", "liu"], gamma=0.9)
    for policy, table in TABLES.items():
        for name in ("vpm", "wiss", "liu"):
            alone = ov.evaluate(DATA, table, name, gamma=0.9)
            assert both[policy][name].as_dict() == alone.as_dict()
    listed = ov.evaluate(DATA, list(TABLES.values()), "vpm", gamma=0.9)
    assert [found.value for found in listed] == [both[policy]["vpm"].value for policy in TABLES]


def test_a_nested_list_is_one_table():
    assert ov.evaluate(DATA, TABLES["first"].tolist(), "vpm").value == ov.evaluate(DATA, TABLES["first"], "vpm").value


@pytest.mark.parametrize("policies", [[], (), {}])
def test_no_policies_are_refused(policies):
    with pytest.raises(ValueError, match="one policy, or a list or mapping of at least one: got"):
        ov.evaluate(DATA, policies, "vpm")


def test_instances_and_names_mix_and_doubles_are_numbered():
    paper = ov.estimators()["vpm"](preset="paper")
    found = ov.evaluate(DATA, TABLES["first"], ["vpm", paper])
    assert list(found) == ["vpm", "vpm 2"]
    assert found["vpm 2"].value == pytest.approx(found["vpm"].value, abs=1e-6)


@pytest.mark.parametrize("wrong", [None, 3, ov.estimators()["vpm"], ["naive", ov.estimators()["vpm"]]])
def test_what_is_no_estimator_is_refused(wrong):
    with pytest.raises(TypeError, match="estimator must be a name, an instance, or a list of these: got "):
        ov.evaluate(DATA, TABLES["first"], wrong)


def test_what_depends_on_data_alone_is_made_once():
    first = Problem.pose(DATA, TABLES["first"])
    second = first.with_policy(TABLES["second"])
    assert first.steps is second.steps
    assert first.pairs() is first.pairs()
    assert first.pairs() is not second.pairs()


def test_as_return_divides_by_one_minus_gamma():
    found = ov.evaluate(DATA, TABLES["first"], "vpm", gamma=0.75)
    assert found.as_return() == pytest.approx(4 * found.value)
    with pytest.raises(ValueError, match="no logged episode ends: use gamma < 1"):
        ov.evaluate(DATA, TABLES["first"], "vpm").as_return()


def test_every_solver_and_preset_runs_on_points():
    for options in (
        {"solver": "factored", "ridge": 1e-3},
        {"solver": "factored", "power": 1.0},
        {"solver": "kernel", "draws": 3, "n_features": 32},
        {"solver": "neural", "steps": 3},
    ):
        assert np.isfinite(ov.evaluate(POINTS, TARGET.policy(), "vpm", **options).value)
    assert ov.evaluate(POINTS, NO_DENSITY, "vpm", n_features=32).diagnostics["solver"] == "kernel"


def test_logged_and_known_behaviour():
    log_prob = BEHAVIOUR.policy().log_prob(POINTS.observations, POINTS.actions)
    data = ov.LoggedDataset.from_arrays(
        POINTS.observations,
        POINTS.actions,
        POINTS.rewards,
        POINTS.next_observations,
        truncated=POINTS.truncated,
        behaviour_log_prob=log_prob,
    )
    for name in ("onestep", "wist", "wiss"):
        logged = ov.evaluate(data, TARGET.policy(), name, behaviour="logged")
        known = ov.evaluate(data, TARGET.policy(), name, behaviour=BEHAVIOUR.policy())
        assert logged.value == pytest.approx(known.value)


def with_log_prob(log_prob):
    return ov.LoggedDataset.from_arrays(
        DATA.observations,
        DATA.actions,
        DATA.rewards,
        DATA.next_observations,
        truncated=DATA.truncated,
        behaviour_log_prob=log_prob,
    )


@pytest.mark.parametrize("name", ["onestep", "wist", "wiss", "wdr", "liu"])
def test_probabilities_are_no_log_probabilities(name):
    probability = MDP.policy(1)[DATA.observations, DATA.actions]
    with pytest.raises(ValueError, match="must be logarithms of probabilities, 0 or less: row "):
        ov.evaluate(with_log_prob(probability), TABLES["first"], name, behaviour="logged")
    logged = ov.evaluate(with_log_prob(np.log(probability)), TABLES["first"], name, behaviour="logged")
    known = ov.evaluate(DATA, TABLES["first"], name, behaviour=MDP.policy(1))
    assert logged.value == pytest.approx(known.value)


@pytest.mark.parametrize("name", ["onestep", "wist", "wiss", "wdr", "liu"])
def test_a_behaviour_that_cannot_have_acted_is_refused(name):
    row = int(np.argmax(DATA.actions == 1))
    with pytest.raises(ValueError, match=f"take every logged action: that of row {row} has probability 0"):
        ov.evaluate(DATA, TABLES["first"], name, behaviour=np.tile([1.0, 0.0], (5, 1)))


MISTAKES = {
    "misspelt estimator": (lambda: ov.evaluate(DATA, TABLES["first"], "vmp"), "did you mean 'vpm'"),
    "unheard-of estimator": (lambda: ov.evaluate(DATA, TABLES["first"], "zzz"), "known are vpm, naive, onestep"),
    "no estimator": (lambda: ov.evaluate(DATA, TABLES["first"], []), "at least one estimator"),
    "misspelt option": (lambda: ov.evaluate(DATA, TABLES["first"], "wist", behavior="logged"), "'behaviour'"),
    "misspelt solver option": (lambda: ov.evaluate(DATA, TABLES["first"], "vpm", step=3), "did you mean 'steps'"),
    "unknown factored option": (lambda: ov.evaluate(POINTS, TARGET.policy(), "vpm", steps=3), "has no option 'steps'"),
    "unknown solver": (lambda: ov.evaluate(DATA, TABLES["first"], "vpm", solver="magic"), "known are auto, tabular"),
    "solver for other data": (lambda: ov.evaluate(DATA, TABLES["first"], "vpm", solver="kernel"), "use tabular"),
    "options for several": (lambda: ov.evaluate(DATA, TABLES["first"], ["vpm", "liu"], cap=3.0), "give instances"),
    "no logged probabilities": (
        lambda: ov.evaluate(DATA, TABLES["first"], "wist", behaviour="logged"),
        "use behaviour='cloned'",
    ),
    "no densities": (lambda: ov.evaluate(POINTS, NO_DENSITY, "wist"), "use vpm or model"),
    "factored without densities": (
        lambda: ov.evaluate(POINTS, NO_DENSITY, "vpm", solver="factored"),
        "solver='kernel'",
    ),
    "simulation of points": (lambda: ov.evaluate(POINTS, TARGET.policy(), "model", method="simulate"), "method='auto'"),
    "another action space": (lambda: ov.evaluate(DATA, np.full((5, 3), 1 / 3), "vpm"), "they do not fit"),
    "continuous policy, discrete data": (
        lambda: ov.evaluate(DATA, TARGET.policy(), "vpm"),
        "they do not fit|takes observations",
    ),
    "gamma out of range": (
        lambda: ov.evaluate(DATA, TABLES["first"], "vpm", gamma=1.5),
        "gamma must be between 0 and 1",
    ),
    "no initial states": (
        lambda: ov.evaluate(DATA.with_resets(np.zeros(20, dtype=bool)), TABLES["first"], "vpm", gamma=0.9),
        "needs initial states",
    ),
    "absorbing at gamma 1": (
        lambda: ov.evaluate(DATA, TABLES["first"], "vpm", on_end="absorb"),
        "use on_end='restart'",
    ),
    "not a dataset": (lambda: ov.evaluate(3, TABLES["first"], "vpm"), "a int is not a dataset we know"),
    "options of two solvers": (lambda: ov.estimators()["vpm"](power=0.5, steps=3), "takes power, steps together"),
    "features that are no number": (lambda: ov.estimators()["vpm"](n_features="x"), "a whole number, at least 1"),
    "paper with other settings": (
        lambda: ov.evaluate(DATA, TABLES["first"], "vpm", preset="paper", steps=3),
        "fixes every",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_end_in_one_sentence(case):
    call, expected = MISTAKES[case]
    with pytest.raises((ValueError, TypeError), match=expected) as caught:
        call()
    assert "\n" not in str(caught.value)


def rounded(value):
    """The same with numbers to ten digits, wherever they stand."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


@pytest.mark.parametrize("names", ["vpm", ["vpm", "dr"]])
def test_several_discounts_agree_with_one_at_a_time(names):
    """To ten digits: coefficients of all discounts are multiplied with the features in one product."""
    found = ov.evaluate(POINTS, {"target": TARGET.policy()}, names, gamma=[0.9, 1.0])["target"]
    assert list(found) == [0.9, 1.0]
    for gamma, at in found.items():
        alone = ov.evaluate(POINTS, TARGET.policy(), names, gamma=gamma)
        for each, other in zip(*((x.values() if isinstance(x, dict) else [x]) for x in (at, alone)), strict=True):
            assert rounded(each.as_dict()) == rounded(other.as_dict())


def test_discounts_choose_their_own_ends_unless_they_are_told():
    """By default episodes restart at γ = 1 and are absorbed below."""
    apart = [ov.evaluate(DATA, TABLES["first"], "vpm", gamma=gamma).value for gamma in (0.5, 1.0)]
    assert [at.value for at in ov.evaluate(DATA, TABLES["first"], "vpm", gamma=[0.5, 1.0]).values()] == apart


@pytest.mark.parametrize("gamma", [[], [0.9, 0.9], "0.9", None, [0.9, None], [[0.9], [1.0]], ["0.9", "1.0"]])
def test_discounts_must_differ(gamma):
    with pytest.raises(ValueError, match="gamma must be a number, or a list of different numbers"):
        ov.evaluate(DATA, TABLES["first"], "vpm", gamma=gamma)


@pytest.mark.parametrize(
    "wrong",
    [
        np.array(["a"] * 5),
        "onehot",
        3,
        {0: [1, 2]},
        np.zeros((5, 0)),
        np.arange(5),
        np.full((5, 2), np.nan),
        [[1e80]] * 5,
    ],
)
def test_state_features_that_are_no_table_of_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="state_features must be a table of finite numbers with a row for each state"):
        ov.evaluate(DATA, MDP.policy(3), "vpm", state_features=wrong)


@pytest.mark.parametrize("name", ["vpm", "naive", "dr"])
def test_a_large_constant_in_all_rewards_moves_the_interval_and_leaves_its_width(name):
    shifted = replace(DATA, rewards=DATA.rewards + 1e6)
    first, second = (ov.evaluate(data, MDP.policy(3), name) for data in (DATA, shifted))
    assert second.value - 1e6 == pytest.approx(first.value, abs=1e-7)
    assert np.subtract(second.interval, 1e6) == pytest.approx(first.interval, abs=1e-7)
