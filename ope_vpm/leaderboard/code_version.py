"""A hash of the code that decides numbers: results of other code are not mistaken for this one's.

What lies beside the code, such as shipped policies, is part of a task's identity instead.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from ope_vpm.ope.estimator import built_in, estimator_class

APART = ("leaderboard", "studies", "cli.py", "progress.py")
"""Parts of the package that decide no number of a cell; everything else is taken to."""
DECIDING = ("leaderboard/tasks", "leaderboard/compute.py")
"""Parts of those that do."""
LIBRARIES = ("numpy", "scipy", "torch")


@cache
def code_version(estimator: str | None = None) -> str:
    """Return a hash of our code and the numerical libraries' versions, and of another package's estimator."""
    content = hashlib.blake2b(digest_size=16)
    root = Path(str(files("ope_vpm")))
    for part in [*(place for place in sorted(root.iterdir()) if _decides(place)), *(root / part for part in DECIDING)]:
        _add(content, part)
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # torch is an extra
            content.update(f"{name} {version(name)}".encode())
    if estimator is not None and estimator not in built_in():
        module = sys.modules[estimator_class(estimator).__module__.partition(".")[0]]
        if module.__file__ is not None:
            place = Path(module.__file__)
            _add(content, place.parent if place.name == "__init__.py" else place)
    return content.hexdigest()


def _decides(place: Path) -> bool:
    return place.name not in APART and (place.suffix == ".py" or (place / "__init__.py").is_file())


def _add(content: hashlib._Hash | hashlib.blake2b, place: Path) -> None:
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        content.update(str(file.relative_to(place.parent)).encode())
        content.update(file.read_bytes())
