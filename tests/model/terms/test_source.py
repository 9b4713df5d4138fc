"""No click by source: searches are clicked, promotions are not."""

from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.evaluation.model import require_same_items
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.terms.source import Source
from slatewise.training import TrainingConfig, fit
from tests.model.terms.logs import Rows, dataset_of, rows_of

RATES = {"search": 0.9, "front page": 0.2}
QUICK = TrainingConfig(max_epochs=12, batch_users=8, learning_rate=0.1)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    rng, rows = np.random.default_rng(5), rows_of(5)
    for row in rows:
        slate = row["slate"]
        assert isinstance(slate, list)
        clicked = rng.random() < RATES[str(row["source"])]
        row["click"] = slate[int(rng.integers(len(slate)))] if clicked else None
    return dataset_of(tmp_path_factory.mktemp("source") / "log", rows)


def fitted(dataset: SlateDataset, terms: tuple[str, ...]) -> SlateModel:
    return fit(dataset, ModelConfig(dimensions=2, dynamics="linear", terms=terms), QUICK)


@pytest.fixture(scope="module")
def with_source(dataset: SlateDataset) -> SlateModel:
    return fitted(dataset, ("source",))


def test_a_source_that_is_clicked_less_is_learned_and_predicted(
    dataset: SlateDataset, with_source: SlateModel
) -> None:
    added = dict(
        zip(
            with_source.source_names,
            with_source.posterior.shared["source"].mean.tolist(),
            strict=True,
        )
    )
    odds = torch.tensor(list(RATES.values())).logit()
    wanted = float(odds[0] - odds[1])
    assert added["front page"] - added["search"] == pytest.approx(wanted, abs=1.2)
    judged = [
        evaluate(ModelRecommender(model), dataset)["log_likelihood"].value
        for model in (with_source, fitted(dataset, ()))
    ]
    assert judged[0] > judged[1] + 0.1


def test_one_source_or_clicks_everywhere_teach_nothing(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    rows: Rows = [row | {"source": "search"} for row in rows_of(1, users=5)]
    assert Source.obstacle(dataset_of(tmp_path / "one", rows)) == "the log has one source"
    clicked = [row for row in rows_of(1, users=5) if row["click"] is not None]
    assert Source.obstacle(dataset_of(tmp_path / "all", clicked)) == "every slate has a click"
    assert Source.obstacle(dataset) is None


def test_a_log_with_other_sources_is_refused(with_source: SlateModel, tmp_path: Path) -> None:
    rows: Rows = [row | {"source": "mail"} for row in rows_of(1, users=5)]
    with pytest.raises(SlatewiseError, match=r"the sources of .* are not those of the run"):
        require_same_items(with_source, dataset_of(tmp_path / "mail", rows))
