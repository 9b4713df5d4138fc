from pathlib import Path

import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.simulation import load_config, write_log

QUICK = {"max_epochs": 3}
"""Training that ends before it is good: mechanics do not need a good model."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    """A simulated log as somebody might bring it."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    write_log(load_config("tiny", seed=5), folder / "log")
    split = SplitConfig(valid_share=0.2, test_share=0.2)
    return prepare(folder / "log", folder / "log", folder / "dataset", division=split)
