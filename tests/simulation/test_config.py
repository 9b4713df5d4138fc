from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from slatewise.errors import SlatewiseError
from slatewise.simulation import PRESETS, SimulationConfig, load_config


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_possible_and_survive_json(preset: str) -> None:
    config = load_config(preset)
    assert SimulationConfig.model_validate_json(config.model_dump_json()) == config


def test_finn_has_the_size_of_the_data_set() -> None:
    config = load_config("finn")
    assert config.users == 2_300_000
    assert (config.catalogue.items, config.catalogue.groups) == (1_300_000, 290)
    assert config.users * (config.min_interactions + config.max_interactions) / 2 == pytest.approx(
        37e6, rel=0.02
    )


def test_a_file_changes_the_preset_and_options_change_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("users = 50\nseed = 4\n[catalogue]\nexposure_skew = 1.0\n")
    config = load_config("tiny", file, seed=5, users=None)
    assert (config.users, config.seed) == (50, 5)
    assert config.catalogue.exposure_skew == 1.0
    assert config.catalogue.items == 200


def test_the_number_of_items_alive_is_said() -> None:
    assert load_config("tiny").alive == 200
    assert load_config("news").alive == pytest.approx(400 * 36 / 204)


def test_configurations_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load_config("tiny").users = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"catalogue": {"items": 30, "groups": 31}}, "31 groups"),
        ({"catalogue": {"items": 24, "groups": 2}}, "longer than the catalogue"),
        ({"catalogue": {"spread_low": 2.0, "spread_high": 1.0}}, "spread_low"),
        ({"search_share": 1.2}, "search_share"),
        ({"search_share": -0.1}, "search_share"),
        ({"search_share": float("nan")}, "search_share"),
        ({"intent": {"switch": 2}}, "intent.switch"),
        ({"search": {"own_share": 0.9, "neighbour_share": 0.2}}, "more than 1"),
        ({"policy": "best"}, "policy"),
        ({"truth": "none"}, "truth"),
        ({"users": 0}, "users"),
        ({"seed": -1}, "seed"),
        ({"min_interactions": 5, "max_interactions": 4}, "min_interactions"),
        ({"mean_scroll": 26}, "mean_scroll"),
        ({"mean_scroll": 0}, "mean_scroll"),
        ({"policy": "front-page"}, "life.hours"),
        ({"life": {"hours": 24}}, "front-page"),
        ({"life": {"half_life": 6}}, "half_life"),
        ({"life": {"new_groups": 0.2}}, "new_groups"),
        ({"life": {"hours": 2}, "policy": "front-page", "search_share": 0}, "too few"),
        ({"effects": {"fatigue": -1}}, "effects.fatigue"),
        ({"features": {"informative": 1.1}}, "features.informative"),
        ({"colour": "red"}, "colour"),
        ({"catalogue": {"colour": "red"}}, "catalogue.colour"),
    ],
)
def test_impossible_simulations_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem) as caught:
        load_config("tiny", **values)
    assert caught.value.remedy


def test_unknown_presets_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SlatewiseError, match="tiny, demo, finn"):
        load_config("huge")
    with pytest.raises(SlatewiseError, match=r"absent\.toml"):
        load_config("tiny", tmp_path / "absent.toml")
    for content in (b"users = = 3", b"\xff\xfe"):
        (tmp_path / "broken.toml").write_bytes(content)
        with pytest.raises(SlatewiseError, match="not TOML"):
            load_config("tiny", tmp_path / "broken.toml")
