"""The Open Bandit logs as they come with obp, against pandas, and small ones written here."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from gymnasium.spaces import Discrete

import ope_vpm as ov
from ope_vpm.studies.obp_estimators import folder

HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0"
ROWS = [
    "0,2019-11-24 00:00:02+00:00,1,3,1,0.25,b,0.5",
    "1,2019-11-24 00:00:01+00:00,0,1,0,0.5,a,0.0",
    "2,2019-11-24 00:00:03+00:00,1,2,0,0.125,b,1.5",
]


def written(path, rows=ROWS, header=HEADER):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(("policy", "campaign"), [("random", "men"), ("bts", "women")])
def test_the_logs_of_obp_are_read_as_pandas_reads_them(policy, campaign):
    data = ov.load_dataset(folder(policy, campaign))
    table = pd.read_csv(folder(policy, campaign) / f"{campaign}.csv", index_col=0).sort_values("timestamp")
    assert len(data) == data.n_episodes == 10_000
    assert (data.actions == table["item_id"]).all()
    assert (data.rewards == table["click"]).all()
    assert (data.observations[:, 0] == table["position"] - 1).all()
    assert np.allclose(np.exp(data.behaviour_log_prob), table["propensity_score"], rtol=1e-12)
    for index in range(4):
        codes = table[f"user_feature_{index}"].astype("category").cat.codes
        assert (data.observations[:, 1 + index] == codes.to_numpy()).all()
    assert data.action_space == Discrete(len(pd.read_csv(folder(policy, campaign) / "item_context.csv")))
    assert not ov.inspect(data).findings


def test_a_log_by_hand_in_the_order_of_time(tmp_path):
    data = ov.load_dataset(written(tmp_path / "shop.csv"))
    assert data.observations.tolist() == [[0, 0], [2, 1], [1, 1]]
    assert data.actions.tolist() == [0, 1, 1]
    assert data.rewards.tolist() == [0, 1, 0]
    assert data.terminated.all()
    assert np.exp(data.behaviour_log_prob) == pytest.approx([0.5, 0.25, 0.125])
    assert data.n_actions == 2


def test_the_context_can_be_chosen(tmp_path):
    path = written(tmp_path / "shop.csv")
    assert ov.load_dataset(path, columns={"observations": "position"}).observations.tolist() == [0, 2, 1]
    chosen = ov.load_dataset(path, columns={"observations": ["user-item_affinity_0", "position"]})
    assert chosen.observations.tolist() == [[0.0, 0], [0.5, 2], [1.5, 1]]
    with pytest.raises(ValueError, match="columns maps rewards"):
        ov.load_dataset(path, columns={"rewards": "click"})
    with pytest.raises(ValueError, match="lacks the columns colour"):
        ov.load_dataset(path, columns={"observations": "colour"})


def test_items_that_were_never_shown_are_listed_beside_the_log(tmp_path):
    written(tmp_path / "shop.csv")
    (tmp_path / "item_context.csv").write_text(",item_id,item_feature_0\n0,0,0.5\n1,1,0.1\n2,2,0.3\n")
    assert ov.load_dataset(tmp_path).n_actions == 3
    written(tmp_path / "second.csv")
    with pytest.raises(ValueError, match="must hold one Open Bandit log beside item_context"):
        ov.load_dataset(tmp_path)


@pytest.mark.parametrize("propensity", ["0.0", "1.5"])
def test_propensities_must_be_probabilities(tmp_path, propensity):
    rows = [*ROWS, f"3,2019-11-24 00:00:04+00:00,0,1,0,{propensity},a,0.0"]
    with pytest.raises(ValueError, match="must be probabilities above 0"):
        ov.load_dataset(written(tmp_path / "shop.csv", rows))


def test_other_tables_stay_csv(tmp_path):
    path = written(tmp_path / "log.csv", ["1,0,0.5,1", "2,1,0.5,1"], "observation,action,reward,terminated")
    assert ov.load_dataset(path).rewards.tolist() == [0.5, 0.5]
