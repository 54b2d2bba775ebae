"""`ope-vpm mcp FOLDER`: a server for assistants, by the Model Context Protocol; it reads one folder and writes nothing.

Names come from a model that may have read anything. They are paths below the folder: absolute ones, `..` and symbolic
links are refused, as are links out of the folder beside a file or below a folder that is asked for, where readers look
for further files. Nothing is unpickled, and no code of a file is run.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any

from ope_vpm.optional import library
from ope_vpm.outside import json_text, one_line
from ope_vpm.plugins.command import read_log
from ope_vpm.policy import TargetPolicy, load_policy

ERRORS = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)
"""What a user's mistake ends in, as on the command line; the assistant is told in one sentence."""


class Tools:
    """What an assistant may ask about the files of a folder. The docstrings are what it is told of each tool.

    Args:
        folder: the only one that is read.
    """

    def __init__(self, folder: str | Path) -> None:
        self.root = Path(folder).expanduser().resolve(strict=True)

    def inspect(self, log: str) -> Any:
        """Look a log over before it is used: counts, ranges and what looks wrong, each finding with what to do.

        Args:
            log: a file below the served folder, a folder, or a pattern of Parquet files such as logs/*.parquet.
        """
        from ope_vpm.logged import inspect

        return inspect(self._log(log))

    def evaluate(self, log: str, policy: str, estimator: str = "auto", gamma: float = 1.0) -> Any:
        """Estimate what a policy is worth from a log of another one: value, 95 % interval, verdict, reasons, advice.

        Report the verdict with the value: "unreliable" means that the interval cannot be believed.

        Args:
            log: as for inspect.
            policy: a file of a policy below the served folder: .zip, .d3, .pt, .onnx, or a table (.npy, .csv).
            estimator: auto, unless there is a reason for another.
            gamma: 1 for the average reward or the return of an episode, below 1 for discounted values.
        """
        from ope_vpm.ope.evaluate import evaluate

        return evaluate(self._log(log), self._policy(policy), estimator, gamma)

    def compare(
        self, log: str, policy: str, baseline: str = "logged", estimator: str = "auto", gamma: float = 1.0
    ) -> Any:
        """Estimate by how much a policy is better than another, or than the one that logged the data.

        Args:
            log: as for inspect.
            policy: as for evaluate.
            baseline: logged, or another policy's file.
            estimator: as for evaluate.
            gamma: as for evaluate.
        """
        from ope_vpm.ope.questions.compare import compare
        from ope_vpm.ope.questions.paired import LOGGED

        old = LOGGED if baseline == LOGGED else self._policy(baseline)
        return compare(self._log(log), self._policy(policy), old, estimator, gamma)

    def select(self, log: str, policies: list[str], estimator: str = "auto", gamma: float = 1.0) -> Any:
        """Put several policies in order by one log, and say which cannot be told apart.

        Args:
            log: as for inspect.
            policies: files of policies, as for evaluate.
            estimator: as for evaluate.
            gamma: as for evaluate.
        """
        from ope_vpm.plugins.selection import select

        return select(self._log(log), {name: self._policy(name) for name in policies}, estimator, gamma)

    def _log(self, name: str) -> Any:
        return read_log(self.below(name), None, "local", None, trust=False)

    def _policy(self, name: str) -> TargetPolicy:
        return load_policy(self.below(name))

    def below(self, name: str) -> str:
        """The absolute path of a name, or of a pattern, that stands for files below the folder alone."""
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise PermissionError(f"{name} must be a path below the served folder, without ..")
        whole, fitting = self.root / name, []
        with suppress(OSError, ValueError):  # names that no file can have
            fitting = [whole] if whole.exists() else [self.root / each for each in glob.glob(name, root_dir=self.root)]
        if not fitting:
            raise FileNotFoundError(f"there is no {name:.200} in the served folder")
        for path in fitting:
            if path.resolve() != path:
                raise PermissionError(f"{path.relative_to(self.root)} must not be a symbolic link: links are not read")
        for area in {each if each.is_dir() else each.parent for each in fitting}:
            for path in area.rglob("*"):
                if not path.resolve().is_relative_to(self.root):
                    where = path.relative_to(self.root)
                    raise PermissionError(f"{where} must not be a symbolic link out of the served folder: move it away")
        return str(whole)


def server(folder: str | Path) -> Any:
    """A server of the official SDK with the four tools, one call at a time."""
    sdk = library("mcp.server.mcpserver", "mcp")
    failed = library("mcp.server.mcpserver.exceptions", "mcp").ToolError
    reads = library("mcp.types", "mcp").ToolAnnotations(readOnlyHint=True)
    made, lock, tools = sdk.MCPServer("ope-vpm"), Lock(), Tools(folder)

    def told(tool: Callable[..., Any]) -> Callable[..., str]:
        @wraps(tool)
        def answer(**asked: Any) -> str:
            try:
                with lock:
                    return json_text(tool(**asked).as_dict())
            except ERRORS as error:
                raise failed(one_line(error)) from error

        return answer

    for tool in (tools.inspect, tools.evaluate, tools.compare, tools.select):
        made.add_tool(told(tool), annotations=reads, structured_output=False)
    return made
