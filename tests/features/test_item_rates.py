"""Click rates of items: of other users where training learns from them, none for what goes."""

from pathlib import Path

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.features.item_rates import FOLDS, ItemRates, beta_by_moments
from tests.model.terms.logs import ITEMS, START, dataset_of, rows_of


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("rates") / "log", rows_of(3))


def counted(dataset: SlateDataset, users: list[int]) -> np.ndarray:
    """Count clicks and views of the training part of users, one by one: [2, I]."""
    log, counts = dataset.interactions(), np.zeros((2, ITEMS), int)
    for user in users:
        start = int(log.user_offsets[user])
        for n in range(start, start + int(log.train_end[user])):
            slate = log.slate_items[log.slate_offsets[n] : log.slate_offsets[n + 1]].numpy()
            counts[1, slate] += 1
            counts[0, slate[log.clicks[n]]] += int(log.clicks[n] >= 0)
    return counts


def log_rates(counts: np.ndarray) -> np.ndarray:
    mean, strength = beta_by_moments(*counts)
    return np.log((counts[0] + strength * mean) / (counts[1] + strength))


def test_all_users_count_but_those_who_are_learned_from(dataset: SlateDataset) -> None:
    found = ItemRates.fit(dataset)
    assert found is not None
    users = list(range(dataset.num_users))
    assert np.allclose(found.rates, log_rates(counted(dataset, users)), atol=1e-5)
    log = dataset.interactions()
    column = found.in_training(log, np.arange(dataset.num_users))
    for user in users:
        others = [other for other in users if found.folds[other] != found.folds[user]]
        expected = log_rates(counted(dataset, others))
        start = int(log.user_offsets[user])
        for n in range(start, int(log.user_offsets[user + 1])):
            cells = slice(int(log.slate_offsets[n]), int(log.slate_offsets[n + 1]))
            items = log.slate_items[cells].numpy()
            learned = n - start < int(log.train_end[user])
            assert np.allclose(column[cells], (expected if learned else found.rates)[items])
    assert sorted(set(found.folds.tolist())) == list(range(FOLDS))


def test_items_that_come_and_go_have_no_rate_for_all_times(tmp_path: Path) -> None:
    rows = rows_of(3)
    for row in rows:
        late = int(row["time"]) - START > 86_400  # on the second day, other items
        row["slate"] = [item % 6 + 6 * late for item in row["slate"]]
        row["slate"] = list(dict.fromkeys(row["slate"]))
        row["click"] = row["slate"][0] if row["click"] is not None else None
    assert ItemRates.fit(dataset_of(tmp_path / "log", rows)) is None
