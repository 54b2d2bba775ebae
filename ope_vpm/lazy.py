"""What is done when it is first needed: properties that are computed once, names that are imported once.

Several threads may compute such properties of different objects at once.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  # takes the place of functools' own
        """That of Python 3.12: the one of 3.11 holds a lock for all objects of a class while it computes."""

        def __init__(self, make: Any) -> None:
            self.make, self.__doc__ = make, make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.name not in kept:
                kept[self.name] = self.make(instance)
            return kept[self.name]


def names_of(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports public names, and the modules that hold them, when they are first used.

    Args:
        package: its name.
        homes: the public names that each of its modules holds.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in homes:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


__all__ = ["cached_property", "names_of"]
