"""A hook of mkdocs: pages of earlier versions lead to where their words are now, by `extra: moved` in mkdocs.yml."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">Moved</a>\n'


def on_post_build(config: Any) -> None:
    """Write a page that leads on for each old name."""
    for old, new in config.extra["moved"].items():
        page = Path(config.site_dir) / f"{old}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(PAGE.format(posixpath.relpath(new, posixpath.dirname(old) or ".")), encoding="utf-8")
