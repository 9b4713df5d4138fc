"""How varied the slates of arms are, over equally many of the newest of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from slatewise.evaluation.diversity import distinct_groups, exposure, gini
from slatewise.service.analysis import queries
from slatewise.service.store import Store


@dataclass(frozen=True)
class Variety:
    """What some slates of an arm show."""

    slates: int
    """How many were looked at: as many of every arm, for more slates show more items."""
    groups: float
    """Mean number of groups in a slate."""
    items: int
    """Different items in all of them."""
    coverage: float
    """Share of the items on offer now that are among them; nan if there are none."""
    gini: float
    """Inequality of the exposure of these items: 0 if all are shown alike."""


def varieties(store: Store, start: int, end: int, sample: int) -> dict[str, Variety]:
    """Look at up to `sample` of the newest slates of each arm, from `start` to before `end`."""
    rows = store.read(lambda reading: queries.newest(reading, start, end, 10 * sample))
    by_arm: dict[str, list[tuple[str, ...]]] = {}
    for arm, items in rows:
        if items:
            by_arm.setdefault(arm, []).append(items)
    size = min(sample, *map(len, by_arm.values())) if len(by_arm) > 1 else sample
    chosen = {arm: slates[:size] for arm, slates in by_arm.items()}
    shown = set(chain.from_iterable(chain.from_iterable(chosen.values())))
    known = store.read(lambda reading: queries.look_up(reading, sorted(shown)))
    offered = store.read(queries.offered)
    return {arm: _variety(slates, known, offered) for arm, slates in sorted(chosen.items())}


def _variety(
    slates: Sequence[tuple[str, ...]], known: Mapping[str, tuple[str, bool]], offered: int
) -> Variety:
    items = _numbers(chain.from_iterable(slates))
    # An unknown item is a group of its own.
    group_of = [known.get(item, (f"\0{item}", False))[0] for item in items]
    groups = _numbers(group_of)
    table = np.full((len(slates), max(map(len, slates))), -1)
    for row, slate in enumerate(slates):
        table[row, : len(slate)] = [items[item] for item in slate]
    still = sum(known[item][1] for item in items if item in known)
    return Variety(
        slates=len(slates),
        groups=float(distinct_groups(table, np.array([groups[one] for one in group_of])).mean()),
        items=len(items),
        coverage=still / offered if offered else float("nan"),
        gini=gini(exposure(table, len(items))),
    )


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
