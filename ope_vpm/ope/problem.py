"""One question: a checked log, a target policy, a discount, and what the end of an episode means."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from ope_vpm.arrays import Array, Bools, Floats
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.ope.adapter.ends import OnEnd, Steps, TimeLimit, check_choices, ended_episodes, ending_rows, plan_steps
from ope_vpm.ope.adapter.given import Behaviour, check_features, check_match, check_seed, checked_behaviour, target_of
from ope_vpm.ope.adapter.pairs import Pairs, pairs_of
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.calls import check_function
from ope_vpm.policy.function import WithoutLast

Discount = tuple[float, OnEnd]
"""A discount, and what follows a termination there."""


@dataclass(frozen=True)
class Question:
    """The question in words and numbers alone, so that every answer can carry it along."""

    policy: str
    """The target policy, as it prints."""
    data: str
    """The log, as it prints."""
    gamma: float
    seed: int
    on_end: OnEnd
    """What follows a termination."""
    time_limit: TimeLimit
    """What follows a truncation."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The question of a policy's value on a log: build it by `Problem.pose`, or from a `Log` by `Problem.on`."""

    log: Log
    policy: TargetPolicy
    gamma: float
    seed: int
    on_end: OnEnd
    """What follows a termination: a fresh initial state, or reward 0 for ever."""
    time_limit: TimeLimit
    """What follows a truncation: the task goes on, or it ended."""
    state_features: Any = None
    """What is known of finite states, by which unseen pairs borrow from similar ones (`ope_vpm.ope.finite.problem`)."""
    behaviour: Behaviour = "cloned"
    """Where action ratios take the behaviour from: "cloned", "logged" or the policy that acted."""
    together: tuple[Discount, ...] = ()
    """The discounts that are asked about in one call, this one among them: passes over the rows are made for all of
    them at once. Empty: this one alone."""
    memory: Memory = field(default_factory=Memory, repr=False)

    @classmethod
    def pose(
        cls,
        data: LoggedDataset | StreamedDataset,
        policy: Any,
        *,
        gamma: float = 1.0,
        seed: int = 0,
        on_end: OnEnd | None = None,
        time_limit: TimeLimit = "continue",
        ignore: Collection[str] = (),
        state_features: Any = None,
        behaviour: Behaviour = "cloned",
    ) -> Problem:
        """Make the question of a value; everything is checked here, once.

        Args:
            data: the log; data in which the doctor finds errors are refused.
            policy: a `TargetPolicy`, or whatever `as_policy` takes.
            gamma: the discount; 1 for the average reward.
            seed: makes everything random repeatable.
            on_end: what follows a termination; see `ope_vpm.ope.adapter.ends.plan_steps`.
            time_limit: what follows a truncation; see there.
            ignore: codes of the doctor's findings to pass over.
            state_features: what is known of finite states: a row for each by its number, or a function of observations.
            behaviour: where action ratios take the behaviour from; see `ope_vpm.ope.behaviour.clone`.
        """
        if isinstance(data, LoggedDataset):  # what is cheap to check comes before the doctor looks at every row
            policy = target_of(data, policy)
            if data.discrete_actions or policy.n_actions is None:  # floats may be numbers of actions: see `Log`
                policy = check_match(data, policy)
        check_choices(gamma, on_end, time_limit)
        check_seed(seed)
        log = Log.check(data, ignore)
        choices: dict[str, Any] = {"on_end": on_end, "time_limit": time_limit, "state_features": state_features}
        choices["behaviour"] = behaviour
        return cls.on(log, policy, gamma=gamma, seed=seed, **choices)

    @classmethod
    def on(
        cls,
        log: Log,
        policy: Any,
        *,
        gamma: float = 1.0,
        seed: int = 0,
        on_end: OnEnd | None = None,
        time_limit: TimeLimit = "continue",
        state_features: Any = None,
        behaviour: Behaviour = "cloned",
    ) -> Problem:
        """A question about a log that was already checked; arguments as in `pose`."""
        choice = check_choices(gamma, on_end, time_limit)
        check_seed(seed)
        target = target_of(log.data, policy)
        log = log.for_actions(target)
        target = check_match(log.data, target)
        if gamma < 1 and not log.data.from_reset.any():
            raise ValueError(f"gamma = {gamma} needs initial states, and no episode begins at a reset: use gamma = 1")
        if log.streamed and not (isinstance(behaviour, str) and behaviour == "cloned"):
            raise ValueError("behaviour= needs all rows at once, and these are read in parts: use load_dataset")
        known = checked_behaviour(log.data, target, behaviour)
        posed = cls(log, target, gamma, seed, choice, time_limit, state_features, known)
        if state_features is not None and not posed.finite:
            raise ValueError("state_features are for finite states and actions: leave them out, these are continuous")
        check_features(state_features)
        _check_policy(posed.log, posed.policy)
        return posed

    def with_policy(self, policy: Any) -> Problem:
        """This question about another policy; what depends on the log alone stays shared."""
        posed = replace(self, policy=check_match(self.data, target_of(self.data, policy)), memory=Memory())
        _check_policy(posed.log, posed.policy)
        return posed

    def with_gamma(self, gamma: float, on_end: OnEnd | None = None, time_limit: TimeLimit | None = None) -> Problem:
        """This question at another discount; what depends on the log and the policy alone stays shared."""
        limit = time_limit or self.time_limit
        posed = Problem.on(self.log, self.policy, gamma=gamma, seed=self.seed, on_end=on_end, time_limit=limit)
        return replace(posed, state_features=self.state_features, behaviour=self.behaviour)

    @property
    def discount(self) -> Discount:
        """The discount, and what follows a termination."""
        return self.gamma, self.on_end

    @property
    def all_discounts(self) -> tuple[Discount, ...]:
        """The discounts that are asked about together with this one."""
        return self.together if self.discount in self.together else (self.discount,)

    def at(self, discount: Discount) -> Problem:
        """This question at a discount that is asked about together with this one."""
        gamma, on_end = discount
        return self if discount == self.discount else replace(self, gamma=gamma, on_end=on_end, memory=Memory())

    @property
    def on_sample(self) -> Problem:
        """This question asked of the log's sample; the question itself where the sample is the whole log."""
        return self if self.log.sample is self.log else _on_sample(self)

    def forget(self) -> None:
        """Let go of what was computed about the policy, which may be asked about again."""
        for log in (self.log, self.log.sample):
            log.memory.forget(self.policy)

    @property
    def with_step_number(self) -> Problem:
        """This question with the step number as a coordinate of the state; unchanged where that explains nothing.

        Where a time limit is part of the task, the time that it leaves is known already, and a log that is read in
        parts, or whose states have features of their own, stays as it is.
        """
        if not self.log.step_matters or self.limit is not None or self.streamed or self.state_features is not None:
            return self
        return _with_step_number(self)

    @property
    def streamed(self) -> bool:
        """Whether the log is read in parts, so that nothing may ask for all rows at once."""
        return self.log.streamed

    def with_rewards(self, rewards: Floats) -> Problem:
        """This question about other rewards; nothing is shared, for most of what is kept depends on them."""
        return replace(self, log=self.log.with_rewards(rewards), memory=Memory())

    def charged(self, keep: float, price: float) -> Problem:
        """This question about the rewards keep·r - price·1[the task ends with this row]; nothing is shared."""
        return replace(self, log=self.log.charged(keep, price, self.time_limit), memory=Memory())

    def lent(self) -> Problem:
        """This question with a weak reference to its memory, for results that are kept there."""
        return replace(self, memory=self.memory.lent())

    @property
    def data(self) -> LoggedDataset:
        """The logged data, in the order in which they were given."""
        return self.log.data

    @property
    def question(self) -> Question:
        """The question without the data."""
        return Question(
            repr(self.policy), repr(self.data), self.gamma, self.seed, on_end=self.on_end, time_limit=self.time_limit
        )

    @property
    def finite(self) -> bool:
        """Whether states and actions are finite, so that their pairs can be counted."""
        return self.log.finite

    @remembered
    def pairs(self, draws: int = 1) -> Pairs:
        """The transitions over pairs (s, a), shared."""
        log, first = self.log, self.log.initial_observations
        return pairs_of(log.data, self.policy, self.steps, first, self.gamma, self.seed, draws)

    @property
    def limit(self) -> int | None:
        """The time limit, where it is part of the task and the log shows it."""
        return self.data.limit if self.time_limit == "restart" else None

    @property
    def steps(self) -> Steps:
        """The logged steps and their successors, shared by all policies."""
        return _steps(self.log, self.on_end, self.time_limit, self.seed)

    @property
    def following(self) -> Array:
        """The observation after each of the steps; where nothing follows, its own, so that it can be asked about."""
        after = self.steps.next_observations
        absorbed = self.steps.absorbed
        after[absorbed] = self.data.observations[self.steps.rows[absorbed]]
        return after

    @property
    def ending(self) -> Bools:
        """(n,): the rows with which the task ended, rather than its log."""
        return ending_rows(self.data, self.time_limit)

    @property
    def ends(self) -> Bools:
        """(episodes,): whether the task ended with the episode."""
        return ended_episodes(self.data, self.time_limit)

    @property
    def episodic(self) -> bool:
        """Whether the undiscounted return of an episode is asked for, too: γ = 1, and some logged episode ended."""
        return self.gamma == 1 and bool(self.ends.any())

    @property
    def target_log_prob(self) -> Floats:
        """Log π of each logged action, shared by all discounts."""
        return _target_log_prob(self.log, self.policy)


@remembered
def _with_step_number(problem: Problem) -> Problem:
    policy = WithoutLast(problem.policy, problem.data.observations.shape[1:])
    acted = problem.behaviour if isinstance(problem.behaviour, str) else policy.alike(problem.behaviour)
    return replace(problem, log=problem.log.with_step_number(), policy=policy, behaviour=acted, memory=Memory())


@remembered
def _on_sample(problem: Problem) -> Problem:
    return replace(problem, log=problem.log.sample, memory=Memory())


@remembered
def _steps(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> Steps:
    return plan_steps(log.data, on_end, time_limit, seed, log.episodes, as_logged=log.sample is not log)


@remembered
def _check_policy(log: Log, policy: TargetPolicy) -> None:
    """Refuse a policy that is no function of one observation; asked on rows in memory."""
    check_function(policy, (log.sample if log.streamed else log).data.observations)


@remembered
def _target_log_prob(log: Log, policy: TargetPolicy) -> Floats:
    return policy.log_likelihood(log.data.observations, log.data.actions)
