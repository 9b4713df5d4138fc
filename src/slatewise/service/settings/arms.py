"""Arms: which model and strategy make the slates of a share of the users."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, NonNegativeFloat, NonNegativeInt, model_validator

from slatewise.config import Config, SettingError
from slatewise.errors import SlatewiseError
from slatewise.slates.strategies import STRATEGIES, Strategy, named_strategy, strategy_line

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name: write small letters, digits, - and _")
    return name


Name = Annotated[str, AfterValidator(_named)]
"""Of a model or an arm: it is also the name of a directory, or a word in a log."""


class ArmConfig(Config):
    """One way of making slates, for a share of the users; all other settings are the strategy's."""

    model_config = ConfigDict(extra="allow")

    model: Name = "main"
    """The model that ranks."""
    strategy: str = "in-slate-thompson"
    """Strategy that makes slates from its posterior."""
    share: NonNegativeFloat = 1.0
    """Share of the users, relative to other arms; 0 pauses the arm."""
    propensities: NonNegativeInt = 0
    """Slates drawn per request to log how likely each item was in its position. Each costs as much
    as a slate."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = STRATEGIES.get(self.strategy, Config).setting_names()
        for name in self.model_extra or {}:
            if name not in known:
                names = ", ".join([*self.setting_names(), *known])
                raise ValueError(f"'{name}': there is no such setting. The settings are {names}")
        try:
            self.made  # noqa: B018 (refuses what the strategy does not have)
        except SlatewiseError as error:
            raise SettingError.of(error) from error
        return self

    @property
    def made(self) -> Strategy:
        """The strategy, with its settings."""
        return named_strategy(self.strategy, self.model_extra)

    @property
    def line(self) -> str:
        """The strategy with its settings, as the log has it."""
        return strategy_line(self.strategy, self.made)
