"""The study on the Open Bandit data, and obp's estimators as it calls them."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import yaml

import ope_vpm as ov
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TablePolicy
from ope_vpm.studies import obp_estimators, open_bandit
from ope_vpm.studies.study import Rows

CELL = {"campaign": "men", "direction": "Thompson to random", "log": "itself"}


@pytest.fixture(scope="module")
def rows():
    return Rows(CELL | {"seed": 0} | row for row in open_bandit.campaign(CELL, 0, None))


def test_the_thompson_policy_is_that_of_its_published_prior():
    path = importlib.util.find_spec("obp").submodule_search_locations[0]
    with open(f"{path}/policy/conf/prior_bts.yaml") as file:
        prior = yaml.safe_load(file)["men"]
    rng, draws = np.random.default_rng(0), 20_000
    best = np.argsort(-rng.beta(prior["alpha"], prior["beta"], size=(draws, 34)), axis=1)[:, :3]
    mine = np.array([np.bincount(best[:, place], minlength=34) for place in range(3)]) / draws
    theirs = obp_estimators.thompson_at_start("men", 34)
    error = np.sqrt(np.maximum(mine, 1 / draws) * (1 / draws + 1 / obp_estimators.DRAWS))
    assert (np.abs(mine - theirs) < 5 * error).all()
    assert theirs.sum(axis=1) == pytest.approx(np.ones(3))


def test_the_figure_in_the_readme_of_obp_comes_out():
    data, other = open_bandit.log("random", "all"), open_bandit.log("bts", "all")
    target = open_bandit.target_table("random to Thompson, start", "all", other)
    ratio = target[data.observations[:, 0], data.actions] / np.exp(data.behaviour_log_prob)
    assert ratio @ data.rewards / data.rewards.sum() == pytest.approx(1.198126, abs=1e-6)


def test_the_policy_over_the_week_is_how_often_items_were_shown():
    other = open_bandit.log("bts", "men")
    target = open_bandit.target_table("random to Thompson, week", "men", other)
    first = other.actions[other.observations[:, 0] == 0]
    assert target[0, 13] == pytest.approx((first == 13).mean())
    assert target.sum(axis=1) == pytest.approx(np.ones(3))


def test_estimators_of_obp_are_their_formulas(rows):
    data, items = open_bandit.log("bts", "men"), 34
    ratio = 1 / items / np.exp(data.behaviour_log_prob)
    found = {row["method"]: row["value"] for row in rows}
    assert found["obp IPW"] == pytest.approx((ratio * data.rewards).mean())
    assert found["obp SNIPW"] == pytest.approx((ratio * data.rewards).sum() / ratio.sum())
    folder = obp_estimators.folder("bts", "men")
    predicted = obp_estimators.predicted_rewards(open_bandit.feedback(data), obp_estimators.item_features(folder))
    everywhere = predicted[np.arange(len(data)), :, data.observations[:, 0]]
    logged = everywhere[np.arange(len(data)), data.actions]
    assert found["obp DM"] == pytest.approx(everywhere.mean())
    assert found["obp DR"] == pytest.approx((everywhere.mean(axis=1) + ratio * (data.rewards - logged)).mean())


def test_on_one_step_chains_the_counted_model_is_the_mean_of_cell_means(rows):
    data = open_bandit.log("bts", "men")
    position = data.observations[:, 0]
    means = [
        [data.rewards[(position == place) & (data.actions == item)].mean() for item in range(34)] for place in range(3)
    ]
    by_hand = np.bincount(position) / len(data) @ np.mean(means, axis=1)
    # Every row ends, and the next position is dealt to it from the log: the share of a position varies by some 1 %.
    assert rows.where(method="vpm")[0]["value"] == pytest.approx(by_hand, rel=0.02)


def test_known_propensities_of_the_random_policy_make_onestep_and_snipw_one():
    data, other = open_bandit.log("random", "men"), open_bandit.log("bts", "men")
    target = open_bandit.target_table("random to Thompson, week", "men", other)
    ratio = target[data.observations[:, 0], data.actions] * 34
    problem = Problem.pose(open_bandit.only_positions(data), TablePolicy(target))
    value = open_bandit.METHODS["onestep, known"].answer(problem).value
    assert value == pytest.approx(ratio @ data.rewards / ratio.sum())


def test_rows_tell_the_truth_and_the_log_itself_is_seed_0(rows):
    assert [row["method"] for row in rows] == list(open_bandit.NAMES)
    assert {row["truth"] for row in rows} == {open_bandit.log("random", "men").rewards.sum() / 10_000}
    assert open_bandit.campaign(CELL, 1, None) == open_bandit.campaign(CELL | {"log": "drawn"}, 0, None) == []


def test_a_regression_without_clicks_is_not_asked():
    data = open_bandit.log("random", "men")
    some = open_bandit.feedback(data)
    assert obp_estimators.every_fold_has_clicks(some)
    first = np.flatnonzero((some.position == 0) & (some.reward > 0))
    few = replace(some, reward=np.where(some.position == 0, 0.0, some.reward))
    few.reward[first[0]] = 1.0  # the fold that holds this click leaves none at this position
    assert not obp_estimators.every_fold_has_clicks(few)
    target = open_bandit.target_table("Thompson to random", "men", data)
    features = obp_estimators.item_features(obp_estimators.folder("random", "men"))
    assert list(obp_estimators.estimates(few, target, features)) == ["obp IPW", "obp SNIPW"]


def test_other_seeds_draw_rows_with_replacement():
    assert (open_bandit.resampled(5, 0) == np.arange(5)).all()
    drawn = open_bandit.resampled(10_000, 1)
    assert abs(len(np.unique(drawn)) / 10_000 - (1 - np.exp(-1))) < 4 * 0.31 / 100
    assert (drawn != open_bandit.resampled(10_000, 2)).any()


def test_dr_is_that_of_obp_where_the_same_q_is_given():
    """On the same log, with its propensities, for Thompson sampling at the start."""
    data, target = open_bandit.log("random", "men"), obp_estimators.thompson_at_start("men", 34)
    feedback = open_bandit.feedback(data)
    q = np.random.default_rng(0).uniform(0, 0.02, (len(data), 34))
    theirs = obp_estimators.library("obp.ope", "bandits").DoublyRobust()
    expected = theirs.estimate_policy_value(
        **{name: getattr(feedback, name) for name in ("reward", "action", "pscore", "position")},
        action_dist=np.broadcast_to(target.T, (len(data), 34, 3)),
        estimated_rewards_by_reg_model=np.repeat(q[:, :, None], 3, axis=2),
    )
    positions = open_bandit.only_positions(data)
    value = ov.evaluate(positions, target, "dr", behaviour="logged", q=lambda seen: q)
    assert value.as_return() == pytest.approx(expected, abs=1e-9)
    assert value.lead.interval[0] < expected < value.lead.interval[1]
    with pytest.raises(ValueError, match="q must give every action's reward"):
        ov.evaluate(positions, target, "dr", q=lambda seen: q[:, :3])
    logged = ov.LoggedDataset.from_arrays([0, 1, 0, 1], [0, 1, 1, 0], [1.0, 0.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="q= takes a function for bandits alone"):
        ov.evaluate(logged, np.full((2, 2), 0.5), "dr", q=lambda seen: np.zeros((4, 2)))
