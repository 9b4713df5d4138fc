import numpy as np
import pytest

from slatewise.model.fitted import SlateModel
from slatewise.slates import EpsilonMix, InSlateThompson, Recommender
from slatewise.slates.explanation import rank_quantiles
from tests.slates.conftest import a_model


def test_ranks_are_counted_from_one_and_end_where_the_rankings_do() -> None:
    rankings = np.array([[7, 8, 9], [8, 7, 9], [8, 9, 7], [8, 9, 6]])
    assert rank_quantiles(rankings, np.array([8, 7, 5])) == [
        (1, 1, 1),
        (1, 2, 3),
        (None, None, None),
    ]


def test_reasons_name_what_the_model_knows(model: SlateModel) -> None:
    recommender = Recommender(model)
    slate = recommender.recommend(["a03", "a17"], 8, seed=3)
    reasons = recommender.explain(slate)
    greedy = recommender.recommend(["a03", "a17"], 8, strategy="greedy").items
    vectors = model.item_vectors
    for reason, item, relevance in zip(reasons, slate.items, slate.relevance, strict=True):
        assert reason.item == item
        assert reason.relevance == pytest.approx(relevance)
        number = model.number_of(item)
        assert reason.views == number
        assert (reason.shown_as == "good") == (item in greedy)
        distance = {c: np.linalg.norm(vectors[number] - vectors[c]) for c in (3, 17)}
        nearest = min(distance, key=lambda click: distance[click])
        assert reason.nearest_click == f"a{nearest:02d}"


def test_nobody_has_a_nearest_click(model: SlateModel) -> None:
    recommender = Recommender(model)
    reasons = recommender.explain(recommender.recommend([], 3, seed=0))
    assert {reason.nearest_click for reason in reasons} == {None}


def test_an_uncertain_item_is_shown_as_uncertain_and_its_rank_is_wide() -> None:
    model = a_model(scale=0.02)
    model.posterior.items.raw[30] = 1.0
    recommender = Recommender(model)
    for seed in range(100):
        slate = recommender.recommend(["a03"], 5, strategy=InSlateThompson(draws=20), seed=seed)
        if "a30" in slate.items:
            break
    reasons = {reason.item: reason for reason in recommender.explain(slate)}
    widths = {item: (r.ranks[2] or 99) - (r.ranks[0] or 99) for item, r in reasons.items()}
    assert reasons["a30"].shown_as == "uncertain"
    assert widths["a30"] > max(width for item, width in widths.items() if item != "a30")


def test_what_chance_put_there_is_not_called_uncertain(model: SlateModel) -> None:
    recommender = Recommender(model)
    mixed = recommender.recommend(["a03"], 6, strategy=EpsilonMix(epsilon=0.5), seed=4)
    greedy = recommender.recommend(["a03"], 6, strategy="greedy").items
    found = {reason.item: reason.shown_as for reason in recommender.explain(mixed)}
    assert found == {item: "good" if item in greedy else "chance" for item in mixed.items}
    assert "chance" in found.values()
    thompson = EpsilonMix(epsilon=0.4, rest=InSlateThompson(draws=20))
    kinds = [
        reason.shown_as
        for seed in range(10)
        for slate in [recommender.recommend(["a03"], 6, strategy=thompson, seed=seed)]
        for reason in recommender.explain(slate)
    ]
    assert set(kinds) == {"good", "chance", "uncertain"}
