"""d3rlpy algorithms and .d3 files, TorchScript, ONNX, tables in files."""

import pickle

import d3rlpy
import numpy as np
import onnx
import pytest
import torch

from ope_vpm import as_policy, load_policy

RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(100, 3)).astype(np.float32)
# TorchScript is what libraries still save; torch announces its end.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")


def built(name, discrete=False, scaled=False, **options):
    """An algorithm with networks, on a made-up dataset."""
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 4, 60) if discrete else rng.uniform(-3, 2, (60, 2)).astype(np.float32)
    dataset = d3rlpy.dataset.MDPDataset(
        rng.normal(3, 2, (60, 3)).astype(np.float32), actions, rng.normal(size=60), np.arange(60) % 20 == 19
    )
    if scaled:
        options["observation_scaler"] = d3rlpy.preprocessing.StandardObservationScaler()
        if not discrete:
            options["action_scaler"] = d3rlpy.preprocessing.MinMaxActionScaler()
    algo = getattr(d3rlpy.algos, f"{name}Config")(**options).create(device="cpu:0")
    for scaler in (algo.observation_scaler, algo.action_scaler):
        if scaler is not None:
            scaler.fit_with_transition_picker(dataset.episodes, dataset.transition_picker)
    algo.build_with_dataset(dataset)
    return algo


def both_ways(algo, tmp_path, **options):
    algo.save(str(tmp_path / "algo.d3"))
    return as_policy(algo, **options), load_policy(tmp_path / "algo.d3", **options)


def library_density(algo, build, actions):
    """d3rlpy's own log-density, and the scale of its units against the actions'."""
    seen = torch.as_tensor(STATES)
    scale = np.zeros(2)
    unit = torch.as_tensor(actions)
    if algo.observation_scaler is not None:
        seen = algo.observation_scaler.transform(seen)
        unit = algo.action_scaler.transform(unit)
        scale = np.log((algo.action_scaler.maximum - algo.action_scaler.minimum) / 2)
    with torch.no_grad():
        return build(algo.impl.policy(seen)).log_prob(unit)[:, 0].numpy() - scale.sum()


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["SAC", "CQL", "IQL", "AWAC"])
def test_stochastic_algorithms(name, scaled, tmp_path):
    from d3rlpy.models.torch.policies import build_gaussian_distribution, build_squashed_gaussian_distribution

    squashed = name in ("SAC", "CQL")
    algo = built(name, scaled=scaled)
    actions = RNG.uniform(-0.9, 0.9, (100, 2)).astype(np.float32)
    build = build_squashed_gaussian_distribution if squashed else build_gaussian_distribution
    expected = library_density(algo, build, actions)
    for policy in both_ways(algo, tmp_path):
        np.testing.assert_allclose(policy.log_prob(STATES, actions), expected, atol=1e-5, rtol=1e-5)
        drawn = policy.sample(STATES, RNG)
        low, high = (-3.0, 2.0) if scaled else (-1.0, 1.0)
        assert drawn.min() >= low - 1e-6
        assert drawn.max() <= high + 1e-6
    for policy in both_ways(algo, tmp_path, deterministic=True):
        np.testing.assert_allclose(policy.sample(STATES, RNG), algo.predict(STATES), atol=1e-5)


@pytest.mark.parametrize("name", ["TD3", "BC", "BCQ"])
def test_deterministic_algorithms(name, tmp_path):
    algo = built(name)
    before = torch.random.get_rng_state()
    first, second = (policy.sample(STATES, np.random.default_rng(0)) for policy in both_ways(algo, tmp_path))
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert (torch.random.get_rng_state() == before).all()
    if name != "BCQ":  # which draws inside predict
        np.testing.assert_allclose(first, algo.predict(STATES), atol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["DQN", "DiscreteCQL", "DiscreteBC", "DiscreteSAC"])
def test_discrete_algorithms(name, scaled, tmp_path):
    algo = built(name, discrete=True, scaled=scaled)
    greedy = algo.predict(STATES)
    for policy in both_ways(algo, tmp_path):
        assert policy.n_actions == 4
        assert (policy.probabilities(STATES).argmax(axis=1) == greedy).all()
    if name == "DiscreteSAC":
        seen = torch.as_tensor(STATES)
        if scaled:
            seen = algo.observation_scaler.transform(seen)
        expected = algo.impl.policy(seen).probs.detach().numpy()
        np.testing.assert_allclose(policy.probabilities(STATES), expected, atol=1e-6)


def test_an_algorithm_without_networks_is_refused():
    with pytest.raises(ValueError, match="has no networks yet"):
        as_policy(d3rlpy.algos.SACConfig().create(device="cpu:0"))
    with pytest.raises(TypeError, match="DiscreteRandomPolicy has no networks that could be asked"):
        as_policy(d3rlpy.algos.DiscreteRandomPolicyConfig().create())
    with pytest.raises(TypeError, match="DecisionTransformer remembers earlier observations"):
        as_policy(d3rlpy.algos.DecisionTransformerConfig().create())


class Bomb:
    """Unpickling it would fail the test; it must not get that far."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


@pytest.mark.parametrize("name", ["policy.d3", "policy.pt", "policy.pkl"])
def test_a_pickle_is_not_loaded_without_trust(name, tmp_path):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_policy(tmp_path / name)


def test_a_bomb_among_the_weights_is_not_loaded(tmp_path):
    algo = built("TD3")
    algo.save(str(tmp_path / "good.d3"))
    stored = pickle.loads((tmp_path / "good.d3").read_bytes())
    weights = {"torch": pickle.dumps(Bomb(), 2)}
    for wrong in ({"config": "{}"}, stored | {"config": "{}"}, stored | {"config": "?"}, stored | weights):
        (tmp_path / "bad.d3").write_bytes(pickle.dumps(wrong))
        with pytest.raises(ValueError, match=r"bad\.d3 (must be a file of d3rlpy's save|cannot be read as a policy)"):
            load_policy(tmp_path / "bad.d3")
    (tmp_path / "bad.d3").write_bytes(pickle.dumps([1]))
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_policy(tmp_path / "bad.d3")


# d3rlpy exports by tracing, which torch comments on.
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("name", "discrete"), [("SAC", False), ("DQN", True)])
def test_torchscript_exported_by_d3rlpy(name, discrete, tmp_path):
    algo = built(name, discrete=discrete, scaled=True)
    algo.save_policy(str(tmp_path / "policy.pt"))
    policy = load_policy(tmp_path / "policy.pt", trust=True, **({"n_actions": 4} if discrete else {}))
    np.testing.assert_allclose(policy.sample(STATES, RNG), algo.predict(STATES), atol=1e-5)


class Greedy(torch.nn.Module):
    """The layout that d3rlpy exports: observations in, actions out."""

    def __init__(self, discrete):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
        self.discrete = discrete

    def forward(self, x):
        values = self.layers(x)
        return values.argmax(dim=1) if self.discrete else torch.tanh(values)


# d3rlpy 2.8's own .onnx export fails on torch 2.13, so the file is written by torch itself, whose exporter
# still calls what torch itself has deprecated.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*deprecated:FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("discrete", [False, True])
def test_onnx_exported_by_torch(discrete, tmp_path):
    module = Greedy(discrete).eval()
    torch.onnx.export(
        module,
        (torch.zeros(2, 3),),
        tmp_path / "policy.onnx",
        input_names=["observations"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    policy = load_policy(tmp_path / "policy.onnx", **({"n_actions": 4} if discrete else {}))
    assert policy.observation_size == 3
    expected = module(torch.as_tensor(STATES)).detach().numpy()
    np.testing.assert_allclose(policy.sample(STATES, RNG), expected, atol=1e-6)
    if discrete:
        assert (policy.probabilities(STATES).argmax(axis=1) == expected).all()


class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x[:, :2]


def test_torchscript_needs_trust(tmp_path):
    """It is a program: what its text says does not bound what it does."""
    torch.jit.save(torch.jit.script(Doubled()), tmp_path / "policy.pt")
    with pytest.raises(PermissionError, match=r"is TorchScript, a program .*trust=True.*state_dict.*ONNX"):
        load_policy(tmp_path / "policy.pt")
    policy = load_policy(tmp_path / "policy.pt", trust=True)
    np.testing.assert_allclose(policy.sample(STATES, RNG), 2 * STATES[:, :2])


@pytest.mark.parametrize("inside", [False, True])
def test_the_weights_of_a_perceptron_need_no_trust(inside, tmp_path):
    module = Greedy(discrete=False)
    layers = module.layers
    torch.save((module if inside else layers).state_dict(), tmp_path / "weights.pt")
    expected = layers(torch.as_tensor(STATES)).detach().numpy()
    for trust in (False, True):
        policy = load_policy(tmp_path / "weights.pt", activation="tanh", trust=trust)
        assert policy.observation_size == 3
        np.testing.assert_allclose(policy.sample(STATES, RNG), expected, atol=1e-6)
    logits = load_policy(tmp_path / "weights.pt", activation="Tanh", output="logits")
    shifted = np.exp(expected.astype(np.float64))
    np.testing.assert_allclose(logits.probabilities(STATES), shifted / shifted.sum(axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(ValueError, match="do not say what follows a hidden layer: give activation="):
        load_policy(tmp_path / "weights.pt")


def test_weights_of_other_networks_are_refused(tmp_path):
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="must be affine layers with an activation after each"):
        load_policy(tmp_path / "weights.pt", activation="relu")
    torch.save({"step": 3, "model": network.state_dict()}, tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="must hold tensors by name: 'step' is a int"):
        load_policy(tmp_path / "weights.pt", activation="relu")


def test_a_pickled_module_needs_trust(tmp_path):
    torch.save(Doubled(), tmp_path / "policy.pt")
    with pytest.raises(PermissionError, match="pass trust=True"):
        load_policy(tmp_path / "policy.pt")
    trusted = load_policy(tmp_path / "policy.pt", trust=True)
    np.testing.assert_allclose(trusted.sample(STATES, RNG), 2 * STATES[:, :2])
    torch.save([torch.zeros(2)], tmp_path / "weights.pt")
    with pytest.raises(ValueError, match="must hold a torch module or a state dictionary: it holds a list"):
        load_policy(tmp_path / "weights.pt", trust=True)


def test_onnx_of_two_inputs_is_refused(tmp_path):
    one, two, out = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, 2]) for name in "abc")
    node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
    graph = onnx.helper.make_graph([node], "sum", [one, two], [out])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "policy.onnx")
    with pytest.raises(ValueError, match="must have one input"):
        load_policy(tmp_path / "policy.onnx")


def test_tables_in_files(tmp_path):
    table = np.array([[0.25, 0.75], [1.0, 0.0]])
    np.save(tmp_path / "table.npy", table)
    np.savetxt(tmp_path / "table.csv", table, delimiter=",")
    for name in ("table.npy", "table.csv"):
        np.testing.assert_array_equal(load_policy(tmp_path / name).probabilities(np.array([1, 0])), table[::-1])
    np.save(tmp_path / "texts.npy", table.astype(str))
    with pytest.raises(ValueError, match="numbers only"):
        load_policy(tmp_path / "texts.npy")
    np.save(tmp_path / "bomb.npy", np.array([Bomb()], object), allow_pickle=True)
    with pytest.raises(ValueError, match="numbers only"):
        load_policy(tmp_path / "bomb.npy")


BAD = {
    "empty.zip": (b"", "is not a policy we know"),
    "noise.zip": (bytes(range(200)), "is not a policy we know"),
    "cut.zip": (b"PK\x03\x04" + bytes(50), "cut.zip cannot be read as a policy"),
    "noise.onnx": (bytes(range(200)), "cannot be read as ONNX"),
    "words.csv": (b"left,right\n", "numbers only"),
    "nothing.csv": (b"", "must hold a table of probabilities: it is empty"),
    "lines.csv": (b"\n\n", "must hold a table of probabilities: it is empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_policies(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_policy(tmp_path / name)


def test_other_paths_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_policy(tmp_path / "nothing.zip")
    np.savez(tmp_path / "data.npz", observations=np.zeros(3))
    with pytest.raises(ValueError, match="is an archive without a policy"):
        load_policy(tmp_path / "data.npz")
