from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.model.fitted import SlateModel
from slatewise.slates import Recommender
from slatewise.training import load, save
from tests.slates.conftest import ITEMS, a_model


@pytest.fixture
def recommender(model: SlateModel) -> Recommender:
    return Recommender(model)


def test_one_user_gets_a_slate_and_many_get_many(recommender: Recommender) -> None:
    one = recommender.recommend(["a03", "a17"], 5, seed=1)
    many = recommender.recommend([["a03", "a17"], []], 5, seed=1)
    assert len(one) == 5
    assert [len(slate) for slate in many] == [5, 5]
    assert many[0].items == one.items
    assert many[1].seed == 2


def test_an_empty_history_is_a_user_too(recommender: Recommender) -> None:
    assert len(recommender.recommend([], 5)) == 5
    assert [len(slate) for slate in recommender.recommend([[]], 5)] == [5]


def test_unknown_items_of_the_history_are_ignored_and_named(recommender: Recommender) -> None:
    with_unknown = recommender.recommend(["a03", "nothing", 7, "a17"], 5, seed=1)
    without = recommender.recommend(["a03", "a17"], 5, seed=1)
    assert with_unknown.unknown == ["nothing", 7]
    assert with_unknown.items == without.items


def test_a_number_is_the_text_that_spells_it(model: SlateModel) -> None:
    text = Recommender(replace(model, item_ids=[str(number) for number in range(ITEMS)]))
    numbers = Recommender(replace(model, item_ids=list(range(ITEMS))))
    of_text, of_numbers = (
        text.recommend([3, "17"], 5, seed=1),
        numbers.recommend(["3", 17], 5, seed=1),
    )
    assert of_text.unknown == of_numbers.unknown == []
    assert of_text.items == [str(item) for item in of_numbers.items]
    assert text.recommend([], ITEMS, allow=[3, "04", 5], seed=1).items in (["3", "5"], ["5", "3"])
    assert repr(text) == f"Recommender({model.config.name}; {ITEMS} items on offer)"


def test_clicked_items_are_shown_only_if_wanted(recommender: Recommender) -> None:
    everything = [f"a{number:02d}" for number in range(ITEMS)]
    clicks = everything[:50]
    hidden = recommender.recommend(clicks, ITEMS, strategy="greedy")
    assert sorted(hidden.items) == everything[50:]
    shown = recommender.recommend(clicks, ITEMS, strategy="greedy", clicked="show")
    assert sorted(shown.items) == everything


def test_pages_do_not_overlap(recommender: Recommender) -> None:
    first = recommender.recommend(["a03"], 10, seed=5)
    second = recommender.recommend(["a03"], 10, seed=5, exclude=first.items)
    assert not set(first.items) & set(second.items)


def test_filters_take_ids_and_group_names(recommender: Recommender) -> None:
    slate = recommender.recommend(
        ["a03"], 6, allow=["a00", "a01", "a02", "a04", "nothing"], groups={"green": 1}, seed=0
    )
    assert set(slate.items) - {"a01", "a04"} == {"a00", "a02"}
    assert len(slate) == 3
    assert slate.groups == [recommender.model.group_of(item) for item in slate.items]
    spread = recommender.recommend([], 3, groups=1, seed=0)
    assert sorted(spread.groups) == ["blue", "green", "red"]


def test_a_seed_that_was_drawn_makes_the_slate_again(recommender: Recommender) -> None:
    drawn = recommender.recommend(["a03"], 10)
    assert recommender.recommend(["a03"], 10, seed=drawn.seed).items == drawn.items
    seeds = {recommender.recommend(["a03"], 10).seed for _ in range(5)}
    assert len(seeds) == 5


def test_hiding_showing_and_removing_take_effect_at_once(recommender: Recommender) -> None:
    first = recommender.recommend(["a03"], 1, strategy="greedy").items
    recommender.hide_items(first)
    assert recommender.recommend(["a03"], 1, strategy="greedy").items != first
    recommender.show_items(first)
    assert recommender.recommend(["a03"], 1, strategy="greedy").items == first
    recommender.remove_items(first)
    assert recommender.recommend(["a03"], 1, strategy="greedy").items != first
    # Its past clicks still count.
    assert recommender.recommend(first, 5).unknown == []


def test_new_items_have_the_predictive_of_their_group_and_get_explored() -> None:
    model = a_model(scale=0.02)
    recommender = Recommender(model)
    new = [f"new{number}" for number in range(30)]
    recommender.add_items(new, ["red"] * 30)
    numbers = recommender.items.numbers(new)
    mean, scale = model.posterior.prior.predictive(torch.zeros(30, dtype=torch.int64))
    table = recommender.ranker.table
    np.testing.assert_allclose(table.means_of(numbers), mean.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(table.scales_of(numbers), scale.detach().numpy(), rtol=1e-6)
    shown = {
        item
        for seed in range(20)
        for item in recommender.recommend([], 10, strategy="in-slate-thompson", seed=seed).items
    }
    assert len(shown & set(new)) > 10  # alike for greedy, each uncertain in its own way
    assert recommender.recommend([new[0]], 5).unknown == []
    reasons = recommender.explain(recommender.recommend([], 60, clicked="show", seed=0))
    assert {reason.views for reason in reasons if str(reason.item).startswith("new")} == {0}


def test_an_item_of_a_new_group_is_like_items_of_the_others(recommender: Recommender) -> None:
    recommender.add_items(["x", "y"], ["violet", "red"])
    numbers = recommender.items.numbers(["x", "y"])
    scales = recommender.ranker.table.scales_of(numbers).mean(axis=1)
    assert scales[0] > scales[1]  # it is not known where its group is
    assert recommender.items.groups_of(numbers) == ["violet", "red"]
    slate = recommender.recommend([], 5, groups={"violet": 0}, seed=1)
    assert "violet" not in slate.groups


def test_a_removed_id_comes_back_as_a_new_item(recommender: Recommender) -> None:
    recommender.remove_items(["a05"])
    recommender.add_items(["a05"], ["blue"])
    number = int(recommender.items.numbers(["a05"])[0])
    assert number == ITEMS
    assert "a05" in recommender.recommend([], ITEMS, seed=0).items


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda r: r.recommend("a03"), "one text"),
        (lambda r: r.recommend(["a03"], 0), "slate of 0"),
        (lambda r: r.recommend(["a03"], strategy="best"), "no strategy 'best'"),
        (lambda r: r.recommend(["a03"], groups={"pink": 1}), "no group 'pink'"),
        (lambda r: r.recommend(["a03"], groups={"red": -2}), "-2 items"),
        (lambda r: r.recommend([["a03"]], seed=[1, 2]), "seeds"),
        (lambda r: r.recommend(["a03"], seed=-1), "seeds"),
        (lambda r: r.add_items(["b"], ["red", "red"]), "1 items have 2 groups"),
        (lambda r: r.add_items(["b", "b"], ["red", "red"]), "twice"),
        (lambda r: r.add_items(["a03"], ["red"]), "there already"),
        (lambda r: r.remove_items(["b"]), "no item 'b'"),
        (lambda r: r.hide_items(["b"]), "no item 'b'"),
        (lambda r: (r.remove_items(["a03"]), r.show_items(["a03"])), "'a03' was removed"),
    ],
)
def test_odd_requests_are_refused_in_words(
    call: object, problem: str, recommender: Recommender
) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        call(recommender)  # type: ignore[operator]
    assert len(recommender.items) == ITEMS  # nothing changed


def test_relevance_and_uncertainty_are_those_of_the_posterior(recommender: Recommender) -> None:
    slate = recommender.recommend(["a03", "a17"], 6, seed=2)
    drawn = recommender.ranker.draw_profiles(slate.history, 20_000, seed=9)
    table, rng = recommender.ranker.table, np.random.default_rng(3)
    mean, scale = table.means_of(slate.numbers), table.scales_of(slate.numbers)
    vectors = mean + scale * rng.standard_normal((20_000, *mean.shape))
    relevance = np.exp(-np.linalg.norm(drawn.profiles[:, None] - vectors, axis=2))
    # 32 draws: five standard errors of a mean, and of a standard deviation.
    error = relevance.std(axis=0) / np.sqrt(32)
    assert (np.abs(slate.relevance - relevance.mean(axis=0)) < 5 * error).all()
    assert (np.abs(slate.uncertainty / relevance.std(axis=0) - 1) < 5 / np.sqrt(64)).all()


def test_a_run_keeps_its_table_and_shares_it(tmp_path: Path, model: SlateModel) -> None:
    save(model, tmp_path / "run")
    first = Recommender.load(tmp_path / "run").recommend(["a03"], 5, seed=1)
    tables = list((tmp_path / "run").glob("table-*"))
    assert len(tables) == 1
    made = tables[0].stat().st_mtime_ns
    again = Recommender.load(tmp_path / "run").recommend(["a03"], 5, seed=1)
    assert again.items == first.items
    assert tables[0].stat().st_mtime_ns == made
    assert load(tmp_path / "run").item_ids == model.item_ids


def test_changes_of_one_recommender_do_not_reach_the_run(tmp_path: Path, model: SlateModel) -> None:
    save(model, tmp_path / "run")
    one, other = Recommender.load(tmp_path / "run"), Recommender.load(tmp_path / "run")
    one.add_items(["new"], ["red"])
    one.hide_items(["a00", "a01"])
    assert len(other.recommend([], 100, seed=0)) == ITEMS
    assert len(one.recommend([], 100, seed=0)) == ITEMS - 1


def test_a_damaged_table_is_made_again(tmp_path: Path, model: SlateModel) -> None:
    save(model, tmp_path / "run")
    expected = Recommender.load(tmp_path / "run").recommend(["a03"], 5, seed=1).items
    (table,) = (tmp_path / "run").glob("table-*")
    largest = max(table.iterdir(), key=lambda file: file.stat().st_size)
    largest.write_bytes(b"")
    assert Recommender.load(tmp_path / "run").recommend(["a03"], 5, seed=1).items == expected


def test_a_given_list_is_ordered_with_what_is_left_out_named(recommender: Recommender) -> None:
    recommender.hide_items(["a05"])
    found = recommender.rank(["a07", "a03", "zz", "a05", "a41", "a07"], ["a03", "odd"])
    slate = recommender.recommend(
        ["a03"], 3, strategy="greedy", allow=["a41", "a07", "a03"], clicked="show"
    )
    assert found.items == slate.items
    assert found.groups == slate.groups
    assert found.left_out == ["zz", "a05"]
    assert found.unknown == ["odd"]
    assert (np.diff(found.utilities) < 0).all()
    assert found.probabilities.sum() == pytest.approx(1)
    assert recommender.rank(["a07", "a03", "a41"], ["a03"], k=2).items == found.items[:2]
    assert len(recommender.rank(["zz"])) == len(recommender.rank([])) == 0
    with pytest.raises(SlatewiseError, match="a slate of 0 items"):
        recommender.rank(["a07"], k=0)
