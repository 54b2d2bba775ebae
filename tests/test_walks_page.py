"""The walks show what their code prints, but for digits and verdicts, and none has more than twenty lines of it."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks._pages import DOCS, parts_of
from tests.test_docs import digits_apart


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of d3rlpy
def test_the_walks_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (_, setup, _), *walks = (part for part in parts_of(DOCS / "walks.md") if part[0] == "python")
    names: dict[str, Any] = {}
    exec(setup, names)
    capsys.readouterr()
    assert len(walks) == 4
    for _, code, shown in walks:
        assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
        exec(code, names)
        assert digits_apart(capsys.readouterr().out) == digits_apart(str(shown))
    assert (tmp_path / "epochs.png").exists()
    assert names["best"].checkpoint == Path("logs/td3bc") / f"model_{names['best'].step}.d3"
