"""The built wheel, installed somewhere else, holds every module; the layers import one way only."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

import ope_vpm

ROOT = Path(__file__).parents[1]
FOLDERS = {"ope_vpm": ROOT / "ope_vpm", "ope_vpm.baselines": ROOT / "baselines", "ope_vpm.envs": ROOT / "envs"}


def modules() -> list[str]:
    """Every module of the source tree, by its import name."""
    names = set()
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            inner = path.relative_to(folder).with_suffix("").parts
            if package == "ope_vpm" and inner[0] in ("baselines", "envs"):
                continue
            names.add(".".join([package, *inner]).removesuffix(".__init__"))
    return sorted(names)


def test_every_extra_that_an_error_names_is_there():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for folder in FOLDERS.values() for path in folder.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'library\(\s*"[\w.]+", "(\w+)"', text)}
    assert {"torch", "pandas", "sb3"} <= named <= set(known)


@pytest.mark.slow
def test_the_wheel_holds_every_module(tmp_path):
    source = tmp_path / "source"  # a copy, so that no older build/ can lend a module, and none is left behind
    unwanted = shutil.ignore_patterns(
        ".venv*", ".git", "build", "docs", "results", "*.egg-info", ".*_cache", "__pycache__"
    )
    shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)  # the wheel from the sdist, as an index would make it
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    heavy = sysconfig.get_paths()["purelib"]  # numpy, torch and the rest, but not our own editable install
    script = (
        f"import sys, importlib; sys.path.append({heavy!r})\n"
        f"for name in {modules()!r}:\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError as error: assert 'ope-vpm[rllib]' in str(error)\n"
        "import ope_vpm; print(ope_vpm.__file__)"
    )
    result = subprocess.run([python, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert str(site) in result.stdout
    for data in ("py.typed", "leaderboard/suites/quick.toml", "leaderboard/static/template.html"):
        assert (site / "ope_vpm" / data).exists(), data
    policies = site / "ope_vpm" / "envs" / "policies"
    assert (policies / "taxi" / "iteration-1000.npy").exists()
    for task in ("reacher", "halfcheetah", "ant"):
        assert list((policies / task).glob("step-*.npz")), f"{task} has no policies"
        assert (policies / task / "truth.json").exists()


def test_the_recipe_and_the_citation_say_what_the_package_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    assert re.search(r'version: "(.+)"', recipe)[1] == ope_vpm.__version__
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == ope_vpm.__version__
    run = recipe.partition("  run:")[2].partition("\ntests:")[0]
    needed = {line.strip("- ").replace(" ", "").replace("matplotlib-base", "matplotlib") for line in run.split("\n")}
    assert {f"python{project['requires-python']}", *project["dependencies"]} == needed - {""}
