"""Properties that are computed once, of which several threads may compute those of different objects at once."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    from typing import Any

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


__all__ = ["cached_property"]
