"""Estimators by name: ours, then those that installed packages offer as entry points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from ope_vpm.ope.estimator import Estimator
from ope_vpm.suggestions import suggestion

GROUP = "ope_vpm.estimators"
"""Entry points under which other packages offer estimators."""

Classes = dict[str, type[Estimator]]
_providers: list[Callable[[], Classes]] = []


def provide(classes: Callable[[], Classes]) -> None:
    """Register a function that imports estimators and returns them by name; it is called when one is asked for.

    The baselines are built upon this layer, so that it cannot import them: they are handed in from above.
    """
    _providers.append(classes)


def estimators() -> Classes:
    """All estimators by name: ours, then those of other packages."""
    return built_in() | {name: _load(point) for name, point in _others().items()}


def estimator_class(name: str) -> type[Estimator]:
    """The estimator of that name; an unknown one is answered with the nearest."""
    known, others = built_in(), _others()
    if name in known:
        return known[name]
    if name not in others:
        raise ValueError(f"there is no estimator {name!r}: {suggestion(name, [*known, *others])}")
    return _load(others[name])


def make(name: str, options: dict[str, Any]) -> Estimator:
    """An estimator by name with its settings; a misspelt setting is answered with the nearest."""
    kind = estimator_class(name)
    if is_dataclass(kind):
        settings = [field.name for field in fields(kind)]
        for option in options:
            if option not in settings:
                raise TypeError(f"the estimator {name!r} has no option {option!r}: {suggestion(option, settings)}")
    return kind(**options)


@cache
def built_in() -> Classes:
    """The estimators of this package by name."""
    return {name: kind for classes in _providers for name, kind in classes().items()}


@cache
def _others() -> dict[str, EntryPoint]:
    """Estimators of other packages; ours cannot be replaced by accident."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in built_in()}


def _load(point: EntryPoint) -> type[Estimator]:
    return cast(type[Estimator], point.load())
