import pytest

from slatewise.data import SlateDataset
from tests.evaluation.drawing import toy_world


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return toy_world(tmp_path_factory.mktemp("toy") / "world")
