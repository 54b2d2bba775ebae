"""How the policies of the wild tasks were trained: rl-baselines3-zoo's tuned settings, shortened to minutes.

`ope-vpm train-policy Pendulum-v1` trains by the recipe of that id.
"""

from __future__ import annotations

from ope_vpm.envs.training import Recipe

_LOCOMOTION = {
    "n_steps": 256,
    "batch_size": 256,
    "n_epochs": 10,
    "learning_rate": 5e-4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
}

RECIPES = {
    "Pendulum-v1": Recipe(
        "Pendulum-v1",
        "PPO",
        160_000,
        (20_000, 40_000, 60_000, 100_000, 160_000),
        0.0,
        {
            "n_steps": 128,
            "batch_size": 128,
            "n_epochs": 10,
            "learning_rate": 1e-3,
            "gamma": 0.9,
            "gae_lambda": 0.95,
        },
    ),
    "CartPole-v1": Recipe(
        "CartPole-v1",
        "PPO",
        60_000,
        (4_000, 8_000, 12_000, 20_000, 40_000, 60_000),
        0.0,
        {
            "n_steps": 32,
            "batch_size": 256,
            "n_epochs": 10,
            "learning_rate": 1e-3,
            "gamma": 0.98,
            "gae_lambda": 0.8,
        },
    ),
    "Acrobot-v1": Recipe(
        "Acrobot-v1",
        "PPO",
        250_000,
        (20_000, 40_000, 60_000, 100_000, 160_000, 250_000),
        0.0,
        {
            "n_steps": 256,
            "batch_size": 256,
            "n_epochs": 4,
            "learning_rate": 1e-3,
            "gamma": 0.99,
            "gae_lambda": 0.94,
        },
    ),
    "Hopper-v5": Recipe(
        "Hopper-v5",
        "PPO",
        600_000,
        (50_000, 100_000, 200_000, 300_000, 450_000, 600_000),
        -0.5,
        _LOCOMOTION,
    ),
    "HopperBulletEnv-v0": Recipe(
        "HopperBulletEnv-v0",
        "PPO",
        700_000,
        (50_000, 100_000, 200_000, 350_000, 500_000, 700_000),
        -0.5,
        _LOCOMOTION,
    ),
    "InvertedDoublePendulum-v5": Recipe(
        "InvertedDoublePendulum-v5",
        "PPO",
        300_000,
        (30_000, 60_000, 100_000, 150_000, 220_000, 300_000),
        -0.5,
        _LOCOMOTION,
    ),
    "Reacher-v5": Recipe(
        "Reacher-v5",
        "PPO",
        400_000,
        (30_000, 60_000, 100_000, 160_000, 280_000, 400_000),
        -0.5,
        _LOCOMOTION,
    ),
    "MountainCarContinuous-v0": Recipe(
        "MountainCarContinuous-v0",
        "PPO",
        20_000,
        (1_000, 2_000, 3_000, 5_000, 10_000, 20_000),
        -3.29,
        {
            "n_steps": 8,
            "batch_size": 256,
            "n_epochs": 10,
            "learning_rate": 7.77e-5,
            "gamma": 0.9999,
            "gae_lambda": 0.9,
            "clip_range": 0.1,
            "ent_coef": 0.00429,
            "max_grad_norm": 5,
            "vf_coef": 0.19,
            "use_sde": True,
        },
        parallel=1,
    ),
    "Walker2DBulletEnv-v0": Recipe(
        "Walker2DBulletEnv-v0",
        "PPO",
        900_000,
        (50_000, 100_000, 200_000, 400_000),
        -0.5,
        _LOCOMOTION,
    ),
}
"""By gymnasium id, the tuning tasks before those for reports. Locomotion shares one set: PPO's usual settings with
sixteen environments side by side. MountainCarContinuous explores by noise that depends on the state (`use_sde`), for
white noise hardly ever reaches the flag."""
