"""Every block and every command of the docs and the README runs and prints what stands below it; links lead somewhere.

A page's blocks run one after another in one namespace and one empty folder (`benchmarks/_pages.py`). What they print is
compared but for digits and verdicts, which change with every estimator that gets better: `python -m benchmarks printed`
writes it again. Tables of figures are compared with the stored results that they are made from.
"""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
from types import ModuleType

import pytest

from benchmarks._pages import DOCS, ROOT, parts_of, run_command
from benchmarks.tables import rewritten

USER_PAGES = sorted(DOCS.glob("*.md"))
PAGES = [ROOT / "README.md", *USER_PAGES]
OWN_TESTS = {"plugins.md", "walks.md"}
"""Pages whose blocks have tests of their own, because they train: `test_plugins_page`, `test_walks_page`."""
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e-\d+)?")
WORDS = 15_000
"""What a person may be asked to read, examples and tables included."""
MOVED = re.compile(r'http-equiv="refresh" content="0; url=([^"#]+)#?([^"]*)"')
"""Where a page of an earlier version leads, and the place on that page."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def digits_apart(text: str) -> str:
    """A text without its digits, verdicts and reasons, which change with every estimator that gets better."""
    lines = (line.rstrip() for line in text.splitlines() if not line.startswith("  - "))
    return re.sub("(un)?reliable|caution", "#", NUMBER.sub("#", "\n".join(lines).rstrip()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page, tmp_path, monkeypatch, capsys):
    blocks = list(parts_of(page))
    if page.name in OWN_TESTS or not blocks:
        pytest.skip("nothing to run here")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page_of_the_docs")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for kind, code, shown in blocks:
        if kind == "python":
            exec(compile(code, page.name, "exec", dont_inherit=True), vars(module))
        else:
            for line in code.strip().splitlines():
                run_command(line)
        printed = capsys.readouterr().out
        assert shown is None or digits_apart(printed) == digits_apart(shown)


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_tables_of_figures_are_those_of_the_stored_results(page):
    assert rewritten(page) == page.read_text(encoding="utf-8"), "run python -m benchmarks tables"


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_libraries_are_imported_where_a_reader_sees_it(page):
    """A block may use a log that a sentence describes, but no library that only a hidden comment imports."""
    text = re.sub(r"<!-- setup.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    code = ast.parse("".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)))
    used = {each.id for each in ast.walk(code) if isinstance(each, ast.Name)}
    imports = [each for each in ast.walk(code) if isinstance(each, ast.Import | ast.ImportFrom)]
    assert used & {"d3rlpy", "gym", "np", "ov", "pd", "ray", "torch"} <= {
        name.asname or name.name for each in imports for name in each.names
    }


def test_user_pages_stay_short():
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in USER_PAGES) <= WORDS


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        ("OPEEvaluator", "plugins.md"),  # a d3rlpy user
        ("from_table", "bring-your-data.md"),  # a person with a table
        ("post_process_mcmc", "chains.md"),  # a statistician with draws
        ("coefficients", "reading-the-verdict.md"),  # who doubts an answer
    ],
)
def test_a_page_that_answers_is_one_click_from_the_start(answer, page):
    """By the start page's own links; the menu leads to every page at once."""
    assert answer in (DOCS / page).read_text()
    assert page in {target.partition("#")[0] for target in LINK.findall((DOCS / "index.md").read_text())}


def first_words(text):
    """The first word of each line that is not indented, its digits left out."""
    lines = [line for line in text.splitlines() if line and not line[0].isspace()]
    return [re.sub(r"[\d.]+", "#", line.split()[0]) for line in lines]


EXAMPLES = [(code, shown) for _, code, shown in parts_of(DOCS / "walks.md") if "python examples/" in code]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that the examples are about
@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[shlex.split(code)[1] for code, _ in EXAMPLES])
def test_an_example_prints_what_its_page_shows(command, shown, tmp_path, monkeypatch, capsys):
    """Those that train do so with a fifth of everything, so that numbers and verdicts differ from the page's."""
    script, page = shlex.split(command)[1], (DOCS / "walks.md").read_text()
    quick = ["--quick"] if '"--quick"' in (ROOT / script).read_text() else []
    monkeypatch.setattr(sys, "argv", [script, "--output", str(tmp_path), *quick])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    assert first_words(capsys.readouterr().out) == first_words(shown)
    assert f'--8<-- "{script}"' in page  # it shows the whole script
    assert any((tmp_path / name).exists() for name in re.findall(r"\(results/(\w+\.png)\)", page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
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
    page = "".join((tmp_path / "site" / name).read_text() for name in ("chains.html", "estimators.html"))
    assert 'href="api.html#ope_vpm.chain.objective.power_ratio"' in page  # labels lead to functions
    assert "fonts.googleapis" not in page
    assert page.count("<math") > 20  # every formula is typeset
    assert "FORMULA" not in page
    moved = [
        (path, *found) for path in (tmp_path / "site").rglob("*.html") for found in MOVED.findall(path.read_text())
    ]
    assert {"choosing.html", "csv.html", "verdicts.html"} <= {path.name for path, _, _ in moved}  # of version 0.1.0
    for path, target, place in moved:
        there = (path.parent / target).read_text()
        assert not place or f'id="{place}"' in there, (path, target, place)


def test_pages_and_notes_that_the_code_names_are_there():
    text = "".join(path.read_text() for folder in ("ope_vpm", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
    assert {name for name in re.findall(r"docs/[\w/-]+\.md", text) if not (ROOT / name).exists()} == set()
    notes = {path.name[:3] for path in (ROOT / "docs" / "notes").glob("*.md")}
    assert set(re.findall(r"\bnote (\d{3})\b", text)) <= notes
