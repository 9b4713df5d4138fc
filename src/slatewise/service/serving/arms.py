"""The arms that run, and in which a user is: by a salted hash, the same on every machine.

Weighted rendezvous hashing: every arm draws −ln(u) / share with a u of its own from the hash of
salt, arm and user, and the smallest wins. That is the race of exponential clocks: an arm wins with
probability proportional to its share. An arm whose share grows only ever wins users and the others
lose them in proportion, so that a change of one share moves no more users than it must.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True)
class Arm:
    """An arm as it runs."""

    name: str
    share: float
    """of the users, from 0 to 1"""
    model: str
    version: str
    strategy: str
    digest: str = ""
    """of the version; none before training"""


def assign(shares: Mapping[str, float], salt: str, user: str) -> str:
    """Return the arm of a user; `shares` need not add up to 1, and one or more is positive.

    If several shares change at once, by a total variation V (half the sum of the differences), at
    most 2 V / (1 + V) of the users move; if one does, exactly V of them, on average.
    """
    running = [(arm, share) for arm, share in shares.items() if share > 0]
    if len(running) == 1:
        return running[0][0]
    return min(running, key=lambda one: (_clock(salt, one[0], user) / one[1], one[0]))[0]


def _clock(salt: str, arm: str, user: str) -> float:
    """Return a standard exponential number that belongs to an arm and a user."""
    parts = [text.encode("utf-8", "surrogatepass") for text in (salt, arm, user)]
    # Lengths in front: no two triples have the same bytes.
    framed = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    bits = int.from_bytes(blake2b(framed, digest_size=7).digest(), "little")
    return -math.log((bits + 0.5) / 2**56)
