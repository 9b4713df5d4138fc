import math
from dataclasses import replace

import pytest
import torch

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Exposure, batch_likelihood
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Training
from slatewise.training.validation import Validation, held_out
from tests.model.ragged import random_interactions

ITEMS = 12


def log_and_posterior() -> tuple[Interactions, Posterior]:
    """Users of whom the second half is held out, and a posterior that knows little."""
    log = random_interactions(4, users=20, longest_user=10)
    log = replace(log, train_end=log.valid_end // 2)
    seeded = torch.Generator().manual_seed(1)
    posterior = Posterior(ModelConfig(dimensions=3), torch.zeros(ITEMS).long(), range(1), 6, seeded)
    for part in (posterior.items, *posterior.shared.values()):
        part.raw.fill_(0.0)
    return log, posterior


def mean_score(log: Interactions, posterior: Posterior) -> float:
    """Return the mean log-likelihood of held-out interactions at the posterior mean."""
    scored, parameters = held_out(log), posterior.mean()
    steps = ClickSteps.of(log)
    profiles = known_profiles(parameters, log, steps)
    found = batch_likelihood(parameters, profiles, steps.state_of, log, scored)
    return float((found.total / scored.sum()).detach())


def test_without_draws_the_spread_of_items_counts() -> None:
    """The closed form is where many draws of items lead, which the mean is not."""
    log, posterior = log_and_posterior()
    for part in posterior.shared.values():
        part.raw.fill_(-30.0)
    closed = Validation(log, None, ITEMS).score(posterior)
    drawn = Validation(log, None, ITEMS, draws=200).score(posterior)
    assert abs(closed - drawn) < 0.5 * abs(mean_score(log, posterior) - drawn)


def test_a_sure_posterior_scores_alike_with_and_without_draws() -> None:
    log, posterior = log_and_posterior()
    for part in (posterior.items, *posterior.shared.values()):
        part.raw.fill_(-30.0)
    mean = mean_score(log, posterior)
    assert Validation(log, None, ITEMS).score(posterior) == pytest.approx(mean, rel=1e-5)
    assert Validation(log, None, ITEMS, draws=3).score(posterior) == pytest.approx(mean, rel=1e-5)


def test_probabilities_are_averaged_and_not_their_logarithms() -> None:
    log, posterior = log_and_posterior()
    one_at_a_time = []
    for seed in range(200):
        one_at_a_time.append(Validation(log, None, ITEMS, draws=1, seed=seed).score(posterior))
    together = Validation(log, None, ITEMS, draws=200).score(posterior)
    # The mean of logarithms is below the logarithm of the mean, here by much more than noise.
    assert together > sum(one_at_a_time) / 200 + 0.02
    assert math.isfinite(together)


def test_the_same_posterior_scores_the_same() -> None:
    log, posterior = log_and_posterior()
    validation = Validation(log, None, ITEMS, draws=4)
    assert validation.score(posterior) == validation.score(posterior)


def test_exposure_counts_with_draws_too() -> None:
    log, posterior = log_and_posterior()
    exposure = Exposure(torch.ones(2), 1.0, is_choice=True)
    for part in (posterior.items, *posterior.shared.values()):
        part.raw.fill_(-30.0)
    mean = Validation(log, exposure, ITEMS).score(posterior)
    assert Validation(log, exposure, ITEMS, draws=3).score(posterior) == pytest.approx(
        mean, rel=1e-4
    )
    assert mean < Validation(log, None, ITEMS).score(posterior)


def test_items_that_training_never_saw_are_scored_as_they_will_be_predicted() -> None:
    """By their group; where they started says nothing, and must not tell when to stop."""
    log, _ = log_and_posterior()
    items = torch.where(log.slate_items >= 6, 6 + log.slate_items % 6, log.slate_items)
    users = torch.repeat_interleave(log.user_offsets.diff())
    index = torch.arange(len(users)) - log.user_offsets[:-1][users]
    training = torch.repeat_interleave(index < log.train_end[users], log.scroll_lengths)
    log = log.with_items(torch.where(training, items % 6, items).int())
    groups = torch.zeros(ITEMS).long()
    work = Training(
        ModelConfig(dimensions=3),
        TrainingConfig(max_epochs=3),
        log,
        groups,
        ["all"],
        ["a", "b"],
        seed=0,
    )
    for _ in work.advance():
        pass
    assert (work.views[6:] == 0).all()
    assert work.validation.score(work.result()) == pytest.approx(work.progress.best, abs=1e-6)
