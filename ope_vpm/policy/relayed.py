"""Policies that pass every question on to another policy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.target import DRAWS, Clipping, Generator, TargetPolicy


class RelayedPolicy(TargetPolicy):
    """A policy that answers as another one does."""

    @property
    @abstractmethod
    def known(self) -> TargetPolicy:
        """The other policy."""

    @abstractmethod
    def asked(self, observations: Array) -> tuple[TargetPolicy, Array]:
        """The policy that answers, and the observations as it takes them."""

    @property
    def has_log_prob(self) -> bool:
        """The answer of the other policy."""
        return self.known.has_log_prob

    @property
    def has_probabilities(self) -> bool:
        """The answer of the other policy."""
        return self.known.has_probabilities

    @property
    def clipping(self) -> Clipping:
        """The answer of the other policy."""
        return self.known.clipping

    def sample(self, observations: Array, rng: Generator) -> Array:
        """One action per row."""
        policy, seen = self.asked(observations)
        return policy.sample(seen, rng)

    def probabilities(self, observations: Array) -> Floats:
        """The probability of every discrete action."""
        policy, seen = self.asked(observations)
        return policy.probabilities(seen)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The log-probability or log-density of one action per row."""
        policy, seen = self.asked(observations)
        return policy.log_prob(seen, actions)

    def log_likelihood(self, observations: Array, actions: Array) -> Floats:
        """The log-likelihood of one action per row as `sample` returns it."""
        policy, seen = self.asked(observations)
        return policy.log_likelihood(seen, actions)

    def action_moments(self, observations: Array, rng: Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """E_π[a] and E_π[a²] of every coordinate."""
        policy, seen = self.asked(observations)
        return policy.action_moments(seen, rng, draws)

    def expected(
        self, function: Callable[[Floats], Floats], observations: Array, rng: Generator, draws: int = DRAWS
    ) -> Floats:
        """E_π[f(a)] in each state."""
        policy, seen = self.asked(observations)
        return policy.expected(function, seen, rng, draws)

    def usual_action(self, observations: Array) -> Floats | None:
        """The answer of the other policy."""
        policy, seen = self.asked(observations)
        return policy.usual_action(seen)

    def score(self, observations: Array, actions: Array) -> Floats | None:
        """(a - mean)/std of one action per row; None where the policy is not Gaussian."""
        policy, seen = self.asked(observations)
        return policy.score(seen, actions)


class WithoutLast(RelayedPolicy):
    """The policy of observations that have one more coordinate, the last one, which it does not look at.

    Two of one policy are equal, so that what is remembered for one is found for the other.

    Args:
        policy: the other policy.
        shape: of one of its observations.
    """

    def __init__(self, policy: TargetPolicy, shape: tuple[int, ...]) -> None:
        self._policy, self._shape = policy, shape
        self.n_actions, self.action_dimension = policy.n_actions, policy.action_dimension
        self.normalized_by = policy.normalized_by
        self.observation_size = None if policy.observation_size is None else policy.observation_size + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithoutLast) and other._policy is self._policy

    def __hash__(self) -> int:
        return hash((WithoutLast, id(self._policy)))

    def __repr__(self) -> str:
        return repr(self._policy)

    @property
    def known(self) -> TargetPolicy:
        """The policy of observations without the last coordinate."""
        return self._policy

    def asked(self, observations: Array) -> tuple[TargetPolicy, Array]:
        """The other policy, and the observations without their last coordinate."""
        return self._policy, observations[:, :-1].reshape(len(observations), *self._shape)

    def alike(self, policy: TargetPolicy) -> TargetPolicy:
        """Another policy that looks at the same coordinates as this one."""
        return WithoutLast(policy, self._shape)
