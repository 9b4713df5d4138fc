import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model import likelihood
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.linear import LinearWeights
from slatewise.model.likelihood import (
    Candidates,
    Exposure,
    batch_likelihood,
    clicked_before,
    exposure_weights,
)
from slatewise.model.parameters import Parameters
from slatewise.model.parts import Parts
from tests.model.ragged import histories, normals, ragged, random_interactions

ITEMS, D, STATES = 12, 3, 5
SOURCES = ["recommendation", "search"]
WHOLE = Candidates(torch.arange(ITEMS), ITEMS)
SLATE = ModelConfig(likelihood="slate")
ALL_ITEM = ModelConfig(likelihood="all-item")
ONCE = ModelConfig(likelihood="all-item", terms=("history",), repeats=False)
SOURCE_AWARE = ModelConfig(likelihood="source-aware", exposure={"search": 0.3}, sharpness=2.0)
every_likelihood = pytest.mark.parametrize(
    "config",
    [SLATE, ALL_ITEM, ONCE, SOURCE_AWARE],
    ids=lambda config: config.likelihood + "-once" * (not config.repeats),
)


def parameters(items: Tensor | None = None, no_click: Tensor | None = None) -> Parameters:
    return Parameters(
        parts=Parts.of(ModelConfig(dynamics="linear", dimensions=D)),
        items=normals(1, ITEMS, D) if items is None else items,
        weights=LinearWeights(torch.tensor(0.5)),
        initial_state=torch.zeros(D),
        no_click=normals(2, 4) if no_click is None else no_click,  # slates go up to 6
    )


PROFILES = normals(3, STATES, D)


def total_of(
    config: ModelConfig,
    batch: Interactions,
    candidates: Candidates | None = WHOLE,
    **given: Tensor,
) -> Tensor:
    count = len(batch.clicks)
    return batch_likelihood(
        parameters(given.get("items"), given.get("no_click")),
        given.get("profiles", PROFILES),
        torch.arange(count) % STATES,
        batch,
        weights_of(count),
        Exposure.of(config, SOURCES),
        candidates,
    ).total


def weights_of(count: int) -> Tensor:
    return (torch.arange(count) % 3).float()


def relevance(state: int, item: int) -> float:
    """exp(−‖z − v‖), in Python floats."""
    return math.exp(-math.dist(PROFILES[state].tolist(), parameters().items[item].tolist()))


def by_hand(
    config: ModelConfig, batch: Interactions, biases: Sequence[float] = (0.0,) * ITEMS
) -> float:
    """The equations as printed, interaction by interaction, in Python floats."""
    factor = [math.exp(bias) for bias in biases]
    beta = [math.exp(value) for value in parameters().no_click.tolist()]
    total = 0.0
    for met in histories(batch):
        for each in met:
            state, weight = each.index % STATES, each.index % 3
            no_click = beta[min(len(each.slate), len(beta)) - 1]
            near = [relevance(state, item) for item in range(ITEMS)]
            choices = [r * f for r, f in zip(near, factor, strict=True)]
            chosen = no_click if each.click < 0 else choices[each.click]
            among = set(range(ITEMS)) if config.likelihood == "all-item" else each.slate
            if not config.repeats:
                clicked = {one.click for one in met if one.index < each.index}
                among = among - (clicked - {each.click})
            # eq. likelihood_all-item, eq. likelihood
            likelihood = math.log(chosen / (sum(choices[item] for item in among) + no_click))
            if config.likelihood == "source-aware":
                lam = exposure_weights(config, SOURCES)[SOURCES[each.source]]
                kappa = config.sharpness
                share = sum(near[i] ** kappa for i in each.slate) / sum(r**kappa for r in near)
                likelihood += lam * math.log(share)
            total += weight * likelihood
    return total


@every_likelihood
@given(batch=ragged)
def test_the_likelihood_is_that_of_the_equations(config: ModelConfig, batch: Interactions) -> None:
    expected = by_hand(config, batch)
    # λ is a float32
    assert float(total_of(config, batch)) == pytest.approx(expected, rel=1e-7, abs=1e-7)


@every_likelihood
@given(batch=ragged)
def test_biases_choose_and_do_not_expose_unless_all_items_are_the_choice(
    config: ModelConfig, batch: Interactions
) -> None:
    biases = normals(4, ITEMS, 1)
    total = total_of(config, batch, items=torch.cat([parameters().items, biases], dim=1))
    expected = by_hand(config, batch, biases[:, 0].tolist())
    assert float(total) == pytest.approx(expected, rel=1e-7, abs=1e-7)


@every_likelihood
def test_float32_keeps_five_digits(config: ModelConfig) -> None:
    batch = random_interactions(0, users=40)
    total = total_of(
        config,
        batch,
        items=parameters().items.float(),
        no_click=parameters().no_click.float(),
        profiles=PROFILES.float(),
    )
    assert float(total) == pytest.approx(by_hand(config, batch), rel=1e-5)


def test_a_long_past_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Interactions.of_clicks(torch.tensor([4, 5, 4, 6, 7, 8]), torch.tensor([0, 4, 4, 6]))

    def taken() -> list[list[int]]:
        offsets, rows = clicked_before(batch)
        return [rows[start:end].tolist() for start, end in pairwise(offsets.tolist())]

    assert taken() == [[], [4], [-1, 5], [4, 5, 4], [], [7]]  # the third click is a repeat
    monkeypatch.setattr(likelihood, "_LOOK_BACK", 1)
    assert taken() == [[], [4], [5], [4], [], [7]]


def test_the_slate_part_is_reported_whatever_the_likelihood() -> None:
    batch = random_interactions(0)
    reported = []
    for config in (SLATE, ALL_ITEM, SOURCE_AWARE):
        count = len(batch.clicks)
        likelihood = batch_likelihood(
            parameters(),
            PROFILES,
            torch.arange(count) % STATES,
            batch,
            torch.ones(count),
            Exposure.of(config, SOURCES),
            WHOLE,
        )
        reported.append(likelihood.slate)
        assert not likelihood.slate.requires_grad
    assert torch.equal(reported[0], reported[1])
    assert torch.equal(reported[0], reported[2])


def test_all_item_is_slate_plus_exposure() -> None:
    """Eq. all-item-likelihood, whose second factor is worked out here by itself."""
    batch = random_interactions(7, users=20)
    beta = parameters().no_click.exp().tolist()
    exposure = 0.0
    for met in histories(batch):
        for each in met:
            state, weight = each.index % STATES, each.index % 3
            no_click = beta[min(len(each.slate), len(beta)) - 1]
            seen = sum(relevance(state, item) for item in each.slate) + no_click
            catalogue = sum(relevance(state, item) for item in range(ITEMS)) + no_click
            exposure += weight * math.log(seen / catalogue)
    slate, all_item = float(total_of(SLATE, batch)), float(total_of(ALL_ITEM, batch))
    assert exposure < -1  # else nothing is tested
    assert all_item == pytest.approx(slate + exposure, rel=1e-9)


def test_all_item_does_not_ask_what_else_was_in_the_slate() -> None:
    batch = random_interactions(8, users=20, longest_slate=5)
    generator = torch.Generator().manual_seed(0)
    other = batch.slate_items.clone()
    for met in histories(batch):
        for each in met:
            kept = [each.click] if each.click >= 0 else []
            rest = [i for i in torch.randperm(ITEMS, generator=generator).tolist() if i not in kept]
            first, place = int(batch.slate_offsets[each.index]), int(batch.clicks[each.index])
            for position in range(len(each.slate)):
                if position != place:
                    other[first + position] = rest.pop()
    changed = replace(batch, slate_items=other)
    assert not torch.equal(other, batch.slate_items)
    torch.testing.assert_close(total_of(ALL_ITEM, changed), total_of(ALL_ITEM, batch))
    assert abs(float(total_of(SLATE, changed) - total_of(SLATE, batch))) > 0.01


@every_likelihood
def test_probabilities_of_all_choices_add_up_to_one(config: ModelConfig) -> None:
    """The slate is the catalogue: exposure is certain, and something or nothing is clicked."""
    one = Interactions(
        user_offsets=torch.tensor([0, 1]),
        train_end=torch.ones(1, dtype=torch.int32),
        valid_end=torch.ones(1, dtype=torch.int32),
        times=torch.zeros(1, dtype=torch.int64),
        sources=torch.ones(1, dtype=torch.uint8),
        clicks=torch.zeros(1, dtype=torch.int32),
        slate_offsets=torch.tensor([0, ITEMS]),
        slate_items=torch.arange(ITEMS, dtype=torch.int32),
    )
    total = 0.0
    for click in range(-1, ITEMS):
        batch = replace(one, clicks=torch.tensor([click], dtype=torch.int32))
        likelihood = batch_likelihood(
            parameters(),
            PROFILES,
            torch.zeros(1, dtype=torch.int64),
            batch,
            torch.ones(1),
            Exposure.of(config, SOURCES),
            WHOLE,
        )
        total += math.exp(float(likelihood.total))
    assert total == pytest.approx(1, abs=1e-9)


def test_one_source_has_the_weight_of_the_configuration_and_others_none() -> None:
    config = ModelConfig(
        likelihood="source-aware", exposure={"search": 0.25, "mail": 2.0}, sharpness=1.5
    )
    exposure = Exposure.of(config, ["mail", "recommendation", "search"])
    assert exposure is not None
    assert exposure.source_weights.tolist() == [2.0, 0.0, 0.25]
    assert exposure.sharpness == 1.5
    assert not exposure.is_choice
    assert Exposure.of(SLATE, SOURCES) is None
    paper = Exposure.of(ALL_ITEM, SOURCES)
    assert paper is not None
    assert paper.source_weights.tolist() == [1.0, 1.0]
    assert paper.sharpness == 1.0
    assert paper.is_choice


def test_a_misspelt_source_is_refused_even_beside_a_right_one() -> None:
    config = ModelConfig(likelihood="source-aware", exposure={"search": 0.3, "male": 1.0})
    with pytest.raises(SlatewiseError, match="names 'male', which is not a source") as error:
        Exposure.of(config, ["mail", "search"])
    assert "mail, search" in error.value.remedy


def test_by_default_searches_count_and_without_any_all_sources() -> None:
    config = ModelConfig(likelihood="source-aware")
    exposure = Exposure.of(config, ["mail", "search"])
    assert exposure is not None
    assert exposure.source_weights.tolist() == pytest.approx([0.0, 1.0])
    everywhere = Exposure.of(config, ["mail", "news"])
    assert everywhere is not None
    assert everywhere.source_weights.tolist() == pytest.approx([0.3, 0.3])


def test_without_a_weight_the_source_aware_likelihood_is_that_of_the_slate() -> None:
    batch = random_interactions(4)
    config = ModelConfig(likelihood="source-aware", exposure={})
    torch.testing.assert_close(total_of(config, batch), total_of(SLATE, batch))


SAMPLED = Candidates(torch.tensor([1, 4, 7, 10]), ITEMS)


@every_likelihood
@pytest.mark.parametrize("candidates", [WHOLE, SAMPLED], ids=["exact", "sampled"])
def test_gradients_are_those_of_finite_differences(
    config: ModelConfig, candidates: Candidates
) -> None:
    batch = random_interactions(5, users=4)
    clicked = batch.clicked_items[batch.clicks >= 0]
    inside = torch.isin(clicked, SAMPLED.rows)
    assert inside.any()
    assert not inside.all()

    def total(items: Tensor, profiles: Tensor, no_click: Tensor) -> Tensor:
        return total_of(
            config, batch, candidates, items=items, profiles=profiles, no_click=no_click
        )

    start = (parameters().items, PROFILES.clone(), parameters().no_click)
    assert torch.autograd.gradcheck(total, [tensor.requires_grad_() for tensor in start])


def test_gradients_stay_finite_where_the_only_candidate_was_clicked() -> None:
    batch = random_interactions(5, users=4)
    only = Candidates(batch.clicked_items[batch.clicks >= 0][:1].long(), ITEMS)
    items = parameters().items.requires_grad_()
    total_of(ALL_ITEM, batch, only, items=items).backward()
    assert items.grad is not None
    assert torch.isfinite(items.grad).all()


def test_no_click_has_its_own_utility_for_each_scroll_length() -> None:
    theta = parameters()
    longest = len(theta.no_click)
    scroll = torch.tensor([1, 2, longest, longest + 1, 1_000])
    expected = theta.no_click[[0, 1, longest - 1, longest - 1, longest - 1]]
    assert torch.equal(theta.no_click_after(scroll, torch.zeros(5, dtype=torch.uint8)), expected)


@given(st.integers(0, 1_000_000), st.integers(1, 4))
def test_exposure_never_makes_a_slate_likelier_than_all_there_is(seed: int, drawn: int) -> None:
    """Whichever candidates stand for the catalogue, and however many items they stand for."""
    batch = random_interactions(seed, users=6, items=ITEMS)
    rows = torch.randperm(ITEMS, generator=torch.Generator().manual_seed(seed))[:drawn]
    within = float(total_of(SLATE, batch, None))
    for catalogue in (ITEMS, 1_000_000):
        assert float(total_of(SOURCE_AWARE, batch, Candidates(rows, catalogue))) <= within + 1e-4
