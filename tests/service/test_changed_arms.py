"""Arms that were changed while the service ran."""

import logging

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.settings.changed_arms import changed_arms_text, with_changed_arms

CONFIG = ServiceConfig.model_validate(
    {"arms": {"mix": {"strategy": "epsilon-mix", "epsilon": 0.5}, "rest": {"share": 2}}}
)


def test_a_change_is_kept_with_the_settings_of_strategies() -> None:
    arms = {**CONFIG.arms, "new": ArmConfig(strategy="greedy", share=3)}
    found = with_changed_arms(CONFIG, changed_arms_text(CONFIG, arms))
    assert found.shares == {"mix": 1, "rest": 2, "new": 3}
    assert found.arms["mix"].line == CONFIG.arms["mix"].line
    assert with_changed_arms(CONFIG, "") is CONFIG


def test_arms_that_cannot_run_are_refused() -> None:
    with pytest.raises(SlatewiseError, match="no arm has a share"):
        changed_arms_text(CONFIG, {"mix": ArmConfig(share=0)})


def test_settings_that_were_changed_later_win(caplog: pytest.LogCaptureFixture) -> None:
    text = changed_arms_text(CONFIG, {"mix": ArmConfig()})
    later = CONFIG.changed(arms={"mix": {"share": 5}})
    with caplog.at_level(logging.WARNING):
        assert with_changed_arms(later, text) is later
    assert "have changed since" in caplog.text


@pytest.mark.parametrize("text", ["{", "[]", '{"settings": {}}'])
def test_a_damaged_text_is_said_and_not_used(caplog: pytest.LogCaptureFixture, text: str) -> None:
    assert with_changed_arms(CONFIG, text) is CONFIG
    assert "not used" in caplog.text
