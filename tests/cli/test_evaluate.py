"""How `slatewise evaluate` divides its work."""

from threading import Event
from typing import Any

import pytest

from slatewise.cli.evaluate import _all_judged


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_baselines_are_fitted_while_a_gpu_judges_the_model(device: str) -> None:
    begun, order = Event(), []

    def judge(title: str, recommender: Any) -> Any:
        begun.set()
        order.append(title)
        return f"{title}, judged"

    def fit() -> dict[str, Any]:
        if device == "cuda":
            assert begun.wait(5)  # on a CPU, nothing is judged before
        else:
            assert not begun.is_set()
        return {"base rate": None}

    found: dict[str, Any] = _all_judged({"model": None}, fit, judge, device)  # type: ignore[dict-item]
    assert found == {"model": "model, judged", "base rate": "base rate, judged"}
    assert order == ["model", "base rate"]
