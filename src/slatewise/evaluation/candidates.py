"""Choose by held-out clicks how many top items are re-ranked by terms that see slates.

Such terms learn from slates that were shown, and know little of items not seen yet. A
dataset also holds items that came later: among many candidates, a network brings these up.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.evaluation.evaluate import batches, scored_users
from slatewise.evaluation.model import ModelRecommender
from slatewise.evaluation.parts import scored_interactions
from slatewise.model.fitted import SlateModel

CLICKS: Final = 500
"""Held-out clicks that are looked at, about."""
_USERS: Final = 32


def settle_candidates(
    model: SlateModel, dataset: SlateDataset, *, k: int = 20, clicks: int = CLICKS, seed: int = 0
) -> dict[int, float]:
    """Set how many of the best items terms rank again: as many as cost no held-out click.

    Tries the number that the model has, then halves it as long as the recall of the next click in
    slates of k is below that of the first stage alone, by more than a standard error of their
    difference; with fewer than k, the first stage is left alone. Returns the recalls by number.
    """
    count = max((term.candidates for term in model.terms.by_name.values()), default=0)
    if not count or not (dataset.valid_end > dataset.train_end).any():
        return {}
    held_out = _held_out(dataset, clicks, seed)
    alone = _found(_with_candidates(model, 0), dataset, held_out, k)
    recalls = {0: float(alone.mean())} if len(alone) else {}
    while len(alone) and count:
        found = _found(_with_candidates(model, count), dataset, held_out, k)
        recalls[count] = float(found.mean())
        lost = alone - found
        if lost.mean() <= lost.std() / np.sqrt(len(lost)):
            break
        count = count // 2 if count // 2 >= k else 0
    model.terms = _with_candidates(model, count, recalls).terms
    return recalls


def _with_candidates(
    model: SlateModel, count: int, recalls: dict[int, float] | None = None
) -> SlateModel:
    terms = {
        name: term.with_candidates(min(count, term.candidates), recalls or {})
        if term.candidates
        else term
        for name, term in model.terms.by_name.items()
    }
    return replace(model, terms=replace(model.terms, by_name=terms))


def _held_out(dataset: SlateDataset, clicks: int, seed: int) -> list[Interactions]:
    """Return what users did up to the end of the validation part, drawn until clicks suffice."""
    users = np.random.default_rng([seed, 8]).permutation(scored_users(dataset, "validation"))
    parts, have = [], 0
    for _, batch in batches(dataset, users, "validation", _USERS):
        parts.append(batch)
        have += int((batch.clicks[scored_interactions(batch, "validation")] >= 0).sum())
        if have >= clicks:
            break
    return parts


def _found(
    model: SlateModel, dataset: SlateDataset, held_out: list[Interactions], k: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return whether each held-out click [M] is in the slate of k: 0 or 1."""
    judged = ModelRecommender(model, log=dataset).for_slates_of(min(k, dataset.num_items))
    ranks = [
        judged.target_ranks(batch, scored_interactions(batch, "validation")).numpy()
        for batch in held_out
    ]
    return (np.concatenate(ranks) <= k).astype(np.float64)
