"""The README's example prints what stands below it, and its table has every estimator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ope_vpm as ov

TEXT = (Path(__file__).parents[1] / "README.md").read_text()
NUMBER = re.compile(r"-?\d+\.\d+")


def test_the_example_prints_what_it_says(capsys):
    code, printed = re.search(r"## Ten lines\n\n```python\n(.*?)```\n```\n(.*?)```", TEXT, re.DOTALL).groups()
    assert code.strip().count("\n") == 9
    exec(compile(code, "README.md", "exec"), {})
    found = capsys.readouterr().out
    assert NUMBER.sub("#", found) == NUMBER.sub("#", printed)
    assert list(map(float, NUMBER.findall(found))) == pytest.approx(list(map(float, NUMBER.findall(printed))), abs=2e-4)


def test_every_estimator_stands_in_the_table():
    table = TEXT.partition("## Estimators")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} >= set(ov.estimators())


def test_links_lead_somewhere():
    files = [target for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", TEXT) if "://" not in target]
    assert len(files) > 5
    for target in files:
        assert (Path(__file__).parents[1] / target).exists(), target
