"""Estimators of other packages, found by their entry points."""

import importlib
import sys

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm import others
from ope_vpm.ope import estimator as registry

MODULE = '''
import ope_vpm as ov


class Constant:
    """Always the same value."""

    name = "constant"

    def __init__(self, *, answer=7.0):
        self.answer = answer

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        return ov.PolicyValue(
            estimator=self.name, value=self.answer, gamma=gamma, standard_error=None, interval=None,
            effective_sample_size=None, verdict="caution", reasons=("it is made up",),
        )
'''
ENTRIES = """[ope_vpm.estimators]
constant = made_up_estimators:Constant
vpm = made_up_estimators:Constant
"""
BROKEN = """gone = made_up_estimators:Gone
number = builtins:float
[ope_vpm.formats]
lost = a_module_that_is_not_there
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with entry points, laid out as an installer would."""
    (tmp_path / "made_up_estimators.py").write_text(MODULE)
    folder = tmp_path / "made_up-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    others.points.cache_clear()
    yield
    others.points.cache_clear()
    sys.modules.pop("made_up_estimators", None)


def test_a_foreign_estimator_is_found_and_ours_are_not_replaced(installed):
    data = ov.LoggedDataset.from_arrays(np.array([0, 1, 0, 1]), np.zeros(4, dtype=int), np.ones(4))
    found = ov.estimators()
    assert found["constant"].name == "constant"
    assert found["vpm"].__module__ == "ope_vpm.ope.vpm.estimator"
    values = ov.evaluate(data, [[1.0], [1.0]], ["naive", "constant"], ignore=("constant-columns",))
    assert values["constant"].value == 7.0
    assert values["naive"].value == 1.0
    assert ov.evaluate(data, [[1.0], [1.0]], "constant", answer=3.0, ignore=("constant-columns",)).value == 3.0


@pytest.fixture
def broken(installed, tmp_path):
    """The same package with entry points that lead nowhere."""
    (tmp_path / "made_up-1.0.dist-info" / "entry_points.txt").write_text(ENTRIES + BROKEN)
    importlib.invalidate_caches()
    others.points.cache_clear()
    yield
    others.points.cache_clear()


def test_a_broken_package_is_told_by_its_name_and_does_not_stop_others(broken, tmp_path):
    with pytest.warns(UserWarning, match=r"'gone' of the package made-up cannot be loaded: .*no attribute 'Gone'"):
        found = ov.estimators()
    assert "constant" in found
    assert "gone" not in found
    with pytest.raises(ImportError, match=r"'gone' of the package made-up .*\(update or uninstall it\)"):
        registry.make("gone", {})
    data = ov.LoggedDataset.from_arrays(np.array([0, 1, 0, 1]), np.zeros(4, dtype=int), np.ones(4), episode=np.zeros(4))
    data.save(tmp_path / "log.npz")
    (tmp_path / "log.npz").rename(tmp_path / "log.data")
    with pytest.warns(UserWarning, match="lost of the package made-up was not asked"):
        assert len(ov.load_dataset(tmp_path / "log.data")) == 4
    with pytest.raises(ImportError, match="'lost' of the package made-up cannot be loaded"):
        ov.load_dataset(tmp_path / "log.data", format="lost")


def test_what_is_no_estimator_is_refused(broken):
    with pytest.raises(TypeError, match=r"the estimator 'number' must have a name and estimate\(data, policy"):
        registry.make("number", {})
