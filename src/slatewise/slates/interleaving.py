"""Interleaving of many rankings into one slate (third step of in-slate Thompson sampling)."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from slatewise.slates.users import Ints


def interleave(rankings: Ints, k: int) -> Ints:
    """Take the first of each ranking, then the second of each, and so on: [B, J, L] -> [B, k].

    Duplicates are left out. −1 is no item, and fills positions for which none is left.
    """
    slates = np.full((len(rankings), k), -1, dtype=np.int64)
    for slate, ranking in zip(slates, rankings, strict=True):
        # A dictionary keeps the order, in half of the time that sorting would take.
        offered = dict.fromkeys(ranking.T.ravel().tolist())
        offered.pop(-1, None)
        taken = list(islice(offered, k))
        slate[: len(taken)] = taken
    return slates


def interleave_capped(rankings: Ints, k: int, groups: Ints, caps: Ints) -> Ints:
    """Do the same for one user, [J, L] -> [k], with at most `caps` [G] of each group (−1: any).

    `groups` [J, L] are those of the items. Rankings that each keep the caps and have k items leave
    no position empty: what is taken then can always be completed from any one of them.
    """
    left = caps.copy()
    slate: dict[int, None] = {}
    for item, group in _by_rank(rankings, groups):
        if len(slate) == k:
            break
        if item < 0 or item in slate or left[group] == 0:
            continue
        left[group] -= 1
        slate[item] = None
    return np.array([*slate, *[-1] * (k - len(slate))], dtype=np.int64)


def _by_rank(rankings: Ints, groups: Ints) -> Iterable[tuple[int, int]]:
    return zip(rankings.T.ravel().tolist(), groups.T.ravel().tolist(), strict=True)
