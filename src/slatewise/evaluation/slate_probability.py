"""How likely a strategy was to make a whole slate, exactly, where that can be worked out.

A strategy without chance makes one slate. An ε-mix around one makes others, each with a
probability that a recursion over its positions finds. For strategies that draw from a posterior
there is no such formula: positions of one slate are not independent (an item stands in one of them
only, and all share the draw of the user), so the product over positions of each item's probability
is an approximation. The share of repeated draws that give just this slate is an unbiased estimate,
good enough for the target of an evaluation, but not for the log, by which is divided.
"""

from collections.abc import Sequence

import numpy as np

from slatewise.evaluation.rows import Floats


def epsilon_mix_probability(
    slate: Sequence[int], own: Sequence[int], offered: int, epsilon: float
) -> float:
    """Return P(slate) of the ε-mix (`EpsilonMix`) around a strategy without chance.

    `own` are the k items of that strategy, of `offered` that may be shown; no group has a cap.
    For each position a coin takes the next item of chance (uniform, none twice) or the next of its
    own; what is in the slate already is passed over, and its own items fill what is left at the
    end. After some coins, n own items and r of chance were taken, e of them are in the slate; all
    items of chance so far are among those e, so that the next one is passed over with probability
    (e − r) / (offered − r), and is the wanted one with 1 / (offered − r).
    """
    k = len(slate)
    reached = np.zeros((k + 2, k + 1))  # [n, e] after n coins
    reached[0, 0] = 1.0
    for coins in range(k):
        reached = _toss(reached, coins, slate, own, offered, epsilon)
    return float(
        sum(
            reached[n, e]
            for n in range(k + 1)
            for e in range(k + 1)
            if reached[n, e] and _filled(slate[:e], own, k) == list(slate)
        )
    )


def _toss(
    reached: Floats,
    coins: int,
    slate: Sequence[int],
    own: Sequence[int],
    offered: int,
    epsilon: float,
) -> Floats:
    """Add one coin: [n, e] -> [n, e]."""
    after = np.zeros_like(reached)
    for n, e in zip(*np.nonzero(reached), strict=True):
        chance, taken = reached[n, e], coins - n
        by_chance = chance * epsilon / (offered - taken)
        after[n, e] += by_chance * (e - taken)
        by_own = chance * (1 - epsilon)
        if own[n] in slate[:e]:
            after[n + 1, e] += by_own
        elif e < len(slate) and own[n] == slate[e]:
            after[n + 1, e + 1] += by_own
        if e < len(slate):
            after[n, e + 1] += by_chance
    return after


def _filled(begun: Sequence[int], own: Sequence[int], k: int) -> list[int]:
    """Fill the positions that are left with own items, best first."""
    left = [item for item in own if item not in begun]
    return [*begun, *left][:k]
