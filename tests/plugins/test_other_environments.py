"""Blocks of docs/plugins.md whose libraries do not go with our others: each has an environment, made once and kept."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ope_vpm.envs.random_mdp import RandomMDP

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
KEPT = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ope-vpm"
CART = """
import gymnasium as gym, numpy as np
from ope_vpm.plugins import LogTransitions
env = LogTransitions(gym.make("CartPole-v1"), "cart.npz")
env.action_space.seed(0)
for episode in range(40):
    env.reset(seed=episode)
    while not any(env.step(env.action_space.sample())[2:4]):
        pass
env.close()
"""
SAME = """
import json, numpy as np
from scipy.special import softmax
module = algo.learner_group._learner.module["default_policy"]
import torch
def probabilities(states):
    with torch.no_grad():
        seen = torch.as_tensor(np.asarray(states, dtype=np.float32))
        return softmax(module.forward_inference({"obs": seen})["action_dist_inputs"].double().numpy(), axis=1)
known = ov.evaluate(ov.load_dataset("cart.npz"), ov.as_policy(probabilities), gamma=0.97)
told = algo.evaluate_offline()["offline_eval_runners"]["ope"]["value"]
print(json.dumps([float(told), known.value]))
"""


def run(name, requirements, code, folder, **environment):
    """What some code prints, in an environment with some packages and those that ours needs."""
    kept = KEPT / name
    if not (kept / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", kept], check=True)
        needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        subprocess.run([kept / "bin" / "python", "-m", "pip", "install", "-q", *requirements, *needed], check=True)
        (kept / "made").touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [kept / "bin" / "python", "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def block(heading):
    """The block of a section of the page."""
    return re.search(rf"^## {heading}.*?^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]


@pytest.mark.long
def test_rllib_reports_the_value_that_evaluate_gives(tmp_path):
    """After two rounds of behaviour cloning; reading the log back as RLlib's table loses nothing."""
    packages = ["ray[rllib]==2.60.0", "torch==2.13.0"]
    *_, last = run("rllib-2.60.0", packages, CART + block("RLlib") + SAME, tmp_path, OMP_NUM_THREADS="1").splitlines()
    told, known = json.loads(last)
    assert told == pytest.approx(known, rel=1e-9)
    assert 0 < told < 1


@pytest.mark.long
def test_mlflow_keeps_the_numbers_in_a_file_store(tmp_path):
    mdp = RandomMDP.draw(6, 2, seed=0)
    mdp.dataset(20, 30, mdp.policy(1), 2).save(tmp_path / "log.npz")
    given = f"import ope_vpm as ov; value = ov.evaluate('log.npz', ov.as_policy({mdp.policy(3).tolist()!r}), 'vpm')\n"
    shown = "\nprint(mlflow.search_runs(output_format='list')[0].data.metrics['value'] == value.value)"
    store = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_URI": "file:mlruns"}
    printed = run("mlflow-3.17.2", ["mlflow-skinny==3.17.2"], given + block("MLflow") + shown, tmp_path, **store)
    assert printed.splitlines()[-1] == "True"
    (kept,) = (tmp_path / "mlruns").rglob("ope.json")
    assert json.loads(kept.read_text())["verdict"] in ("reliable", "caution", "unreliable")


def test_the_error_names_the_extra():
    code = "import sys; sys.modules['ray.rllib'] = None; from ope_vpm.plugins import OPERunner"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "pip install 'ope-vpm[rllib]'" in done.stderr
