"""The evaluator in d3rlpy's own training: what is logged is what a direct evaluation answers."""

import gc
import math

import d3rlpy
import gymnasium as gym
import numpy as np
import pytest
from d3rlpy.logging import CombineAdapterFactory, FileAdapterFactory, TensorboardAdapterFactory

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.plugins import OPEEvaluator, best_epoch
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

GAMMA = 0.95
SETTINGS = {"n_features": 40}


@pytest.fixture(scope="module")
def cart():
    """Episodes of random pushes."""
    pushes = CategoricalPolicy(lambda seen: np.full((len(seen), 2), 0.5), 2)
    return collect("CartPole-v1", pushes, 40, 100, seed=0)


@pytest.fixture(scope="module")
def swing():
    """Episodes of a noisy torque against the speed."""
    torque = GaussianPolicy(lambda seen: (-0.5 * seen[:, 2:], np.ones((len(seen), 1))), bounds=(-2, 2))
    return collect("Pendulum-v1", torque, 12, 60, seed=0)


def fitted(algo, data, folder, evaluators, epochs=3, **options):
    """Train for a few short epochs and return the folder of d3rlpy's files."""
    algo.fit(
        data.to_d3rlpy(),
        n_steps=20 * epochs,
        n_steps_per_epoch=20,
        logger_adapter=options.pop("logger_adapter", FileAdapterFactory(str(folder))),
        experiment_name="run",
        with_timestamp=False,
        show_progress=False,
        evaluators=evaluators,
        **options,
    )
    return folder / "run"


def logged(folder, name):
    return np.loadtxt(folder / f"{name}.csv", delimiter=",", ndmin=2)[:, 2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["TD3PlusBC", "CQL", "DiscreteCQL"])
def test_logged_values_are_those_of_a_direct_evaluation(kind, cart, swing, tmp_path):
    data = cart if kind == "DiscreteCQL" else swing
    algo = getattr(d3rlpy.algos, f"{kind}Config")(batch_size=16).create()
    evaluator = OPEEvaluator("auto", gamma=GAMMA, **SETTINGS)
    folder = fitted(algo, data, tmp_path, evaluator.metrics())
    log = ov.load_dataset(data.to_d3rlpy())
    for number, step in enumerate((20, 40, 60)):
        policy = ov.load_policy(folder / f"model_{step}.d3")
        direct = ov.evaluate(log, policy, "auto", gamma=GAMMA, **SETTINGS)
        assert logged(folder, "value")[number] == pytest.approx(direct.value, rel=1e-5)
        assert logged(folder, "value_lower")[number] == pytest.approx(direct.interval[0], rel=1e-4)
        assert logged(folder, "value_upper")[number] == pytest.approx(direct.interval[1], rel=1e-4)
        verdicts = ("reliable", "caution", "unreliable")
        assert verdicts[int(logged(folder, "value_verdict")[number])] == direct.verdict
    assert evaluator.last.reasons == direct.reasons


def test_one_computation_serves_all_metrics_of_an_epoch(swing, tmp_path):
    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    evaluator = OPEEvaluator("auto", **SETTINGS)
    seen = []

    def watch(algo, dataset):
        seen.append(evaluator.last)
        return 0.0

    metrics = evaluator.metrics()
    order = {"value": metrics["value"], "watch": watch, **metrics, "watch_again": watch}
    fitted(algo, swing, tmp_path, order, epochs=2)
    assert seen[0] is seen[1]
    assert seen[2] is seen[3]
    assert seen[0] is not seen[2]
    assert evaluator.last.gamma == algo.gamma  # the algorithm's own, where none is given


def test_only_every_other_epoch(swing, tmp_path):
    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    folder = fitted(algo, swing, tmp_path, OPEEvaluator("naive", every=2).metrics())
    values = logged(folder, "value")
    assert math.isnan(values[1])
    assert np.isfinite(values[[0, 2]]).all()


def test_on_some_episodes_and_on_other_data(swing, tmp_path):
    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    few = OPEEvaluator("naive", gamma=1.0, n_episodes=3, seed=5)
    swing.select(slice(0, 2)).save(tmp_path / "other.npz")
    other = OPEEvaluator("naive", gamma=1.0, data=tmp_path / "other.npz")
    folder = fitted(algo, swing, tmp_path, {"few": few, "other": other}, epochs=1)
    assert few.last.diagnostics["episodes"] == 3
    assert logged(folder, "other")[0] == pytest.approx(swing.select(slice(0, 2)).rewards.mean())


def test_what_depends_on_the_log_alone_is_made_once(swing, tmp_path, monkeypatch):
    from ope_vpm.ope.log import Log

    checked = []
    check = Log.check.__func__
    monkeypatch.setattr(Log, "check", classmethod(lambda cls, *given: checked.append(1) or check(cls, *given)))
    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    evaluator = OPEEvaluator("auto", **SETTINGS)
    fitted(algo, swing, tmp_path, evaluator.metrics())
    assert len(checked) == 1
    gc.collect()  # a problem and its equations refer to each other
    assert len(evaluator._valuation.log.memory._of_policies) <= 1  # policies of past epochs are forgotten


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_has_the_values_too(swing, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    both = CombineAdapterFactory([FileAdapterFactory(str(tmp_path)), TensorboardAdapterFactory(str(tmp_path / "tb"))])
    folder = fitted(algo, swing, tmp_path, OPEEvaluator("auto", **SETTINGS).metrics(), logger_adapter=both)
    events = EventAccumulator(str(next((tmp_path / "tb").rglob("events*")).parent))
    events.Reload()
    for name in ("value", "value_lower", "value_upper", "value_verdict"):
        (tag,) = [tag for tag in events.Tags()["scalars"] if tag.rpartition("/")[2] == name]
        written = [event.value for event in events.Scalars(tag)]
        np.testing.assert_allclose(written, logged(folder, name), rtol=1e-6)


def test_misspelt_names_are_answered_before_training():
    with pytest.raises(ValueError, match="did you mean 'auto'"):
        OPEEvaluator("autoo")
    with pytest.raises(TypeError, match=r"no option 'n_feature'.*did you mean 'n_features'"):
        OPEEvaluator("auto", n_feature=3)
    with pytest.raises(TypeError, match=r"no option 'n_featurs': did you mean 'n_features'\?"):
        OPEEvaluator("vpm", n_featurs=5)
    with pytest.raises(ValueError, match="every must be a whole number, at least 1: got 0"):
        OPEEvaluator(every=0)
    with pytest.raises(ValueError, match="n_episodes must be a whole number, at least 1: got '5'"):
        OPEEvaluator(n_episodes="5")


WRONG = {
    "gamma must be between 0 and 1: got 1.5": {"gamma": 1.5},
    "on_end must be 'restart' or 'absorb': got 'stop'": {"on_end": "stop"},
    "time_limit must be 'continue' or 'restart': got 'stop'": {"time_limit": "stop"},
    "seed must be a whole number, 0 or more: got -1": {"seed": -1},
    "ignore must name findings": {"ignore": ["typo"]},
    "there is no file": {"data": "nowhere.npz"},
    "baseline must be 'logged' or a policy: got 'loged'": {"baseline": "loged"},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_answered_before_training(message):
    with pytest.raises((ValueError, OSError), match=message):
        OPEEvaluator(**WRONG[message])


def test_an_absorbing_end_waits_for_the_discount_of_the_algorithm():
    OPEEvaluator(on_end="absorb")
    with pytest.raises(ValueError, match="at gamma = 1 an absorbing end"):
        OPEEvaluator(gamma=1.0, on_end="absorb")


def written(folder, **metrics):
    for name, numbers in metrics.items():
        lines = [f"{epoch},{100 * epoch},{number}" for epoch, number in enumerate(numbers, 1)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_best_epoch_has_the_highest_lower_end(tmp_path):
    written(tmp_path, value=[1, 5, 3, 9], value_lower=[0, 1, 2, "nan"])
    best = best_epoch(tmp_path)
    assert (best.epoch, best.step, best.lower, best.value, best.checkpoint) == (3, 300, 2.0, 3.0, None)


def test_unreliable_epochs_and_those_without_a_model_are_passed_over(tmp_path):
    written(tmp_path, value=[1, 5, 3, 9], value_lower=[0, 1, 2, 8], value_verdict=[0, 1, 2, 2])
    assert best_epoch(tmp_path).epoch == 2
    (tmp_path / "model_100.d3").touch()
    assert best_epoch(tmp_path).checkpoint == tmp_path / "model_100.d3"
    written(tmp_path, value_verdict=[2, 2, 2, 2])
    assert not best_epoch(tmp_path).reliable


def test_missing_and_damaged_logs_end_in_a_sentence(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"there is no folder .*nowhere: give that of one training run"):
        best_epoch(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"value_lower\.csv: log it by"):
        best_epoch(tmp_path)
    written(tmp_path, ope=[1], ope_lower=[0])
    with pytest.raises(FileNotFoundError, match=r"value_lower\.csv: pass name='ope'"):
        best_epoch(tmp_path)
    written(tmp_path, value=[1], value_lower=["nan"])
    with pytest.raises(ValueError, match="no epoch with an interval"):
        best_epoch(tmp_path)
    written(tmp_path, value_lower=["one"])
    with pytest.raises(ValueError, match="must hold lines of epoch, step and number"):
        best_epoch(tmp_path)


def test_a_run_ends_with_a_checkpoint_that_loads(swing, tmp_path):
    algo = d3rlpy.algos.TD3PlusBCConfig(batch_size=16).create()
    folder = fitted(algo, swing, tmp_path, OPEEvaluator("auto", **SETTINGS).metrics())
    best = best_epoch(folder)
    lower = logged(folder, "value_lower")
    assert best.lower == lower.max() == lower[best.epoch - 1]
    policy = ov.load_policy(best.checkpoint)
    assert policy.sample(gym.make("Pendulum-v1").reset(seed=0)[0][None], np.random.default_rng(0)).shape == (1, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_gate_is_a_metric_where_there_is_a_baseline(cart, tmp_path):
    pushes = CategoricalPolicy(lambda seen: np.full((len(seen), 2), 0.5), 2)
    evaluator = OPEEvaluator("vpm", gamma=GAMMA, baseline=pushes, **SETTINGS)
    algo = d3rlpy.algos.DiscreteCQLConfig(batch_size=16).create()
    folder = fitted(algo, cart, tmp_path, evaluator.metrics(), epochs=1)
    found = ov.compare(cart, ov.as_policy(algo), pushes, "vpm", gamma=GAMMA, **SETTINGS)
    assert logged(folder, "value_gain") == pytest.approx([found.value], rel=1e-5)
    assert logged(folder, "value_gate") == [found.gate(anytime=True).exit_code]
    assert "value_gate" not in OPEEvaluator("vpm").metrics()
