"""The click rate of an arm that did not run, from the log of those that did.

The target is another strategy over the models that served. Each slate is made again with the
version, items and history of its moment; a version that served has not seen what was clicked
afterwards, as a model that was trained on these very slates would have.

N slates of k positions, L draws of the target.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import Interval, click_rate
from slatewise.evaluation.arms import ArmTotals
from slatewise.evaluation.off_policy import (
    OffPolicyEstimate,
    doubly_robust,
    ips,
    per_position,
    self_normalised,
)
from slatewise.service.analysis.weights import SlateWeights, weigh
from slatewise.service.serving.replayer import Replayer
from slatewise.service.serving.request import is_whole
from slatewise.service.settings import ArmConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Visit
from slatewise.slates.strategies import is_deterministic, strategy_from

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Estimates:
    """What the log says of an arm that did not run."""

    target: ArmConfig
    slates: int
    """How many the estimates rest on."""
    left_out: Mapping[str, int]
    """How many were not used, by reason."""
    logged: Interval
    """Click rate of the slates as they were made."""
    exact: float
    """Share of them whose own probability is known exactly; of the others, the product over
    positions is taken for it."""
    estimates: tuple[OffPolicyEstimate, ...]
    """None at all where all slates were left out."""


def read_target(text: str) -> ArmConfig:
    """Read `model=main,strategy=greedy`: settings of an arm, as in TOML."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise SlatewiseError(
            f"'{text}' does not say which arm to estimate.",
            'Write its settings as "model=main,strategy=greedy".',
        )
    return ArmConfig.build({name.strip(): value.strip() for name, _, value in pairs}, f"'{text}'")


def newest_visits(store: Store, start: int, end: int, most: int) -> list[Visit]:
    """Return the newest answered slates of ours, from `start` to before `end`, oldest first."""
    kept: deque[Visit] = deque(maxlen=most)
    for batch in store.served(start, end):
        kept.extend(visit for _, visit in batch if visit is not None)
    return list(kept)


def estimate(
    replayer: Replayer,
    visits: Iterable[Visit],
    target: ArmConfig,
    *,
    draws: int = 200,
    progress: Callable[[int], None] = lambda done: None,
) -> Estimates:
    """Estimate the click rate of a target from visits, oldest first.

    `draws` is how often the target, and where the log has no propensities also the strategy that
    made a slate, is asked anew.
    """
    left_out: Counter[str] = Counter()
    kept: list[tuple[Visit, SlateWeights]] = []
    for number, visit in enumerate(visits):
        weighed = _weigh(replayer, visit, target, draws)
        if isinstance(weighed, str):
            left_out[weighed] += 1
        else:
            kept.append((visit, weighed))
        progress(number + 1)
    if not kept:
        nothing = Interval(*[float("nan")] * 3)
        return Estimates(target, 0, left_out, nothing, 0.0, ())
    return _estimates(target, kept, left_out)


def _weigh(replayer: Replayer, visit: Visit, target: ArmConfig, draws: int) -> SlateWeights | str:
    """Weigh one slate, or return why it cannot be used."""
    serving = visit.slate.serving
    if serving is None or serving.model != target.model:
        return "made by another model"
    logging, wanted = strategy_from(serving.strategy), target.line
    if is_deterministic(logging) and serving.strategy != wanted:
        return "made without chance: they cannot tell about other arms"
    if not visit.slate.items:
        return "empty"
    if not is_whole(serving.request):
        return "asked for with lists too long to be logged"
    live, slate = replayer.made(visit.slate)
    if tuple(map(str, slate.items)) != visit.slate.items:
        return "not the same when made again (the store could not be read then)"
    return weigh(live, slate, serving, logging, strategy_from(wanted), draws)


def _estimates(
    target: ArmConfig, kept: list[tuple[Visit, SlateWeights]], left_out: Mapping[str, int]
) -> Estimates:
    users = _users([visit for visit, _ in kept])
    clicks = _clicks([visit for visit, _ in kept])  # [N, k]
    clicked = clicks.sum(axis=1)
    weights = np.array([weighed.slate for _, weighed in kept])
    positions = np.full(clicks.shape, np.nan)
    for row, (_, weighed) in enumerate(kept):
        positions[row, : len(weighed.positions)] = weighed.positions
    predicted, expected = _predictions(kept, float(clicked.mean()))
    return Estimates(
        target,
        len(kept),
        left_out,
        _logged(users, clicked),
        float(np.mean([weighed.exact for _, weighed in kept])),
        (
            ips(users, clicked, weights),
            self_normalised(users, clicked, weights),
            doubly_robust(users, clicked, weights, predicted, expected),
            per_position(users, clicks, positions),
        ),
    )


def _users(visits: list[Visit]) -> Ints:
    """Number the users [N]; each anonymous user has a number of her own."""
    names = [visit.slate.user_id or f"\0{visit.slate.slate_id}" for visit in visits]
    return np.unique(names, return_inverse=True)[1]


def _clicks(visits: list[Visit]) -> Doubles:
    """Return 1 where the first click was: [N, k]."""
    clicks = np.zeros((len(visits), max(len(visit.slate.items) for visit in visits)))
    for row, visit in enumerate(visits):
        if visit.clicked:
            clicks[row, visit.slate.items.index(visit.clicked[0])] = 1
    return clicks


def _logged(users: Ints, clicked: Doubles) -> Interval:
    clicks = np.bincount(users, clicked).astype(np.int64)
    return click_rate(ArmTotals(clicks, np.bincount(users)))


def _predictions(kept: list[tuple[Visit, SlateWeights]], rate: float) -> tuple[Doubles, Doubles]:
    """Return a model's P(click) of what was shown, and of what the target would show: [N] twice.

    The choice among the first d items seen, relevance against that of no click, averaged over how
    far people looked in the whole log: what this user did then must not matter. The relevance of no
    click is the one number that is fitted, so that predictions average to the click rate.
    """
    depths = np.array([visit.seen for visit, _ in kept])
    share = np.bincount(depths) / len(depths)  # [deepest + 1]
    shown = np.concatenate([_seen(weighed.relevance[None], share) for _, weighed in kept])
    wanted = [_seen(weighed.wanted, share) for _, weighed in kept]
    low, high = -30.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        too_many = _p_click(shown, share, middle).mean() > rate
        low, high = (middle, high) if too_many else (low, middle)
    expected = [_p_click(one, share, high).mean() for one in wanted]
    return _p_click(shown, share, high), np.array(expected)


def _seen(relevance: Doubles, share: Doubles) -> Doubles:
    """Add up relevance [L, k] over the first d items: [L, deepest + 1]."""
    sums = np.pad(np.cumsum(relevance, axis=1), ((0, 0), (1, 0)))
    return sums[:, np.minimum(np.arange(len(share)), relevance.shape[1])]


def _p_click(sums: Doubles, share: Doubles, no_click: float) -> Doubles:
    """Return P(click) of slates with such sums [L, deepest + 1]: [L]."""
    return np.asarray((sums / (sums + np.exp(no_click))) @ share)


def estimates_json(found: Estimates) -> dict[str, Any]:
    """Return it for programs; None stands for what is not known."""
    return {
        "model": found.target.model,
        "strategy": found.target.line,
        "slates": found.slates,
        "left_out": dict(found.left_out),
        "logged": found.logged.to_json(),
        "exact": found.exact,
        "estimates": {
            one.estimator: {
                "click_rate": one.rate.to_json(),
                "average_weight": one.support.to_json(),
                "effective_users": one.effective_users,
                "clipped": one.clipped,
                "problem": one.problem,
            }
            for one in found.estimates
        },
    }
