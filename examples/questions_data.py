"""The log of docs/questions.md: `make()` returns it, and writes log.npz and careful.npy into the current folder."""

from __future__ import annotations

from typing import Any

import numpy as np

import ope_vpm as ov

SEVERITIES, DOSES = ("mild", "medium", "severe"), ("low", "high")


def make() -> ov.LoggedDataset:
    """Visits of 400 patients; a high dose helps the severe ones."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[Any]] = {"patient": [], "severity": [], "dose": [], "outcome": []}
    for patient in range(400):
        severity, leaves = int(rng.integers(0, 3)), False
        while not leaves:
            dose = int(rng.random() < (0.3, 0.5, 0.7)[severity])
            better = 0.15 * dose * (severity == 2)
            leaves = bool(rng.random() < (0.5, 0.3, 0.2)[severity] + better)
            well = rng.random() < (0.95, 0.8, 0.4)[severity] + better
            step = (patient, SEVERITIES[severity], DOSES[dose], (1.0 if well else -1.0) if leaves else 0.0)
            for column, value in zip(rows.values(), step, strict=True):
                column.append(value)
            if not leaves:
                severity = int(np.clip(severity + rng.integers(-1, 2), 0, 2))
    data = ov.from_table(rows, state="severity", action="dose", reward="outcome", episode="patient")
    data.save("log.npz")
    np.save("careful.npy", np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))  # mild, medium, severe; high, low
    return data
