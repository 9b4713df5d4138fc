"""What a night judges is what the service served: the same lists, item by item.

The shop changes as shops do: items come, move to another group and get other features, and a source
comes up that training had no slate from.
"""

from pathlib import Path
from typing import Final

import numpy as np
import torch

from slatewise.data import SlateDataset
from slatewise.evaluation import ModelRecommender
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.pool import SlatePool
from slatewise.service.logs import load_dataset
from slatewise.service.nights.item_features import described_dataset, window_features
from slatewise.service.nights.versions import Version, transfer
from slatewise.service.nights.window import NightData
from slatewise.service.serving import Request, Service
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.clock import Clock
from tests.contract.world import END, Doubles, model_of, small_log
from tests.service.serving.world import a_service, put, visit

MINUTE: Final = 60_000_000
SETTINGS: Final = {"dimensions": 3, "network_units": 4, "network_members": 1}
TERMS: Final = ("history", "item_network", "network", "popularity")
Lists = dict[tuple[str, int], tuple[list[str], Doubles]]
"""By user and time, the items of a list and the log of their shares"""


def log_shares(utilities: Doubles) -> Doubles:
    return utilities - np.logaddexp.reduce(utilities)


def served_lists(service: Service, items: list[str], sources: list[str]) -> Lists:
    """Let users see lists half a minute or half an hour apart; each is ranked just before."""
    rng, found, now = np.random.default_rng(4), Lists(), END
    service.clock = Clock(wall=lambda: now, steady=lambda: now)
    for number in range(60):
        now += [29_500_000, 30 * MINUTE + 20_000_000, 7_000_000][number % 3]
        user, shown = f"{number % 4}", rng.choice(items, 5, replace=False).tolist()
        source = [*sources, "mail"][number % 3]
        service.live().refresh(service.store, now // MINUTE * MINUTE)
        ranked = service.rank(Request(user, allow=tuple(shown), k=5, source=source))[1]
        utilities = dict(zip(map(str, ranked.items), ranked.utilities.tolist(), strict=True))
        found[user, now] = shown, log_shares(np.array([utilities[item] for item in shown]))
        visit(service, user, shown, shown[: number % 2], source, now)
    return found


def judged_lists(model: SlateModel, log: SlateDataset) -> Lists:
    rows, found = log.interactions(), Lists()
    every = torch.ones(len(rows.clicks), dtype=torch.bool)
    judged, ids = ModelRecommender(model, log=log).predict(rows, every), log.item_ids.to_list()
    users = np.repeat(log.user_ids.to_list(), np.diff(log.user_offsets))
    for row, (user, time) in enumerate(zip(users, log.times.tolist(), strict=True)):
        cells = slice(int(judged.offsets[row]), int(judged.offsets[row + 1]))
        items = [ids[item] for item in judged.items[cells]]
        found[user.removeprefix("u"), time] = items, log_shares(judged.log_probabilities[cells])
    return found


def test_a_night_judges_the_lists_that_were_served(tmp_path: Path) -> None:
    dataset = small_log(tmp_path)
    model = model_of(ModelConfig(terms=TERMS).changed(**SETTINGS), dataset)
    model.posterior.pool = SlatePool(sharpness=0.4, no_click=0.3)
    with torch.no_grad():
        model.posterior.shared["network"].mean[1] = 0.0  # of its position, which no list has
    service = a_service(tmp_path / "shop", model, ServiceConfig())
    load_dataset(dataset, tmp_path / "shop", service.store)
    items = [str(item) for item in model.item_ids]
    put(service, *items[:6], group="a new group", features={"price": 3, "brand": "b1"})
    put(service, "new", group="b", features={"price": 1.5, "made": "2023-11-14T22:13:20Z"})
    put(service, "stray", group="another new group")
    served = served_lists(service, [*items[:12], "new", "stray"], model.source_names)
    data = NightData(tmp_path, service.store, END + 3_000 * MINUTE, 1_000, lambda *_: None)
    models = Models.of(tmp_path / "shop", "main")
    loaded = models.load()
    assert loaded is not None
    version = Version.of(loaded.version, loaded.model, models).model
    log = described_dataset(version, data)
    judged = judged_lists(transfer(version, log, window_features(version, data)), log)
    assert len(served) == 60
    for key, (shown, shares) in served.items():
        assert judged[key][0] == shown
        np.testing.assert_allclose(judged[key][1], shares, atol=1e-5)
    service.store.close()
