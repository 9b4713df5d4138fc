"""Presets, and configurations derived from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slatewise.config import read_toml
from slatewise.errors import SlatewiseError
from slatewise.simulation.config import SimulationConfig

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tiny": {
        "users": 300,
        "min_interactions": 10,
        "catalogue": {"items": 200, "groups": 10, "dimensions": 5},
    },
    "demo": {},
    "finn": {
        "users": 2_300_000,
        "min_interactions": 12,
        "catalogue": {
            "items": 1_300_000,
            "groups": 290,
            "dimensions": 25,
            # Groups of thousands: at the default skew most items would never be seen.
            "exposure_skew": 1.2,
            # In 25 dimensions the distances of a group's items are nearly equal: wider groups.
            "spread_low": 1.0,
            "spread_high": 2.0,
        },
        "intent": {"switch": 0.2, "companion": 0.9},
        # Queries are words and not points: a slate mixes what was meant with what was not.
        "search": {
            "candidates": 40,
            "own_share": 0.35,
            "neighbour_share": 0.25,
            "rank_noise": 3.0,
        },
        "paper": {"no_click": -2.1},
        "outside": {"no_click": 4.6},
    },
    "news": {
        "policy": "front-page",
        "users": 4_000,
        "max_interactions": 40,
        "search_share": 0.0,
        "max_slate": 10,
        "mean_scroll": 6.0,
        "days": 7,
        "catalogue": {"items": 400, "groups": 20, "exposure_skew": 0.5},
        "intent": {"switch": 0.2, "companion": 0.3, "satiation_memory": 20, "satiation": 4.0},
        "paper": {"no_click": -3.7},
        "outside": {"no_click": 2.0, "quality_sd": 0.0, "position_bias": 0.0},
        "effects": {
            "quality_sd": 0.8,
            "propensity_sd": 0.5,
            "position_bias": 0.5,
            "fatigue": 1.0,
            "standout": 0.8,
        },
        "life": {"hours": 36.0, "half_life": 10.0, "burst": 2.5},
        "features": {"of_vector": 4, "of_quality": 1},
    },
    "market": {
        "policy": "front-page",
        "users": 3_000,
        "days": 28,
        "catalogue": {"items": 24_000, "groups": 60, "exposure_skew": 0.5},
        "paper": {"no_click": -1.0},
        "outside": {"no_click": 5.2, "quality_sd": 0.0},
        "effects": {"quality_sd": 0.8},
        "life": {"hours": 96.0, "new_groups": 0.1},
    },
    "video": {
        "users": 3_000,
        "min_interactions": 30,
        "max_interactions": 50,
        "search_share": 0.0,
        "max_slate": 1,
        "mean_scroll": 1.0,
        "catalogue": {"items": 1_500, "groups": 30, "exposure_skew": 2.0},
        "intent": {"switch": 0.1, "companion": 0.3},
        "paper": {"no_click": -3.5},
        "outside": {"no_click": 1.0, "quality_sd": 0.0, "position_bias": 0.0},
        "effects": {
            "quality_sd": 0.7,
            "propensity_sd": 1.2,
            "fatigue": 1.2,
            "fatigue_memory": 50,
        },
    },
}
"""Named configurations, as differences from the defaults of `SimulationConfig`."""


def load_config(
    preset: str = "demo",
    file: str | Path | None = None,
    *,
    scale: float | None = None,
    **overrides: object,
) -> SimulationConfig:
    """Return the preset, updated from the TOML file and then by the overrides that are not None.

    With `scale`, it has that share of the preset's users and items.
    """
    if preset not in PRESETS:
        raise SlatewiseError(
            f"There is no preset '{preset}'.", f"Choose one of {', '.join(PRESETS)}."
        )
    values: dict[str, Any] = dict(PRESETS[preset])
    if scale is not None:
        if not 0 < scale <= 1:
            raise SlatewiseError(f"A scale of {scale} is none.", "Give a share between 0 and 1.")
        whole = SimulationConfig.build(values, "simulation").scaled(scale)
        size = whole.catalogue.model_dump(include={"items", "groups"})
        values = _merged(values, {"users": whole.users, "catalogue": size})
    values = _merged(values, read_toml(file) if file is not None else {})
    values |= {key: value for key, value in overrides.items() if value is not None}
    return SimulationConfig.build(values, "simulation")


def _merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
