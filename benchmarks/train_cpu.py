"""How long the inner loops of training take on one CPU thread, beside the bare memory traffic.

A batch is 512 users of 20 interactions with slates of up to 25 items (11 on average), in 25
dimensions. `fused` is the slate likelihood, forward and backward; `exposed` the same with the
exposure term; `reference` the same as `fused` in plain torch. The floor gathers the row of every
cell and adds it to the gradient of that row, without arithmetic in between: a compiled loop, or
torch's index_select and index_add_, whichever is faster. Both sides begin with a zeroed gradient,
as a step must. A `local` table holds only the rows of the batch, which is how training works;
`full` goes to the whole table, where zeroing alone takes most of the time of either side, so
targets are for `local`.

The second table times whole training steps: gather, sample, dynamics, likelihood, divergence,
backward, update. `same items` spreads one set of 10,000 items over the larger catalogue: only the
size of the tables differs, and with it the cache. `other items` draws from the whole catalogue, so
that a batch also touches more distinct items, and a step has more rows to sample and update.

The third table times the same steps with more in the model, as multiples of the bare step: each
term of the utility (their features were computed before, as in training), all of them, slates
without a click of every source as evidence, 16 features of items, and everything together; with a
click in 30 % and in 50 % of the slates. It is CPU time, since a ratio of wall times is at the mercy
of who else is at work.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import Row, Target, parse, parser, report, seconds, show
from slatewise.compiled.compilation import reordered
from slatewise.compiled.vectors import add, load, store
from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.kernels import RowAdam, slate_terms, unique_rows
from slatewise.model.posterior import Posterior
from slatewise.model.terms import feature_terms
from slatewise.training.config import TrainingConfig
from slatewise.training.steps import SparseSteps

USERS, STEPS, LONGEST, DIMS = 512, 20, 25, 25
SMALL, LARGE = 10_000, 1_000_000
MINIATURE = {"USERS": 16, "DIMS": 3, "SMALL": 300, "LARGE": 600, "repeats": 1}
MINIATURE |= {"CLICK_SHARES": (0.5,)}
TERMS = ("bias", "history", "popularity", "propensity", "position")
SOURCES = ("search", "recommendation")
ITEM_FEATURES = 16
CLICK_SHARES = (0.3, 0.5)


def main() -> None:
    """Measure small and large catalogues with even and uneven popularity."""
    arguments = parser(__doc__)
    arguments.add_argument("--repeats", type=int, default=20, help="of which the best counts")
    options = parse(arguments, globals())
    torch.set_num_threads(1)
    rows: list[Row] = []
    for num_items in (SMALL, LARGE):
        for popularity in ("uniform", "zipf"):
            batch = _batch(num_items, popularity)
            for table in ("local", "full"):
                measured = _measure(batch, table == "local", options.repeats)
                name = {"items": num_items, "popularity": popularity, "table": table}
                rows.append({**name, **measured})
    made = [
        _step(dynamics, items, drawn_from)
        for dynamics in ("linear", "gru")
        for items, drawn_from in (
            (SMALL, "same items"),
            (LARGE, "same items"),
            (LARGE, "other items"),
        )
    ]
    steps = _timed_in_turn(made, options.repeats)
    costs = [
        _costs(dynamics, share, options.repeats)
        for dynamics in ("linear", "gru")
        for share in CLICK_SHARES
    ]
    show(
        "Whole steps",
        {
            "dynamics": "{}",
            "items": "{:,}",
            "drawn_from": "{}",
            "distinct": "{:,}",
            "step_ms": "{:.1f}",
            "users_per_s": "{:,.0f}",
            "bare_gather_ms": "{:.2f}",
            "times_gather": "{:.1f}",
        },
        steps,
    )
    show(
        "Whole steps with more in the model, in bare steps",
        {"dynamics": "{}", "clicked": "{:.0%}", "bare_ms": "{:.1f}"}
        | dict.fromkeys(_ADDITIONS, "{:.2f}"),
        costs,
    )
    report(
        options,
        f"Slate terms and row updates, {USERS} users, {rows[0]['cells']:,} cells, milliseconds",
        {
            "items": "{:,}",
            "popularity": "{}",
            "table": "{}",
            "rows": "{:,}",
            "fused": "{:.2f}",
            "bare_loop": "{:.2f}",
            "bare_torch": "{:.2f}",
            "zeroing": "{:.2f}",
            "times_floor": "{:.2f}",
            "exposed": "{:.2f}",
            "reference": "{:.0f}",
            "users_per_s": "{:,.0f}",
            "unique": "{:.2f}",
            "row_adam": "{:.2f}",
        },
        rows,
        [
            Target(
                f"fused pass over its floor, {row['items']:,} items, {row['popularity']}",
                row["times_floor"],
                3.0,
            )
            for row in rows
            if row["table"] == "local"
        ]
        + [
            Target(f"growth of a {small['dynamics']} step with the catalogue", ratio, 1.3)
            for small, large in zip(steps[::3], steps[1::3], strict=True)
            for ratio in [large["step_ms"] / small["step_ms"]]
        ]
        + [
            Target(
                f"{row['dynamics']} step with {name}, {row['clicked']:.0%} clicked", row[name], 1.5
            )
            for row in costs
            for name in _ADDITIONS
        ],
        steps=steps,
        terms=costs,
    )


@dataclass(frozen=True)
class _Batch:
    num_items: int
    cells: Tensor
    offsets: Tensor
    clicks: Tensor


def _batch(num_items: int, popularity: str, click_share: float = 0.5) -> _Batch:
    rng = np.random.default_rng(0)
    lengths = rng.negative_binomial(3, 3 / (3 + 10.5), USERS * STEPS).clip(0, LONGEST - 1) + 1
    offsets = np.concatenate([[0], lengths.cumsum()])
    if popularity == "zipf":
        share = 1 / np.arange(1, num_items + 1)
        ranks = np.searchsorted(share.cumsum() / share.sum(), rng.random(offsets[-1]))
        cells = rng.permutation(num_items)[ranks]
    else:
        cells = rng.integers(0, num_items, offsets[-1])
    clicks = np.where(rng.random(len(lengths)) < click_share, rng.integers(0, lengths), -1)
    return _Batch(
        num_items,
        torch.from_numpy(cells).int(),
        torch.from_numpy(offsets),
        torch.from_numpy(clicks).int(),
    )


def _measure(batch: _Batch, local_table: bool, repeats: int) -> Row:
    count = len(batch.clicks)
    scratch = torch.full((batch.num_items,), -1, dtype=torch.int32)
    table = torch.randn(batch.num_items, DIMS)
    rows, local, _ = unique_rows(batch.cells, scratch)
    states = torch.randn(count, DIMS, requires_grad=True)
    items = (table[rows] if local_table else table.clone()).requires_grad_()
    cells = local if local_table else batch.cells
    no_click = torch.zeros(count, requires_grad=True)
    layout = {"cells": cells, "offsets": batch.offsets, "clicks": batch.clicks}
    layout |= {"state_of": torch.arange(count), "weights": torch.ones(count)}
    exposure = {"exposure_weights": torch.full((count,), 0.3), "sharpness": 2.0}
    adam, gradient = RowAdam(table, lr=0.01), torch.randn(len(rows), DIMS)

    def terms(**more: Any) -> None:
        states.grad = items.grad = no_click.grad = None
        slate_terms(states, items, no_click, **layout, **more).total.backward()

    def bare_loop() -> None:
        gathered, total = torch.empty(len(cells), DIMS), torch.zeros_like(items)
        arrays = (items.detach(), total, gathered, cells)
        _gather_and_add(*(tensor.numpy() for tensor in arrays))

    def bare_torch() -> None:
        with torch.no_grad():
            gathered = items.index_select(0, cells)
            torch.zeros_like(items).index_add_(0, cells, gathered)

    works: dict[str, Callable[[], object]] = {
        "fused": terms,
        "bare_loop": bare_loop,
        "bare_torch": bare_torch,
        "zeroing": lambda: torch.zeros_like(items),
        "exposed": lambda: terms(**exposure),
        "reference": lambda: terms(backend="torch"),
        "unique": lambda: unique_rows(batch.cells, scratch),
        "row_adam": lambda: adam.step(rows, gradient),
    }
    times = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):  # in turn, so that a busy moment of the machine hits all alike
        for name, work in works.items():
            work()  # compiles, and puts its own data into the cache
            times[name] = min(times[name], 1000 * seconds(work))
    floor = min(times["bare_loop"], times["bare_torch"])
    return {
        "rows": len(items),
        "cells": len(cells),
        **times,
        "times_floor": times["fused"] / floor,
        "users_per_s": 1000 * USERS / times["fused"],
    }


@reordered
def _gather_and_add(items: Any, gradient: Any, gathered: Any, cells: Any) -> None:
    """Copy the row of every cell, then add each copy to the gradient of its row."""
    for j in range(len(cells)):
        store(gathered, j, load(items, np.int64(cells[j]), DIMS))
    for j in range(len(cells)):
        row = np.int64(cells[j])
        added = add(load(gradient, row, DIMS), load(gathered, j, DIMS))
        store(gradient, row, added)


@dataclass(frozen=True)
class _Addition:
    """What a model may have beside the paper's."""

    terms: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    item_features: int = 0


_ADDITIONS = {term: _Addition(terms=(term,)) for term in TERMS} | {
    "terms": _Addition(terms=TERMS),
    "evidence": _Addition(evidence=SOURCES),
    "features": _Addition(item_features=ITEM_FEATURES),
    "all": _Addition(TERMS, SOURCES, ITEM_FEATURES),
}
_BARE = _Addition()


def _costs(dynamics: str, click_share: float, repeats: int) -> Row:
    """Time the bare step and those with additions in turn, in CPU time: the best of each."""
    added = {"bare": _BARE, **_ADDITIONS}
    steps = {
        name: _step(dynamics, SMALL, "other items", what, click_share).step
        for name, what in added.items()
    }
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(repeats):
        for name, step in steps.items():
            step()
            start = time.thread_time()
            step()
            best[name] = min(best[name], time.thread_time() - start)
    ratios = {name: best[name] / best["bare"] for name in _ADDITIONS}
    return {"dynamics": dynamics, "clicked": click_share, "bare_ms": 1000 * best["bare"]} | ratios


def _step(
    dynamics: str,
    catalogue: int,
    drawn_from: str,
    added: _Addition = _BARE,
    click_share: float = 0.5,
) -> "_Step":
    """Make whole steps over users whose items come from a catalogue of that size."""
    rng = np.random.default_rng(1)
    batch = _batch(SMALL if drawn_from == "same items" else catalogue, "zipf", click_share)
    model = ModelConfig.build(
        {
            "dynamics": dynamics,
            "dimensions": DIMS,
            "terms": added.terms,
            "evidence": added.evidence,
        },
        "model",
    )
    on_cells, on_steps = (
        sum(
            len(term.columns(model))
            for term in feature_terms(model).values()
            if term.acts_on == acts_on
        )
        for acts_on in ("items", "no click")
    )
    spread = torch.from_numpy(rng.permutation(catalogue)[: batch.num_items]).int()
    interactions = Interactions(
        user_offsets=torch.arange(0, USERS * STEPS + 1, STEPS),
        train_end=torch.full((USERS,), STEPS, dtype=torch.int32),
        valid_end=torch.full((USERS,), STEPS, dtype=torch.int32),
        times=torch.arange(USERS * STEPS),
        sources=torch.from_numpy(rng.integers(0, len(SOURCES), USERS * STEPS)).to(torch.uint8),
        clicks=batch.clicks,
        slate_offsets=batch.offsets,
        slate_items=spread[batch.cells.long()],
        cell_features=torch.randn(len(batch.cells), on_cells) if on_cells else None,
        step_features=torch.randn(USERS * STEPS, on_steps) if on_steps else None,
    )
    groups = torch.from_numpy(rng.integers(0, 290, catalogue))
    features = torch.randn(catalogue, added.item_features) if added.item_features else None
    posterior = Posterior(
        model, groups, range(290), LONGEST, sources=SOURCES, item_features=features
    )
    steps = SparseSteps(posterior, interactions, TrainingConfig(batch_users=USERS), None)
    users = torch.arange(USERS)
    generator = torch.Generator().manual_seed(0)
    bare = interactions.slate_items
    table = torch.randn(catalogue, DIMS)
    row = {"dynamics": dynamics, "items": catalogue, "drawn_from": drawn_from}
    return _Step(
        row | {"distinct": len(torch.unique(bare))},
        step=lambda: steps.step(users, generator, 0.02),
        gather=lambda: table.index_select(0, bare),
    )


@dataclass(frozen=True)
class _Step:
    """A whole step and the bare gather of its rows, to be timed in turn with others."""

    row: Row
    step: Callable[[], object]
    gather: Callable[[], object]


def _timed_in_turn(steps: list[_Step], repeats: int) -> list[Row]:
    """Time steps one after the other, over and over: a busy moment hits all alike."""
    best = [[float("inf"), float("inf")] for _ in steps]
    for _ in range(repeats):
        for times, step in zip(best, steps, strict=True):
            for index, work in enumerate((step.step, step.gather)):
                work()  # puts its own data into the cache, as the step before does in training
                times[index] = min(times[index], seconds(work))
    return [
        step.row
        | {
            "step_ms": 1000 * taken,
            "users_per_s": USERS / taken,
            "bare_gather_ms": 1000 * gather,
            "times_gather": taken / gather,
        }
        for step, (taken, gather) in zip(steps, best, strict=True)
    ]


if __name__ == "__main__":
    main()
