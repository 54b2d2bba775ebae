"""Formats and policies that other packages add, found by their entry points and imported when they are asked for.

An entry point names a module, or any object, with two functions: `matches(source)`, whether a path or an object is one
of its own, and `read(source, ...)`, see `ope_vpm.logged.formats` and `ope_vpm.policy.load`. What we know ourselves
cannot be replaced by accident.
"""

import warnings
from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ope_vpm.outside import one_line

FORMATS = "ope_vpm.formats"
POLICIES = "ope_vpm.policies"
ESTIMATORS = "ope_vpm.estimators"
PLACES: dict[str, str] = {}
"""Where the estimators of this package are, "module:class" by name in the order of tables: handed in from above, for
`ope_vpm.ope` knows nothing of the baselines, which are built upon it. One is imported when it is used."""


def found(group: str, source: object) -> tuple[str, Any] | None:
    """The first of a group that says that the source is its own, by name; None where there is none."""
    for name, point in points(group).items():
        try:
            reader = loaded(point)
            if reader.matches(source):
                return name, reader
        except Exception as error:  # another package's code; what others read must not depend on it
            warnings.warn(f"{name} of {package(point)} was not asked: {one_line(error)}", stacklevel=2)
    return None


def named(group: str, name: str) -> Any:
    """The reader of that name; None where there is none."""
    point = points(group).get(name)
    return None if point is None else loaded(point)


def loaded(point: EntryPoint) -> Any:
    """Load what an entry point names; the error of a broken package names it."""
    try:
        return point.load()
    except Exception as error:  # an import runs whatever the package holds
        raise ImportError(
            f"{point.name!r} of {package(point)} cannot be loaded: {one_line(error)} (update or uninstall it)"
        ) from error


def package(point: EntryPoint) -> str:
    """The package that an entry point belongs to, or the module where that is not known."""
    return f"the package {point.dist.name}" if point.dist is not None else f"the module {point.module}"


def names(group: str, ours: Collection[str] = ()) -> list[str]:
    """Our names, then those of other packages."""
    return [*ours, *(name for name in points(group) if name not in ours)]


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; of two with one name, the first that was found."""
    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        by_name.setdefault(point.name, point)
    return by_name
