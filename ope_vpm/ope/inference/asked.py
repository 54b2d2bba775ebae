"""The data and the policy of a value, for further questions about it, without keeping a log alive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from weakref import ref

from ope_vpm.logged import LoggedDataset


@dataclass(frozen=True, eq=False)
class Asked:
    """The data, as long as somebody else holds them, and the policy; neither is pickled or copied."""

    source: Any = None
    """A weak reference to data in memory; a path, or whatever else was given, itself."""
    policy: Any = None
    ignore: tuple[str, ...] = ()
    """Codes of the doctor's findings that were passed over."""

    @classmethod
    def about(cls, data: Any, policy: Any, ignore: Collection[str]) -> Asked:
        """Data and policy as they were given to `evaluate`."""
        return cls(ref(data) if isinstance(data, LoggedDataset) else data, policy, tuple(ignore))

    def __reduce__(self) -> tuple[type[Asked], tuple[()]]:
        return Asked, ()

    def again(self, data: Any, policy: Any, method: str) -> tuple[Any, Any]:
        """The data and the policy, from what is given now or was given before.

        Args:
            data: the log, where it is given again.
            policy: the target, where it is given again.
            method: who asks, for the error.
        """
        data = (self.source() if isinstance(self.source, ref) else self.source) if data is None else data
        policy = self.policy if policy is None else policy
        if data is None or policy is None:
            gone = "data are" if data is None else "policy is"
            again = f"value.{method}(data=data, policy=policy)"
            raise ValueError(f"{method} looks at the log and the policy again, and the {gone} gone: {again}")
        return data, policy
