"""Training of policies with stable-baselines3; they are stored as plain arrays, Gaussian or softmax ones.

`TASKS` has the settings of each PyBullet task of the studies, `envs.wild.recipes` those of the wild tasks; checkpoints
on the way give policies of increasing skill.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from ope_vpm.envs.collect import register
from ope_vpm.optional import library, quiet
from ope_vpm.outside import write_text
from ope_vpm.policy.arrays import ArrayPolicy, Layers, LogitLayers, NetworkPolicy, SoftmaxNetwork, save_arrays

PARALLEL = 16
"""Environments that are stepped in parallel, as in the settings that were tried first and worked on Reacher and
HalfCheetah."""
OBSERVATION_CLIP = 10.0
"""Normalised observations are clipped to this many standard deviations: the default of `VecNormalize`."""
NOISE_DRAWS = 1000
"""Observations over which state-dependent noise is averaged: its mean is then known within a few per cent."""
ROUNDS = 200
"""How often progress is reported during training: every half percent, often enough for a smooth progress bar."""


@dataclass(frozen=True)
class Recipe:
    """The settings with which one task's policies are trained.

    Args:
        environment: the gymnasium id.
        algorithm: "PPO" or "A2C".
        steps: the number of environment steps over which the learning rate falls linearly to 0.
        checkpoints: the numbers of steps after which a policy is stored; training stops after the last one.
        settings: arguments of the algorithm.
        log_std: the logarithm of continuous actions' standard deviation at the start.
        parallel: the number of environments that are stepped in parallel.
    """

    environment: str
    algorithm: str
    steps: int
    checkpoints: tuple[int, ...]
    log_std: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    parallel: int = PARALLEL


_A2C = {
    "n_steps": 8, "gae_lambda": 0.9, "gamma": 0.99, "vf_coef": 0.4, "max_grad_norm": 0.5, "learning_rate": 1e-3,
}  # fmt: skip
"""The settings of A2C with which HalfCheetah learned; Ant was trained with the same ones."""
_PPO = {"n_steps": 256, "batch_size": 256, "n_epochs": 10, "learning_rate": 6e-4, "gamma": 0.98, "gae_lambda": 0.95}
_LATE = (200_000, 400_000, 700_000, 1_000_000, 1_500_000, 2_000_000)

TASKS = {
    "reacher": Recipe(
        "ReacherBulletEnv-v0", "PPO", 800_000, (40_000, 80_000, 160_000, 320_000, 560_000, 800_000), -0.5, _PPO
    ),
    "halfcheetah": Recipe("HalfCheetahBulletEnv-v0", "A2C", 2_000_000, _LATE, -1.0, _A2C),
    "ant": Recipe("AntBulletEnv-v0", "A2C", 2_000_000, _LATE, -1.0, _A2C),
}
"""The recipes of the shipped policies. The algorithms are the paper's: PPO for Reacher, A2C for the others, two hidden
layers of 64. Note 005 compares the returns with published ones."""


def scaled(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe with another number of steps, its checkpoints at the same fractions of them."""
    marks = tuple(max(1, round(mark * steps / recipe.steps)) for mark in recipe.checkpoints)
    return replace(recipe, steps=steps, checkpoints=tuple(sorted(set(marks))))


def train(
    recipe: Recipe, output: Path, *, seed: int = 0, progress: Callable[[int, float], None] | None = None
) -> list[Path]:
    """Train, write every checkpoint as `step-NNNNNNN.npz` with a JSON file of its settings, and return the files.

    Args:
        recipe: one of `TASKS`, or your own.
        output: the folder for the checkpoints.
        seed: of environments, networks and actions.
        progress: called about 200 times with the steps done and the mean return of recent episodes.
    """
    output.mkdir(parents=True, exist_ok=True)
    model, envs = _model(recipe, seed)
    started = time.perf_counter()
    written: list[Path] = []
    told = 0

    def after_step(scope: dict[str, Any], _: dict[str, Any]) -> bool:
        nonlocal told
        done = int(model.num_timesteps)
        kept = len(written) < len(recipe.checkpoints) and done >= recipe.checkpoints[len(written)]
        recent = [episode["r"] for episode in model.ep_info_buffer]
        mean = float(np.mean(recent)) if recent else float("nan")
        if kept:
            written.append(
                _write(output, recipe, seed, done, _policy(model, envs), mean, time.perf_counter() - started)
            )
        if progress is not None and (kept or done - told >= recipe.steps / ROUNDS):
            told = done
            progress(done, mean)
        return len(written) < len(recipe.checkpoints)

    # The last checkpoint may fall just short of a whole round of the parallel environments.
    with quiet(1):  # PyBullet prints a banner at the first reset
        model.learn(recipe.steps, callback=after_step)
    envs.close()
    return written


def _model(recipe: Recipe, seed: int) -> tuple[Any, Any]:
    """Return the untrained model of stable-baselines3 and its normalised environments."""
    sb3 = library("stable_baselines3", "sb3")
    register(recipe.environment)
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    envs = VecNormalize(make_vec_env(recipe.environment, recipe.parallel, seed=seed), clip_obs=OBSERVATION_CLIP)
    settings = dict(recipe.settings)
    rate = float(settings.pop("learning_rate"))
    network = {
        "net_arch": [64, 64],
        "activation_fn": torch.nn.Tanh,
        "log_std_init": recipe.log_std,
        "ortho_init": False,
    }
    model = getattr(sb3, recipe.algorithm)(
        "MlpPolicy",
        envs,
        learning_rate=lambda left: rate * left,
        policy_kwargs=network,
        seed=seed,
        device="cpu",
        **settings,
    )
    return model, envs


def _policy(model: Any, envs: Any) -> ArrayPolicy:
    """Return the trained network as a policy that includes the normalisation of observations."""
    network = model.policy
    layers = [network.mlp_extractor.policy_net[0], network.mlp_extractor.policy_net[2], network.action_net]
    weights, biases = [_numpy(layer.weight) for layer in layers], [_numpy(layer.bias) for layer in layers]
    statistics = {
        "observation_mean": envs.obs_rms.mean.copy(),
        "observation_std": np.sqrt(envs.obs_rms.var + envs.epsilon),
        "observation_clip": np.array(envs.clip_obs),
    }
    space = network.action_space
    if isinstance(space, Discrete):
        return SoftmaxNetwork(LogitLayers(weights, biases, **statistics))
    return NetworkPolicy(
        Layers(
            weights,
            biases,
            **statistics,
            log_std=_log_std(model),
            low=space.low.astype(np.float64),
            high=space.high.astype(np.float64),
        )
    )


def _log_std(model: Any) -> Any:
    """The log standard deviation of the actions.

    The variance of state-dependent noise is averaged over standard normal draws, for observations are normalised.
    """
    if not model.use_sde:
        return _numpy(model.policy.log_std)
    import torch

    draws = np.random.default_rng(0).standard_normal((NOISE_DRAWS, *model.observation_space.shape))
    seen = torch.as_tensor(draws, dtype=torch.float32)
    variance = model.policy.get_distribution(seen).distribution.variance
    return _numpy(variance.mean(dim=0).sqrt().log())


def _write(output: Path, recipe: Recipe, seed: int, done: int, policy: ArrayPolicy, mean: float, took: float) -> Path:
    path = output / f"step-{done:07d}.npz"
    save_arrays(path, policy)
    about = {**asdict(recipe), "seed": seed, "steps_done": done, "training_return": mean, "seconds": round(took, 1)}
    write_text(path.with_suffix(".json"), json.dumps(about, indent=2) + "\n")
    return path


def _numpy(values: Any) -> Any:
    return values.detach().cpu().numpy().astype(np.float64)
