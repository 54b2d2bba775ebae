"""The estimators of the `obp` package (Open Bandit Pipeline), called as its own quickstart calls them."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.formats.csv import read_columns
from ope_vpm.optional import library

POSITIONS = 3
"""Items are shown in three places side by side."""
DRAWS, SEED = 100_000, 12345
"""The draws from the Thompson policy and the seed, both as in obp's quickstart."""
FOLDS = 3
"""Folds of the cross-fitted regression, as there."""
BOOTSTRAPS = 1000
"""Bootstrap draws of each interval: its ends then vary by a few per cent of its width; obp's 10 000 take ten times as
long."""
NAMES = {
    "obp IPW": "InverseProbabilityWeighting",
    "obp SNIPW": "SelfNormalizedInverseProbabilityWeighting",
    "obp DM": "DirectMethod",
    "obp DR": "DoublyRobust",
}
"""Its classes by the names in our tables."""
REGRESSION = ("obp DM", "obp DR")
"""Those that need the regression."""


@dataclass(frozen=True)
class Feedback:
    """A log in the form that obp takes."""

    context: Floats
    """(n, d): the user's categories as columns of 0 and 1."""
    position: Integers
    """(n,): 0, 1, 2."""
    action: Integers
    """(n,): the item that was shown."""
    reward: Floats
    """(n,): whether it was clicked."""
    pscore: Floats
    """(n,): the logged probability of the item."""


def folder(policy: str, campaign: str) -> Path:
    """The log of "random" or "bts" (Thompson sampling) in the installed package, which is not imported."""
    found = find_spec("obp")
    if found is None or found.origin is None:
        raise ImportError("Open Bandit's data come with obp: pip install 'ope-vpm[bandits]'")
    return Path(found.origin).parent / "dataset" / "obd" / policy / campaign


@cache
def thompson_at_start(campaign: str, items: int) -> Floats:
    """The Thompson policy's distribution over items at each position when logging began; (positions, items)."""
    kind = library("obp.policy", "bandits").BernoulliTS
    policy = kind(items, len_list=POSITIONS, is_zozotown_prior=True, campaign=campaign, random_state=SEED)
    return policy.compute_batch_action_dist(n_rounds=1, n_sim=DRAWS)[0].T


def estimates(feedback: Feedback, target: Floats, items: Floats) -> dict[str, tuple[float, tuple[float, float]]]:
    """The value and the 95 % interval of each estimator; without those whose regression could not be fitted.

    Args:
        feedback: the log.
        target: (positions, items): the probability of each item.
        items: (items, k): features of the items.
    """
    ope = library("obp.ope", "bandits")
    probabilities = np.broadcast_to(target.T, (len(feedback.action), *target.T.shape))
    predicted = predicted_rewards(feedback, items) if every_fold_has_clicks(feedback) else None
    given: dict[str, Any] = {
        "reward": feedback.reward,
        "action": feedback.action,
        "pscore": feedback.pscore,
        "position": feedback.position,
        "action_dist": probabilities,
        "estimated_rewards_by_reg_model": predicted,
    }
    found = {}
    for name, kind in NAMES.items():
        if predicted is None and name in REGRESSION:
            continue
        estimator = getattr(ope, kind)()
        ends = estimator.estimate_interval(**given, n_bootstrap_samples=BOOTSTRAPS, random_state=SEED)
        interval = float(ends["95.0% CI (lower)"]), float(ends["95.0% CI (upper)"])
        found[name] = (float(estimator.estimate_policy_value(**given)), interval)
    return found


def every_fold_has_clicks(feedback: Feedback) -> bool:
    """Whether a click is left at every position when a fold is taken out: a classifier cannot learn from one class."""
    split = library("sklearn.model_selection", "bandits").KFold(FOLDS, shuffle=True, random_state=SEED)
    clicked = feedback.reward > 0
    kept = (set(feedback.position[rows][clicked[rows]].tolist()) for rows, _ in split.split(feedback.context))
    return all(len(positions) == POSITIONS for positions in kept)


def predicted_rewards(feedback: Feedback, items: Floats) -> Floats:
    """What obp's cross-fitted logistic regression predicts for each row, item and position."""
    model = library("obp.ope", "bandits").RegressionModel(
        n_actions=len(items),
        len_list=POSITIONS,
        action_context=items,
        base_model=library("sklearn.linear_model", "bandits").LogisticRegression(max_iter=1000, random_state=SEED),
    )
    predicted: Floats = model.fit_predict(
        context=feedback.context,
        action=feedback.action,
        reward=feedback.reward.astype(np.int64),
        pscore=feedback.pscore,
        position=feedback.position,
        n_folds=FOLDS,
        random_state=SEED,
    )
    return predicted


def one_hot(categories: npt.NDArray[np.int64]) -> Floats:
    """Columns of 0 and 1 for every category but the first of each column, as obp prepares users."""
    columns = [column[:, None] == np.unique(column)[1:] for column in categories.T]
    return np.hstack(columns).astype(np.float64)


def item_features(path: Path) -> Floats:
    """The items' features as obp prepares them: categories numbered, then the one number."""
    table: dict[str, Array] = read_columns(path / "item_context.csv")
    labels = [table[f"item_feature_{index}"] for index in (1, 2, 3)]
    numbered = [np.unique(label, return_inverse=True)[1] for label in labels]
    return np.stack([*numbered, table["item_feature_0"]], axis=1).astype(np.float64)
