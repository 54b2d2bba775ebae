"""What the blocks of a page print, as the code prints it now: `python -m benchmarks printed --page questions`.

Python blocks run one after another in an empty folder, scripts of `examples/` where the checkout stands: they draw the
pictures of the docs, too.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import sys
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path
from types import ModuleType

from benchmarks._pages import DOCS, PART, ROOT, parts_of, run_command


def outputs(page: Path) -> list[str | None]:
    """What each part of a page prints; None where the page shows nothing of it."""
    module, printed = ModuleType("page_of_the_docs"), list[str | None]()
    sys.modules[module.__name__] = module  # dataclasses look their module up
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for kind, code, shown in parts_of(page):
            text = io.StringIO()
            if code.strip().startswith("python examples/"):
                text.write(_script(code))
            else:
                with redirect_stdout(text), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    _run(kind, code, page, module)
            printed.append(None if shown is None else text.getvalue())
    return printed


def _run(kind: str, code: str, page: Path, module: ModuleType) -> None:
    if kind == "python":
        exec(compile(code, page.name, "exec", dont_inherit=True), vars(module))
    else:
        for line in code.strip().splitlines():
            run_command(line)


def _script(code: str) -> str:
    words = [sys.executable, *shlex.split(code)[1:]]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", default="index", help="the start page if not given")
    page = DOCS / f"{parser.parse_args().page}.md"
    printed, text = iter(outputs(page)), page.read_text(encoding="utf-8")
    parts, place = [], 0
    for found in PART.finditer(text):
        new = next(printed)
        if new is not None:
            parts += [text[place : found.start("shown")], *(f"{line.rstrip()}\n" for line in new.rstrip().splitlines())]
            place = found.end("shown")
    page.write_text("".join([*parts, text[place:]]), encoding="utf-8")


if __name__ == "__main__":
    main()
