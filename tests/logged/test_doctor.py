"""The doctor: each finding on data broken on purpose, and no finding on clean data."""

import json
from dataclasses import replace

import d3rlpy
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ope_vpm import LoggedDataset, inspect, load_dataset
from ope_vpm.logged.page import write_page


def codes(data):
    return [finding.code for finding in inspect(data).findings]


def only(data, code):
    """The one finding, which must be of this code; every task shifted or cut in a test depends on the step number."""
    findings = inspect(data, ignore=["step-number"]).findings
    assert [finding.code for finding in findings] == [code]
    return findings[0]


def changed(data, **columns):
    """A copy with some columns replaced, built anew so that episodes follow the flags."""
    names = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "next_known")
    given = {name: np.array(getattr(data, name)) for name in names} | columns
    return LoggedDataset.from_arrays(**given, observation_space=data.observation_space, action_space=data.action_space)


def swing_up(seen):
    """Push a pendulum in the direction of its motion: a policy with feedback."""
    return np.array([2.0 * np.sign(seen[2])], np.float32)


def lean(seen):
    return int(seen[2] + 0.5 * seen[3] > 0)


CLEAN = {
    "cartpole": ("CartPole-v1", 2000, {}),
    "cartpole with feedback": ("CartPole-v1", 2000, {"act": lean, "max_episode_steps": 100}),
    "cartpole cut short": ("CartPole-v1", 1000, {"max_episode_steps": 15}),
    "mountain car": ("MountainCar-v0", 1000, {}),
    "continuous mountain car": ("MountainCarContinuous-v0", 2500, {}),
    "pendulum": ("Pendulum-v1", 1000, {}),
    "pendulum with feedback": ("Pendulum-v1", 1000, {"act": swing_up}),
    "acrobot": ("Acrobot-v1", 1500, {}),
    "frozen lake": ("FrozenLake-v1", 2000, {}),
    "taxi": ("Taxi-v3", 1000, {}),
    "cliff": ("CliffWalking-v0", 500, {"max_episode_steps": 100}),
    "blackjack": ("Blackjack-v1", 500, {}),
}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_finding_on_clean_data(name, seed, rollout_any):
    env_id, steps, options = CLEAN[name]
    assert inspect(rollout_any(env_id, steps, seed=seed, **options)).findings == ()


@pytest.fixture
def rollout_any(rollout, record):
    """`rollout`, and tuple observations (Blackjack's) as well."""

    def collect(env_id, steps, **options):
        if env_id != "Blackjack-v1":
            return rollout(env_id, steps, **options)
        env = record(gym.make(env_id))
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(steps):
            if any(env.step(env.action_space.sample())[2:4]):
                env.reset()
        return LoggedDataset.from_arrays(*env.columns())

    return collect


@pytest.fixture
def pendulum(rollout):
    return rollout("Pendulum-v1", 2000)


def test_not_finite(pendulum):
    rewards = pendulum.rewards.copy()
    rewards[[7, 70]] = np.nan, np.inf
    finding = only(changed(pendulum, rewards=rewards), "not-finite")
    assert finding.level == "error"
    assert finding.rows == (7, 70)
    states = pendulum.observations.copy()
    states[5, 1] = np.nan
    assert "not-finite" in codes(changed(pendulum, observations=states))


def test_numbers_whose_powers_are_infinite(pendulum):
    rewards = np.array(pendulum.rewards, dtype=np.float64)
    rewards[7], rewards[70] = 1e70, -1e80
    found = {finding.code: finding for finding in inspect(changed(pendulum, rewards=rewards)).findings}
    assert found["not-finite"].rows == (70,)
    for name in ("observations", "actions"):
        column = np.array(getattr(pendulum, name), dtype=np.float64)
        column[5, 0] = 1e200
        assert "not-finite" in codes(changed(pendulum, **{name: column}))


def drifted(data):
    """T + 1 observations an episode laid against T actions, as d3rlpy's reader of Minari does."""
    states = []
    for number in range(data.n_episodes):
        part = data.select(number)
        states += [part.observations, part.next_observations[-1:]]
    return d3rlpy.dataset.MDPDataset(
        np.concatenate(states)[: len(data)],
        data.actions,
        data.rewards,
        data.terminated.astype(float),
        data.truncated.astype(float),
        action_size=data.n_actions,
    )


def test_one_row_off_by_drift(pendulum, rollout):
    for data in (
        pendulum,
        rollout("CartPole-v1", 1500),
        rollout("MountainCarContinuous-v0", 5000),
        rollout("Acrobot-v1", 2500),
    ):
        finding = only(load_dataset(drifted(data)), "one-row-off")
        assert finding.level == "error"
        assert "T + 1 observations" in finding.message
        assert finding.rows[0] == data.starts[1]


@pytest.mark.parametrize(
    ("env_id", "act"), [("Pendulum-v1", None), ("CartPole-v1", lean), ("CartPole-v1", None), ("Acrobot-v1", None)]
)
def test_one_row_off_by_shift(rollout, env_id, act):
    data = rollout(env_id, 2000, act=act)
    late = changed(data, observations=np.array(data.next_observations), next_observations=None, next_known=None)
    finding = only(late, "one-row-off")
    assert finding.level == "error"
    assert "the one after its action" in finding.message


def test_zero_next_states(pendulum, cartpole):
    following = cartpole.next_observations.copy()
    following[cartpole.ends] = 0
    broken = changed(cartpole.select(slice(0, -1)), next_observations=following[: cartpole.starts[-1]])
    finding = only(broken, "zero-next-states")
    assert finding.level == "warning"  # after a termination nobody looks at it
    assert finding.rows == tuple(broken.ends[:10])
    following = pendulum.next_observations.copy()
    following[pendulum.ends] = 0
    assert only(changed(pendulum, next_observations=following), "zero-next-states").level == "error"


def test_broken_chain(pendulum, cartpole):
    following = pendulum.next_observations.copy()
    following[[3, 30]] += 0.01
    finding = only(changed(pendulum, next_observations=following), "broken-chain")
    assert finding.level == "error"
    assert finding.rows == (3, 30)
    # Ends that were not marked show up as breaks.
    unmarked = changed(cartpole, terminated=np.zeros(400, bool))
    assert inspect(unmarked).findings[0].rows == tuple(cartpole.ends[:10])
    order = np.random.default_rng(0).permutation(len(pendulum))
    shuffled = LoggedDataset.from_arrays(
        pendulum.observations[order],
        pendulum.actions[order],
        pendulum.rewards[order],
        pendulum.next_observations[order],
    )
    assert only(shuffled, "broken-chain").count > 1900


def test_actions_outside(pendulum, cartpole):
    actions = pendulum.actions.copy()
    actions[4] = 2.5
    finding = only(changed(pendulum, actions=actions), "actions-outside")
    assert finding.level == "warning"
    assert finding.rows == (4,)
    actions = cartpole.actions.copy()
    actions[9] = 2
    finding = only(changed(cartpole, actions=actions), "actions-outside")
    assert finding.level == "error"
    assert finding.rows == (9,)


def test_actions_scaled(pendulum):
    finding = only(changed(pendulum, actions=pendulum.actions / 2), "actions-scaled")
    assert finding.level == "error"
    assert "unscale" in finding.message


def test_flags_confused(pendulum, rollout):
    limits = pendulum.truncated
    finding = only(changed(pendulum, terminated=limits, truncated=~limits & False), "flags-confused")
    assert finding.level == "warning"
    assert finding.rows == tuple(pendulum.ends[:10])
    mixed = rollout("CartPole-v1", 3000, max_episode_steps=22)
    assert mixed.terminated.any()
    ends = mixed.terminated | mixed.truncated
    assert only(changed(mixed, terminated=ends, truncated=~ends & False), "flags-confused").count >= 3
    cartpole = rollout("CartPole-v1", 1000)
    cut = changed(cartpole, terminated=np.zeros(1000, bool), truncated=cartpole.terminated)
    assert "none terminated" in only(cut, "flags-confused").message


def test_constant_columns(pendulum):
    states = np.hstack([pendulum.observations, np.full((2000, 1), 3.0, np.float32)])
    following = np.hstack([pendulum.next_observations, np.full((2000, 1), 3.0, np.float32)])
    broken = LoggedDataset.from_arrays(
        states, pendulum.actions, pendulum.rewards, following, truncated=pendulum.truncated
    )
    finding = only(broken, "constant-columns")
    assert finding.message == "columns that never change: observation 3"
    stuck = changed(pendulum, actions=np.full((2000, 1), 0.5))
    assert only(stuck, "constant-columns").message == "columns that never change: action 0"
    # a constant observation does no harm; of other actions than the logged one nothing is known
    assert (finding.level, only(stuck, "constant-columns").level) == ("note", "warning")


def test_duplicated_episodes(pendulum):
    finding = only(pendulum.select([0, 1, 2, 1, 3, 0]), "duplicated-episodes")
    assert finding.rows == (600, 1000)
    assert finding.level == "note"


def test_rewards_out_of_line(pendulum, cartpole):
    rewards = pendulum.rewards.copy()
    rewards[11] = -999999
    assert only(changed(pendulum, rewards=rewards), "rewards-out-of-line").rows == (11,)
    rewards = cartpole.rewards.copy()  # all of them 1
    rewards[12] = 1e6
    assert only(changed(cartpole, rewards=rewards), "rewards-out-of-line").rows == (12,)


def test_errors_stop_and_can_be_ignored(pendulum):
    scaled = changed(pendulum, actions=pendulum.actions / 2)
    report = inspect(scaled)
    assert [finding.code for finding in report.errors] == ["actions-scaled"]
    assert report.warnings == ()
    with pytest.raises(ValueError, match=r"the data look wrong: actions fill \[-1, 1\]"):
        report.raise_for_errors()
    ignored = inspect(scaled, ignore=["actions-scaled"])
    assert ignored.findings == ()
    ignored.raise_for_errors()
    with pytest.raises(ValueError, match="ignore must name findings out of not-finite"):
        inspect(scaled, ignore=["typo"])
    with pytest.raises(TypeError, match=r"ignore must be a list of findings: .*write ignore=\['actions-scaled'\]"):
        inspect(scaled, ignore="actions-scaled")


def test_a_refusal_names_the_rows(pendulum):
    rewards = pendulum.rewards.copy()
    rewards[[7, 11, 400]] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*\(rows from 7 on, 3 in all; see ov\.inspect or ope-vpm inspect\)"):
        inspect(changed(pendulum, rewards=rewards)).raise_for_errors()


def test_report_as_text_and_json(pendulum):
    report = inspect(replace(pendulum, action_space=spaces.Box(-1, 1, (1,))))
    text = str(report)
    assert "2000 steps in 10 episodes" in text
    assert "warning actions-outside" in text
    parsed = json.loads(json.dumps(report.as_dict()))
    assert parsed["findings"][0]["code"] == "actions-outside"
    assert parsed["description"]["episodes"] == 10


def test_page_is_one_file_that_escapes_what_it_shows(pendulum, tmp_path):
    write_page(pendulum, inspect(pendulum), tmp_path / "page.html", title="<script>alert(1)</script>")
    text = (tmp_path / "page.html").read_text()
    assert "<script>" not in text
    assert "data:image/png;base64," in text
    assert "Nothing looks wrong." in text
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_episodes_of_one_step_are_well():
    """A bandit's log: no row follows another."""
    ones = np.ones(4, dtype=bool)
    for states in (np.zeros(4, dtype=int), np.arange(8.0).reshape(4, 2)):
        data = LoggedDataset.from_arrays(states, [0, 1, 0, 1], np.arange(4.0), states, truncated=ones)
        assert not inspect(data).errors
