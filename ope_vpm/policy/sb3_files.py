"""stable-baselines3's .zip files, of every age, and those of sb3-contrib's TRPO, TQC, QRDQN and ARS.

A file holds `data`, a JSON text in which spaces and settings stand as pickles with a readable copy beside each, and
`policy.pth`, the networks' arrays. Only the readable copies and the arrays are read, so nothing of the file runs, old
files that name classes which no longer exist load too, and stable-baselines3 need not be installed. Parts that
cannot be known this way, such as a network class of your own, are named in the error and need `trust=True`, which
unpickles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces

from ope_vpm.archives import opened
from ope_vpm.arrays import Array
from ope_vpm.joint_actions import joint_sizes
from ope_vpm.optional import torch
from ope_vpm.outside import one_line
from ope_vpm.policy import sb3
from ope_vpm.policy.networks import (
    Network,
    Tensors,
    as_torch,
    identity,
    layers,
    linear,
    only_tensors,
    perceptron,
    read_tensors,
)
from ope_vpm.policy.sb3_normalize import FILE, Statistics, beside, read_statistics, trusted_policy, trusted_statistics
from ope_vpm.policy.sb3_settings import Settings, UnknownPart, readable_settings, stored_settings
from ope_vpm.policy.target import TargetPolicy

LOG_STD = (-20.0, 2.0)
"""Where SAC's actor clamps its log standard deviation."""
VARIANCE_FLOOR = 1e-6
"""The constant that the library adds to a state-dependent variance, and to the logarithm's argument of `use_expln`."""


def load_sb3(path: Path, *, trust: bool, deterministic: bool = False, normalize: Any = None) -> TargetPolicy:
    """A target policy from a model's .zip."""
    # A policy that was trained behind a VecNormalize means nothing without it: a file beside it is used unless refused.
    given = beside(path) if normalize is None or normalize is True else normalize
    statistics = _statistics(given, trust)
    policy = _read(path, trust, deterministic, statistics)
    if statistics is not None and isinstance(given, str | Path):
        policy.normalized_by = str(given)
    return policy


def _read(path: Path, trust: bool, deterministic: bool, statistics: Any) -> TargetPolicy:
    """The policy, from the readable parts of the file or, where it is trusted, by its own classes."""
    with opened(path, trust) as archive:
        stored = stored_settings(path, archive.read("data"))
        arrays = only_tensors(read_tensors(archive.read("policy.pth"), trust))
    with _unless_trusted(path, trust, UnknownPart):
        return _rebuilt(readable_settings(stored, KINDS), arrays, statistics, deterministic)
    return trusted_policy(path, stored, arrays, deterministic, statistics)


@contextmanager
def _unless_trusted(path: object, trust: bool, *unreadable: type[Exception]) -> Iterator[None]:
    """Try to read a file without running it; where that fails with one of some errors, go on only with trust."""
    try:
        yield
    except unreadable as error:
        if not trust:
            raise PermissionError(
                f"{path} is not read without trust: {one_line(error)} (pass trust=True, which runs code of the file, "
                "if you know where it comes from)"
            ) from error


def _statistics(normalize: Any, trust: bool) -> Any:
    """The statistics that normalise observations, from an object or a file; None where there are none."""
    if not isinstance(normalize, str | Path):
        return normalize or None
    with _unless_trusted(normalize, trust, ValueError, PermissionError):
        return read_statistics(Path(normalize))
    return trusted_statistics(Path(normalize))


def _rebuilt(settings: Settings, arrays: Tensors, statistics: Any, deterministic: bool) -> TargetPolicy:
    """The policy that the settings and the names of the arrays describe."""
    shape = settings.observation_space.shape
    if isinstance(statistics, Statistics) and statistics.mean.shape != shape:
        raise ValueError(
            f"its VecNormalize is one of observations of shape {statistics.mean.shape}, the policy takes {shape}: "
            f"move {FILE} away from beside it if it belongs to another policy, or pass normalize=False"
        )
    actor = Actor(settings, arrays, statistics, sb3.Interface(settings.observation_space, settings.action_space))
    return KINDS[settings.kind](actor, deterministic)


@dataclass(frozen=True)
class Actor:
    """A file's contents on the way to a policy."""

    settings: Settings
    arrays: Tensors
    statistics: Any
    interface: sb3.Interface

    def inputs(self, extractor: str) -> Callable[[Array], Any]:
        """The function from observations to the inputs of the first layer, whose size `features` knows."""
        settings, network = self.settings, self.features(extractor)

        def vectors(seen: Array) -> Any:
            return network.run(settings.encoded(sb3.normalized(seen, settings.observation_space, self.statistics)))

        return vectors

    def features(self, extractor: str) -> Network:
        """The network before the first layer: nothing, or the convolutions of the Nature paper on images."""
        names = [name for name in self.arrays if name.startswith(f"{extractor}.")]
        if not names:
            return identity(self.settings.encoded_size)
        return _nature_cnn(self.settings, self.arrays, extractor)

    def check_names(self, *known: str) -> None:
        """Refuse arrays that belong to no part that is known here."""
        for name in self.arrays:
            if not name.startswith(known):
                raise UnknownPart(f"its weights hold {name}, a part of no network we know")


def _actor_critic(actor: Actor, deterministic: bool) -> TargetPolicy:
    """PPO, A2C and TRPO: `mlp_extractor`, then `action_net`, and `log_std` for continuous actions."""
    actor.check_names(
        "features_extractor.", "pi_features_extractor.", "vf_features_extractor.", "mlp_extractor.shared_net.",
        "mlp_extractor.policy_net.", "mlp_extractor.value_net.", "action_net.", "value_net.", "log_std",
    )  # fmt: skip
    settings, arrays = actor.settings, actor.arrays
    actor.interface.check_actor_critic(settings.squash)
    activation = settings.activation("Tanh")
    width = actor.features("features_extractor").gives
    shared = perceptron(arrays, "mlp_extractor.shared_net.", width, activation)
    latent = shared.then(perceptron(arrays, "mlp_extractor.policy_net.", shared.gives, activation))
    head, inputs = linear(arrays, "action_net"), actor.inputs("features_extractor")
    whole = latent.then(head)
    settings.check_outputs(head.gives)
    if not isinstance(settings.action_space, spaces.Box):
        return sb3.categorical(
            actor.interface, lambda seen: _probabilities(whole.run(inputs(seen)), settings.action_space), deterministic
        )
    deviation = _deviation(actor, "log_std", latent.gives, head.gives)

    def moments(seen: Array) -> tuple[Any, Any]:
        hidden = latent.run(inputs(seen))
        return head.run(hidden), deviation(hidden)

    return sb3.gaussian(actor.interface, moments, deterministic)


def _probabilities(logits: Any, space: spaces.Space[Any]) -> Any:
    """The probabilities of all discrete actions, or of all combinations of them."""
    if isinstance(space, spaces.MultiBinary):
        return sb3.joint_probabilities(sb3.with_failure(torch.sigmoid(logits)))
    parts = logits.split(list(joint_sizes(space)), dim=1) if isinstance(space, spaces.MultiDiscrete) else [logits]
    return sb3.joint_probabilities([torch.softmax(part, dim=1) for part in parts])


def _squashed_actor(actor: Actor, deterministic: bool) -> TargetPolicy:
    """SAC and TQC: `actor.latent_pi`, then `actor.mu` and `actor.log_std`."""
    actor.check_names("actor.features_extractor.", "actor.latent_pi.", "actor.mu.", "actor.log_std", *CRITICS)
    settings, arrays = actor.settings, actor.arrays
    latent = perceptron(
        arrays, "actor.latent_pi.", actor.features("actor.features_extractor").gives, settings.activation("ReLU")
    )
    clipped = "actor.mu.0.weight" in arrays  # with gSDE, the mean is clipped after its layer
    mean = linear(arrays, "actor.mu.0" if clipped else "actor.mu")
    if clipped:
        most = settings.number("clip_mean", 2.0)
        mean = mean.activated(lambda values: values.clamp(-most, most))
    settings.check_outputs(latent.then(mean).gives)
    inputs = actor.inputs("actor.features_extractor")
    deviation = _deviation(actor, "actor.log_std", latent.gives, mean.gives)

    def moments(seen: Array) -> tuple[Any, Any]:
        hidden = latent.run(inputs(seen))
        return mean.run(hidden), deviation(hidden)

    return sb3.squashed(actor.interface, moments, deterministic)


def _td3(actor: Actor, _: bool) -> TargetPolicy:
    """TD3 and DDPG: `actor.mu`, whose last activation is tanh."""
    actor.check_names("actor.features_extractor.", "actor.mu.", "actor_target.", *CRITICS)
    width = actor.features("actor.features_extractor").gives
    activation = actor.settings.activation("ReLU")
    network = perceptron(actor.arrays, "actor.mu.", width, activation, last=False).activated(torch.tanh)
    actor.settings.check_outputs(network.gives)
    inputs = actor.inputs("actor.features_extractor")
    return sb3.one_action(actor.interface, lambda seen: network.run(inputs(seen)))


def _ars(actor: Actor, _: bool) -> TargetPolicy:
    """ARS: `action_net`, the library's defaults being those of its two policies."""
    actor.check_names("action_net.")
    settings, size, bias = actor.settings, actor.settings.encoded_size, actor.settings.flag("with_bias", True)
    network = perceptron(actor.arrays, "action_net.", size, settings.activation("ReLU"), last=False, bias=bias)
    settings.check_outputs(network.gives)
    inputs, squash = actor.inputs("features_extractor"), settings.flag("squash_output", True)
    return sb3.simple(actor.interface, lambda seen: network.run(inputs(seen)), torch.tanh if squash else None)


def _dqn(actor: Actor, _: bool) -> TargetPolicy:
    """DQN: `q_net.q_net`, one value for each action."""
    actor.check_names("q_net.features_extractor.", "q_net.q_net.", "q_net_target.")
    network = _values(actor, "q_net", "q_net.q_net.")
    actor.settings.check_outputs(network.gives)
    inputs = actor.inputs("q_net.features_extractor")
    return sb3.greedy(actor.interface, lambda seen: network.run(inputs(seen)))


def _qrdqn(actor: Actor, _: bool) -> TargetPolicy:
    """QRDQN: `quantile_net.quantile_net`, quantiles of each action's return, whose mean is its value."""
    actor.check_names("quantile_net.features_extractor.", "quantile_net.quantile_net.", "quantile_net_target.")
    network = _values(actor, "quantile_net", "quantile_net.quantile_net.")
    actions = int(actor.interface.action_space.n)
    if network.gives % actions:
        raise ValueError(f"{network.gives} quantiles must be equally many for each of {actions} actions")
    inputs = actor.inputs("quantile_net.features_extractor")
    return sb3.greedy(
        actor.interface, lambda seen: network.run(inputs(seen)).reshape(len(seen), -1, actions).mean(dim=1)
    )


def _values(actor: Actor, network: str, prefix: str) -> Network:
    if not isinstance(actor.settings.action_space, spaces.Discrete):
        raise TypeError(f"{network} must choose from discrete actions: the space is {actor.settings.action_space}")
    width = actor.features(f"{network}.features_extractor").gives
    return perceptron(actor.arrays, prefix, width, actor.settings.activation("ReLU"), last=False)


def _deviation(actor: Actor, name: str, hidden: int, outputs: int) -> Callable[[Any], Any]:
    """The standard deviation by the last hidden layer: a layer's, a constant, or that of gSDE."""
    arrays = actor.arrays
    if name not in arrays:
        layer = linear(arrays, name)
        if (layer.takes, layer.gives) != (hidden, outputs):
            raise ValueError(f"{name} must take {hidden} numbers and give {outputs}: got {layer.takes}, {layer.gives}")
        return lambda latent: layer.run(latent).clamp(*LOG_STD).exp()
    log_std = as_torch(arrays[name]).float()
    if not actor.settings.state_dependent_noise:
        if log_std.shape != (outputs,):
            raise ValueError(f"{name} must hold {outputs} numbers: got shape {tuple(log_std.shape)}")
        return lambda latent: log_std.exp().expand(len(latent), outputs)
    if tuple(log_std.shape) not in ((hidden, outputs), (hidden, 1)):
        raise ValueError(f"{name} must have shape {(hidden, outputs)}: got {tuple(log_std.shape)}")
    deviation = log_std.exp()
    if actor.settings.flag("use_expln", False):  # log1p + 1 above 0, which grows less fast
        deviation = torch.where(log_std <= 0, deviation, torch.log1p(log_std.clamp(min=0) + VARIANCE_FLOOR) + 1)
    variance = deviation.square().expand(hidden, outputs)
    return lambda latent: (latent.square() @ variance + VARIANCE_FLOOR).sqrt()


def _nature_cnn(settings: Settings, arrays: Tensors, prefix: str) -> Network:
    """Three convolutions of strides 4, 2 and 1 and an affine layer, each with a ReLU."""
    settings.check_extractor()
    shape, kernels = settings.observation_space.shape or (), []
    for number, stride in ((0, 4), (2, 2), (4, 1)):
        weight, bias = (arrays.get(f"{prefix}.cnn.{number}.{part}") for part in ("weight", "bias"))
        if weight is None or bias is None or weight.ndim != 4 or bias.shape != weight.shape[:1]:
            raise UnknownPart(f"its {prefix} is not the convolutional network of the Nature paper")
        if len(shape) != 3 or shape[0] != weight.shape[1]:
            raise ValueError(f"{prefix}.cnn.{number} must take {weight.shape[1]} channels: got shape {shape}")
        kernels.append((as_torch(weight).float(), as_torch(bias).float(), stride))
        sides = zip(shape[1:], weight.shape[2:], strict=True)
        shape = (weight.shape[0], *((side - size) // stride + 1 for side, size in sides))
    flat = shape[0] * shape[1] * shape[2]
    (last,) = layers(arrays, f"{prefix}.linear.")

    def run(batch: Any) -> Any:
        for weight, bias, stride in kernels:
            batch = torch.relu(torch.nn.functional.conv2d(batch, weight, bias, stride=stride))
        return batch.flatten(1)

    return Network(run, settings.encoded_size, flat).then(last).activated(torch.relu)


CRITICS = ("critic.", "critic_target.")
KINDS: dict[str, Callable[[Actor, bool], TargetPolicy]] = {
    "stable_baselines3.common.policies": _actor_critic,
    "stable_baselines3.sac.policies": _squashed_actor,
    "sb3_contrib.tqc.policies": _squashed_actor,
    "stable_baselines3.td3.policies": _td3,
    "stable_baselines3.dqn.policies": _dqn,
    "sb3_contrib.qrdqn.policies": _qrdqn,
    "sb3_contrib.ars.policies": _ars,
}
"""How a policy acts, by the module of its class."""
