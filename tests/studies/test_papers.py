"""Papers of others: simulators by their published numbers, estimators by the papers' definitions, tables by hand."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ope_vpm.envs import sepsis
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.papers import namkoong, page, paper, tang_wiens
from ope_vpm.studies.papers import sepsis as runs
from ope_vpm.studies.runner import PAPERS, write_rows
from ope_vpm.studies.study import Results, Rows

UNIFORM = TablePolicy(np.full((sepsis.STATES, 8), 1 / 8))


def probability(model, state, action, following):
    return model.probability[(model.pair == state * 8 + action) & (model.following == following)].sum()


def test_the_sepsis_simulator_has_the_published_probabilities():
    """Corners of the matrix that Tang and Wiens print in data-prep/0-compute-MDP-parameters.ipynb."""
    model = sepsis.model(mended=True, uniform=True)
    assert np.bincount(model.pair, model.probability) == pytest.approx(np.ones(1440 * 8))
    assert [probability(model, state, 0, 0) for state in (0, 1, 2)] == pytest.approx([0.6561, 0.729, 0.729])
    assert [probability(model, state, 1, 2) for state in (0, 1, 2)] == pytest.approx([0.243, 0.27, 0.243])
    assert [probability(model, state, 2, 1) for state in (0, 1, 2)] == pytest.approx([0.2187, 0.2187, 0.243])
    assert [probability(model, state, 7, 1439) for state in (1437, 1438, 1439)] == pytest.approx([0.475] * 3)
    assert np.bincount(sepsis.pays() + 1).tolist() == [832, 606, 2]
    assert np.flatnonzero(sepsis.pays() == 1).tolist() == [376, 1096]


def test_first_states_of_the_sepsis_simulator():
    plain, uniform = sepsis.first_states(uniform=False), sepsis.first_states(uniform=True)
    assert (np.count_nonzero(plain), np.count_nonzero(uniform)) == (74, 606)
    for share in (plain, uniform):
        assert share[720:].sum() == pytest.approx(0.2)
        assert share.sum() == pytest.approx(1)


def test_the_published_simulator_lowers_glucose_that_should_rise():
    """Its code caps a rise at 1 without diabetes: 4 falls to 3 and to 1 with probability 0.1 each, mended it stays."""
    glucose = np.array([probability(sepsis.model(), 376 + 16, 0, 376 + 8 * g) for g in (-2, -1, 0, 1, 2)])
    mended = np.array([probability(sepsis.model(mended=True), 376 + 16, 0, 376 + 8 * g) for g in (-2, -1, 0, 1, 2)])
    still = 0.8 * 0.8 * 0.9  # heart rate, pressure and oxygen stay as they are
    assert glucose / still == pytest.approx([0, 0.1, 0, 0.1, 0.8])
    assert mended / still == pytest.approx([0, 0, 0, 0.1, 0.9])


def test_exact_returns_are_what_simulated_episodes_are_worth():
    data = sepsis.model().simulate([UNIFORM], 4000, sepsis.LIMIT, seed=3)
    exact = sepsis.model().episode_return(UNIFORM, sepsis.LIMIT)
    assert abs(data.returns.mean() - exact.value) < 4 * exact.deviation / np.sqrt(4000)


def test_hiding_keeps_what_is_shown():
    data = sepsis.model().simulate([UNIFORM], 20, sepsis.LIMIT, seed=0)
    seen = sepsis.hidden(data)
    parts = sepsis.parts()[:, data.observations]
    expected = np.ravel_multi_index((*parts[1:4], *parts[5:]), (3, 3, 2, 2, 2, 2))
    np.testing.assert_array_equal(seen.observations, expected)
    table = np.random.default_rng(0).dirichlet(np.ones(8), size=sepsis.SHOWN)
    lifted = sepsis.informed(TablePolicy(table)).table
    np.testing.assert_allclose(lifted[data.observations], table[seen.observations])


def test_the_counted_model_by_hand():
    """State 0: action 0 pays 1 and ends in one of two steps, and goes to 1 in the other; 7 others were never seen."""
    data = LoggedDataset.from_arrays(
        np.array([0, 1, 0]), np.array([0, 2, 0]), np.array([0.0, 1.0, 1.0]), np.array([1, 1, 0]), [False, True, True]
    )
    model = runs.counted_model(data, 2)
    table = np.eye(8)[[0, 2]]
    assert model.episode_return(TablePolicy(table), 20).value == pytest.approx(0.5 * 1 + 0.5 * 1)
    table = np.eye(8)[[0, 3]]  # never seen in state 1: death
    assert model.episode_return(TablePolicy(table), 20).value == pytest.approx(0.5 * -1 + 0.5 * 1)
    assert runs.counted_policy(data.observations, data.actions, 2)[:, [0, 2]].tolist() == [[1, 0], [0, 1]]


def test_early_fitted_q_evaluation_and_wdr_by_hand():
    """One of two first steps goes on and is paid 1 by the next, the other is paid 1: all is worth (0.99 + 1) / 2."""
    data = LoggedDataset.from_arrays(
        np.array([1, 3, 1]), np.array([0, 2, 0]), np.array([0.0, 1.0, 1.0]), np.array([3, 0, 0]), [False, True, True]
    )
    solve, table = tang_wiens.Counted.of(data), np.eye(8)[np.where(np.arange(1440) == 3, 2, 0)]
    found = solve.estimates(table, np.ones(3))
    assert found == pytest.approx(dict.fromkeys(found, (0.99 + 1) / 2))
    unseen = np.eye(8)[np.full(1440, 5)]
    assert solve.estimates(unseen, np.ones(3))["FQE, 50 sweeps"] == pytest.approx(-1)
    plain = solve.weighted(np.ones(3), np.zeros(1440), np.zeros((1440, 8)))
    assert plain == pytest.approx((0.99 + 1) / 2)


def test_wis_is_the_paper_s_formula():
    data = sepsis.model().simulate([runs.physician()], 200, sepsis.LIMIT, seed=1)
    target = TablePolicy(0.5 * runs.physician().table + 0.5 / 8)
    behaviour = runs.counted_policy(data.observations, data.actions, sepsis.STATES)
    pair = data.observations, data.actions
    weight = np.multiply.reduceat(target.table[pair] / behaviour[pair], data.starts)
    method = {"WIS": ("wist", {"behaviour": TablePolicy(behaviour)})}
    (row,) = paper.answers(data, {"t": target}, {"t": 0.0}, method, gamma=1.0, time_limit="restart")
    assert row["value"] == pytest.approx(weight @ data.returns / weight.sum())


def test_scores_of_runs_by_hand():
    rows = Rows(
        [
            {
                "seed": seed,
                "policy": name,
                "value": value,
                "truth": truth,
                "low": 0.0,
                "high": 1.0,
                "verdict": "caution",
            }
            for seed, values in ((0, (1.0, 3.0)), (1, (2.0, 1.0)))
            for name, value, truth in zip("ab", values, (1.0, 2.0), strict=True)
        ]
    )
    assert paper.measured(rows, "MSE") == pytest.approx((0.75, 0.25, 2))
    assert paper.measured(rows, "RMSE")[0] == pytest.approx(0.75**0.5)
    assert paper.measured(rows, "Spearman")[0] == pytest.approx(0)
    assert paper.measured(rows, "regret")[0] == pytest.approx(0.5)
    lost = [row | {"value": np.nan} for row in rows.where(seed=1)]
    assert paper.measured(Rows([*rows.where(seed=0), *lost]), "MSE") == pytest.approx((0.5, 0, 1))


@pytest.mark.parametrize("name", PAPERS)
def test_every_published_figure_is_in_a_cell_that_is_run(name):
    known = paper.read(name)
    axes = list(known.cells[0])
    cells = [list(cell.values()) for cell in [*known.cells, *known.data_cells]]
    for row in known.published:
        assert [row[axis] for axis in axes] in cells
        assert set(row) <= {*axes, "method", *known.measures}
    assert set(known.measures) <= set(paper.MEASURES)
    assert len(known.conclusions) == 3


def test_one_small_run_becomes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(tang_wiens, "EPISODES", 300)
    monkeypatch.setattr(tang_wiens, "EPOCHS", range(0, 4))
    study = paper.study("tang-wiens", quick=False)
    rows = Rows({"log": "simulated", "seed": 0, **row} for row in study.run({"log": "simulated"}, 0).rows)
    assert {row["policy"] for row in rows} == {"epoch 0", "epoch 1", "epoch 2", "epoch 3"}
    assert len(study.draw(Results(rows)).axes) == 1
    folder = tmp_path / "papers"
    folder.mkdir()
    write_rows(folder / "tang-wiens.csv", rows)
    (folder / "tang-wiens.json").write_text('{"finished": "2026-11-19T00:00:00Z", "versions": {"ope-vpm": "0.2.0"}}')
    text = page.write_page(folder).read_text()
    assert "| simulated | auto |" in text
    assert "| simulated | wdr |" not in text  # a method that the page does not show
    assert "ope-vpm 0.2.0, 2026-11-19" in text
    with pytest.raises(ValueError, match="no paper was run in"):
        page.write_page(tmp_path / "nothing")


def test_an_expectile_bound_by_hand():
    """First actions 4, of returns 1 and -1, and 0: the expectile of ±1 at odds 2 solves 1 - k = 2(k + 1)."""
    state = np.flatnonzero(namkoong._first_states() > 0)[0]
    data = namkoong._log(
        [np.arange(4), np.full(4, state), np.array([4, 4, 0, 0]), np.array([1.0, -1, 0, 0]), np.full(4, 720)]
    )
    target = np.zeros((namkoong.STATES * namkoong.STEPS, 8))
    target[:, 4] = 1
    plain, bound, naive = namkoong.bounds(data, target, 2.0)
    assert plain == pytest.approx(0)  # ratios of 2 for returns 1 and -1
    assert bound == pytest.approx((1 - 1) / 4 + 0.5 * -1 / 3)
    assert naive == pytest.approx((2 / 2 - 2 * 2) / 4)
    assert namkoong.bounds(data, target, 1.0) == pytest.approx((0, 0, 0))


def test_without_a_hidden_cause_importance_sampling_finds_the_truth():
    table = namkoong.policies()["with"]
    acting = np.stack([namkoong.policies()[name][:720] for name in ("with", "without")])
    log = namkoong.simulate(acting, 0.5, table[720:1440], 20_000, 3)
    found = namkoong.bounds(log, table, 1.0)[0]
    assert abs(found - namkoong.truth("with")) < 4 * 2 * namkoong.discounted(log).std() / np.sqrt(20_000)


def test_the_page_is_what_the_command_writes(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    copied = shutil.copytree(docs / "papers", tmp_path / "papers", ignore=shutil.ignore_patterns("*.png", "*.svg"))
    assert page.write_page(copied).read_text(encoding="utf-8") == (docs / "papers.md").read_text(encoding="utf-8")
