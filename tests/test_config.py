"""Configurations: what is wrong with them, and what to do."""

import pytest
from pydantic import field_validator

from slatewise.config import Config, SettingError, require_known
from slatewise.errors import SlatewiseError


class Lamp(Config):
    """Settings of a lamp."""

    colour: str = "red"
    """Its colour."""
    watts: int = 1
    """Its power."""

    @field_validator("colour")
    @classmethod
    def _known(cls, colour: str) -> str:
        require_known((colour,), ("red", "green"), "colour")
        return colour

    @field_validator("watts")
    @classmethod
    def _bright(cls, watts: int) -> int:
        if watts < 0:
            raise SettingError.of(SlatewiseError("It is darker than dark.", "Give more."), "Lamp: ")
        return watts


@pytest.mark.parametrize(
    ("given", "problem", "remedy"),
    [
        ({"colour": "blue"}, "there is no colour 'blue'", "Choose from red, green."),
        ({"watts": -1}, "Lamp: It is darker than dark", "Give more."),
        ({"watts": "much"}, "Input should be a valid integer", "Correct the value."),
        ({"size": 3}, "there is no such setting", "The settings are colour, watts."),
    ],
)
def test_a_refusal_says_what_to_do(given: dict[str, object], problem: str, remedy: str) -> None:
    with pytest.raises(SlatewiseError) as caught:
        Lamp.build(given, "options")
    (name,) = given
    found = caught.value.problem
    assert found.startswith(f"options, '{name}': {problem}")
    assert found.endswith(".")
    assert not found.endswith("..")
    assert caught.value.remedy == remedy
