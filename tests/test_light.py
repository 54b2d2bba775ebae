"""What `pip install ope-vpm` can do without any extra, and what is not loaded by it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest

from ope_vpm.optional import has_torch, is_tensor

WITHOUT_TORCH = """
    import sys

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("torch", "stable_baselines3", "d3rlpy"):
                raise ImportError(name)

    sys.meta_path.insert(0, Blocked())
    import numpy as np
    import ope_vpm as ov
    from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
    from ope_vpm.envs.random_mdp import RandomMDP
    mdp = RandomMDP.draw(6, 2, 0)
    finite = mdp.dataset(30, 20, mdp.policy(1), 2)
    table = mdp.policy(3)
    linear = LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=5)
    target = TARGET.policy()
"""


def run(code):
    """What some code prints in a new interpreter that has no torch."""
    whole = textwrap.dedent(WITHOUT_TORCH) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-W", "error", "-c", whole], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_evaluation_loads_neither_torch_nor_matplotlib_nor_a_table_library():
    printed = run("""
        print(ov.evaluate(finite, table).value, ov.evaluate(linear, target, gamma=0.9).value)
        heavy = {"torch", "matplotlib", "pandas", "polars", "pyarrow", "sklearn", "joblib", "scipy.stats"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
    """)
    assert np.isfinite([float(value) for value in printed.split()]).all()


def test_answers_are_those_of_an_installation_with_torch():
    code = """
        names = ["vpm", "dr", "naive", "onestep", "gendice", "mwl", "mql", "wist"]
        values = ov.evaluate(finite, table, names, gamma=0.9)
        print(*(repr(value.value) for value in values.values()))
        values = ov.evaluate(linear, target, ["auto", "vpm", "dr", "onestep", "mwl"], gamma=0.9)
        print(*(repr(value.value) for value in values.values()))
        chosen = ov.evaluate(linear, ov.with_noise(ov.as_policy(lambda s: -0.1 * s[:, :1]), std=0.3), "vpm")
        print(repr(chosen.value))
    """
    with_torch = textwrap.dedent(WITHOUT_TORCH).replace("sys.meta_path.insert(0, Blocked())", "import torch")
    whole = with_torch + textwrap.dedent(code)
    there = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True).stdout
    assert [float(value) for value in run(code).split()] == pytest.approx([float(value) for value in there.split()])


def test_discrete_actions_chains_tables_reports_and_pictures_need_no_torch(tmp_path):
    run(f"""
        import pathlib
        folder = pathlib.Path({str(tmp_path)!r})
        x = np.random.default_rng(0).standard_normal((400, 2))
        log = ov.LoggedDataset.from_arrays(
            x, np.arange(400) % 3, x[:, 0] + 1.0, episode=np.repeat(np.arange(20), 20)
        )
        print(ov.evaluate(log, lambda s: np.full((len(s), 3), 1 / 3)).value)
        np.save(folder / "policy.npy", table)
        values = ov.evaluate(finite, ov.load_policy(folder / "policy.npy"), ["auto", "fqe", "model"])
        values.report(folder / "report.html", finite)
        ov.evaluate(linear, target, ["mwl", "dr"]).plot()
        chain = ov.VPM().fit(ov.Transitions([0, 0, 1, 1], [0, 1, 0, 1]))
        np.testing.assert_allclose(chain.probabilities(), 0.5)
        smooth = ov.VPM().fit(ov.Transitions(x[:-1], 0.5 * x[:-1] + x[1:]))
        print(ov.select(linear, {{"a": target, "b": BEHAVIOUR.policy()}}))
        assert "torch" not in sys.modules
    """)
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_networks_say_which_extra_they_need(tmp_path):
    printed = run(f"""
        import zipfile
        path = {str(tmp_path / "policy.zip")!r}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data", "{{}}")
            archive.writestr("policy.pth", "")
        asked = [
            lambda: ov.evaluate(linear, target, "fqe"),
            lambda: ov.evaluate(linear, target, "model"),
            lambda: ov.evaluate(linear, target, "wist"),
            lambda: ov.evaluate(linear, target, "vpm", preset="paper"),
            lambda: ov.VPM(solver="neural").fit(ov.Transitions(np.eye(9), np.eye(9))),
            lambda: ov.load_policy(path),
        ]
        for ask in asked:
            try:
                ask()
            except ImportError as error:
                print(error)
    """)
    assert printed.splitlines() == ["this needs torch: pip install 'ope-vpm[torch]'"] * 6


def test_auto_answers_without_networks_where_it_would_take_them():
    printed = run("""
        far = ov.with_noise(ov.as_policy(lambda s: 4.0 + 0.0 * s[:, :1]), std=0.05)
        value = ov.evaluate(linear, far)
        print(value.verdict, *value.diagnostics["why"])
    """)
    assert printed.startswith("unreliable")
    assert "pip install 'ope-vpm[torch]'" in printed


def test_kinds_of_torch_are_told_without_importing_it():
    assert has_torch()
    assert not is_tensor([1.0])
    assert is_tensor(__import__("torch").zeros(1))


def test_every_extra_that_an_error_names_is_there():
    root = Path(__file__).parents[1]
    known = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for room in ("ope_vpm", "baselines", "envs") for path in (root / room).rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'library\(\s*"[\w.]+", "(\w+)"', text)}
    assert {"torch", "pandas", "sb3"} <= named <= set(known)
