"""`python -m benchmarks scale`: which rows are measured, and the figures that compare them."""

from importlib.metadata import version

import pytest

from benchmarks import _scale_runs, scale
from benchmarks._scale_logs import LENGTH, finite_log, log


def test_rows_can_be_measured_one_by_one():
    known = scale.sections()
    assert ("dr", "dr") not in scale.chosen(known, None, {})
    assert scale.chosen(known, ["dr"], {}) == [("dr", "dr")]
    assert scale.chosen(known, ["streams/10000000"], {}) == [("streams", "10000000")]
    assert scale.chosen(known, ["threads"], {"threads": {"one": {}}}) == [("threads", "unset")]
    everything = {section: dict.fromkeys(rows) for section, rows in known.items()}
    assert scale.chosen(known, None, everything) == []


def test_every_row_is_a_function_with_these_arguments():
    for rows in scale.sections(1000).values():
        for run in rows.values():
            code = getattr(_scale_runs, run.function).__code__
            assert set(run.arguments) <= set(code.co_varnames[: code.co_argcount])


def test_an_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit):
        scale._options(["--only", "stream"])
    assert "no section 'stream'" in capsys.readouterr().err


def test_ratios_of_what_was_measured():
    """Time n² from 10⁴ to 10⁵ rows, and n from there."""
    assert scale.ratios({}) == {}
    found = {
        "threads": {"one": {"seconds": 2.0}, "unset": {"seconds": 3.0}},
        "ray": {"1": {"wall_seconds": 8.0}, "2": {"wall_seconds": 5.0}},
        "growth": {"10000": {"seconds": 1.0}, "100000": {"seconds": 100.0}, "1000000": {"seconds": 1000.0}},
        "streams": {
            "in memory": {"seconds": 10.0, "value": 1.0, "standard_error": 0.5},
            "1000000": {"seconds": 11.0, "value": 1.25, "standard_error": 0.5},
            "10000000": {"seconds": 110.0, "value": 1.25, "standard_error": 0.5},
        },
    }
    expected = {
        "threads unset ÷ one": 1.5,
        "one Ray worker ÷ two": 1.6,
        "parquet ÷ in memory": 1.1,
        "parquet and memory apart, in standard errors": 0.5,
        "exponent of time from 10000 rows": 1.5,
        "exponent of time from 100000 rows": 1.0,
        "exponent of time in parts": 1.0,
    }
    assert scale.ratios(found) == pytest.approx(expected)


def test_a_row_has_medians_of_its_numbers_and_the_version():
    rows = [{"seconds": seconds, "name": "vpm"} for seconds in (3.0, 1.0, 2.0)]
    assert scale.medians(rows) == {"seconds": 2.0, "name": "vpm", "version": version("ope-vpm")}


def test_one_row_in_a_process_of_its_own():
    figures = scale.measured(scale.Run("call", {"rows": 1000, "estimator": "naive"}))
    assert figures["rows"] == 1000
    data = log(1000)
    assert (len(data), data.n_episodes) == (1000, 1000 // LENGTH)
    assert figures["passes"] == pytest.approx(figures["seconds"] / figures["pass_seconds"], rel=0.6, abs=0.5)
    counted, (here, action, there) = finite_log(2000, 50, 0)
    assert ((there - here - action + 3) % 50).max() <= 6
    assert len(counted) == 2000
