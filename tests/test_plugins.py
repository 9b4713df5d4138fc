"""Objects by import path: found, or refused in words that say what is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation.baselines import BASELINES
from slatewise.evaluation.baselines.registry import require_baselines
from slatewise.experiments.offline import OfflineConfig
from slatewise.experiments.online_strategies import OnlineStrategiesConfig
from slatewise.experiments.study import find_study
from slatewise.plugins import load_object
from slatewise.slates import named_strategy
from tests.conftest import Write

MODULE = """
class Whole:
    name = "whole"

    def fit(self, dataset): ...

    def predict(self, interactions, scored): ...

    def slates(self, ranker, users, k): ...


class Unfitted:
    def fit(self, dataset): ...


class Nameless:
    def slates(self, ranker, users, k): ...


class Greedy(Whole):
    name = "greedy"


class Asking(Whole):
    def __init__(self, size): ...


made = Asking(3)
slates = 3
"""


@pytest.fixture
def module(write_module: Write) -> str:
    return write_module(MODULE)


def problem(call: Callable[[], object]) -> str:
    with pytest.raises(SlatewiseError) as caught:
        call()
    return caught.value.problem


def test_a_baseline_without_a_method_is_told_which(module: str) -> None:
    said = problem(lambda: require_baselines([f"{module}:Unfitted"]))
    assert said == (
        "Unfitted has no method `predict`: a baseline needs fit(dataset) and "
        "predict(interactions, scored)."
    )
    require_baselines([f"{module}:Whole", f"{module}:made", *BASELINES])
    assert "there is no baseline 'ctr'" in problem(lambda: require_baselines(["ctr"]))


def test_a_strategy_without_a_name_is_told_so(module: str) -> None:
    assert named_strategy(f"{module}:Whole").name == "whole"
    assert named_strategy(f"{module}:made").name == "whole"
    said = problem(lambda: named_strategy(f"{module}:Nameless"))
    assert said.startswith("Nameless has no attribute `name`: a strategy needs name and slates(")
    said = problem(lambda: named_strategy(f"{module}:Asking"))
    assert "cannot be made without arguments" in said


def test_a_study_needs_its_four_functions(module: str) -> None:
    assert "a study needs name and title and config" in problem(
        lambda: find_study(f"{module}:Whole")
    )
    assert "there is no study 'of'" in problem(lambda: find_study("of"))


def test_what_is_not_there_is_named(module: str, write_module: Write) -> None:
    assert "has no thing `Nothing`" in problem(lambda: load_object(f"{module}:Nothing", "thing"))
    assert "no module 'nowhere'" in problem(lambda: load_object("nowhere.at:All", "thing"))
    assert "not an import path" in problem(lambda: load_object(f"{module}:", "thing"))
    broken = write_module("import not_installed_anywhere\n")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        load_object(f"{broken}:Name", "thing")


def test_studies_refuse_wrong_objects_before_they_begin(module: str, tmp_path: Path) -> None:
    def offline(**values: object) -> str:
        return problem(lambda: OfflineConfig.build({"preset": "tiny", **values}, "test"))

    assert "Unfitted has no method `predict`" in offline(against=[f"{module}:Unfitted"])
    assert "is no variant: it is a type" in offline(models={"mine": f"{module}:Whole"})
    assert "there is a variant 'slate-gru-hier' already" in offline(models={"slate-gru-hier": {}})
    assert "there is no variant 'mine'" in offline(variants=["mine"])
    assert "no such setting" in offline(models={"mine": {"dynamic": "gru"}})

    def online(*strategies: str) -> str:
        values = {"preset": "tiny", "strategies": strategies}
        return problem(lambda: OnlineStrategiesConfig.build(values, "test"))

    assert "Nameless has no attribute `name`" in online("greedy", f"{module}:Nameless")
    assert "a strategy is given twice" in online("greedy", f"{module}:Greedy")
