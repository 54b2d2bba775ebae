"""ONNX files, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.optional import library
from ope_vpm.policy.function import from_function
from ope_vpm.policy.target import TargetPolicy

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}


def load_onnx(path: Path, **options: Any) -> TargetPolicy:
    """A policy from a graph of one input, the observations; `from_function` reads its first output."""
    runtime = library("onnxruntime", "onnx")
    try:
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:
        # onnxruntime's own exceptions have no common class but Exception.
        raise ValueError(f"{path} cannot be read as ONNX: {str(error).splitlines()[0]}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in KINDS:
        raise ValueError(
            f"{path} must have one input, the observations: got {[(item.name, item.type) for item in inputs]}"
        )
    name, kind, shape = inputs[0].name, KINDS[inputs[0].type], inputs[0].shape[1:]
    sizes = [int(size) if isinstance(size, int) else -1 for size in shape]

    def run(observations: Array) -> Array:
        batch = np.asarray(observations, dtype=kind)
        if -1 not in sizes:
            batch = batch.reshape(len(batch), *sizes)
        output: Array = session.run(None, {name: batch})[0]
        return output

    policy = from_function(run, **options)
    if sizes and -1 not in sizes:
        policy.observation_size = int(np.prod(sizes))
    return policy
