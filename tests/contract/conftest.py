from pathlib import Path

import pytest

from slatewise.data import SlateDataset
from tests.contract.world import small_log


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder: Path = tmp_path_factory.mktemp("contract")
    return small_log(folder)
