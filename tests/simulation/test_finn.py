"""The world of FINN.no's size, in miniature: how much there is to know in it."""

from pathlib import Path

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.simulation import Marketplace, SimulationConfig, load_config, write_log
from slatewise.simulation.log import chunks

SCALE = 1 / 400


@pytest.fixture(scope="module")
def config() -> SimulationConfig:
    return load_config("finn", scale=SCALE, users=2_500)


def gain_within_slates(config: SimulationConfig) -> float:
    """Exact nats by which the truth beats a uniform choice among the items seen, per click."""
    gain = clicks = 0.0
    for chunk in chunks(Marketplace(config)):
        click = 1.0 - chunk.no_click  # [N]
        choice = chunk.probability / click[:, None]  # [N, S], given a click
        seen = np.arange(choice.shape[1]) < chunk.scroll[:, None]
        entropy = -np.sum(choice * np.log(np.where(seen, choice, 1.0)), axis=1)
        gain += float(click @ (np.log(chunk.scroll) - entropy))
        clicks += float(click.sum())
    return gain / clicks


def test_the_truth_tells_the_items_of_a_slate_apart(config: SimulationConfig) -> None:
    assert gain_within_slates(config) > 0.3
    alike = config.search.model_copy(update={"own_share": 1.0, "neighbour_share": 0.0})
    assert gain_within_slates(config.model_copy(update={"search": alike})) < 0.2


def test_clicks_depend_on_the_source_as_much_as_they_should(config: SimulationConfig) -> None:
    (chunk,) = chunks(Marketplace(config))
    clicked = chunk.clicks >= 0
    assert 0.4 < clicked[chunk.searched].mean() < 0.55
    assert 0.08 < clicked[~chunk.searched].mean() < 0.16


def test_a_scale_keeps_the_views_of_an_item(config: SimulationConfig) -> None:
    whole = load_config("finn")
    assert (load_config("finn", scale=SCALE).users, config.catalogue.items) == (5_750, 3_250)
    assert config.catalogue.groups == 162  # twenty items in a group, on average
    assert load_config("finn", scale=0.1).catalogue.groups == whole.catalogue.groups == 290
    assert load_config("finn", scale=SCALE, users=7).users == 7
    with pytest.raises(SlatewiseError, match="between 0 and 1"):
        load_config("finn", scale=2.0)


def test_processes_side_by_side_write_the_same_bytes(tmp_path: Path) -> None:
    config = load_config("tiny", users=130, chunk_users=20)
    heard: list[int] = []
    one = write_log(config, tmp_path / "one")
    two = write_log(
        config, tmp_path / "two", jobs=2, progress=lambda stage, done, total: heard.append(done)
    )
    assert one == two
    assert heard == [20, 40, 60, 80, 100, 120, 130]
    for file in (tmp_path / "one").rglob("*.parquet"):
        other = tmp_path / "two" / file.relative_to(tmp_path / "one")
        assert file.read_bytes() == other.read_bytes()


def test_an_interruption_ends_the_processes(tmp_path: Path) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    config = load_config("tiny", users=60, chunk_users=20)
    with pytest.raises(KeyboardInterrupt):
        write_log(config, tmp_path / "out", jobs=2, progress=interrupt)
    assert not list(tmp_path.iterdir())
