"""The frame of every page: one HTML file that needs nothing else, and that a browser lets fetch nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from ope_vpm.outside import write_text
from ope_vpm.pages.html import Html, element, joined


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
