"""Customers with 3 to 24 contacts, settled in advance: ends depend on the step number, not on the state."""

import numpy as np
import pytest

import ope_vpm as ov

GAMMA, KEEPS, PUSH = 0.9, 0.8, 0.3
"""An interest x becomes 0.8·x + 0.3·(2a - 1) + noise, a contact pays 1 + x, and x is 0 on average at first."""
LENGTHS = np.arange(3, 25)


def customers(number, seed):
    """Offers by a coin."""
    rng = np.random.default_rng(seed)
    lengths, interest, rows = rng.choice(LENGTHS, number), rng.standard_normal(number), []
    for step in range(LENGTHS[-1]):
        offer = rng.integers(2, size=number)
        after = KEEPS * interest + PUSH * (2 * offer - 1) + 0.5 * rng.standard_normal(number)
        paid = 1 + interest + 0.5 * rng.standard_normal(number)
        rows.append([np.arange(number), interest, offer, paid, after, lengths == step + 1, lengths > step])
        interest = after
    columns = [np.concatenate([row[k] for row in rows]) for k in range(7)]
    order = np.argsort(columns[0], kind="stable")
    who, seen, offer, paid, after, ended, alive = (column[order] for column in columns)
    columns = (column[alive] for column in (seen, offer, paid, after, ended, who))
    seen, offer, paid, after, ended, who = columns
    return ov.LoggedDataset.from_arrays(
        seen[:, None], offer, paid, after[:, None], terminated=ended, episode=np.unique(who, return_inverse=True)[1]
    )


def exact(share):
    """(1 - γ)Σ γ^t P(T > t)(1 + E[x_t]) where a share of the contacts has the offer."""
    time = np.arange(LENGTHS[-1])
    lasting = (time[:, None] < LENGTHS).mean(axis=1)
    return (1 - GAMMA) * float(GAMMA**time * lasting @ (1 + PUSH * (2 * share - 1) * (1 - KEEPS**time) / (1 - KEEPS)))


def offering(share):
    return ov.as_policy(lambda seen: np.tile([1 - share, share], (len(seen), 1)), n_actions=2)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_answers_hold_because_the_step_number_is_found(share):
    """The log's own policy and one that offers more; by states alone either is too low by many errors."""
    found = [ov.evaluate(customers(300, seed), offering(share), gamma=GAMMA) for seed in range(4)]
    assert all("step_number" in value.diagnostics for value in found)
    assert sum(value.interval[0] <= exact(share) <= value.interval[1] for value in found) >= 3


def test_without_it_nobody_is_called_reliable():
    """The logged mean tells what the log's own policy is worth, and that states alone do not find it again."""
    value = ov.evaluate(customers(300, 0), offering(0.8), gamma=GAMMA, ignore=["step-number"])
    assert value.verdict != "reliable"
    assert "not found again" in " ".join(value.reasons)
    assert abs(value.value - exact(0.8)) > 0.01 * exact(0.8)
