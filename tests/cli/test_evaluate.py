"""How `slatewise evaluate` divides its work, and what it says."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from slatewise.cli import evaluate as module
from slatewise.cli.evaluate import _all_judged, _notes, _rates


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


def test_of_many_sources_those_seen_most_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SOURCES", 2)
    counts = {"all sources": 10, "a": 1, "b": 5, "c": 1, "d": 3}
    of_all = {name: SimpleNamespace(value=0.5, count=count) for name, count in counts.items()}
    judged = SimpleNamespace(
        calibrated=None,
        estimates=dict.fromkeys(("click_rate", "predicted_click_rate", "ece"), of_all),
    )
    (names, *_) = _rates(judged).columns  # type: ignore[arg-type]
    assert list(names.cells) == ["all sources", "b", "d", "2 rarer sources: --json"]
    monkeypatch.undo()
    assert list(_rates(judged).columns[0].cells) == list(counts)  # type: ignore[arg-type]


def test_it_says_how_models_of_others_were_tuned() -> None:
    def said(others: list[str], trials: int, ranked: int = 12_000) -> str:
        about = SimpleNamespace(about={"users": 12_000, "ranked_users": ranked})
        return "\n".join(_notes(about, others, trials, all_item=False, several=False))  # type: ignore[arg-type]

    assert said([], 8) == ""
    drawn = "Rankings are judged by 10,000 of the 12,000 users, drawn at random."
    assert said([], 8, 10_000) == drawn
    assert said(["bpr"], 1) == "bpr: usual settings; --trials 8 tunes each by the validation part."
    assert said(["bpr", "lightgbm"], 3) == (
        "bpr, lightgbm: each the best of 3 settings by the validation part."
    )
