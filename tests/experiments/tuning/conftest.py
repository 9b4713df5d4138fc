"""Trials that never ran."""

from collections.abc import Callable

import pytest

from slatewise.experiments.tuning.trials import Trial

MakeTrial = Callable[..., Trial]


@pytest.fixture
def make_trial() -> MakeTrial:
    def make(number: int, value: float | None, parameters: dict[str, float] | None = None) -> Trial:
        status = "completed" if value is not None else "failed"
        curve = [[value]] if value is not None else []
        return Trial(number, "sobol", parameters or {}, status, value, value, curve, 0.5)

    return make
