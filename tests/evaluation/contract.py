"""What every recommender must do: inherit, and say how it is fitted."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation import Predictor, Ranker, evaluate, scored_interactions
from tests.evaluation.drawing import LOVED, random_interactions, rows_of, toy_world


class RecommenderContract:
    """Tests that every recommender inherits.

    A subclass says how a recommender is fitted.
    """

    knows_items: ClassVar[bool] = True
    """Prefers the loved items to the duds of the toy world."""
    follows_clicks: ClassVar[bool] = False
    """Knows which item comes after the last click."""
    tolerance: ClassVar[float] = 1e-9
    """How far log-probabilities may differ between batches."""

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        """Return a recommender, a `Predictor` and `Ranker`."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def toy(cls, tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
        return toy_world(tmp_path_factory.mktemp("toy") / "world")

    @pytest.fixture(scope="class")
    @classmethod
    def recommender(cls, toy: SlateDataset) -> Any:
        return cls.fit(toy)

    @pytest.fixture
    def world(self) -> Interactions:
        """Random interactions over the items and the one source of the toy world."""
        return random_interactions(np.random.default_rng(11), users=12, items=24, sources=1)

    def test_it_keeps_the_protocols(self, recommender: Any) -> None:
        assert isinstance(recommender, Predictor)
        assert isinstance(recommender, Ranker)

    def test_it_predicts_what_is_scored_in_order(self, recommender: Any, world: Any) -> None:
        scored = torch.tensor(np.random.default_rng(0).random(len(world.clicks)) < 0.5)
        predictions = recommender.predict(world, scored)
        assert predictions.clicks.tolist() == world.clicks[scored].tolist()
        assert predictions.sources.tolist() == world.sources[scored].tolist()
        everything = recommender.predict(world, torch.ones_like(scored))
        assert np.allclose(
            predictions.log_likelihood(),
            everything.log_likelihood()[scored.numpy()],
            atol=self.tolerance,
        )

    def test_nobody_scored_is_fine(self, recommender: Any, world: Any) -> None:
        nothing = torch.zeros(len(world.clicks), dtype=torch.bool)
        assert len(recommender.predict(world, nothing)) == 0
        assert len(recommender.target_ranks(world, nothing)) == 0

    def test_users_do_not_depend_on_their_batch(self, recommender: Any, world: Any) -> None:
        everything = recommender.predict(world, torch.ones(len(world.clicks), dtype=torch.bool))
        users = torch.arange(world.num_users).flip(0)
        turned = world.of_users(users)
        again = recommender.predict(turned, torch.ones(len(turned.clicks), dtype=torch.bool))
        for index, user in enumerate(users.tolist()):
            first = everything.log_likelihood()[everything.users == user]
            second = again.log_likelihood()[again.users == index]
            assert np.allclose(first, second, atol=self.tolerance)

    def test_nothing_at_or_after_an_interaction_changes_its_prediction(
        self, recommender: Any, world: Any
    ) -> None:
        rng = np.random.default_rng(2)
        other = random_interactions(rng, users=world.num_users, items=24, sources=1)
        for user in range(world.num_users):
            mine = world.of_users(torch.tensor([user]))
            for step in range(len(mine.clicks)):
                stop = int(mine.slate_offsets[step + 1])
                # The slate at `step` stays, since it is what the prediction is about; its click
                # and everything later come from elsewhere, or are left out.
                later = other.of_users(torch.tensor([int(rng.integers(other.num_users))]))
                changed = Interactions(
                    user_offsets=torch.tensor([0, step + 1 + len(later.clicks)]),
                    train_end=mine.train_end,
                    valid_end=mine.valid_end,
                    times=torch.cat([mine.times[: step + 1], later.times + 10_000]),
                    sources=torch.cat([mine.sources[: step + 1], later.sources]),
                    clicks=torch.cat([mine.clicks[: step + 1], later.clicks]),
                    slate_offsets=torch.cat(
                        [mine.slate_offsets[: step + 2], later.slate_offsets[1:] + stop]
                    ),
                    slate_items=torch.cat([mine.slate_items[:stop], later.slate_items]),
                )
                length = stop - int(mine.slate_offsets[step])
                changed.clicks[step] = int(rng.integers(-1, length))
                scored = torch.arange(len(mine.clicks)) == step
                before = recommender.predict(mine, scored)
                after = recommender.predict(changed, torch.arange(len(changed.clicks)) == step)
                for name in ("log_probabilities", "no_click_log_probabilities"):
                    assert np.allclose(
                        getattr(before, name), getattr(after, name), atol=self.tolerance
                    )
                if mine.clicks[step] >= 0:
                    changed.clicks[step] = mine.clicks[step]
                    assert recommender.target_ranks(mine, scored).tolist() == (
                        recommender.target_ranks(
                            changed, torch.arange(len(changed.clicks)) == step
                        ).tolist()
                    )

    def test_ranks_are_places_in_the_full_order(self, recommender: Any, world: Any) -> None:
        for user in range(world.num_users):
            mine = world.of_users(torch.tensor([user]))
            for step in np.flatnonzero(mine.clicks.numpy() >= 0).tolist():
                before = mine.of_users(torch.tensor([0]), torch.tensor([step]))
                order = recommender.rank(before, 24)[0].tolist()
                assert sorted(order) == list(range(24))
                scored = torch.arange(len(mine.clicks)) == step
                (rank,) = recommender.target_ranks(mine, scored).tolist()
                assert order[rank - 1] == int(mine.clicked_items[step])

    def test_the_best_k_begin_the_full_order(self, recommender: Any, world: Any) -> None:
        order = recommender.rank(world, 24)
        assert recommender.rank(world, 5).tolist() == order[:, :5].tolist()

    def test_excluded_items_are_left_out(self, recommender: Any, world: Any) -> None:
        exclude = torch.zeros(24, dtype=torch.bool)
        exclude[[0, 3, 4, 20]] = True
        whole, left = recommender.rank(world, 24), recommender.rank(world, 20, exclude=exclude)
        for row, rest in zip(whole.tolist(), left.tolist(), strict=True):
            assert [item for item in row if not exclude[item]] == rest
        with pytest.raises(SlatewiseError, match="available"):
            recommender.rank(world, 21, exclude=exclude)

    def test_it_gets_the_toy_world_right(self, recommender: Any, toy: SlateDataset) -> None:
        interactions = toy.interactions()
        scored = scored_interactions(toy, "test")
        predictions = recommender.predict(interactions, scored)
        items = rows_of(predictions, predictions.items)
        chances = rows_of(predictions, predictions.log_probabilities)
        if self.knows_items:
            for slate, chance in zip(items, chances, strict=True):
                loved = [c for item, c in zip(slate, chance, strict=True) if item < LOVED]
                duds = [c for item, c in zip(slate, chance, strict=True) if item >= LOVED]
                assert min(loved) > max(duds)
            assert recommender.rank(interactions, LOVED).max() < LOVED
        result = evaluate(recommender, toy, resamples=50)
        if self.follows_clicks:
            assert result["in_slate_hit@1"].value > 0.95
            assert result["recall@20"].value == 1
            assert result[f"mrr@{result.about['k']}"].value > 0.9
        assert abs(result["predicted_click_rate"].value - 0.9) < 0.05
        assert result["log_likelihood"].value > np.log(1 / 5)
