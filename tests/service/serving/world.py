"""A small service: a model with or without terms, a store in a file, and users who click."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import torch

from slatewise.features.item_features import ItemEncoder
from slatewise.features.popularity import Popularity, PopularityConfig
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.history import HistoryTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.service.http.startup import begin_with
from slatewise.service.serving import Service
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.features import Features
from slatewise.service.store.records import ItemState, Outcome, SlateRecord
from slatewise.training import runs

ITEMS, GROUPS, D = 60, ("red", "green", "blue"), 4
SOURCES = ["search", "recommendation"]
TERMS: tuple[str, ...] = ("bias", "history", "popularity")
HOUR = 3_600_000_000
COLD = "histories are empty: no log was loaded; run slatewise load DIR LOG"
"""Note of every model in a store without any answer."""


def a_model(
    terms: tuple[str, ...] = (),
    evidence: tuple[str, ...] = (),
    seed: int = 7,
    ids: Sequence[int | str] | None = None,
    *,
    described: bool = False,
) -> SlateModel:
    """Items a00 … a59, in turn of the groups; the posterior is drawn, not trained.

    One that is `described` was trained with a price and a brand.
    """
    config = ModelConfig(
        dimensions=D, sigma_max=2.0, terms=terms, evidence=evidence, half_lives=(1.0, 12.0)
    )
    ids = [f"a{number:02d}" for number in range(ITEMS)] if ids is None else ids
    seeded = torch.Generator().manual_seed(seed)
    groups = torch.arange(len(ids)) % len(GROUPS)
    encoder, features = _described(len(ids)) if described else (None, None)
    posterior = Posterior(config, groups, GROUPS, 25, seeded, SOURCES, features)
    with torch.no_grad():
        for part in (posterior.items, *posterior.shared.values()):
            part.mean.add_(0.5 * torch.randn(part.mean.shape, generator=seeded))
            part.raw.fill_(float(torch.logit(torch.tensor(0.1))))
    settings = PopularityConfig(half_lives=(1.0, 12.0))
    popularity = Popularity(settings=settings, rate=0.1, slate_rate=0.5)
    fitted = {
        "history": HistoryTerm(sizes=(0.7, 0.9, 1.0)),
        "popularity": PopularityTerm(popularity=popularity, sizes=(0.5, 1.0) * 4 + (2.0,)),
    }
    return SlateModel(
        posterior,
        list(ids),
        list(GROUPS),
        SOURCES,
        torch.arange(len(ids)),
        terms=FittedTerms({name: fitted[name] for name in terms if name in fitted}),
        item_encoder=encoder,
    )


def _described(count: int) -> tuple[ItemEncoder, torch.Tensor]:
    """Prices 0, 1, 2, …, of which the first is unknown, and three brands in turn."""
    table = pl.DataFrame(
        {
            "price": [None, *map(float, range(1, count))],
            "brand": ["ash", "birch", "cedar"] * (count // 3) + ["ash"] * (count % 3),
        }
    )
    encoder = ItemEncoder.fit(table, {"price": "number", "brand": "category"})
    return encoder, torch.from_numpy(encoder.encode(table))


def a_service(
    directory: Path, model: SlateModel | None = None, config: ServiceConfig | None = None
) -> Service:
    """Open a service, with a first version if a model is given."""
    config = config or ServiceConfig()
    store = Store.open(config.store_url(made(directory)))
    if model is not None:
        runs.save(model, directory / "a-run")
        begin_with(directory / "a-run", directory, config, store)
    return Service.open(directory, config, store)


def made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def promote(directory: Path, model: SlateModel, name: str = "main") -> str:
    """Let another model be the version that serves."""
    models = Models.of(directory, name)
    version = models.next_version()
    runs.save(model, models.path(version))
    models.promote(version, "a test")
    return version


def put(
    service: Service,
    *ids: str,
    group: str = "red",
    state: str = "shown",
    features: Features | None = None,
) -> None:
    """Change items, and tell all workers."""
    service.store.put_items([(item, group, ItemState(state), features) for item in ids])
    service.changed_items()


def visit(
    service: Service,
    user: str,
    items: Sequence[str],
    clicked: Sequence[str] = (),
    source: str = "search",
    time: int | None = None,
) -> str:
    """Let a user see a slate that others made; return its id."""
    when = service.clock.now() if time is None else time
    slate = SlateRecord(f"s{service.store.seq()}-{user}", user, when, source, tuple(items))
    outcome = Outcome(slate.slate_id, None, tuple(clicked), when)
    service.store.write([slate], [outcome])
    service.changed_users([user])
    return slate.slate_id


def some_visits(service: Service, users: int, visits: int, seed: int = 0) -> None:
    """Let users see slates of six and click some of it."""
    rng = np.random.default_rng(seed)
    for number in range(users * visits):
        items = [f"a{item:02d}" for item in rng.choice(ITEMS, 6, replace=False)]
        clicked = items[: rng.integers(0, 3)]
        visit(service, f"u{number % users}", items, clicked, SOURCES[int(rng.integers(2))])
