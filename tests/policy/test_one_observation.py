"""A policy acts by one observation: whatever depends on chance, on other rows or on their order is refused."""

import itertools

import d3rlpy
import numpy as np
import onnx
import pytest
import ray.cloudpickle
import stable_baselines3
import torch
from onnx import helper

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from tests.policy.test_policy_files import built

LOG = LinearGaussian().dataset(20, 30, BEHAVIOUR, seed=0)
FLOATS = [onnx.TensorProto.FLOAT, ["n", LOG.observations.shape[1]]]
RANDOM, ORDER, OTHERS = (
    "asked twice: it draws",
    "in the reverse order: the rows around",
    "one at a time: the other rows",
)


def finite_log():
    """40 states and 6 actions at random, in 5 episodes of 20 steps."""
    rng = np.random.default_rng(0)
    states, after = rng.integers(0, 40, (2, 100))
    after[np.arange(100) % 20 < 19] = states[np.flatnonzero(np.arange(100) % 20 < 19) + 1]
    ends = np.arange(100) % 20 == 19
    return ov.LoggedDataset.from_arrays(
        states, rng.integers(0, 6, 100), rng.random(100), after, ends, np.zeros(100, bool)
    )


def continuous_log(actions):
    """A walk of 60 steps in three dimensions."""
    rng = np.random.default_rng(0)
    path, done = rng.normal(size=(61, 3)), np.arange(60) == 59
    chosen = rng.uniform(-1, 1, (60, actions))
    return ov.LoggedDataset.from_arrays(path[:-1], chosen, rng.normal(size=60), path[1:], np.zeros(60, bool), done)


def gain(observations):
    return 0.1 * observations[:, :1]


def drawn(observations):
    return gain(observations) + np.random.normal(size=(len(observations), 1))  # noqa: NPY002


def drawn_in_one_row_of_four(observations):
    picked = np.random.random((len(observations), 1)) < 0.25  # noqa: NPY002
    return gain(observations) + picked


CALLS = itertools.count()


def remembering(observations):
    return gain(observations) + next(CALLS) % 7


def normalised(observations):
    return 0.1 * (observations[:, :1] - observations[:, :1].mean()) / observations[:, :1].std()


def centred(observations):
    return gain(observations - observations.mean(axis=0))


def summed(observations):
    return np.cumsum(gain(observations), axis=0)


def by_place(observations):
    return gain(observations) + (np.arange(len(observations)) % 2)[:, None]


def distribution(observations):
    away = torch.as_tensor(normalised(observations))
    return torch.distributions.Independent(torch.distributions.StudentT(5.0, away), 1)


def trained(*layers):
    size = LOG.observations.shape[1]
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(size, 32), *layers, torch.nn.Linear(32, 1))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (drawn, RANDOM),
        (drawn_in_one_row_of_four, RANDOM),
        (remembering, RANDOM),
        (normalised, OTHERS),
        (centred, OTHERS),
        (distribution, OTHERS),
        (ov.with_noise(normalised, std=0.3), OTHERS),
        (summed, ORDER),
        (by_place, ORDER),
        (trained(torch.nn.Dropout(0.5)), RANDOM),
        (trained(torch.nn.BatchNorm1d(32)), OTHERS),
    ],
)
def test_what_is_no_function_of_an_observation_is_refused(policy, message):
    with pytest.raises(ValueError, match=f"must be a function of one observation: .* {message}"):
        ov.evaluate(LOG, policy, "vpm")


def test_discrete_actions_by_the_batch_are_refused():
    data = finite_log()

    def above_the_mean(states):
        return (states > states.mean()).astype(np.int64)

    def at_random(states):
        return np.random.randint(0, 6, len(states))  # noqa: NPY002

    for function, message in ((above_the_mean, OTHERS), (at_random, RANDOM)):
        with pytest.raises(ValueError, match=message):
            ov.evaluate(data, ov.as_policy(function, n_actions=6), "naive")


def saved(path, *nodes):
    """An ONNX policy of one action by nodes from x to y."""
    ends = [helper.make_tensor_value_info(name, *FLOATS) for name in ("x", "y")]
    weights = onnx.numpy_helper.from_array(np.full((FLOATS[1][1], 1), 0.1, np.float32), "w")
    product = helper.make_node("MatMul", ["x", "w"], ["z"])
    graph = helper.make_graph([product, *nodes], "policy", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return ov.load_policy(path)


def test_onnx_graphs(tmp_path):
    noise = helper.make_node("RandomNormalLike", ["z"], ["e"], scale=1.0)
    mean = helper.make_node("ReduceMean", ["z"], ["e"], axes=[0])
    add = helper.make_node("Add", ["z", "e"], ["y"])
    with pytest.raises(ValueError, match=RANDOM):
        ov.evaluate(LOG, saved(tmp_path / "random.onnx", noise, add), "vpm")
    with pytest.raises(ValueError, match=OTHERS):
        ov.evaluate(LOG, saved(tmp_path / "mean.onnx", mean, add), "vpm")
    honest = saved(tmp_path / "honest.onnx", helper.make_node("Tanh", ["z"], ["y"]))
    assert np.isfinite(ov.evaluate(LOG, honest, "vpm").value)


def test_another_policy_on_the_same_problem_is_asked_too():
    with pytest.raises(ValueError, match=OTHERS):
        ov.evaluate(LOG, {"fine": gain, "normalised": normalised}, "vpm")


@pytest.mark.parametrize("width", [64, 1024])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_networks_in_single_precision_are_taken(width, scale):
    """Their sums depend on the number of rows in the last digits."""
    size = LOG.observations.shape[1]
    torch.manual_seed(0)
    layers = [torch.nn.Linear(size, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1)).eval()
    assert np.isfinite(
        ov.evaluate(LOG, lambda x: scale * network(torch.as_tensor(x).float()).detach().numpy(), "naive").value
    )


@pytest.mark.parametrize("name", ["TD3", "SAC", "BCQ", "CRR", "BEAR", "IQL"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_algorithms_of_d3rlpy_are_taken(name, deterministic):
    data = continuous_log(actions=2)
    policy = ov.as_policy(built(name), deterministic=deterministic)
    assert np.isfinite(ov.evaluate(data, policy, "vpm").value)


@pytest.mark.parametrize("name", ["PPO", "SAC", "TD3"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_algorithms_of_stable_baselines_are_taken(name, deterministic):
    model = getattr(stable_baselines3, name)("MlpPolicy", "Pendulum-v1", seed=0)
    policy = ov.as_policy(model, deterministic=deterministic)
    assert np.isfinite(ov.evaluate(continuous_log(actions=1), policy, "vpm").value)


def test_streamed_logs_are_asked_by_their_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("ope_vpm.ope.log.SAMPLE_ROWS", 200)
    LOG.save(tmp_path / "log.parquet")
    with pytest.raises(ValueError, match=OTHERS):
        ov.evaluate(ov.scan_dataset(tmp_path / "log.parquet"), normalised, "vpm")
    assert np.isfinite(ov.evaluate(ov.scan_dataset(tmp_path / "log.parquet"), TARGET.policy(), "vpm").value)


def test_the_best_of_draws_is_drawn_by_the_generator_that_is_given():
    """BCQ's action is random: two generators give two, one seed the same, and torch's own is left alone."""
    states = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    policy = ov.as_policy(built("BCQ"))
    before = torch.random.get_rng_state()
    first, again, other = (policy.sample(states, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    assert (torch.random.get_rng_state() == before).all()
    assert isinstance(policy.made_from, d3rlpy.algos.BCQ)


def test_ties_are_taken():
    """Where two actions are equally good, the last digit decides, and it may depend on the number of rows."""
    data = finite_log()

    def tied(states):
        place = int(np.flatnonzero(states == data.observations[0])[0]) if data.observations[0] in states else -1
        chosen = states % 6
        if place >= 0:
            chosen[place] = len(states) % 2
        return chosen

    assert np.isfinite(ov.evaluate(data, ov.as_policy(tied, n_actions=6), "naive").value)


def test_tables_pickled_policies_and_single_rows_are_taken(tmp_path):
    data = finite_log()
    assert np.isfinite(ov.evaluate(data, np.full((40, 6), 1 / 6), "vpm").value)
    again = ray.cloudpickle.loads(ray.cloudpickle.dumps(ov.as_policy(gain)))
    assert ov.evaluate(LOG, again, "vpm").value == ov.evaluate(LOG, gain, "vpm").value
    one = ov.LoggedDataset.from_arrays([[1.0, 2.0]], [[0.5]], [1.0], [[2.0, 1.0]], [True], [False])
    assert ov.evaluate(one, gain, "naive").value == 1.0
    with pytest.raises(ValueError, match=OTHERS):
        ov.evaluate(one, lambda seen: seen[:, :1] / (2.0 - len(seen)), "naive")


def test_global_generators_are_left_alone():
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    ov.evaluate(LOG, TARGET.policy(), "vpm")
    ov.evaluate(LOG, lambda seen: torch.distributions.StudentT(5.0, torch.as_tensor(gain(seen))), "naive")
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert (torch.random.get_rng_state() == torch_state).all()
