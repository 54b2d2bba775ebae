"""The walks show what their code prints, but for digits and verdicts, and none has more than twenty lines of it."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "walks.md").read_text()
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e-\d+)?")
WALK = re.compile(r"```python\n(?P<code>.*?)^```\n\n```text\n(?P<shown>.*?)^```", re.DOTALL | re.MULTILINE)


def digits_apart(text: str) -> str:
    """A text without its digits, verdicts and reasons, which change with every estimator that gets better."""
    lines = (line.rstrip() for line in text.splitlines() if not line.startswith("  - "))
    return re.sub("(un)?reliable|caution", "#", NUMBER.sub("#", "\n".join(lines).rstrip()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of d3rlpy
def test_the_walks_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "walk_data.py"))["make"]()
    capsys.readouterr()
    walks = list(WALK.finditer(PAGE))
    assert len(walks) == 6  # the shop has two blocks
    for walk in walks:
        assert sum(bool(line.strip()) for line in walk["code"].splitlines()) <= 20
        exec(walk["code"], names)
        assert digits_apart(capsys.readouterr().out) == digits_apart(walk["shown"])
    assert (tmp_path / "epochs.png").exists()
    assert names["best"].checkpoint == Path("logs/td3bc") / f"model_{names['best'].step}.d3"
