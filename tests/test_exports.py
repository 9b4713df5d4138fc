"""Names that packages load on first use."""

import importlib

import pytest

PACKAGES = ("features", "ranking", "slates", "training")
LAZY = ["slatewise", *(f"slatewise.{name}" for name in PACKAGES)]


@pytest.mark.parametrize("package", LAZY)
def test_every_exported_name_is_found(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", [*LAZY, "slatewise.plot"])
def test_a_console_lists_what_a_package_has(package: str) -> None:
    module = importlib.import_module(package)
    assert {*module.__all__} <= {*dir(module)}


def test_a_console_lists_figures_alone() -> None:
    assert dir(importlib.import_module("slatewise.plot")) == [
        *("daily_rates", "paired", "posterior_by_views"),
        *("relevance", "reliability", "training_curves"),
    ]


def test_an_unknown_name_is_refused_as_python_does() -> None:
    module = importlib.import_module("slatewise.slates")
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing
