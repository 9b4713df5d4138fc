"""Arms that were changed while the service ran."""

import logging
from pathlib import Path

import pytest

from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.settings.changed_arms import (
    ARMS,
    change_arms,
    restore_arms,
    with_changed_arms,
)

CONFIG = ServiceConfig.model_validate(
    {"arms": {"mix": {"strategy": "epsilon-mix", "epsilon": 0.5}, "rest": {"share": 2}}}
)


def test_a_change_is_kept_with_the_settings_of_strategies(tmp_path: Path) -> None:
    arms = {**CONFIG.arms, "new": ArmConfig(strategy="greedy", share=3)}
    change_arms(tmp_path, CONFIG, arms)
    found = with_changed_arms(tmp_path, CONFIG)
    assert found.shares == {"mix": 1, "rest": 2, "new": 3}
    assert found.arms["mix"].line == CONFIG.arms["mix"].line
    restore_arms(tmp_path)
    restore_arms(tmp_path)
    assert with_changed_arms(tmp_path, CONFIG) is CONFIG


def test_settings_that_were_changed_later_win(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_arms(tmp_path, CONFIG, {"mix": ArmConfig()})
    later = CONFIG.changed(arms={"mix": {"share": 5}})
    with caplog.at_level(logging.WARNING):
        assert with_changed_arms(tmp_path, later) is later
    assert "have changed since" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", '{"settings": {}}'])
def test_a_damaged_file_is_said_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / ARMS).write_text(text)
    assert with_changed_arms(tmp_path, CONFIG) is CONFIG
    assert ARMS in caplog.text
