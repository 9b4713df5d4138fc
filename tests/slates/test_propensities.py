import numpy as np

from slatewise.model.fitted import SlateModel
from slatewise.slates import Recommender
from slatewise.slates.propensities import standard_error


def test_a_strategy_without_chance_has_propensities_of_one(model: SlateModel) -> None:
    recommender = Recommender(model)
    slate = recommender.recommend(["a03"], 4, strategy="greedy", seed=0)
    found = recommender.propensities(slate, draws=20)
    probability, error = found.of(slate)
    assert probability.tolist() == [1, 1, 1, 1]
    assert (error > 0).all()


def test_every_place_has_probability_one_in_all(model: SlateModel) -> None:
    recommender = Recommender(model)
    slate = recommender.recommend(["a03"], 4, seed=0)
    found = recommender.propensities(slate, draws=300)
    np.testing.assert_allclose(found.probability.sum(axis=0), 1)
    assert (found.probability.sum(axis=1) <= 1 + 1e-12).all()  # an item is in one place or none


def test_estimates_agree_within_their_errors_and_repeat_with_the_seed(model: SlateModel) -> None:
    recommender = Recommender(model)
    slate = recommender.recommend(["a03"], 4, strategy="thompson", seed=0)
    one, same = (recommender.propensities(slate, draws=400, seed=1) for _ in range(2))
    other = recommender.propensities(slate, draws=4_000, seed=2)
    assert one.probability.tolist() == same.probability.tolist()
    (p, p_error), (q, q_error) = one.of(slate), other.of(slate)
    assert (np.abs(p - q) < 5 * np.hypot(p_error, q_error)).all()
    assert (q_error < p_error).all()


def test_an_item_that_never_came_up_has_no_probability_and_still_an_error(
    model: SlateModel,
) -> None:
    recommender = Recommender(model)
    greedy = recommender.recommend(["a03"], 4, strategy="greedy")
    worst = recommender.recommend(
        ["a03"], 4, strategy="greedy", exclude=recommender.recommend(["a03"], 50).items
    )
    found = recommender.propensities(greedy, draws=50)
    probability, error = found.of(worst)
    assert probability.tolist() == [0, 0, 0, 0]
    assert (error == standard_error(np.zeros(1), 50)).all()
