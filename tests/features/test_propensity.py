import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.data.interactions import Interactions
from slatewise.features import Propensity
from slatewise.features.propensity import STRENGTHS
from slatewise.features.user_history import NO_HISTORY, UserHistory
from tests.features.logs import past_of_user, random_log

KNOWN = Propensity(rates=(0.2, 0.6), rate=0.35, strength=4.0)


def logit(p: float) -> float:
    return float(np.log(p / (1 - p)))


def slow_feature(log: Interactions, n: int) -> float:
    past = past_of_user(log, n)
    clicks = sum(int(log.clicks[m] >= 0) for m in past)
    expected = sum(KNOWN.rates[int(log.sources[m])] for m in past)
    prior, size = KNOWN.strength * KNOWN.rate, len(past) + KNOWN.strength
    return logit((clicks + prior) / size) - logit((expected + prior) / size)


@given(st.integers(0, 10_000))
def test_every_interaction_has_what_the_formula_gives(seed: int) -> None:
    log = random_log(seed)
    wanted = [slow_feature(log, n) for n in range(len(log.clicks))]
    np.testing.assert_allclose(KNOWN.features(log), wanted, rtol=1e-5, atol=1e-6)


@given(st.integers(0, 10_000))
def test_replaying_the_log_through_serving_gives_the_same_numbers(seed: int) -> None:
    log = random_log(seed)
    batch = KNOWN.features(log).numpy()
    for user in range(log.num_users):
        whole = UserHistory.of_log(log, user)
        n = int(log.user_offsets[user])
        for number in range(len(whole)):
            assert np.float32(KNOWN.after(whole.until(number))) == batch[n]
            n += max(1, int((whole.click_slates == number).sum()))


def test_a_new_user_has_none() -> None:
    assert KNOWN.after(NO_HISTORY) == 0


def test_with_one_source_it_compares_with_the_overall_rate() -> None:
    one = Propensity(rates=(0.3,), rate=0.3, strength=2.0)
    log = Interactions.of_clicks(torch.arange(3), torch.tensor([0, 3]))
    wanted = [logit((n + 0.6) / (n + 2)) - logit(0.3) for n in range(3)]
    np.testing.assert_allclose(one.features(log), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unknown", [2, -1])
def test_slates_of_an_unknown_source_count_at_the_rate_of_all(unknown: int) -> None:
    log = Interactions.of_clicks(torch.arange(2), torch.tensor([0, 2]))
    log.sources[:] = unknown
    whole = Propensity(rates=(KNOWN.rate,), rate=KNOWN.rate, strength=KNOWN.strength)
    wanted = whole.features(Interactions.of_clicks(torch.arange(2), torch.tensor([0, 2])))
    torch.testing.assert_close(KNOWN.features(log), wanted)


@pytest.mark.parametrize("strength", [2.0, 16.0])
def test_the_strength_that_users_were_drawn_with_is_found_within_a_factor_of_two(
    strength: float,
) -> None:
    rng = np.random.default_rng(0)
    users, steps, rate = 3_000, 20, 0.3
    eager = rng.beta(strength * rate, strength * (1 - rate), users)
    clicks = torch.from_numpy(np.where(rng.random((users, steps)) < eager[:, None], 0, -1).ravel())
    offsets = torch.arange(0, users * steps + 1, steps)
    log = Interactions.of_clicks(torch.zeros(users * steps).long(), offsets)
    log.clicks[:] = clicks
    start = Propensity(rates=(rate,), rate=rate, strength=1.0)
    assert start._strengthened(log).strength in (strength / 2, strength, 2 * strength)
    assert strength in STRENGTHS


def test_it_is_saved_as_json() -> None:
    assert Propensity.build(json.loads(KNOWN.model_dump_json()), "propensity") == KNOWN
