"""Every block of Python and every command of the docs and the README runs, and links lead somewhere.

A page's blocks run one after another in one namespace and one empty folder. What a page takes for granted, such as the
reader's own log, stands in a comment `<!-- setup … -->` above the block, which the site does not show.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ope_vpm.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$|^```(?P<kind>python|bash)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
OWN_TESTS = {"plugins.md"}
"""Pages whose blocks have tests of their own, because they train."""


def parts_of(page):
    """The blocks of a page in order: their kind, and code at the line where it stands."""
    text = page.read_text()
    for found in PART.finditer(text):
        group = "setup" if found["setup"] is not None else "code"
        line = text[: found.start(group)].count("\n")
        yield found["kind"] or "python", "\n" * line + found[group]


def run_command(line, monkeypatch):
    words = shlex.split(line, comments=True)
    if not words:
        return
    assert words[0] == "ope-vpm", f"only our own commands are run: {line}"
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    blocks = list(parts_of(page))
    if page.name in OWN_TESTS or not blocks:
        pytest.skip("nothing to run here")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page_of_the_docs")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, page.name, "exec", dont_inherit=True), vars(module))
        else:
            for line in code.strip().splitlines():
                run_command(line, monkeypatch)
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target or target.startswith("#"):
            continue
        file, _, place = target.partition("#")
        found = page.parent / file
        assert found.exists(), target
        if place and found.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            known = {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
            assert place in known, target


def test_the_site_is_built_without_warnings(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    page = (tmp_path / "site" / "mathematics-chains.html").read_text()
    assert 'href="api.html#ope_vpm.chain.objective.power_ratio"' in page  # labels lead to functions
    assert "fonts.googleapis" not in page
