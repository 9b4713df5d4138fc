"""On a service whose users follow a rule that is known: what another strategy would have got."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.analysis.estimates import Estimates, estimate, read_target
from slatewise.service.serving import Request
from slatewise.service.serving.replayer import Replayer
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, Visit
from slatewise.slates import Recommender
from tests.service.serving.world import ITEMS, a_model, a_service

K = 3
MIX = ArmConfig(strategy="epsilon-mix", epsilon=0.5)
GREEDY = ArmConfig(strategy="greedy")


@cache
def ranks() -> dict[str, int]:
    """The items as the model ranks them for somebody it knows nothing of."""
    best = Recommender(a_model()).recommend([], ITEMS, strategy="greedy").items
    return {str(item): rank for rank, item in enumerate(best)}


def attraction(items: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Users like what the model ranks high; half as much every five ranks."""
    return np.exp2(-np.array([ranks()[item] for item in items]) / 5)


def p_click(items: tuple[str, ...]) -> float:
    """Users take one of the items, or nothing, which is worth 2 to all of them."""
    total = attraction(items).sum()
    return float(total / (total + 2))


def run_arm(
    directory: Path, arm: ArmConfig, users: int, each: int = 2, seed: int = 0
) -> ServiceConfig:
    """Let users ask for slates of an arm and answer them."""
    config = ServiceConfig(arms={"only": arm})
    service, rng = a_service(directory, a_model(), config), np.random.default_rng(seed)
    for turn in range(each):
        requests = [
            Request(f"u{n}", k=K, seed=(seed * each + turn) * users + n) for n in range(users)
        ]
        made = [service.recommend(request)[0] for request in requests]
        outcomes = []
        for slate in made:
            weights = attraction(slate.items)
            clicked = ()
            if rng.random() < p_click(slate.items):
                clicked = (str(rng.choice(slate.items, p=weights / weights.sum())),)
            outcomes.append(Outcome(slate.slate_id, None, clicked, slate.time))
        service.store.write(made, outcomes)
        service.changed_users(f"u{n}" for n in range(users))
    service.store.close()
    return config


class Log:
    """A service's log, and what can be asked of it."""

    def __init__(self, directory: Path, config: ServiceConfig) -> None:
        self.store = Store.open(config.store_url(directory))
        self.replayer = Replayer(directory, config, self.store)
        self.visits = [visit for batch in self.store.export(0, 2**62) for visit in batch]

    def estimate(self, target: ArmConfig, draws: int = 50, most: int = 600) -> Estimates:
        return estimate(self.replayer, self.visits[:most], target, draws=draws)

    def truth(self, strategy: str) -> float:
        """The exact click rate of a strategy without chance, for the same requests."""
        slates = [self.replayer.slate(visit.slate, strategy) for visit in self.visits]
        return float(np.mean([p_click(tuple(map(str, slate.items))) for slate in slates]))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    where = tmp_path_factory.mktemp("mixed")
    log = Log(where, run_arm(where, MIX, 300))
    yield log
    log.store.close()


def test_greedy_is_judged_by_the_log_of_an_epsilon_mix(mixed: Log) -> None:
    found = mixed.estimate(GREEDY)
    truth = mixed.truth("greedy")
    assert (found.slates, found.exact, found.left_out) == (len(mixed.visits), 1, {})
    assert found.logged.excludes(truth)  # what ran did otherwise
    assert [one.estimator for one in found.estimates] == [
        "ips",
        "self-normalised",
        "doubly robust",
        "per position",
    ]
    *exact, by_place = found.estimates
    for one in exact:
        assert one.problem is None
        assert not one.rate.excludes(truth), one
        assert one.rate.high - one.rate.low < 0.4
    # Good items in one slate take clicks from each other, which places by themselves do not know.
    assert truth < by_place.rate.value < 1.3 * truth


def test_an_arm_that_ran_is_estimated_as_it_was(mixed: Log) -> None:
    found = mixed.estimate(MIX, most=150)
    for one in found.estimates:
        assert one.problem is None
        assert one.rate.value == pytest.approx(found.logged.value)


def test_an_arm_with_less_chance_is_judged_by_the_log_of_one_with_more(mixed: Log) -> None:
    found = mixed.estimate(ArmConfig(strategy="epsilon-mix", epsilon=0.25), draws=1_000)
    between = [found.logged.value - 0.02, mixed.truth("greedy") + 0.02]
    for one in found.estimates:
        assert one.problem is None, one
        assert between[0] < one.rate.value < between[1], one


def test_an_arm_far_from_the_log_is_refused(mixed: Log) -> None:
    found = mixed.estimate(ArmConfig(strategy="epsilon-mix", epsilon=1.0), most=150)
    for one in found.estimates[:3]:
        assert one.problem is not None


def test_logged_propensities_are_used_and_wrong_ones_found_out(mixed: Log) -> None:
    def with_propensities(visit: Visit, value: float) -> Visit:
        assert visit.slate.serving is not None
        serving = replace(visit.slate.serving, propensities=(value,) * K)
        return replace(visit, slate=replace(visit.slate, serving=serving))

    visits = [with_propensities(visit, 0.9) for visit in mixed.visits[:120]]
    found = estimate(mixed.replayer, visits, GREEDY).estimates[-1]
    assert found.problem is not None
    assert found.support.value < 0.9


def test_a_slate_that_does_not_come_out_the_same_is_left_out(mixed: Log) -> None:
    slates = [replace(visit.slate, items=visit.slate.items[::-1]) for visit in mixed.visits[:3]]
    visits = [replace(mixed.visits[n], slate=slate, clicked=()) for n, slate in enumerate(slates)]
    found = estimate(mixed.replayer, visits, GREEDY)
    assert found.slates == 0
    assert sum(found.left_out.values()) == 3
    assert next(iter(found.left_out)).startswith("not the same")


def test_a_greedy_log_tells_of_nothing_but_greedy(tmp_path: Path) -> None:
    log = Log(tmp_path, run_arm(tmp_path, GREEDY, 40))
    found = log.estimate(ArmConfig())
    assert (found.slates, found.estimates) == (0, ())
    assert "without chance" in next(iter(found.left_out))
    itself = log.estimate(GREEDY)
    assert itself.estimates[0].rate.value == pytest.approx(itself.logged.value)
    assert log.estimate(ArmConfig(model="other")).left_out == {"made by another model": 80}
    log.store.close()


def test_the_product_over_places_is_used_for_thompson_and_named(tmp_path: Path) -> None:
    log = Log(tmp_path, run_arm(tmp_path, ArmConfig(propensities=50), 30, each=1))
    assert log.visits[0].slate.serving is not None
    assert log.visits[0].slate.serving.propensities is not None
    assert log.estimate(GREEDY).exact == 0
    log.store.close()


def test_a_target_is_read_as_an_arm_is() -> None:
    target = read_target("model=main, strategy=epsilon-mix,epsilon=0.2")
    assert target.line == "epsilon-mix epsilon=0.2 rest=greedy"
    for wrong in ("greedy", "strategy=", "strategy=none", "epsilon=0.2"):
        with pytest.raises(SlatewiseError):
            read_target(wrong)
