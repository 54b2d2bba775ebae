"""The code of docs/plugins.md runs, from top to bottom, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_block_runs_in_twenty_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) == 5
    names = {}
    for block in BLOCKS:
        assert block.count("\n") <= 20
        exec(compile(block, "plugins.md", "exec"), names)
    assert len(names["data"]) == 15 * 200
    assert names["best"].checkpoint == Path("logs/td3bc") / f"model_{names['best'].step}.d3"
    assert names["callback"].last.estimator == "auto"
    assert names["chosen"].best.name in capsys.readouterr().out
    assert (tmp_path / "select.html").exists()
    assert abs(names["found"].expectation(lambda x: x[:, 0] > 0) - 0.5) < 0.2
    assert 0 < names["tica"].singular_values[0] < 1


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+?)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
