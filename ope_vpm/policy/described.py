"""The content of a pickle, read without running any of it.

A pickle is a small program: loading it calls whatever it names. Here its instructions are only followed as far as
they describe something: a name stays a `Name`, a call stays a `Call`, and both are plain data for the reader to look
at. No list of harmless names is needed, for none of them is looked up.
"""

import pickletools
from dataclasses import dataclass
from typing import Any

VALUES = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
    | {"BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"}
)
"""Instructions that push the number, text or bytes that follow them."""
CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
NOTHING = frozenset(("PROTO", "FRAME", "STOP"))
MOST = 2_000_000
"""Instructions that are followed, in about four seconds: a tensor takes forty, so that 50 000 of them fit."""
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Name:
    """A function or class that the pickle names."""

    module: str
    name: str


@dataclass(eq=False)
class Call:
    """A call that loading the pickle would have made, and the state that it would have given to the result."""

    function: Any
    arguments: Any
    state: Any = None


@dataclass(frozen=True, eq=False)
class Reference:
    """Something kept outside the pickle, such as a tensor's numbers."""

    key: Any


def describe(data: bytes) -> Any:
    """The dictionaries, lists, texts, numbers, names and calls of a pickle; of its end, what would be returned."""
    reader = _Reader()
    for number, (instruction, argument, _) in enumerate(pickletools.genops(data)):
        if number == MOST:
            raise ValueError(f"it is a pickle of more than {MOST} instructions: no policy needs as many")
        reader.follow(instruction.name, argument)
    return reader.stack.pop()


class _Reader:
    """The stack, marks and memory of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Follow one instruction."""
        if name in VALUES:
            self.stack.append(argument)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in TUPLES:
            self.stack.append(self._take(TUPLES[name]))
        elif name not in NOTHING:
            act = getattr(self, f"_{name.lower()}", None)
            if act is None:
                raise PermissionError(
                    f"it holds the pickle instruction {name}, which plain data do not need: "
                    "pass trust=True if you know where it comes from"
                )
            act(argument)

    def _take(self, count: int) -> tuple[Any, ...]:
        """The topmost values, taken off the stack."""
        if count > len(self.stack):
            raise ValueError("the pickle takes more from its stack than is there")
        taken = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        return taken

    def _since_mark(self) -> tuple[Any, ...]:
        return self._take(len(self.stack) - self.marks.pop())

    def _mark(self, _: Any) -> None:
        self.marks.append(len(self.stack))

    def _tuple(self, _: Any) -> None:
        self.stack.append(self._since_mark())

    def _empty_list(self, _: Any) -> None:
        self.stack.append([])

    def _empty_dict(self, _: Any) -> None:
        self.stack.append({})

    def _append(self, _: Any) -> None:
        self._extend(self._take(1))

    def _appends(self, _: Any) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: tuple[Any, ...]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("the pickle appends to something that is not a list")
        self.stack[-1].extend(items)

    def _setitem(self, _: Any) -> None:
        self._set(self._take(2))

    def _setitems(self, _: Any) -> None:
        self._set(self._since_mark())

    def _set(self, items: tuple[Any, ...]) -> None:
        # Only texts and numbers are keys: the hash of a tuple nested a million deep overflows the C stack.
        if not isinstance(self.stack[-1], dict) or not all(isinstance(key, str | int) for key in items[::2]):
            raise ValueError("the pickle must set dictionary entries by text or number")
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _global(self, argument: str) -> None:
        self.stack.append(Name(*argument.split(" ", 1)))

    def _stack_global(self, _: Any) -> None:
        module, name = self._take(2)
        self.stack.append(Name(str(module), str(name)))

    def _reduce(self, _: Any) -> None:
        function, arguments = self._take(2)
        ordered = function == Name("collections", "OrderedDict") and arguments == ()
        self.stack.append({} if ordered else Call(function, arguments))

    def _newobj(self, _: Any) -> None:
        self.stack.append(Call(*self._take(2)))

    def _build(self, _: Any) -> None:
        (state,) = self._take(1)
        if self.stack and isinstance(self.stack[-1], Call):
            self.stack[-1].state = state

    def _binpersid(self, _: Any) -> None:
        self.stack.append(Reference(*self._take(1)))

    def _binput(self, place: int) -> None:
        self.memory[place] = self.stack[-1]

    _long_binput = _binput

    def _memoize(self, _: Any) -> None:
        self.memory[len(self.memory)] = self.stack[-1]

    def _binget(self, place: int) -> None:
        self.stack.append(self.memory[place])

    _long_binget = _binget
