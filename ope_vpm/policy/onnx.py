"""ONNX files, run by onnxruntime.

A graph has no access to files beyond weights kept outside of it, which are refused; its loops and its products of
large tensors could run for ever, and its tensors could fill the memory, so that all of them are forbidden or limited
unless the file is trusted.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.optional import library
from ope_vpm.outside import one_line, reading
from ope_vpm.policy.function import from_function
from ope_vpm.policy.target import TargetPolicy

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
DOMAINS = ("", "ai.onnx")
"""Where ONNX's own operators are; others are extensions of a runtime, or trees of ai.onnx.ml, which may have cycles."""
MOST_NODES = 2000
"""Operators of a graph: policies have tens, the deepest image networks some hundreds."""
ROWS = 4096
"""Observations given to the graph at once, so that honest networks stay far below the limit."""
SECONDS = 60.0
"""The time for `ROWS` observations: the image network of Atari agents (9 million products each) takes about 3 s."""
MOST_MEMORY = 1 << 30
"""Bytes that all graphs of a process may take together for their tensors."""


def load_onnx(path: Path, *, trust: bool = False, **options: Any) -> TargetPolicy:
    """A policy from a graph of one input, the observations; `from_function` reads its first output."""
    runtime, format_library = library("onnxruntime", "onnx"), library("onnx", "onnx")
    with reading(path, "ONNX"):
        model = format_library.load_model_from_string(path.read_bytes())
    if not trust:
        _check_harmless(path, model)
    settings = _settings(runtime, trust)
    # What runs is what was looked at, written again: the file may read differently as another format.
    with reading(path, "ONNX"):
        # Its fallback is the same provider again, with a notice on stdout.
        session = runtime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in KINDS:
        raise ValueError(
            f"{path} must have one input, the observations: got {[(item.name, item.type) for item in inputs]}"
        )
    name, kind, shape = inputs[0].name, KINDS[inputs[0].type], inputs[0].shape[1:]
    sizes = [int(size) if isinstance(size, int) else -1 for size in shape]

    def run(observations: Array) -> Array:
        batch = np.asarray(observations, dtype=kind)
        try:
            if -1 not in sizes:
                batch = batch.reshape(len(batch), *sizes)
            pieces = [batch[start : start + ROWS] for start in range(0, len(batch), ROWS)]
            if trust:
                return np.concatenate([np.asarray(session.run(None, {name: piece})[0]) for piece in pieces])
            return np.concatenate([_in_time(session, runtime.RunOptions(), {name: piece}) for piece in pieces])
        except Exception as error:
            # onnxruntime's own exceptions have no common class but Exception.
            raise ValueError(
                f"{path} cannot be run on observations of shape {np.shape(observations)}: {one_line(error)}"
            ) from error

    policy = from_function(run, **options)
    if sizes and -1 not in sizes:
        policy.observation_size = int(np.prod(sizes))
    return policy


def _in_time(session: Any, settings: Any, batch: dict[str, Array]) -> Array:
    """The first output on a batch, computed in a thread of its own (0.4 ms) that nobody waits for after `SECONDS`."""
    answer: Future[Any] = Future()

    def compute() -> None:
        try:
            answer.set_result(session.run(None, batch, settings)[0])
        except Exception as error:  # raised again where the answer is asked for
            answer.set_exception(error)

    Thread(target=compute, daemon=True).start()
    try:
        return np.asarray(answer.result(SECONDS))
    except TimeoutError:
        raise TimeoutError(
            f"it took more than {SECONDS:g} s (pass trust=True if you know where it comes from)"
        ) from None
    finally:
        settings.terminate = True  # the thread ends before the graph's next operator


def _settings(runtime: Any, trust: bool) -> Any:
    settings = runtime.SessionOptions()
    settings.log_severity_level = 4  # errors come as exceptions, not as lines on stderr too
    settings.add_session_config_entry("session.load_model_format", "ONNX")
    if not trust:
        _limit_memory(runtime)
        settings.add_session_config_entry("session.use_env_allocators", "1")
        # Optimising runs constant parts of the graph while it is loaded, beyond the limit on memory.
        settings.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return settings


@cache
def _limit_memory(runtime: Any) -> None:
    """Register, once in a process, an allocator with a limit, which sessions may ask for."""
    default = -1
    limits = runtime.OrtArenaCfg(MOST_MEMORY, default, default, default)
    kind = runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    where = runtime.OrtMemoryInfo("Cpu", kind, 0, runtime.OrtMemType.DEFAULT)
    runtime.create_and_register_allocator(where, limits)


def _check_harmless(path: Path, model: Any) -> None:
    """Refuse weights in other files, loops and branches, sparse weights, and operators that are not ONNX's own."""
    functions = {(function.domain, function.name) for function in model.functions}
    inside = list(chain.from_iterable(function.node for function in model.functions))
    nodes = [*model.graph.node, *inside]
    if len(nodes) > MOST_NODES:
        raise PermissionError(_refusal(path, f"{len(nodes)} operators, more than {MOST_NODES}"))
    if any((node.domain, node.op_type) in functions for node in inside):
        raise PermissionError(_refusal(path, "functions that call functions, which can multiply without end"))
    for node in nodes:
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise PermissionError(_refusal(path, f"the operator {node.op_type[:40]!r}, which can loop for ever"))
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in functions:
            raise PermissionError(_refusal(path, f"the foreign operator {node.domain[:40]}.{node.op_type[:40]}"))
    attributes = list(chain.from_iterable(node.attribute for node in nodes))
    if model.graph.sparse_initializer or any(
        attribute.HasField("sparse_tensor") or attribute.sparse_tensors for attribute in attributes
    ):
        raise PermissionError(_refusal(path, "sparse weights, which unpack to any size"))
    for tensor in _tensors(model, attributes):
        if tensor.external_data or tensor.data_location == tensor.EXTERNAL:
            raise PermissionError(_refusal(path, "weights in another file"))


def _tensors(model: Any, attributes: list[Any]) -> Iterator[Any]:
    """Every tensor of a model without inner graphs."""
    yield from model.graph.initializer
    for attribute in attributes:
        yield attribute.t
        yield from attribute.tensors


def _refusal(path: Path, what: str) -> str:
    return f"{path} holds {what}: pass trust=True if you know where it comes from"
