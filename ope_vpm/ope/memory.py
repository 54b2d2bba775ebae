"""Functions that compute once: the log, the problem or the rows that they are asked about keep their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from threading import RLock
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from ope_vpm.arrays import Array
from ope_vpm.policy import TargetPolicy
from ope_vpm.threads import held

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Memory:
    """Results of functions, by the function and its settings; and such memories for policies, forgotten with them."""

    def __init__(self, owner: Memory | None = None) -> None:
        self._results: dict[Any, Any] = {}
        self._lock = RLock()
        self._of_policies: WeakKeyDictionary[TargetPolicy, Memory] = WeakKeyDictionary()
        self._owner = None if owner is None else ref(owner)

    @property
    def results(self) -> dict[Any, Any]:
        """The results; a weak reference has those of the other memory, none once that is gone."""
        owner = self if self._owner is None else self._owner()
        return {} if owner is None else owner._results

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        """A memory that is sent to another process arrives empty."""
        return Memory, ()

    def of(self, policy: TargetPolicy) -> Memory:
        """The results cached for a policy, which live as long as it does."""
        with self._lock:
            return self._of_policies.setdefault(policy, Memory())

    def forget(self, policy: TargetPolicy) -> None:
        """Let go of what was computed about a policy, which may be asked about again."""
        with self._lock:
            self._of_policies.pop(policy, None)

    def lent(self) -> Memory:
        """A weak reference to this memory, for objects that are stored inside it.

        Without it there is a cycle of references, which Python frees only after so many new objects, however large they
        are: ten evaluations of 20 000 rows each kept 2 GB alive.
        """
        return Memory(self) if self._owner is None else self


class _Once:
    """A result that one thread computes and all others wait for."""

    __slots__ = ("done", "lock", "result")

    def __init__(self) -> None:
        self.lock, self.done, self.result = RLock(), False, None


def remembered(make: Callable[Given, Result]) -> Callable[Given, Result]:
    """A function that is computed once for each set of arguments; use it as a decorator.

    Args:
        make: the function. Its first argument has a `memory`, which keeps the results; a policy may follow, whose
            results are forgotten with it. All others must be hashable. No result may refer to the policy, or to the
            first argument, unless this has `lent()`, a copy that refers to its memory weakly.
    """
    asked = signature(make)

    @wraps(make)
    def found(*given: Given.args, **settings: Given.kwargs) -> Result:
        bound = asked.bind(*given, **settings)
        bound.apply_defaults()
        first, *rest = bound.args
        by_policy = bool(rest) and isinstance(rest[0], TargetPolicy)
        results = (first.memory.of(rest[0]) if by_policy else first.memory).results
        once = results.setdefault((make, *rest[by_policy:]), _Once())
        if not once.done:
            with held(once.lock):  # other threads wait for the result
                if not once.done:
                    lent = first.lent() if hasattr(first, "lent") else first
                    once.result = make(lent, *rest)  # type: ignore[call-arg]
                    once.done = True
        return once.result

    return found


@dataclass(frozen=True, eq=False)
class Same:
    """An array as a setting of a function that is remembered: equal to the very same array, and to no other."""

    array: Array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)
