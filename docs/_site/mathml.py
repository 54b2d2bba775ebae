"""A hook of mkdocs: `$x$` and `$$x$$` in pages become MathML, which browsers typeset by themselves, without scripts."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

PART = re.compile(
    r"(?P<code>^(```+).*?^\2$|`[^`\n]+`)|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.DOTALL | re.MULTILINE
)
"""Code comes first, so that nothing in it is taken for a formula."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put a mark, which Markdown leaves alone, in the place of each formula."""
    page.formulas = []

    def mark(found: re.Match[str]) -> str:
        if found["code"] is not None:
            return found[0]
        block = found["block"] is not None
        formula = convert(found["block"] or found["inline"], display="block" if block else "inline")
        page.formulas.append(f'<span class="formula">{formula}</span>' if block else formula)
        return f"FORMULA{len(page.formulas) - 1}END"

    return PART.sub(mark, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the formulas back."""
    return re.sub(r"FORMULA(\d+)END", lambda found: page.formulas[int(found[1])], html)
