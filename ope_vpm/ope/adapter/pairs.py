"""The adapter: logged data and a target policy become transitions (s, a) → (s', a') with a' ~ π(·|s')."""

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, read_only
from ope_vpm.chain import Transitions
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.ends import Steps, absorbed_share
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.policy import TargetPolicy


@dataclass(frozen=True, eq=False)
class Pairs:
    """Transitions of the target's chain over pairs, with the way back to the log."""

    transitions: Transitions
    rewards: Floats
    """The reward of each row of `transitions`; 0 in the absorbing one."""
    rows: Integers
    """The logged row of each row of `transitions`; -1 for the absorbing one, the last."""
    encoder: Encoder
    """From observations and actions to x, with the standardisation that was fitted on the data."""
    dropped: int
    """Logged rows left out because the state after them is unknown."""
    ended: int
    """Logged rows after which the chain restarts or is absorbed."""

    def __post_init__(self) -> None:
        for name in ("rewards", "rows"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def absorbs(self) -> bool:
        """Whether the last row is the absorbing state's."""
        return self.encoder.absorbs


def pairs_of(
    data: LoggedDataset, policy: TargetPolicy, plan: Steps, first: Array, gamma: float, seed: int, draws: int
) -> Pairs:
    """The transitions over pairs where it is known what follows each step.

    Args:
        data: the log.
        policy: the target.
        plan: the logged steps and what follows them.
        first: the initial states.
        gamma: the discount.
        seed: of the target's draws.
        draws: target actions drawn for each next state, for continuous actions.
    """
    rng, n_actions = np.random.default_rng(seed), None
    if data.discrete_actions:  # a policy that does not say how many actions it has is asked once
        n_actions = policy.n_actions or policy.probabilities(data.observations[:1]).shape[1]
    encoder = Encoder.fit(data, n_actions, absorbs=bool(plan.absorbed.any()))
    x = encoder(data.observations[plan.rows], data.actions[plan.rows])
    x_next, probability = _successors(data, policy, encoder, plan, draws, rng)
    x_initial, initial_probability = _initial_pairs(data, policy, encoder, first, gamma, draws, rng)
    weight, rewards, rows = plan.weight, data.rewards[plan.rows], plan.rows
    if encoder.absorbs:
        end = encoder.absorbing()
        x = np.concatenate([x, end])
        x_next = np.concatenate([x_next, np.broadcast_to(end[:, None], (1, *x_next.shape[1:]))])
        probability = np.concatenate([probability, np.full((1, probability.shape[1]), 1 / probability.shape[1])])
        ended = np.bincount(data.episode[plan.rows[plan.absorbed]], minlength=data.n_episodes) > 0
        share = absorbed_share(data, ended, gamma)
        weight = np.append(weight, float(plan.weight.sum()) * share / (1 - share))
        rewards, rows = np.append(rewards, 0.0), np.append(rows, -1)
    single = x_next.shape[1] == 1
    transitions = Transitions(
        x,
        x_next[:, 0] if single else x_next,
        None if (weight == 1).all() else weight,
        x_initial,
        None if single else probability,
        initial_probability,
    )
    return Pairs(transitions, rewards, rows, encoder, plan.dropped, plan.ended)


def _successors(
    data: LoggedDataset, policy: TargetPolicy, encoder: Encoder, plan: Steps, draws: int, rng: np.random.Generator
) -> tuple[Array, Floats]:
    """The next pairs (n, K[, d]) and their probabilities (n, K)."""
    following = plan.next_observations
    # Never looked at, but the policy is asked all the same, and the state after a last step may be unknown.
    following[plan.absorbed] = data.observations[plan.rows[plan.absorbed]]
    actions, probability = _target_actions(data, policy, following, encoder.n_actions, draws, rng)
    columns = [encoder(following, actions[:, column]) for column in range(actions.shape[1])]
    x_next = np.stack(columns, axis=1)
    if encoder.absorbs:
        x_next[plan.absorbed] = encoder.absorbing()
    return x_next, probability


def _initial_pairs(
    data: LoggedDataset,
    policy: TargetPolicy,
    encoder: Encoder,
    first: Array,
    gamma: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Array | None, Floats | None]:
    """Every initial state with the target's actions there, and their probabilities."""
    if len(first) == 0:
        if gamma < 1:
            raise ValueError(f"gamma = {gamma} needs initial states, and no episode begins at a reset: use gamma = 1")
        return None, None
    actions, probability = _target_actions(data, policy, first, encoder.n_actions, draws, rng)
    width = actions.shape[1]
    flat = actions.reshape(len(first) * width, *actions.shape[2:])
    weight = probability.reshape(-1)
    possible = weight > 0
    x_initial = encoder(np.repeat(first, width, axis=0)[possible], flat[possible])
    return x_initial, weight[possible] if (weight[possible] != weight[possible][0]).any() else None


def _target_actions(
    data: LoggedDataset,
    policy: TargetPolicy,
    observations: Array,
    n_actions: int | None,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Floats]:
    """Actions (n, K[, m]) with probabilities (n, K): all of them if discrete, else `draws` equally likely ones."""
    if n_actions is not None:
        probability = policy.probabilities(observations)
        return np.broadcast_to(np.arange(n_actions), probability.shape), probability
    shape = (len(observations), data.actions.shape[1])
    drawn = [_drawn(policy, observations, shape, rng) for _ in range(draws)]
    return np.stack(drawn, axis=1), np.full((len(observations), draws), 1 / draws)


def _drawn(policy: TargetPolicy, observations: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    actions = np.asarray(policy.sample(observations, rng), dtype=np.float64)
    if actions.size != shape[0] * shape[1]:
        raise ValueError(f"the policy's actions have shape {actions.shape}, the data's {shape}: they do not fit")
    return actions.reshape(shape)
