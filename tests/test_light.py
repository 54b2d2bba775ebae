"""What `pip install ope-vpm` can do without any extra: `make light` runs this where torch is missing."""

import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.optional import has_torch
from tests.test_start import run

if has_torch():
    pytest.skip("for an installation without torch: make light", allow_module_level=True)

MOST_MEGABYTES = 600
MDP = RandomMDP.draw(6, 2, 0)
FINITE, TABLE = MDP.dataset(30, 20, MDP.policy(1), 2), MDP.policy(3)
LINEAR = LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=5)


def test_the_environment_is_small(capsys):
    size = sum(path.lstat().st_size for path in Path(sys.prefix).rglob("*")) / 1e6
    with capsys.disabled():
        print(f" an environment of {size:.0f} MB without extras ", end="")
    assert size <= MOST_MEGABYTES


def test_evaluation_loads_neither_matplotlib_nor_a_table_library():
    printed = run(
        "import sys\n"
        "from tests.test_light import FINITE, LINEAR, TABLE, TARGET, ov\n"
        "print(ov.evaluate(FINITE, TABLE).value, ov.evaluate(LINEAR, TARGET.policy(), gamma=0.9).value)\n"
        "print(*sys.modules)"
    ).stdout
    values, _, loaded = printed.partition("\n")
    assert np.isfinite([float(value) for value in values.split()]).all()
    assert not {"torch", "matplotlib", "pandas", "polars", "pyarrow", "sklearn", "joblib"} & set(loaded.split())


def test_discrete_actions_chains_tables_reports_and_pictures_need_no_extra(tmp_path):
    x = np.random.default_rng(0).standard_normal((400, 2))
    log = ov.LoggedDataset.from_arrays(x, np.arange(400) % 3, x[:, 0] + 1.0, episode=np.repeat(np.arange(20), 20))
    assert np.isfinite(ov.evaluate(log, lambda s: np.full((len(s), 3), 1 / 3)).value)
    np.save(tmp_path / "policy.npy", TABLE)
    values = ov.evaluate(FINITE, ov.load_policy(tmp_path / "policy.npy"), ["auto", "fqe", "model"])
    values.report(tmp_path / "report.html", FINITE)
    assert (tmp_path / "report.html").stat().st_size > 1000
    ov.evaluate(LINEAR, TARGET.policy(), ["mwl", "dr"]).plot()
    chain = ov.VPM().fit(ov.Transitions([0, 0, 1, 1], [0, 1, 0, 1]))
    np.testing.assert_allclose(chain.probabilities(), 0.5)
    assert np.isfinite(ov.VPM().fit(ov.Transitions(x[:-1], 0.5 * x[:-1] + x[1:])).weights).all()
    assert "target" in str(ov.select(LINEAR, {"target": TARGET.policy(), "own": BEHAVIOUR.policy()}))


def test_networks_say_which_extra_they_need(tmp_path):
    path, target = tmp_path / "policy.zip", TARGET.policy()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", "")
    asked = [
        lambda: ov.evaluate(LINEAR, target, "fqe"),
        lambda: ov.evaluate(LINEAR, target, "model"),
        lambda: ov.evaluate(LINEAR, target, "wist"),
        lambda: ov.evaluate(LINEAR, target, "vpm", preset="paper"),
        lambda: ov.VPM(solver="neural").fit(ov.Transitions(np.eye(9), np.eye(9))),
        lambda: ov.load_policy(path),
    ]
    for ask in asked:
        with pytest.raises(ImportError, match=re.escape("this needs torch: pip install 'ope-vpm[torch]'")):
            ask()


def test_auto_answers_without_networks_where_it_would_take_them():
    far = ov.with_noise(ov.as_policy(lambda s: 4.0 + 0.0 * s[:, :1]), std=0.05)
    value = ov.evaluate(LINEAR, far)
    assert value.verdict == "unreliable"
    assert "pip install 'ope-vpm[torch]'" in " ".join(value.diagnostics["why"])
