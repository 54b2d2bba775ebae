"""Functions that compute once: the log, the problem or the rows that they are asked about keep their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from ope_vpm.arrays import Array
from ope_vpm.policy import TargetPolicy

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Memory:
    """Results of functions, by the function and its settings; and such memories for policies, forgotten with them."""

    def __init__(self, owner: Memory | None = None) -> None:
        self._results: dict[Any, Any] = {}
        self._of_policies: WeakKeyDictionary[TargetPolicy, Memory] = WeakKeyDictionary()
        self._owner = None if owner is None else ref(owner)

    @property
    def results(self) -> dict[Any, Any]:
        """What is kept; of a weak reference, what the other memory keeps, nothing once that is gone."""
        owner = self if self._owner is None else self._owner()
        return {} if owner is None else owner._results

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        """What is sent to another process remembers nothing."""
        return Memory, ()

    def of(self, policy: TargetPolicy) -> Memory:
        """The memory of a policy."""
        return self._of_policies.setdefault(policy, Memory())

    def lent(self) -> Memory:
        """A weak reference to this memory, for objects that are stored inside it.

        Without it there is a cycle of references, which Python frees only after so many new objects, however large they
        are: ten evaluations of 20 000 rows each kept 2 GB alive.
        """
        return Memory(self) if self._owner is None else self


def remembered(make: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that is computed once for each set of arguments; use it as a decorator.

    Args:
        make: the function. Its first argument has a `memory`, which keeps the results; a policy may follow, whose
            results are forgotten with it. All others must be hashable. No result may refer to the policy, or to the
            first argument, unless this has `lent()`, a copy that refers to its memory weakly.
    """

    @wraps(make)
    def found(*given: Given.args, **settings: Given.kwargs) -> Result:
        first: Any = given[0]
        by_policy = len(given) > 1 and isinstance(given[1], TargetPolicy)
        results = (first.memory.of(given[1]) if by_policy else first.memory).results
        key = make, given[1 + by_policy :], tuple(sorted(settings.items()))
        if key not in results:
            own = first.lent() if hasattr(first, "lent") else first
            results[key] = make(own, *given[1:], **settings)  # type: ignore[arg-type]
        return results[key]

    return found


@dataclass(frozen=True, eq=False)
class Same:
    """An array as a setting of a function that is remembered: equal to the very same array, and to no other."""

    array: Array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)
