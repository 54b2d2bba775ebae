"""The page about tables shows what its code prints, but for the digits."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "tables.md").read_text()
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def test_the_page_shows_what_its_code_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    setup = re.search(r"<!-- setup\n(.*?)^-->", PAGE, re.DOTALL | re.MULTILINE)
    assert setup is not None
    exec(setup[1], names)
    shown = re.findall(r"```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(shown) == 3
    for code, printed in shown:
        exec(code, names)
        assert NUMBER.sub("#", capsys.readouterr().out.rstrip()) == NUMBER.sub("#", printed.rstrip())
