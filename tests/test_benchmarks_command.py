"""`python -m benchmarks`: help instead of hours of work, and one sentence for a name it does not know."""

import pytest

from benchmarks import __main__ as command


def test_help_names_the_benchmarks(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--help"])
    monkeypatch.setattr("subprocess.call", lambda *_: pytest.fail("it ran a benchmark"))
    assert command.main() == 0
    assert "scale" in capsys.readouterr().out


def test_an_unknown_name(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "scales"])
    assert command.main() == 2
    assert "unknown benchmark 'scales'" in capsys.readouterr().err
