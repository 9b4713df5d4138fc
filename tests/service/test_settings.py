"""Settings have values that work, and what cannot be is refused in words."""

from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import PositiveInt

from slatewise.errors import SlatewiseError
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.slates import STRATEGIES, NamedStrategy


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "service.toml").write_text(text)
    return tmp_path / "service.toml"


def test_without_a_file_everything_has_a_value() -> None:
    config = ServiceConfig.read(None)
    assert config.shares == {"main": 1.0}
    assert config.arms["main"].model in config.models


def test_a_file_says_what_differs(tmp_path: Path) -> None:
    text = """
    salt = "autumn"
    [store]
    url = "postgresql://db/slates"
    [models.main.model]
    terms = ["bias", "history"]
    [models.plain]
    [arms.careful]
    strategy = "greedy"
    share = 0.25
    [arms.curious]
    model = "plain"
    draws = 20
    share = 0.75
    propensities = 100
    [retraining]
    at = "03:00"
    """
    config = ServiceConfig.read(written(tmp_path, text))
    assert config.models["main"].model.terms == ("bias", "history")
    assert config.shares == {"careful": 0.25, "curious": 0.75}
    assert config.arms["curious"].strategy == "in-slate-thompson"
    assert config.store_url(tmp_path) == "postgresql://db/slates"
    assert config.retraining.window_days == 28


def test_the_store_is_in_the_directory_by_default(tmp_path: Path) -> None:
    assert ServiceConfig().store_url(tmp_path) == f"sqlite:///{tmp_path.resolve()}/store.sqlite"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[arms.a]\nmodel = 'other'", "model 'other'"),
        ("[arms.a]\nshare = 0", "no arm has a share"),
        ("[arms.a]\nshare = -1", "arms.a.share"),
        ("[arms.a]\nstrategy = 'best'", "no strategy 'best'"),
        ("[arms.a]\nepsilon = 0.1", "'epsilon': there is no such setting"),
        ("[arms.a]\nstrategy = 'greedy'\ndraws = 3", "'draws': there is no such setting"),
        ("[arms.a]\nshares = 1", "The settings are model, strategy, share"),
        ("[arms.'../up']", "is no name"),
        ("[models.'A b']", "is no name"),
        ("[models.main.model]\nterms = ['magic']", "models.main.model.terms"),
        ("[retraining]\nat = '25:00'", "is no time of day"),
        ("[retraining]\npromote = 'perhaps'", "retraining.promote"),
        ("[limits]\nk = 0", "limits.k"),
        ("arms = {}", "arms"),
        ("[arms", "is not TOML"),
    ],
)
def test_what_cannot_be_is_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SlatewiseError) as refusal:
        ServiceConfig.read(written(tmp_path, text))
    assert problem in str(refusal.value)
    assert "service.toml" in str(refusal.value)
    assert refusal.value.remedy


def test_every_strategy_can_be_named() -> None:
    for name in STRATEGIES:
        assert ArmConfig(strategy=name).made.name == name


def test_an_arm_takes_the_settings_of_any_strategy() -> None:
    class Shuffled(NamedStrategy):
        name: ClassVar[str] = "shuffled"
        rounds: PositiveInt = 1

    try:
        arm = ArmConfig.build({"strategy": "shuffled", "rounds": 3}, "a test")
        assert arm.line == "shuffled rounds=3"
        assert ArmConfig.build(arm.model_dump(), "a test") == arm
        with pytest.raises(SlatewiseError, match="greater than 0"):
            ArmConfig.build({"strategy": "shuffled", "rounds": 0}, "a test")
    finally:
        del STRATEGIES["shuffled"]


def test_changed_settings_are_checked_again() -> None:
    config = ServiceConfig()
    assert config.changed(store={"url": "sqlite:///x"}).store.url == "sqlite:///x"
    with pytest.raises(SlatewiseError):
        config.changed(history=0)
