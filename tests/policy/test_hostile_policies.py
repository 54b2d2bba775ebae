"""Policy files made to run code, to read other files, to end the process, or to fill the memory."""

import base64
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import d3rlpy
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from stable_baselines3 import PPO

from ope_vpm import load_policy
from ope_vpm.policy.described import describe
from ope_vpm.policy.networks import read_tensors

# numpy.dtype("O") with its flags cleared by __setstate__, then eight bytes of the attacker taken for an object.
CRASH = (
    b"\x80\x03cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\nX\x01\x00\x00\x00O\x89\x88\x87R"
    b"(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbC\x08AAAAAAA\x00\x86R."
)
LOADER = """
import resource, sys
import torch  # its own memory is not what is limited
from ope_vpm import load_policy
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
for path in sys.argv[1:]:
    try:
        load_policy(path)
    except (ValueError, PermissionError) as error:
        print(type(error).__name__, str(error))
    else:
        print('loaded')
"""


def loaded_apart(*paths):
    """What loading each file says, in a process of its own that may take one GB and a minute beyond its imports."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOADER, *map(str, paths)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout.splitlines()


def sb3_file(path, **changes):
    """A saved model with some settings changed."""
    PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [4]}, device="cpu").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    settings = json.loads(members["data"])
    members["data"] = json.dumps(settings | changes).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def archive_of(pickled, *storages, compression=zipfile.ZIP_STORED):
    """A file as torch.save writes it, with a pickle and storages of our own."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for number, storage in enumerate(storages):
            archive.writestr(f"archive/data/{number}", storage)
    return stream.getvalue()


def tensor(size, stride, offset=0, kind="FloatStorage"):
    """The pickle of a dictionary with one tensor on storage 0."""

    class Storage:
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", getattr(torch, kind), "0", "cpu", 1) if isinstance(value, Storage) else None

    class Tensor:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Storage(), offset, size, stride, False, {})

    stream = io.BytesIO()
    Pickler(stream, 2).dump({"0.weight": Tensor()})
    return stream.getvalue()


def test_object_pointers_do_not_end_the_process(tmp_path):
    names = ("observation_space", "action_space", "policy_kwargs", "policy_class")
    crash = {":serialized:": base64.b64encode(CRASH).decode()}
    archives = [sb3_file(tmp_path / f"{name}.zip", **{name: crash}) for name in names]
    (tmp_path / "whole.d3").write_bytes(CRASH)
    (tmp_path / "part.d3").write_bytes(b"\x80\x03}X\x06\x00\x00\x00config" + CRASH[2:-1] + b"s.")
    *zips, whole, part = loaded_apart(*archives, tmp_path / "whole.d3", tmp_path / "part.d3")
    assert all("is not read without trust" in answer for answer in zips)
    assert "pass trust=True" in whole
    assert "must be a file of d3rlpy's save" in part


def test_keys_that_are_nested_a_million_deep(tmp_path):
    """The hash of such a tuple overflows the C stack, in torch.load(weights_only=True) too."""
    deep = b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s."
    (tmp_path / "weights.pt").write_bytes(archive_of(deep))
    assert "must set dictionary entries by text or number" in loaded_apart(tmp_path / "weights.pt")[0]


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((10**9,), (0,), 0), ((2,), (10**9,), 0), ((4,), (1,), 1), ((2, 2), (-1, 1), 0), ((4, 2), (1, 1), 0)],
)
def test_tensors_beyond_their_storage(size, stride, offset):
    with pytest.raises(ValueError, match=r"must (fit into its storage|be whole numbers)"):
        read_tensors(archive_of(tensor(size, stride, offset), np.zeros(4, np.float32).tobytes()))


def test_tensors_within_their_storage():
    numbers = np.arange(6, dtype=np.float32)
    read = read_tensors(archive_of(tensor((3, 2), (1, 3)), numbers.tobytes()))["0.weight"]
    np.testing.assert_array_equal(read, numbers.reshape(2, 3).T)
    original = {"a": torch.randn(3, 4).T, "b": torch.arange(5), "c": {"d": torch.tensor(2.5, dtype=torch.float64)}}
    stream = io.BytesIO()
    torch.save(original, stream)
    read = read_tensors(stream.getvalue())
    np.testing.assert_array_equal(read["a"], original["a"].numpy())
    np.testing.assert_array_equal(read["b"], np.arange(5))
    assert read["c"]["d"] == 2.5


def test_packed_zeros_are_not_unpacked(tmp_path):
    zeros = bytes(300 << 20)
    packed = archive_of(tensor((1,), (1,)), zeros, compression=zipfile.ZIP_DEFLATED)
    (tmp_path / "weights.pt").write_bytes(packed)
    with pytest.raises(PermissionError, match=r"has \d{6} bytes and unpacks to 3145.*pass trust=True"):
        load_policy(tmp_path / "weights.pt", activation="tanh")


def test_d3rlpy_settings_that_claim_large_networks(tmp_path):
    algo = d3rlpy.algos.SACConfig(
        actor_encoder_factory=d3rlpy.models.VectorEncoderFactory([4, 4]),
        critic_encoder_factory=d3rlpy.models.VectorEncoderFactory([4, 4]),
    ).create(device="cpu:0")
    algo.create_impl((3,), 2)
    algo.save(str(tmp_path / "good.d3"))
    stored = pickle.loads((tmp_path / "good.d3").read_bytes())
    wide, many, long = (json.loads(stored["config"]) for _ in range(3))
    wide["config"]["params"]["actor_encoder_factory"]["params"]["hidden_units"] = [200_000, 200_000]
    many["config"]["params"]["n_critics"] = 10**9
    long["observation_shape"] = [10**10]
    paths = [tmp_path / f"{number}.d3" for number in range(3)]
    for path, config in zip(paths, (wide, many, long), strict=True):
        path.write_bytes(pickle.dumps(stored | {"config": json.dumps(config)}))
    for answer in loaded_apart(*paths):
        assert "claim networks far larger than the weights" in answer


def graph(nodes, initializers=(), functions=()):
    """An ONNX model from observations `x` of three numbers to `y`."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, "policy", [x], [y], initializer=list(initializers))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9, functions=list(functions))


def test_onnx_weights_in_another_file(tmp_path):
    (tmp_path / "secret.bin").write_bytes(np.array([7, 8, 9], np.float32).tobytes())
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="secret.bin")
    model = graph([helper.make_node("Add", ["x", "w"], ["y"])], [outside])
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(PermissionError, match="holds weights in another file"):
        load_policy(tmp_path / "policy.onnx")
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", t=outside, type=onnx.AttributeProto.TENSOR)
    (tmp_path / "policy.onnx").write_bytes(
        graph([constant, helper.make_node("Add", ["x", "w"], ["y"])]).SerializeToString()
    )
    with pytest.raises(PermissionError, match="holds weights in another file"):
        load_policy(tmp_path / "policy.onnx")


def test_onnx_loops_and_large_tensors(tmp_path):
    names = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "on")]
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"])], "body", [count, names[0]], [names[1]])
    forever = [
        numpy_helper.from_array(np.array(np.iinfo(np.int64).max), "n"),
        numpy_helper.from_array(np.array(True), "yes"),
    ]
    nodes = [helper.make_node("Loop", ["n", "yes"], [], body=body), helper.make_node("Identity", ["x"], ["y"])]
    (tmp_path / "loop.onnx").write_bytes(graph(nodes, forever).SerializeToString())
    with pytest.raises(PermissionError, match="holds the operator 'Loop', which can loop for ever"):
        load_policy(tmp_path / "loop.onnx")
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    size = numpy_helper.from_array(np.array([3_000_000_000]), "s")
    (tmp_path / "large.onnx").write_bytes(graph(nodes, [size]).SerializeToString())
    policy = load_policy(tmp_path / "large.onnx")
    with pytest.raises(ValueError, match=r"large\.onnx cannot be run on observations of shape \(2, 3\)"):
        policy.sample(np.zeros((2, 3)), np.random.default_rng(0))


ENDLESS = """
import sys, time
import numpy as np
from ope_vpm import load_policy
from ope_vpm.policy import onnx
onnx.SECONDS = 1.0
policy = load_policy(sys.argv[1])
start = time.monotonic()
try:
    policy.sample(np.zeros((2, 3)), np.random.default_rng(0))
except ValueError as error:
    print(error)
print(time.monotonic() - start < 10)
"""


def test_an_onnx_file_of_two_kilobytes_that_computes_for_ever(tmp_path):
    """Sixty products of matrices of 6000 x 6000: 26 trillion operations. The process ends without them."""
    weights = [
        numpy_helper.from_array(np.array([6000, 6000]), "shape"),
        numpy_helper.from_array(np.full((1, 1), 1e-4, np.float32), "one"),
    ]
    nodes = [helper.make_node("Expand", ["one", "shape"], ["m0"])]
    nodes += [helper.make_node("MatMul", [f"m{k}", "m0"], [f"m{k + 1}"]) for k in range(60)]
    nodes += [helper.make_node("ReduceMax", ["m60"], ["r"], keepdims=0), helper.make_node("Add", ["x", "r"], ["y"])]
    (tmp_path / "policy.onnx").write_bytes(graph(nodes, weights).SerializeToString())
    assert (tmp_path / "policy.onnx").stat().st_size < 2000
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "policy.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    message, in_time = done.stdout.splitlines()
    assert message.endswith("it took more than 1 s (pass trust=True if you know where it comes from)")
    assert in_time == "True"
    assert not done.stderr


def test_what_the_onnx_runtime_says_is_no_output(tmp_path, capfd):
    """Bytes that are no text in the name of an operator: the runtime prints four lines before it tries again."""
    weight = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    content = graph([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight]).SerializeToString()
    (tmp_path / "policy.onnx").write_bytes(content.replace(b"MatMul", b"MatM\x9dl"))
    with pytest.raises(ValueError, match=r"policy\.onnx cannot be read as ONNX"):
        load_policy(tmp_path / "policy.onnx")
    assert capfd.readouterr() == ("", "")


def test_onnx_functions_that_multiply(tmp_path):
    """f1 calls f0 twice, f2 calls f1 twice, …: inlined, thirty of them have a billion nodes."""
    functions = []
    for number in range(30):
        inner, domain = ("Relu", "") if number == 0 else (f"f{number - 1}", "own")
        nodes = [
            helper.make_node(inner, ["a"], ["b"], domain=domain),
            helper.make_node(inner, ["b"], ["c"], domain=domain),
        ]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{number}", ["a"], ["c"], nodes, imports))
    model = graph([helper.make_node("f29", ["x"], ["y"], domain="own")], functions=functions)
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(PermissionError, match="functions that call functions"):
        load_policy(tmp_path / "policy.onnx")


class Refusing(torch.nn.Module):
    """Says itself what it takes."""

    def forward(self, x):
        assert x.shape[1] == 3, "three numbers, please"
        return x


# TorchScript is what libraries still save; torch announces its end.
@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_files_of_another_observation_size_are_told_in_one_sentence(tmp_path):
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    torch.jit.save(torch.jit.script(network), tmp_path / "policy.pt")
    policy = load_policy(tmp_path / "policy.pt", trust=True)
    with pytest.raises(ValueError, match=r"cannot be run on observations of shape \(\d, 4\): .*shapes cannot be mult"):
        policy.sample(np.zeros((5, 4)), np.random.default_rng(0))
    torch.jit.save(torch.jit.script(Refusing()), tmp_path / "refusing.pt")
    with pytest.raises(ValueError, match=r"cannot be run on observations of shape \(\d, 4\): .*three numbers"):
        load_policy(tmp_path / "refusing.pt", trust=True).sample(np.zeros((5, 4)), np.random.default_rng(0))
    weight = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    model = graph([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight])
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    policy = load_policy(tmp_path / "policy.onnx")
    assert policy.observation_size == 3
    with pytest.raises(ValueError, match=r"cannot be run on observations of shape \(\d, 4\)"):
        policy.sample(np.zeros((5, 4)), np.random.default_rng(0))


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_regular_files_are_opened(kind, tmp_path):
    path = tmp_path / "policy.npy"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="must be a regular file"):
        load_policy(path)


def test_a_pickle_is_only_described():
    described = describe(pickle.dumps({"run": os.system, "texts": ["a", b"b", 2.5, None, (1, True)]}))
    assert (described["run"].module, described["run"].name) == ("posix", "system")
    assert described["texts"] == ["a", b"b", 2.5, None, (1, True)]
    with pytest.raises(PermissionError, match="instruction INST"):
        describe(b"(ios\nsystem\n.")
    huge = b"\x80\x04]r\xff\xff\xff\xff."  # remembered at place 2^32 - 1: pickle.loads allocates all before it
    assert describe(huge) == []


def test_many_tensors_on_one_storage(tmp_path):
    """A hundred layers of 1000 × 1000 numbers on the same 4 MB would be copied to 400 MB."""
    shared = torch.zeros(1000, 1000)
    layers = {
        f"{2 * number}.{part}": shared if part == "weight" else shared[0]
        for number in range(100)
        for part in ("weight", "bias")
    }
    torch.save(layers, tmp_path / "weights.pt")
    assert (tmp_path / "weights.pt").stat().st_size < 5_000_000
    with pytest.raises(ValueError, match="its tensors take more than 8 times the numbers that it holds"):
        load_policy(tmp_path / "weights.pt", activation="tanh")


def test_parts_that_share_their_parts_are_not_printed():
    """((x, x), (x, x)), …: sixty levels have 2^60 entries when they are printed."""
    doubled = b")" + b"".join(b"q%ch%c\x86" % (level, level) for level in range(60))  # remember, take again, pair
    sizes = b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n"
    pointer = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
    pickled = sizes + b"(" + pointer + b"K\x00" + doubled + b")\x89}tRs."
    with pytest.raises(ValueError, match="must be whole numbers"):
        read_tensors(archive_of(pickled, bytes(4)))


def test_settings_are_bounded(tmp_path):
    path = sb3_file(tmp_path / "model.zip", padding=["[" * 17_000_000])
    with pytest.raises(ValueError, match="at most 16777216 bytes of JSON"):
        load_policy(path)


def test_onnx_sparse_weights_and_trees(tmp_path):
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    model = graph([helper.make_node("Add", ["x", "w"], ["y"])])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2_000_000_000]))
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(PermissionError, match="sparse weights, which unpack to any size"):
        load_policy(tmp_path / "policy.onnx")
    tree = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml")
    (tmp_path / "policy.onnx").write_bytes(graph([tree]).SerializeToString())
    with pytest.raises(PermissionError, match=r"the foreign operator ai\.onnx\.ml\.TreeEnsembleRegressor"):
        load_policy(tmp_path / "policy.onnx")


def test_states_that_a_network_does_not_know_end_in_a_sentence(tmp_path):
    PPO("MlpPolicy", "Taxi-v3", policy_kwargs={"net_arch": [4]}, device="cpu").save(tmp_path / "taxi.zip")
    policy = load_policy(tmp_path / "taxi.zip")
    with pytest.raises(ValueError, match="the network cannot be run on observations of shape"):
        policy.probabilities(np.array([3, 500]))
