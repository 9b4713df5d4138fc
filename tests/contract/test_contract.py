"""Every registered part, alone and with all others, means the same to every consumer."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.model.config import ModelConfig
from slatewise.model.registry import DYNAMICS, TERMS
from slatewise.slates.terms_in_log import TermsInLog
from slatewise.training import save
from tests.contract.checks import CHECKS, WHO
from tests.contract.world import END, SOURCES, Case, case_of
from tests.parts import ONE_OF

PARTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    **{
        f"{kind} {name}": {kind: name}
        for kind, all_of in ONE_OF.items()
        for name in all_of.names
        if name != ModelConfig.model_fields[kind].default
    },
    **{f"term {name}": {"terms": (name,)} for name in TERMS.names},
    **{f"evidence {name}": {"evidence": SOURCES[:1], "dynamics": name} for name in DYNAMICS.names},
    "all terms": {"terms": TERMS.names, "evidence": SOURCES, "relevance": "dot"},
}
RANKED = "all terms"
CANDIDATES = 9
"""Of 30 items, that a second stage ranks again for slates of 4."""
RANKING = [name for name in TERMS.names if TERMS[name].ranks != "never"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_means_the_same_to_every_consumer(
    part: str, check: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    CHECKS[check](part_case(part, dataset), tmp_path)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("term", RANKING)
def test_twice_the_weight_of_a_term_is_twice_its_share_to_every_consumer(
    term: str, check: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    once, twice = part_case(f"term {term}", dataset), doubled_case(term, dataset)
    require_another_ranking(once, twice)
    CHECKS[check](twice, tmp_path)


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "features"])
def test_weights_of_the_next_click_rank_to_every_consumer(
    check: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    """They explain no choice within a slate: `features` has nothing to compare."""
    require_another_ranking(part_case(RANKED, dataset), part_case(RANKED, dataset, "next-click"))
    CHECKS[check](part_case(RANKED, dataset, "next-click"), tmp_path)


SPREAD = ("predictions", "evaluation_ranking", "greedy_slates", "given_lists", "lists_as_slates")
SPREAD += ("judged_slates", "rankings", "explanations", "live_service")
"""Consumers of the closed form."""


@pytest.mark.parametrize("check", SPREAD)
@pytest.mark.parametrize("part", ["defaults", "all terms"])
def test_how_uncertain_items_are_counts_for_every_consumer(
    part: str, check: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    certain, uncertain = part_case(part, dataset), uncertain_case(part, dataset)
    if certain.model.config.relevance == "distance":
        require_another_ranking(certain, uncertain)
    CHECKS[check](uncertain, tmp_path)


def first_stage_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TermsInLog, "candidates", property(lambda self: 0, lambda self, count: None), raising=False
    )


def after_the_log(patch: pytest.MonkeyPatch) -> None:
    honest = TermsInLog.in_list
    patch.setattr(
        TermsInLog,
        "in_list",
        lambda self, history, items, source, time, length: honest(
            self, history, items, source, END, length
        ),
    )


@pytest.mark.parametrize("part", ["term network", "all terms"])
def test_few_candidates_of_a_first_stage_are_judged_as_they_are_served(
    part: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    case = part_case(part, dataset).with_candidates(CANDIDATES)
    for check in ("evaluation_ranking", "judged_slates"):
        CHECKS[check](case, tmp_path)


@pytest.mark.parametrize("check", ["evaluation_ranking", "judged_slates"])
@pytest.mark.parametrize("ignorant", [first_stage_alone, after_the_log])
def test_the_contract_fails_where_another_slate_is_judged(
    ignorant: Callable[[pytest.MonkeyPatch], None],
    check: str,
    dataset: SlateDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = part_case("term network", dataset).with_candidates(CANDIDATES)
    ignorant(monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check](case, tmp_path)


@cache
def uncertain_case(part: str, dataset: SlateDataset) -> Case:
    return part_case(part, dataset).with_uncertain_items()


@cache
def part_case(part: str, dataset: SlateDataset, ranking: str = "auto") -> Case:
    return case_of(dataset, **PARTS[part], ranking=ranking)


@cache
def doubled_case(term: str, dataset: SlateDataset) -> Case:
    return part_case(f"term {term}", dataset).with_double(term)


def require_another_ranking(one: Case, other: Case) -> None:
    """Require that a consumer who took one model for the other would be found out."""
    first, second = (case.after_all(WHO[0]) for case in (one, other))
    assert np.argsort(first).tolist() != np.argsort(second).tolist()


def test_the_command_line_explains_by_every_part_that_ranks(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    save(case_of(dataset, terms=("bias", "history"), relevance="dot").model, tmp_path / "run")
    asked = ["recommend", str(tmp_path / "run"), "--clicks", "i3,i4", "--k", "3", "--explain"]
    shown = CliRunner().invoke(app, asked).output.partition("Utility, term")[2]
    lines = [line.split() for line in shown.splitlines()]
    first = next(number for number, words in enumerate(lines) if words[:1] == ["item"])
    header, *rows = lines[first : first + 4]
    assert header == ["item", "dot", "bias", "history", "sum"]
    for row in rows:
        *parts, total = (float(value.replace("−", "-")) for value in row[1:])
        assert sum(parts) == pytest.approx(total, abs=0.002)


@pytest.mark.parametrize("term", ["co_clicks", "network", "item_network"])
def test_a_night_that_keeps_the_numbers_of_items_is_found_out(
    term: str, dataset: SlateDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TERMS[term], "on_items", lambda self, *rest: self)
    with pytest.raises((AssertionError, IndexError)):
        CHECKS["nights"](part_case(f"term {term}", dataset), tmp_path)
