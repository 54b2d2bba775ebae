"""How the policies of the wild tasks were trained: rl-baselines3-zoo's tuned settings, shortened to minutes.

`ope-vpm train-policy Pendulum-v1` trains by the recipe of that id.
"""

from typing import Any

from ope_vpm.envs.training import PARALLEL, Recipe

SETTINGS = ("n_steps", "batch_size", "n_epochs", "learning_rate", "gamma", "gae_lambda")
"""The settings of PPO that a row of the table has, by the names of stable-baselines3."""
_LOCOMOTION = 256, 256, 10, 5e-4, 0.99, 0.95
_FLAG = {"clip_range": 0.1, "ent_coef": 0.00429, "max_grad_norm": 5, "vf_coef": 0.19, "use_sde": True}
_PPO: tuple[tuple[str, int, tuple[int, ...], float, tuple[float, ...], dict[str, Any]], ...] = (
    ("Pendulum-v1", 160, (20, 40, 60, 100, 160), 0.0, (128, 128, 10, 1e-3, 0.9, 0.95), {}),
    ("CartPole-v1", 60, (4, 8, 12, 20, 40, 60), 0.0, (32, 256, 10, 1e-3, 0.98, 0.8), {}),
    ("Acrobot-v1", 250, (20, 40, 60, 100, 160, 250), 0.0, (256, 256, 4, 1e-3, 0.99, 0.94), {}),
    ("Hopper-v5", 600, (50, 100, 200, 300, 450, 600), -0.5, _LOCOMOTION, {}),
    ("HopperBulletEnv-v0", 700, (50, 100, 200, 350, 500, 700), -0.5, _LOCOMOTION, {}),
    ("InvertedDoublePendulum-v5", 300, (30, 60, 100, 150, 220, 300), -0.5, _LOCOMOTION, {}),
    ("Reacher-v5", 400, (30, 60, 100, 160, 280, 400), -0.5, _LOCOMOTION, {}),
    ("MountainCarContinuous-v0", 20, (1, 2, 3, 5, 10, 20), -3.29, (8, 256, 10, 7.77e-5, 0.9999, 0.9), _FLAG),
    ("Walker2DBulletEnv-v0", 900, (50, 100, 200, 400), -0.5, _LOCOMOTION, {}),
)
"""The gymnasium id; thousands of steps of the schedule and at each checkpoint; the logarithm of the actions' standard
deviation at the start; `SETTINGS`, and others."""

RECIPES = {
    name: Recipe(
        name,
        "PPO",
        1000 * steps,
        tuple(1000 * mark for mark in marks),
        log_std,
        dict(zip(SETTINGS, settings, strict=True)) | more,
        parallel=1 if more else PARALLEL,
    )
    for name, steps, marks, log_std, settings, more in _PPO
}
"""By gymnasium id, the tuning tasks before those for reports. Locomotion shares one set: PPO's usual settings with
sixteen environments side by side. MountainCarContinuous explores by noise that depends on the state (`use_sde`), for
white noise hardly ever reaches the flag, and runs one environment."""
