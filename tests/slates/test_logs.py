"""Logs told to a recommender: the same histories as a replay, item numbers of its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.features.showings import replay
from slatewise.slates import Recommender, Seen
from slatewise.slates.logs import LoggedUsers, is_log, opened_log
from slatewise.slates.users import history_of_events
from tests.slates.conftest import a_model


def rows(users: int = 12) -> pl.DataFrame:
    """Slates of items that the model knows (a00 … a59) and of some that it does not."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(users * 6):
        slate = [f"a{item:02d}" for item in rng.permutation(70)[: rng.integers(2, 6)]]
        clicks = [item for item in slate if rng.random() < 0.4]
        row = {"user_id": f"u{number % users}", "time": number, "source": "search"}
        found.append(row | {"slate": slate, "click": clicks})
    return pl.DataFrame(found)


@pytest.fixture
def recommender() -> Recommender:
    model = a_model()
    model.source_names = ["recommendation", "search"]
    return Recommender(model)


def test_a_log_is_told_as_a_replay_would(recommender: Recommender, tmp_path: Path) -> None:
    rows().write_parquet(tmp_path / "log.parquet")
    items = pl.DataFrame({"item_id": ["a00"], "group": ["g"]})  # the others are found in the log
    items.write_parquet(tmp_path / "items.parquet")
    dataset = prepare(tmp_path / "log.parquet", tmp_path / "items.parquet", tmp_path / "set")
    assert dataset.meta["report"]["clicks_unfolded"] > 5
    visitors, ids = LoggedUsers(dataset, recommender), dataset.item_ids.to_list()
    parts = [visitors.histories(0, 8), visitors.histories(8, 8)]
    found, lost = [*parts[0][0], *parts[1][0]], parts[0][1] + parts[1][1]
    assert len(found) == len(visitors.users) == 12
    names = recommender.model.source_names
    unknown = 0
    for user, history in enumerate(found):
        events = []
        for shown in replay(dataset.interactions(), user):
            seen = [ids[item] for item in shown.items]
            events.append(Seen(seen, [seen[click] for click in shown.clicks], "search"))
        whole, strange = history_of_events(events, recommender.items.find, names)
        unknown += len(strange)
        np.testing.assert_array_equal(history.clicked, whole.clicked)
        for mine, theirs in zip(history.showings(), whole.showings(), strict=True):
            assert replace(mine, time=0) == theirs
    assert lost == unknown > 0
    assert any(len(shown.clicks) > 1 for history in found for shown in history.showings())


def test_a_table_is_opened_with_the_items_of_the_model(
    recommender: Recommender, tmp_path: Path
) -> None:
    file = tmp_path / "log.parquet"
    rows().write_parquet(file)
    assert is_log(file)
    with opened_log(file, recommender) as dataset:
        folder = dataset.path
        assert set(recommender.items.ids) <= {*dataset.item_ids}
        assert SlateDataset.open(folder).num_users == 12
    assert not folder.exists()
    pl.DataFrame({"user_id": ["u"], "item_id": ["a00"]}).write_csv(tmp_path / "clicks.csv")
    assert not is_log(tmp_path / "clicks.csv")
