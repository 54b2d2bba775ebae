"""HTML and SVG in which every text is escaped unless it was made here, since names and messages come from files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ope_vpm.outside import write_text


def static(package: str, name: str) -> str:
    """Return the text of a file in a package's folder `static`."""
    return (files(package) / "static" / name).read_text(encoding="utf-8")


def framed_page(title: str, style: str, body: str, scripts: bool = False) -> str:
    """Return a whole HTML page.

    Args:
        title: of the browser's tab.
        style: CSS.
        body: HTML.
        scripts: whether scripts in the body may run; nothing may be fetched in either case.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:" + "; script-src 'unsafe-inline'" * scripts
    frame = Template(static("ope_vpm.pages", "frame.html"))
    return frame.substitute(title=joined(title), policy=policy, style=style, body=body)


def write_page(path: str | Path, title: str, body: Html) -> None:
    """Write a page without scripts in the house's style, whole or not at all: a heading, and what follows it."""
    style = static("ope_vpm.pages", "report.css")
    write_text(path, framed_page(title, style, joined(element("h1", title), body)))


class Html(str):
    """Text that is HTML already; any other text is escaped when it is put into an element."""

    __slots__ = ()


EMPTY = Html("")
Part = str | Iterable[str]


def element(name: str, *children: Part, **attributes: object) -> Html:
    """One element, of HTML or of SVG.

    Args:
        name: the name of the tag.
        children: what it holds: text, which is escaped, elements, or lists of these.
        attributes: `class_` is written `class`, and underscores are written as hyphens.
    """
    given = "".join(f' {_attribute(key)}="{escape(_value(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*parts: Part) -> Html:
    """The parts one after another, each text escaped."""
    return Html("".join(_html(part) for part in parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Sequence[int] = (0,)) -> Html:
    """A table in a frame that scrolls sideways; columns of text are set flush left."""

    def cells(name: str, row: Sequence[str]) -> Html:
        kinds = ["text" if column in text_columns else "number" for column in range(len(row))]
        made = [element(name, cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)]
        return element("tr", made)

    body = element("tbody", [cells("td", row) for row in rows])
    return element("div", element("table", element("thead", cells("th", head)), body), class_="wide", tabindex=0)


def listed(items: Iterable[str], **attributes: object) -> Html:
    """A list; nothing where there are no items."""
    points = [element("li", item) for item in items]
    return element("ul", points, **attributes) if points else EMPTY


def _html(part: Part) -> str:
    if isinstance(part, Html):
        return part
    return escape(part) if isinstance(part, str) else "".join(map(_html, part))


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-") if name != "viewBox" else name


def _value(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
