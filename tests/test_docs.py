"""Every block of Python and every command of the docs and the README runs, and links lead somewhere.

A page's blocks run one after another in one namespace and one empty folder. What a page takes for granted, such as the
reader's own log, stands in a comment `<!-- setup … -->` above the block, which the site does not show. A page about a
script in `examples/` shows what it prints; its test compares how each line begins.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ope_vpm.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(
    r"^<!-- setup\n(?P<setup>.*?)^-->$|^```(?P<kind>python|bash)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
OWN_TESTS = {"plugins.md", "walks.md"}
"""Pages whose blocks have tests of their own, because they train: `test_plugins_page`, `test_walks_page`."""


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_page_of_an_example_includes_its_script(page):
    """The site's mark for it is no Python, and a formatter that takes it for such breaks it."""
    included = re.findall(r'^--8<-- "(.+)"$', page.read_text(), re.MULTILINE)
    assert len(included) == 1
    assert (ROOT / included[0]).is_file()


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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


def first_words(text):
    """The first word of each line that is not indented, its digits left out."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return [re.sub(r"[\d.]+", "#", line.split()[0]) for line in lines]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that the examples are about
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_an_example_prints_what_its_page_shows(page, tmp_path, monkeypatch, capsys):
    """Those that train do so with a fifth of everything, so that numbers and verdicts differ from the page's."""
    text = page.read_text()
    command, shown = re.search(r"^```bash\n(.*?)^```\n+```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE).groups()
    words = shlex.split(command)
    quick = ["--quick"] if '"--quick"' in (ROOT / words[1]).read_text() else []
    monkeypatch.setattr(sys, "argv", [*words[1:2], "--output", str(tmp_path), *quick])
    runpy.run_path(str(ROOT / words[1]), run_name="__main__")
    assert first_words(capsys.readouterr().out) == first_words(shown)
    assert (tmp_path / re.search(r"\(\.\./results/(\w+\.png)\)", text)[1]).exists()


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=lambda page: str(page.relative_to(ROOT)))
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
    page = (tmp_path / "site" / "mathematics.html").read_text()
    assert 'href="api.html#ope_vpm.chain.objective.power_ratio"' in page  # labels lead to functions
    assert "fonts.googleapis" not in page
    assert page.count("<math") > 20  # every formula is typeset
    assert "FORMULA" not in page


def test_pages_and_notes_that_the_code_names_are_there():
    text = "".join(path.read_text() for folder in ("ope_vpm", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
    assert {name for name in re.findall(r"docs/[\w/-]+\.md", text) if not (ROOT / name).exists()} == set()
    notes = {path.name[:3] for path in (ROOT / "docs" / "notes").glob("*.md")}
    assert set(re.findall(r"\bnote (\d{3})\b", text)) <= notes
