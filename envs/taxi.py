"""The Taxi task of Liu et al. (2018): 2000 states, 6 actions, no end, with exact distributions and values.

A taxi on a 5×5 grid carries passengers between the corners (0,0), (0,4), (4,0), (4,4). The state's number is
s = taxi + 5·(passengers + 16·(5x + y)): passengers is a bit mask of the corners where somebody waits, taxi is 4 when
empty and else the corner to drive to. Actions 0…5: x+1, y+1, x-1, y-1 (walls stop), pick up, drop off. Each step
gives -1, a drop-off at the right corner +20. It is not gymnasium's Taxi-v3, which has 500 states and ends.
"""

from functools import cache
from importlib.resources import as_file, files
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from scipy import sparse

from ope_vpm.arrays import Floats, Integers
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, load_policy, table_of

# All constants are those of Liu et al. (2018); the paper uses their task as it is.
SIDE, CORNERS, MASKS, EMPTY = 5, 4, 16, 4
"""The side of the grid, the number of corners, the number of masks, and the value of `taxi` without a passenger."""
STATES, ACTIONS = SIDE * SIDE * MASKS * (CORNERS + 1), 6
"""2000 states and 6 actions."""
CORNER_X, CORNER_Y = np.array([0, 0, 4, 4]), np.array([0, 4, 0, 4])
"""The coordinates of the corners."""
LEAVING = np.array([0.05, 0.1, 0.1, 0.05])
"""The probability that somebody who waits at a corner leaves in a step."""
ARRIVING = np.array([0.3, 0.05, 0.1, 0.2])
"""The probability that somebody arrives at an empty corner in a step."""
PICK_UP, DROP_OFF = 4, 5
"""The numbers of these actions; 0 to 3 are moves."""
STEP_REWARD, DELIVERY_REWARD = -1.0, 20.0
"""The reward of any step, and that of a drop-off at the right corner."""
BITS = 1 << np.arange(CORNERS)
"""The bit of each corner in a mask."""
CHANGE = np.where(np.arange(MASKS)[:, None] & BITS, LEAVING, ARRIVING)
"""The probability that each corner of a mask changes in a step, shape (16, 4)."""


def encode(x: npt.ArrayLike, y: npt.ArrayLike, passengers: npt.ArrayLike, taxi: npt.ArrayLike) -> Integers:
    """Return the number of a state; arrays are broadcast.

    Args:
        x: the taxi's first coordinate, 0 to 4.
        y: its second coordinate.
        passengers: the bit mask of corners where somebody waits.
        taxi: the corner to drive to, or 4 for an empty taxi.
    """
    place = SIDE * np.asarray(x, dtype=np.int64) + np.asarray(y)
    return np.asarray(taxi) + (CORNERS + 1) * (np.asarray(passengers) + MASKS * place)


def decode(state: npt.ArrayLike) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the x, y, passengers and taxi of a state's number: the inverse of `encode`."""
    rest, taxi = np.divmod(np.asarray(state, dtype=np.int64), CORNERS + 1)
    place, passengers = np.divmod(rest, MASKS)
    x, y = np.divmod(place, SIDE)
    return x, y, passengers, taxi


@cache
def outcomes() -> Integers:
    """Return the three equally likely states after each action, before passengers come and go, shape (2000, 6, 3).

    All three are the same except after a successful pick-up, where they are the three possible destinations.
    """
    x, y, passengers, taxi = decode(np.arange(STATES))
    after = np.empty((STATES, ACTIONS, 3), dtype=np.int64)
    for action, (right, up) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        moved = encode((x + right).clip(0, SIDE - 1), (y + up).clip(0, SIDE - 1), passengers, taxi)
        after[:, action] = moved[:, None]
    after[:, DROP_OFF] = encode(x, y, passengers, EMPTY)[:, None]
    after[:, PICK_UP] = np.arange(STATES)[:, None]
    for corner in range(CORNERS):
        met = (x == CORNER_X[corner]) & (y == CORNER_Y[corner]) & (passengers & BITS[corner] > 0)
        others = np.delete(np.arange(CORNERS), corner)
        left = (passengers - BITS[corner])[met, None]
        after[met, PICK_UP] = encode(x[met, None], y[met, None], left, others)
    after.flags.writeable = False
    return after


@cache
def expected_rewards() -> Floats:
    """Return the reward of each state and action, which is deterministic, shape (2000, 6)."""
    x, y, _, taxi = decode(np.arange(STATES))
    reward = np.full((STATES, ACTIONS), STEP_REWARD)
    loaded = taxi != EMPTY
    there = np.where(loaded, taxi, 0)
    reward[loaded & (x == CORNER_X[there]) & (y == CORNER_Y[there]), DROP_OFF] = DELIVERY_REWARD
    reward.flags.writeable = False
    return reward


def passenger_kernel() -> Floats:
    """Return the transition matrix of the mask of waiting passengers, shape (16, 16); corners change independently."""
    masks = np.arange(MASKS)
    changed = ((masks[:, None] ^ masks)[..., None] & BITS) > 0
    return np.where(changed, CHANGE[:, None], 1 - CHANGE[:, None]).prod(axis=2)


@cache
def transition_probabilities() -> Any:
    """Return the exact 𝒯(s'|s, a) as a sparse matrix of shape (12000, 2000), with row 6s + a."""
    before = outcomes().reshape(-1)
    x, y, passengers, taxi = decode(before)
    following = encode(x[:, None], y[:, None], np.arange(MASKS), taxi[:, None])
    probability = passenger_kernel()[passengers] / 3
    row = np.repeat(np.arange(STATES * ACTIONS), 3 * MASKS)
    entries = (probability.ravel(), (row, following.ravel()))
    kernel = sparse.coo_array(entries, shape=(STATES * ACTIONS, STATES)).tocsr()
    kernel.sum_duplicates()
    return kernel


@cache
def initial_distribution() -> Floats:
    """Return the distribution of first states, shape (2000,): uniform over the states with an empty taxi."""
    initial: Floats = (decode(np.arange(STATES))[3] == EMPTY) / (SIDE * SIDE * MASKS)
    initial.flags.writeable = False
    return initial


def as_table(policy: npt.ArrayLike | TablePolicy) -> Floats:
    """Return a policy's checked probabilities, shape (2000, 6), rows summing to 1 within float32 rounding."""
    table = table_of(policy)
    if table.shape != (STATES, ACTIONS):
        raise ValueError(f"a policy for Taxi is a table of shape {(STATES, ACTIONS)}: got {table.shape}")
    return table


def target_kernel(policy_table: npt.ArrayLike | TablePolicy) -> Any:
    """Return the transition matrix of states under a policy, sparse, shape (2000, 2000)."""
    table = as_table(policy_table)
    place = (np.repeat(np.arange(STATES), ACTIONS), np.arange(STATES * ACTIONS))
    choose = sparse.csr_array((table.ravel(), place), shape=(STATES, STATES * ACTIONS))
    kernel = (choose @ transition_probabilities()).tocsr()
    kernel.eliminate_zeros()
    return kernel


def exact_distribution(policy_table: npt.ArrayLike | TablePolicy, gamma: float = 1.0) -> Floats:
    """Return the policy's stationary distribution over states, shape (2000,); at γ < 1 its discounted distribution."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be between 0 and 1: got {gamma}")
    return FiniteChain.plain(target_kernel(policy_table)).distribution(initial_distribution(), gamma)


def exact_value(policy_table: npt.ArrayLike | TablePolicy, gamma: float = 1.0) -> float:
    """Return the policy's exact value: the average reward at γ = 1, else (1-γ)·E[Σ γ^t r_t] from the initial states."""
    table = as_table(policy_table)
    return float(exact_distribution(table, gamma) @ (table * expected_rewards()).sum(axis=1))


def mixed(first: npt.ArrayLike | TablePolicy, second: npt.ArrayLike | TablePolicy, alpha: float) -> TablePolicy:
    """Return the policy α·first + (1-α)·second, a mixture of action probabilities in each state."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be between 0 and 1: got {alpha}")
    return TablePolicy(alpha * as_table(first) + (1 - alpha) * as_table(second))


def shipped(iteration: int = 1000) -> TablePolicy:
    """Load a shipped policy by its Q-learning iteration; `taxi_training` made them."""
    folder = files("ope_vpm.envs") / "policies" / "taxi"
    known = sorted(int(file.name[10:14]) for file in folder.iterdir() if file.name.endswith(".npy"))
    if iteration not in known:
        raise ValueError(f"no policy of iteration {iteration} is shipped: there are {', '.join(map(str, known))}")
    with as_file(folder / f"iteration-{iteration:04d}.npy") as path:
        return cast(TablePolicy, load_policy(path))


def step(states: Integers, actions: Integers, rng: np.random.Generator) -> Integers:
    """Draw the next state of each state and action."""
    draw = rng.random((CORNERS + 1, len(states)))
    after = outcomes()[states, actions, (3 * draw[0]).astype(np.int64)]
    passengers = after // (CORNERS + 1) % MASKS
    changed = (CHANGE[passengers] > draw[1:].T) @ BITS
    return after + (CORNERS + 1) * ((passengers ^ changed) - passengers)


def simulate(policy_table: npt.ArrayLike | TablePolicy, trajectories: int, length: int, seed: int) -> LoggedDataset:
    """Simulate trajectories from the initial distribution, all truncated after `length` steps.

    The state after the last step is known. The log-probabilities of the actions are logged too, for estimators with
    `behaviour="logged"`.

    Args:
        policy_table: the policy that acts.
        trajectories: the number of trajectories.
        length: the number of steps of each.
        seed: of everything random.
    """
    if trajectories < 1 or length < 1:
        raise ValueError(f"trajectories and length must be at least 1: got {trajectories} and {length}")
    table, rng = as_table(policy_table), np.random.default_rng(seed)
    cumulative = table.cumsum(axis=1)[:, :-1]
    states = np.empty((trajectories, length + 1), dtype=np.int64)
    actions = np.empty((trajectories, length), dtype=np.int64)
    states[:, 0] = EMPTY + (CORNERS + 1) * rng.integers(SIDE * SIDE * MASKS, size=trajectories)
    for time in range(length):
        actions[:, time] = (rng.random((trajectories, 1)) >= cumulative[states[:, time]]).sum(axis=1)
        states[:, time + 1] = step(states[:, time], actions[:, time], rng)
    here, taken = states[:, :-1].ravel(), actions.ravel()
    return LoggedDataset.from_arrays(
        here,
        taken,
        expected_rewards()[here, taken],
        states[:, 1:].ravel(),
        truncated=np.tile(np.arange(length) == length - 1, trajectories),
        behaviour_log_prob=np.log(table[here, taken]),
        observation_space=spaces.Discrete(STATES),
        action_space=spaces.Discrete(ACTIONS),
    )


class TaxiEnv(gymnasium.Env[Any, Any]):
    """The task as a gymnasium environment: `gymnasium.make("ope_vpm/Taxi-v0")` after `import ope_vpm.envs`.

    Its episodes never end; wrap it in a time limit.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Discrete(STATES)
        self.action_space = spaces.Discrete(ACTIONS)
        self._state: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Draw a state with an empty taxi, uniformly over places and waiting passengers."""
        super().reset(seed=seed)
        self._state = EMPTY + (CORNERS + 1) * int(self.np_random.integers(SIDE * SIDE * MASKS))
        return self._state, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take one action; the episode is neither terminated nor truncated by it."""
        if self._state is None:
            raise RuntimeError("call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be a whole number from 0 to {ACTIONS - 1}: got {action!r}")
        reward = float(expected_rewards()[self._state, action])
        self._state = int(step(np.array([self._state]), np.array([action]), self.np_random)[0])
        return self._state, reward, False, False, {}
