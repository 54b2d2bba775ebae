"""Dictionaries, images and several actions at once: what stable-baselines3 does, on rows as a log holds them."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO, SAC

import ope_vpm as ov
from ope_vpm.joint_actions import combination_numbers, combinations
from ope_vpm.plugins import log_to_dataset
from ope_vpm.policy.sb3_settings import UnknownPart, _dict

RNG = np.random.default_rng(0)
MIXED = spaces.Dict(
    {"b": spaces.Box(0, 255, (36, 36, 1), np.uint8), "a": spaces.Box(-1, 1, (2,)), "c": spaces.Discrete(3)}
)


class Toy(gym.Env):
    """Random observations for ten steps; the reward is the sum of the action's coordinates."""

    def __init__(self, observed, acted):
        self.observation_space, self.action_space = observed, acted

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.count += 1
        return self.observation_space.sample(), float(np.sum(action)), self.count == 10, False, {}


def model_of(observed, acted, policy="MlpPolicy"):
    return PPO(policy, Toy(observed, acted), n_steps=8, batch_size=8, seed=0, device="cpu")


def test_combinations_by_hand():
    """Of {0, 1} × {0, 1, 2}, (1, 2) is number 1·3 + 2."""
    space = spaces.MultiDiscrete([2, 3])
    assert combination_numbers(np.array([[0, 0], [0, 2], [1, 2]]), space).tolist() == [0, 2, 5]
    assert combinations(np.array([5, 1]), space).tolist() == [[1, 2], [0, 1]]
    assert combinations(np.array([5]), spaces.MultiBinary(3)).tolist() == [[1, 0, 1]]
    with pytest.raises(ValueError, match="row 1 does not"):
        combination_numbers(np.array([[0, 0], [0, 3]]), space)
    with pytest.raises(ValueError, match="1048576 combinations of actions: at most 4096"):
        combination_numbers(np.zeros((1, 20), int), spaces.MultiBinary(20))


def test_logged_combinations_are_numbered():
    data = ov.LoggedDataset.from_arrays(
        np.zeros((3, 2)), np.array([[0, 1], [1, 2], [1, 0]]), np.zeros(3), action_space=spaces.MultiDiscrete([2, 3])
    )
    assert data.actions.tolist() == [1, 5, 3]
    assert data.n_actions == 6


@pytest.mark.parametrize("acted", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)])
def test_several_actions_at_once(acted, tmp_path):
    model = model_of(spaces.Box(-1, 1, (4,)), acted)
    model.save(tmp_path / "model.zip")
    seen = RNG.normal(size=(40, 4)).astype(np.float32)
    number = 6 if isinstance(acted, spaces.MultiDiscrete) else 8
    every = combinations(np.arange(number), acted)
    with torch.no_grad():
        chances = [
            model.policy.evaluate_actions(torch.as_tensor(seen), torch.as_tensor(np.tile(action, (40, 1))).float())[
                1
            ].exp()
            for action in every
        ]
    expected = np.stack([chance.numpy() for chance in chances], axis=1)
    for policy in (ov.as_policy(model), ov.load_policy(tmp_path / "model.zip")):
        np.testing.assert_allclose(policy.probabilities(seen), expected, atol=1e-6)
    greedy = ov.as_policy(model, deterministic=True).sample(seen, RNG)
    np.testing.assert_array_equal(combinations(greedy, acted), model.predict(seen, deterministic=True)[0])
    data = log_to_dataset(model, Toy(spaces.Box(-1, 1, (4,)), acted), 3)
    assert data.n_actions == number
    np.testing.assert_array_equal(data.rewards, combinations(data.actions, acted).sum(axis=1))
    assert np.isfinite(ov.evaluate(data, model, "vpm", gamma=0.9, n_features=20).value)


def test_dictionaries_are_laid_side_by_side_by_their_sorted_names(tmp_path):
    model = model_of(MIXED, spaces.Discrete(2), "MultiInputPolicy")
    data = log_to_dataset(model, Toy(MIXED, spaces.Discrete(2)), 2)
    assert data.observations.shape == (20, 2 + 36 * 36 + 1)
    rows = data.observations[:5]
    parts = {"a": rows[:, :2], "b": rows[:, 2:-1].reshape(5, 1, 36, 36).astype(np.uint8), "c": rows[:, -1].astype(int)}
    with torch.no_grad():
        tensors = model.policy.obs_to_tensor(parts)[0]
        expected = model.policy.get_distribution(tensors).distribution.probs.numpy()
    np.testing.assert_allclose(ov.as_policy(model).probabilities(rows), expected, atol=1e-6)
    model.save(tmp_path / "model.zip")
    with pytest.raises(PermissionError, match="its observations have the part 'b', which is no vector"):
        ov.load_policy(tmp_path / "model.zip")
    trusted = ov.load_policy(tmp_path / "model.zip", trust=True)
    np.testing.assert_allclose(trusted.probabilities(rows), expected, atol=1e-6)


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_files_with_dictionaries_of_vectors_are_read_without_trust(algorithm, tmp_path):
    space = spaces.Dict({"pos": spaces.Box(-1, 1, (2,)), "goal": spaces.Box(-1, 1, (3,)), "mode": spaces.Discrete(4)})
    model = algorithm("MultiInputPolicy", Toy(space, spaces.Box(-2, 2, (1,))), device="cpu", seed=0)
    model.save(tmp_path / "model.zip")
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(-1, 1, (20, 3)), rng.integers(0, 4, 20), rng.uniform(-1, 1, (20, 2))])
    mine, theirs = (
        made.log_likelihood(rows, np.zeros((20, 1)))
        for made in (ov.load_policy(tmp_path / "model.zip"), ov.as_policy(model))
    )
    np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_older_files_print_dictionaries_otherwise():
    found = _dict("OrderedDict([('goal', Box([-10. -10.], [10. 10.], (2,), float32)), ('a', Discrete(3))])")
    assert list(found.spaces) == ["goal", "a"]
    assert (found["goal"].shape, found["a"].n) == ((2,), 3)
    for other in ("{'a': Text(3)}", "{}", "{'a': Box(0, 255, (3, 8, 8), uint8)}", "{'a': Dict('b': Discrete(2))}"):
        with pytest.raises(UnknownPart):
            _dict(other)


def test_images_are_logged_with_channels_first_as_the_model_takes_them():
    pictures = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    model = model_of(pictures, spaces.Discrete(2), "CnnPolicy")
    data = log_to_dataset(model, Toy(pictures, spaces.Discrete(2)), 1, seed=3)
    shown = data.observations.reshape(-1, 3, 36, 40).astype(np.uint8)
    with torch.no_grad():
        expected = model.policy.get_distribution(model.policy.obs_to_tensor(shown)[0]).distribution.probs.numpy()
    chosen = np.log(expected[np.arange(10), data.actions])
    np.testing.assert_allclose(data.behaviour_log_prob, chosen, atol=1e-5)
    assert data.observation_space.shape == (3 * 36 * 40,)
    with pytest.raises(ValueError, match=r"the model takes .* the environment shows"):
        log_to_dataset(model, Toy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2)), 1)


def test_tuples_of_d3rlpy_are_refused():
    import d3rlpy

    from ope_vpm.policy.d3rlpy import from_d3rlpy

    algo = d3rlpy.algos.DQNConfig().create()
    algo._impl = object()
    algo.__class__ = type("Tupled", (type(algo),), {"observation_shape": property(lambda self: ((2,), (3,)))})
    with pytest.raises(TypeError, match=r"must be single arrays: got a tuple of shapes \(\(2,\), \(3,\)\)"):
        from_d3rlpy(algo)
