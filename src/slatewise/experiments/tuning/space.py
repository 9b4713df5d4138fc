"""What is searched: the settings of Appendix A, the range of each, and points in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import torch

from slatewise.config import Search
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.training.config import TrainingConfig
from slatewise.training.unused import matters, training_of

Range = tuple[float, float]
Point = dict[str, float]
"""A value for each searched setting."""

PAPER_RANGES: Final[Mapping[str, str]] = {
    "sigma_max": "[0.05, 10]",
    "temperature": "(0, 1]",
    "learning_rate": "[1e-4, 1e-1]",
    "sigma_rnn": "[0.1, 10]",
    "kappa_mu": "[0.1, 2]",
    "kappa_sigma": "[0.01, 2]",
    "sigma_v": "0.1, fixed",
}

PAPER_FOUND: Final[Mapping[str, Mapping[str, float]]] = {
    name: dict(zip(PAPER_RANGES, found, strict=False))
    for name, found in {
        "slate-gru-hier": (9.22, 0.0265, 0.000434, 7.14, 4.63, 0.817),
        "slate-linear-hier": (7.18, 0.0339, 0.00075, 11.7, 0.01, 0.01),
        "slate-gru-flat": (5.3, 0.0096, 0.000905, 8.55, 8.88, 7.19),
        "all-item-gru-hier": (2.37, 0.0736, 0.00107, 6.8, 13.7, 10.0),
    }.items()
}
"""What the paper's search found; its τ is on another scale than ours."""

_DIGITS = 4
"""Significant digits of a setting: what is trained is what is written down."""


def known_ranges() -> dict[str, Range]:
    """Return the range of every setting that says one (`Search`), and of the learning rate.

    They are the paper's, but for four. τ gets a lower end. κ_μ and κ_Σ, which the paper bounds by
    2, reach up to what it found by its own search (13.7 and 10). σ_v, which it fixes, stands in for
    both where the prior is flat, as wide as κ_Σ.
    """
    settings = {**ModelConfig.settings(), **TrainingConfig.model_fields}
    return {
        name: (one.low, one.high)
        for name, field in settings.items()
        for one in field.metadata
        if isinstance(one, Search)
    }


def searched(model: ModelConfig) -> list[str]:
    """Return the settings that matter to a model: linear dynamics have no σ_rnn, and so on."""
    return [
        name
        for name in known_ranges()
        if name in TrainingConfig.model_fields or matters(model, name)
    ]


@dataclass(frozen=True)
class Space:
    """The ranges of one search, in logarithms, around the settings that are not searched."""

    model: ModelConfig
    training: TrainingConfig
    ranges: Mapping[str, Range]

    @classmethod
    def of(cls, model: ModelConfig, training: TrainingConfig, ranges: Mapping[str, Range]) -> Self:
        """Take the ranges that matter to the model."""
        return cls(model, training, {name: ranges[name] for name in searched(model)})

    def defaults(self) -> Point:
        """Return what the settings are without a search; it may lie outside the ranges."""
        rate = self.training.rate
        values = self.model.model_dump() | {"learning_rate": rate}
        return {name: values[name] for name in self.ranges}

    def sobol(self, number: int, seed: int) -> Point:
        """Return one point of a scrambled Sobol sequence, `number` counted from 0."""
        engine = torch.quasirandom.SobolEngine(len(self.ranges), scramble=True, seed=seed)  # type: ignore[no-untyped-call]
        shares = engine.draw(number + 1)[number].tolist()
        return self.rounded(
            {
                name: low * (high / low) ** share
                for share, (name, (low, high)) in zip(shares, self.ranges.items(), strict=True)
            }
        )

    def grid(self, name: str, points: int) -> list[float]:
        """Return values of a setting, evenly spaced in logarithms, both ends included."""
        low, high = self.ranges[name]
        inner = [low * (high / low) ** (n / (points - 1)) for n in range(1, points - 1)]
        return [low, *inner, high]

    def rounded(self, point: Mapping[str, float]) -> Point:
        """Return the point in four significant digits, or the nearest inside the ranges."""
        return {
            name: min(
                max(float(f"{value:.{_DIGITS}g}"), self.ranges[name][0]), self.ranges[name][1]
            )
            for name, value in point.items()
        }

    def configs(self, point: Mapping[str, float]) -> tuple[ModelConfig, TrainingConfig]:
        """Return the configurations of a point."""
        model = {name: value for name, value in point.items() if name != "learning_rate"}
        changed = self.model.changed(**model)
        training = self.training.model_copy(update={"learning_rate": point["learning_rate"]})
        return changed, training_of(changed, training)


def checked_ranges(ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return all ranges, with those given instead of ours; refuse what cannot be one."""
    known = known_ranges()
    for name, (low, high) in ranges.items():
        if name not in known:
            raise SlatewiseError(
                f"'{name}' is not searched.", f"There are ranges for {', '.join(known)}."
            )
        if not 0 < low < high or (name == "temperature" and high > 1):
            raise SlatewiseError(
                f"the range of {name}, {low:g} to {high:g}, is not possible.",
                "Give two rising positive numbers, for temperature up to 1.",
            )
    return {**known, **ranges}
