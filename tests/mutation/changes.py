"""Mutants of a source file: one expression changed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
ROUNDING = 1e-5
"""Constants below it guard against rounding errors, where a factor of two is no change that anybody could notice."""
Change = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Mutant:
    """One changed file."""

    file: str
    line: int
    before: str
    """The line."""
    after: str
    """The expression before and after."""
    tree: ast.Module
    """The file with the change."""
    in_function: bool
    """Whether the change is inside a function, and not in what runs on import."""

    @property
    def key(self) -> str:
        """The same for the same change of the same line, wherever the line has moved to."""
        return hashlib.sha256(f"{self.file}|{self.before}|{self.after}".encode()).hexdigest()[:16]


def mutants(file: Path) -> list[Callable[[], Mutant]]:
    """Every mutant of a file, made when it is asked for."""
    tree = ast.parse(file.read_text())
    places = [(place, kind) for place, (node, _) in enumerate(_found(tree)) for kind in range(len(_changes(node)))]
    return [lambda at=at: _mutant(file, *at) for at in places]


def _mutant(file: Path, place: int, kind: int) -> Mutant:
    text = file.read_text()
    tree = ast.parse(text)
    node, in_function = list(_found(tree))[place]
    before = ast.unparse(node)
    _changes(node)[kind]()
    line = text.splitlines()[node.lineno - 1].strip()
    after = f"{before}  ->  {ast.unparse(node)}"
    tree = ast.fix_missing_locations(tree)
    return Mutant(str(file.relative_to(ROOT)), node.lineno, line, after, tree, in_function)


def _found(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.expr | ast.If, bool]]:
    """The expressions of a file, and whether each is inside a function.

    Left out are those of error messages, texts and annotations, which compute nothing.
    """
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    if isinstance(node, ast.expr | ast.If):
        yield node, inside
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        below = inside or (isinstance(node, ast.FunctionDef | ast.Lambda) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _found(child, below)


def _changes(node: ast.AST) -> list[Change]:
    """What can be changed about an expression; each change is made in place."""
    match node:
        case ast.BinOp():
            return _of_arithmetic(node)
        case ast.Compare():
            return _of_comparison(node)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return [lambda: setattr(node, "op", other)]
        case ast.If() | ast.IfExp() if not isinstance(node.test, ast.Compare):
            return [lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))]
        case ast.UnaryOp(op=ast.USub()) if not isinstance(node.operand, ast.Constant):
            return [lambda: setattr(node, "op", ast.UAdd())]
        case ast.Constant(value=float(value)) if ROUNDING <= abs(value) < float("inf"):
            return [lambda: setattr(node, "value", 2 * value)]
        case ast.Call() if ast.unparse(node.func) == "np.sqrt":
            return [lambda: setattr(node, "func", ast.Name("abs", ast.Load()))]
    return []


def _of_arithmetic(node: ast.BinOp) -> list[Change]:
    if any(isinstance(side, ast.JoinedStr | ast.List) or _is_text(side) for side in (node.left, node.right)):
        return []
    changes: list[Change] = []
    if type(node.op) in ARITHMETIC:
        changes.append(lambda: setattr(node, "op", ARITHMETIC[type(node.op)]()))
    for side in ("left", "right"):
        part = getattr(node, side)
        if isinstance(node.op, ast.Mult) and ast.unparse(part).split(".")[-1] == "gamma":
            changes.append(lambda side=side: setattr(node, side, ast.Constant(1.0)))
        if isinstance(part, ast.Constant) and type(part.value) is int and not isinstance(node.op, ast.Pow):
            changes.append(lambda part=part: setattr(part, "value", part.value + 1))
    return changes


def _of_comparison(node: ast.Compare) -> list[Change]:
    """Turned around; and moved by one where whole numbers are compared (among real numbers that is no change)."""
    operation = type(node.ops[0])
    changes: list[Change] = []
    if operation in TURNED:
        changes.append(lambda: node.ops.__setitem__(0, TURNED[operation]()))
    if operation in BOUNDARY and any(_is_whole(side) for side in (node.left, node.comparators[0])):
        changes.append(lambda: node.ops.__setitem__(0, BOUNDARY[operation]()))
    return changes


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_whole(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value != 0
    text = ast.unparse(node)
    return text.startswith("len(") or text.endswith((".size", ".ndim"))
