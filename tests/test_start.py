"""What is imported when: starting must be quick, and libraries that greet their users are kept quiet."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ope_vpm as ov
from ope_vpm.optional import has_torch, is_tensor

HEAVY = {"torch", "matplotlib", "gymnasium", "scipy", "numpy", "joblib", "d3rlpy", "stable_baselines3"}


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)


def heavy_modules(code):
    """The heavy libraries that some code loads in a new interpreter."""
    printed = run(f"{code}\nimport sys; print('loaded:', *{HEAVY!r} & set(sys.modules))").stdout
    return set(printed.rpartition("loaded:")[2].split())


def test_importing_the_package_loads_nothing_heavy():
    assert heavy_modules("import ope_vpm") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"], ["leaderboard", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    code = (
        f"import sys\nsys.argv[1:] = {arguments!r}\nfrom ope_vpm.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    assert heavy_modules(code) == set()


def test_logged_data_need_no_torch():
    code = "import ope_vpm as ov\nprint(ov.inspect(ov.LoggedDataset.from_arrays([0, 1], [0, 0], [1.0, 0.0])))"
    assert heavy_modules(code) & {"torch", "matplotlib", "joblib"} == set()


def test_continuous_states_load_no_counts_chains_or_formats():
    """Nothing but what is used: a first call should be quick."""
    code = (
        "import sys, ope_vpm as ov\nfrom ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian\n"
        "ov.evaluate(LinearGaussian().dataset(20, 20, BEHAVIOUR, seed=5), TARGET.policy())\n"
        "print(*(name for name in sys.modules))"
    )
    loaded = set(run(code).stdout.split())
    unused = {"scipy.sparse", "scipy.stats", "scipy.optimize", "scipy.spatial", "rich", "typer", "pandas", "pyarrow"}
    rooms = {"ope_vpm.chain.vpm", "ope_vpm.ope.finite.counts", "ope_vpm.logged.formats", "ope_vpm.logged.tables"}
    assert not (unused | rooms) & loaded


@pytest.mark.skipif(not has_torch(), reason="needs torch")
def test_kinds_of_torch_are_told_without_importing_it():
    assert not is_tensor([1.0])
    assert is_tensor(__import__("torch").zeros(1))


def test_every_public_name_is_there_and_listed():
    assert set(ov.__all__) <= set(dir(ov))
    for name in ov.__all__:
        assert getattr(ov, name).__module__.startswith("ope_vpm.")
    assert run("import ope_vpm; print(ope_vpm.logged.LoggedDataset.__name__)").stdout == "LoggedDataset\n"
    for package in (ov, ov.chain, ov.logged):
        assert all(hasattr(package, name) for name in package.__all__)
        with pytest.raises(AttributeError, match=rf"{package.__name__}' has no attribute 'evaluatte'"):
            package.evaluatte  # noqa: B018


@pytest.mark.parametrize("name", ["d3rlpy.dataset", "stable_baselines3", "pybullet_envs_gymnasium", "icu_sepsis"])
def test_libraries_are_imported_without_their_greetings(name):
    made = "; import pybullet" if "bullet" in name else ""
    done = run(f"from ope_vpm.optional import library; library({name!r}, 'all'){made}")
    assert (done.stdout, done.stderr) == ("", "")


def test_only_the_asked_descriptors_are_silenced():
    code = (
        "import sys; from ope_vpm.optional import quiet\nwith quiet(1): print('lost'); print('kept', file=sys.stderr)"
    )
    done = run(f"{code}\nprint('after')")
    assert (done.stdout, done.stderr) == ("after\n", "kept\n")
