"""The data of docs/walks.md: `make()` writes files into the current folder and returns the rest by name."""

from __future__ import annotations

import logging
from typing import Any

import d3rlpy
import numpy as np
import pandas as pd
import structlog

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.envs.wild.networks import POLICIES
from ope_vpm.studies.obp_estimators import folder, thompson_at_start


def make() -> dict[str, Any]:
    """All of them."""
    d3rlpy.seed(0)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))  # d3rlpy is talkative
    rng = np.random.default_rng(0)
    df = shop(rng)
    steps = ("step-0020000", "step-0040000", "step-0060000")  # half-trained policies
    torques = [ov.load_policy(POLICIES / "Pendulum-v1" / f"{step}.npz").more_random(2.0) for step in steps]
    collect("Pendulum-v1", torques, 30, 200, seed=0).save("pendulum.h5")
    known = {"campaign": folder("random", "men"), "thompson_at_start": thompson_at_start, "d3rlpy": d3rlpy}
    return {"df": df, "patients": patients(), **known}


def shop(rng: np.random.Generator) -> pd.DataFrame:
    """Visits of 300 customers, in any order; free shipping helps in the south."""
    lengths = rng.integers(2, 7, 300)
    rows = int(lengths.sum())
    df = pd.DataFrame(
        {
            "customer": np.repeat([f"c{n}" for n in range(300)], lengths),
            "date": pd.Timestamp("2026-01-01")
            + pd.to_timedelta(np.concatenate([7 * np.arange(n) for n in lengths]), "D"),
            "region": np.repeat(rng.choice(["north", "south"], 300), lengths),
            "age": np.repeat(np.where(rng.random(300) < 0.1, np.nan, rng.integers(18, 80, 300)), lengths),
            "offer": rng.choice(["none", "discount", "free_shipping"], rows, p=[0.5, 0.25, 0.25]),
        }
    )
    south = df["region"] == "south"
    shipped = (df["offer"] == "free_shipping") * south
    df["revenue"] = (20 + 8 * shipped - 5 * (df["offer"] == "discount") + rng.normal(0, 5, rows)).round(2)
    return df.sample(frac=1, random_state=0)


def patients() -> pd.DataFrame:
    """Six visits of 300 patients: doses by the pressure, and too much of them is no help."""
    sick: list[tuple[Any, ...]] = []
    rng = np.random.default_rng(1)
    for patient in range(300):
        pressure = rng.normal(150, 12)
        for visit in range(6):
            dose = max(0.0, 0.04 * (pressure - 130) + rng.normal(0, 0.5))
            after = 120 + 0.8 * (pressure - 120) - 6 * dose * np.exp(-dose / 6) + rng.normal(0, 4)
            potassium = np.nan if rng.random() < 0.15 else round(rng.normal(4.5, 0.3), 2)
            sick.append(
                (
                    f"p{patient}",
                    pd.Timestamp("2026-01-01") + pd.Timedelta(30 * visit, "D"),
                    round(pressure, 1),
                    potassium,
                    round(dose, 2),
                    round(-abs(after - 125) / 10 - 0.1 * dose, 3),
                )
            )
            pressure = after
    return pd.DataFrame(sick, columns=["patient", "date", "pressure", "potassium", "dose", "comfort"])
