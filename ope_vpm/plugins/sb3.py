"""stable-baselines3: a callback that evaluates the policy in training on logged data, and logs of a model's episodes.

model.learn(100_000, callback=OPECallback("log.npz", every=10_000))
data = log_to_dataset(model, env, episodes=50, path="log.npz")
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
import numpy as np

from ope_vpm.joint_actions import Joint, combinations
from ope_vpm.logged import Episode, LoggedDataset, load_dataset
from ope_vpm.logged.columns import observation_column
from ope_vpm.logged.formats import check_output, save_as
from ope_vpm.logged.spaces import numbered_space
from ope_vpm.ope.estimator import Estimator
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.questions.gate import Gate
from ope_vpm.optional import library
from ope_vpm.plugins.gymnasium import batched, check_new, row
from ope_vpm.plugins.valuation import CallbackChoices, Choices, Valuation, as_numbers
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.sb3 import from_sb3

BaseCallback: Any = library("stable_baselines3.common.callbacks", "sb3").BaseCallback


class OPECallback(BaseCallback):  # type: ignore[misc]  # the library is imported when this module is
    """A callback for `model.learn`: the estimated value of the policy in training, from logged data.

    It records `ope/value`, `ope/lower`, `ope/upper` and `ope/verdict` (0 reliable, 1 caution, 2 unreliable) to the
    model's logger, and so to TensorBoard where the model has it. What depends on the log alone is made once.

    Args:
        data: the log, or where it is; its observations are raw ones, as before a `VecNormalize`.
        estimator: a name out of `ov.estimators()`, or an instance.
        every: environment steps between two evaluations; there is one more when training ends.
        gamma: the discount; the model's own if not given.
        best_model: where to save the model whenever its lower end is the highest so far and it is not unreliable;
            with a baseline also only where it is better than that.
        deterministic: evaluate the mode of the policy instead of its draws.
        name: what the recorded names begin with.
        verbose: 1 to print each value.
        asked: `seed`, `on_end`, `time_limit`, `ignore` and `behaviour` as in `ov.evaluate`; `baseline`, "logged" or a
            policy that the model has to beat by `min_gain`, records `ope/gain` and `ope/gate` as well, the exit code
            of `ope-vpm gate --anytime` (0 better, 3 worse, 4 not decided); and the estimator's own settings.
    """

    def __init__(
        self,
        data: LoggedDataset | str | Path,
        estimator: str | Estimator = "auto",
        every: int = 10_000,
        *,
        gamma: float | None = None,
        best_model: str | Path | None = None,
        deterministic: bool = False,
        name: str = "ope",
        verbose: int = 0,
        **asked: Unpack[CallbackChoices],
    ) -> None:
        super().__init__(verbose)
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a whole number, at least 1 environment step: got {every!r}")
        self._data, self._every, self._gamma = load_dataset(data), every, gamma
        self._best_model, self._deterministic, self._name = best_model, deterministic, name
        self._choices = Choices.of(estimator, gamma, asked)
        self._valuation: Valuation | None = None
        self._next, self._evaluated = every, (-1, -1)
        self.last: PolicyValue | None = None
        """The latest value, with its reasons and diagnostics."""
        self.gate: Gate | None = None
        """Whether the latest policy beats the baseline, where there is one."""
        self.best_lower = -np.inf
        """The highest lower end of a value that is not unreliable."""

    def _on_training_start(self) -> None:
        gamma = float(self.model.gamma) if self._gamma is None else self._gamma
        if self._valuation is None or self._valuation.choices.gamma != gamma:
            self._valuation = Valuation.of(self._data, replace(self._choices, gamma=gamma))
        self._next = self._following(self.num_timesteps)

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._evaluate()
            self._next = self._following(self.num_timesteps)
        return True

    def _on_training_end(self) -> None:
        if self._evaluated != self._state:  # PPO and A2C learn from the last steps after these have been counted
            self._evaluate()

    @property
    def _state(self) -> tuple[int, int]:
        """How far training is: environment steps, and updates of the model."""
        return self.num_timesteps, getattr(self.model, "_n_updates", 0)

    def _following(self, steps: int) -> int:
        """The first multiple of `every` beyond a number of steps."""
        return (steps // self._every + 1) * self._every

    def _evaluate(self) -> None:
        if self._valuation is None:
            raise RuntimeError("the callback has not seen the start of training: pass it to model.learn")
        policy = from_sb3(self.model, deterministic=self._deterministic)
        self.last, self.gate = value, gate = self._valuation.answered(policy)
        self._evaluated = self._state
        for name, number in as_numbers(value, gate).items():
            self.logger.record(f"{self._name}/{name}", number)
        # As the library's EvalCallback does: the next regular dump may be much later.
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if self.verbose:
            print(f"{self.num_timesteps} steps: {value}")
        usable = value.verdict != "unreliable" and (gate is None or gate.decision == "better")
        if value.interval and usable and value.interval[0] > self.best_lower:
            self.best_lower = value.interval[0]
            if self._best_model is not None:
                self.model.save(self._best_model)


def log_to_dataset(
    model: Any,
    env: Any,
    episodes: int,
    path: str | Path | None = None,
    *,
    deterministic: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> LoggedDataset:
    """Let a model act and log it: raw observations and rewards, actions in the environment's units, probabilities.

    Of several environments side by side each contributes its share of the episodes, so that short episodes are not
    preferred.

    Args:
        model: a stable-baselines3 algorithm.
        env: a gymnasium environment, or a `VecEnv`; a `VecNormalize` around it is used for the policy alone.
        episodes: how many.
        path: where to write them as well, .npz, .parquet or .h5.
        deterministic: take the mode of the policy instead of drawing.
        seed: of the resets and the draws.
        overwrite: replace a log of that name; without it such a name is refused before the first step.
    """
    if not isinstance(episodes, int) or episodes < 1:
        raise ValueError(f"episodes must be a whole number, at least 1: got {episodes!r}")
    if not hasattr(model, "observation_space"):
        raise TypeError(f"model must be an algorithm of stable-baselines3: got {type(model).__name__}")
    if path is not None:
        check_output(str(path))
        check_new(Path(path).expanduser(), overwrite)
    vectors, statistics = _without_normalisation(env)
    vectors = _as_the_model_sees(model, vectors)
    policy = from_sb3(model, deterministic=deterministic, normalize=statistics)
    data = LoggedDataset.from_episodes(
        _played(policy, vectors, episodes, seed),
        observation_space=vectors.observation_space,
        action_space=numbered_space(vectors.action_space),
    )
    if path is not None:
        save_as(data, str(path))
    return data


def _without_normalisation(env: Any) -> tuple[Any, Any]:
    """A `VecEnv` of raw observations, and the `VecNormalize` around it, if there is one."""
    vectors = library("stable_baselines3.common.vec_env", "sb3")
    if isinstance(env, gym.Env):
        env = vectors.DummyVecEnv([lambda: env])
    if not isinstance(env, vectors.VecEnv):
        raise TypeError(f"env must be a gymnasium environment or a VecEnv: got {type(env).__name__}")
    statistics = vectors.unwrap_vec_normalize(env)
    if statistics is not None and statistics is not env:
        raise TypeError("VecNormalize must be the outermost wrapper, so that raw observations can be logged")
    return (env, None) if statistics is None else (statistics.venv, statistics)


def _as_the_model_sees(model: Any, env: Any) -> Any:
    """The environments with images as the model takes them: the library puts channels first."""
    shown = env.observation_space
    parts = shown.spaces.values() if isinstance(shown, gym.spaces.Dict) else [shown]
    if shown != model.observation_space and any(len(part.shape or ()) == 3 for part in parts):
        env = library("stable_baselines3.common.vec_env", "sb3").VecTransposeImage(env)
    if env.observation_space != model.observation_space:
        raise ValueError(f"the model takes {model.observation_space}, the environment shows {env.observation_space}")
    return env


def _played(policy: TargetPolicy, env: Any, episodes: int, seed: int) -> list[Episode]:
    """Episodes by their number, the environments taking turns."""
    rng = np.random.default_rng(seed)
    env.seed(seed)
    seen = env.reset()
    logs = [_Steps(row(seen, place)) for place in range(env.num_envs)]
    done: list[list[Episode]] = [[] for _ in logs]
    shares = [(episodes + place) // len(logs) for place in reversed(range(len(logs)))]
    while any(len(finished) < share for finished, share in zip(done, shares, strict=True)):
        rows = observation_column("observations", seen)
        actions = np.asarray(policy.sample(rows, rng))
        likely = policy.log_likelihood(rows, actions) if policy.has_log_prob else None
        seen, rewards, ended, infos = env.step(_as_taken(actions, env.action_space))
        for place, log in enumerate(logs):
            following = infos[place]["terminal_observation"] if ended[place] else row(seen, place)
            log.add(actions[place], float(rewards[place]), following, None if likely is None else float(likely[place]))
            if ended[place]:
                done[place].append(log.episode(bool(infos[place].get("TimeLimit.truncated", False))))
                logs[place] = _Steps(row(seen, place))
    return [episode for finished, share in zip(done, shares, strict=True) for episode in finished[:share]]


def _as_taken(actions: Any, space: Any) -> Any:
    """Actions as the environments take them; combinations of several are taken apart."""
    if isinstance(space, Joint):
        return combinations(actions, space)
    return actions.reshape(len(actions), *space.shape).astype(space.dtype)


class _Steps:
    """An episode while it is being played."""

    def __init__(self, start: Any) -> None:
        self.observations, self.actions = [start], list[Any]()
        self.rewards, self.likely = list[float](), list[float | None]()

    def add(self, action: Any, reward: float, following: Any, likely: float | None) -> None:
        self.observations.append(following)
        self.actions.append(action)
        self.rewards.append(reward)
        self.likely.append(likely)

    def episode(self, truncated: bool) -> Episode:
        known = None if None in self.likely else np.array(self.likely)
        actions = np.stack(self.actions)
        if actions.dtype.kind == "f":
            actions = actions.reshape(len(actions), -1)
        return Episode(batched(self.observations), actions, self.rewards, not truncated, truncated, known)
