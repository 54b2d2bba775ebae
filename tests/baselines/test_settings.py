"""The least that settings of the baselines may be."""

import pytest

import ope_vpm as ov

SMALLEST = [
    ("liu", "training_steps", 1),
    ("d3rlpy_fqe", "training_steps", 1),
    ("d3rlpy_fqe", "batch_size", 1),
    ("model", "horizon", 1),
    ("model", "members", 2),
    ("model", "rollouts", 1),
    ("model", "training_steps", 1),
    ("fqe", "members", 1),
    ("fqe", "n_features", 1),
    ("fqe", "draws", 1),
    ("fqe", "training_steps", 1),
    ("dr", "folds", 1),
    ("dr", "members", 1),
    ("dr", "n_features", 1),
    ("gendice", "n_features", 1),
    ("gendice", "draws", 1),
    ("gendice", "training_steps", 1),
]


@pytest.mark.parametrize(("name", "option", "least"), SMALLEST)
def test_the_least_that_a_setting_may_be(name, option, least):
    made = ov.estimators()[name](**{option: least})
    assert getattr(made, option) == least
    with pytest.raises(ValueError, match=r"at least|positive"):
        ov.estimators()[name](**{option: least - 1})


def test_caps_must_be_positive():
    assert ov.estimators()["liu"](cap=0.5).cap == 0.5
    assert (ov.estimators()["liu"]().cap, ov.estimators()["onestep"]().cap) == (50, 50)
    with pytest.raises(ValueError, match="positive"):
        ov.estimators()["liu"](cap=0.0)


@pytest.mark.parametrize("name", ["fqe", "dr", "gendice", "mwl"])
@pytest.mark.parametrize("ridge", [0.0, -1.0, float("inf")])
def test_ridges_must_be_positive_numbers(name, ridge):
    assert ov.estimators()[name](ridge=1e-9).ridge == 1e-9
    with pytest.raises(ValueError, match="ridge must be positive"):
        ov.estimators()[name](ridge=ridge)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("fqe", {"solver": "x"}), ("fqe", {"interval": "x"}), ("dr", {"q": "x"}), ("model", {"method": "x"}),
     ("gendice", {"solver": "x"}), ("model", {"unseen": "x"})],
)  # fmt: skip
def test_words_that_mean_nothing_are_refused(name, setting):
    with pytest.raises(ValueError, match="'x'"):
        ov.estimators()[name](**setting)


def test_d3rlpy_s_own_settings_are_the_default():
    ours, theirs = ov.estimators()["d3rlpy_fqe"](), pytest.importorskip("d3rlpy").ope.FQEConfig()
    assert (ours.learning_rate, ours.batch_size) == (theirs.learning_rate, theirs.batch_size)
