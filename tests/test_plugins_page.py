"""The code of docs/plugins.md runs, from top to bottom, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

from benchmarks._pages import parts_of, run_command

PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_block_runs_in_twenty_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, block, _ in parts_of(PAGE):
        if kind == "bash":
            run_command(block.strip())
        else:
            assert block.strip().count("\n") <= 20
            exec(compile(block, "plugins.md", "exec"), names)
    assert len(names["data"]) == 15 * 200
    assert names["callback"].last.estimator == "auto"
    assert names["chosen"].best.name in capsys.readouterr().out
    assert (tmp_path / "select.html").exists()
    assert abs(names["found"].expectation(lambda x: x[:, 0] > 0) - 0.5) < 0.2
    assert 0 < names["tica"].singular_values[0] < 1


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+?)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
