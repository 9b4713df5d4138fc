"""What every consumer of a model owes to its utility: a check each, that raises AssertionError."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender
from slatewise.experiments.daily_log import SOURCES as PLATFORM_SOURCES
from slatewise.experiments.daily_log import DaySlates
from slatewise.experiments.model_policy import ServedModel
from slatewise.experiments.platform import Moment
from slatewise.features.user_history import UserHistory
from slatewise.model.likelihood import batch_likelihood
from slatewise.model.pool import SlatePool
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.model.utility import position_factors
from slatewise.service.analysis.weights import weigh
from slatewise.service.nights.versions import transfer
from slatewise.service.serving import Replayer, Request
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import Clock
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.slates import Greedy, Recommender, Seen, Slate, Thompson, Users
from slatewise.slates.additions import TermFeatures
from slatewise.slates.batched import BatchRanker
from slatewise.slates.bulk import recommend_to_file
from slatewise.slates.learning import ItemLearner, learning_obstacle
from slatewise.slates.maker import Constraints
from slatewise.slates.propensities import propensities
from slatewise.slates.shown import ShownSlate
from slatewise.slates.strategies import Ranker
from slatewise.slates.users import KnownUser
from slatewise.training import TrainingConfig, runs
from slatewise.training.dense import DenseSteps
from slatewise.training.steps import SparseSteps
from slatewise.training.warm import take_over
from tests.contract.world import END, ITEMS, Case, Doubles, as_a_night_has_it, posterior_of
from tests.service.serving.world import a_service, made

WHO: Final = (0, 3, 7, 12, 25)
"""Users whose slates are made."""
SINGLE, DOUBLE = 2e-5, 1e-9
"""Differences that float32, and float64, may leave."""


def require_ranking(ranked: Sequence[int], utilities: Doubles) -> None:
    """Require that all items stand in the order of their utilities, as far as float32 can tell."""
    assert sorted(ranked) == list(range(len(utilities)))
    rises = np.diff(utilities[list(ranked)]).max()
    assert rises < SINGLE, f"an item is ranked above one that is better by {rises:.3g}"


def require_same(found: object, wanted: object, tolerance: float = SINGLE) -> None:
    """Require the same numbers."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=0, atol=tolerance)


def training(case: Case, directory: Path) -> None:
    """The likelihood that training climbs is that of the utility: compiled, and in plain torch."""
    log = case.described
    parameters = case.model.posterior.mean()
    steps = ClickSteps.of(log, parameters.evidence)
    profiles = known_profiles(parameters, log, steps)
    ones = torch.ones(len(log.clicks))
    found = batch_likelihood(parameters, profiles, steps.state_of, log, ones)
    require_same(found.slate, case.log_likelihood)
    require_same(found.total / len(ones), case.log_likelihood.mean())
    profiles = known_profiles(case.parameters, case.log, steps)
    exact = batch_likelihood(case.parameters, profiles, steps.state_of, case.log, ones.double())
    require_same(exact.slate, case.log_likelihood, DOUBLE)


def training_steps(case: Case, directory: Path) -> None:
    """A step of training sees the same likelihood; on a GPU too, or the part is refused by name."""
    log = replace(case.described, train_end=case.described.user_offsets.diff())
    users, wanted = torch.arange(log.num_users), case.log_likelihood.mean()
    posterior, config = case.model.posterior, TrainingConfig(batch_users=log.num_users)
    all_scored = case.model.config.initial_state == "causal"  # others choose what of a user is
    if all_scored:
        steps = SparseSteps(copy.deepcopy(posterior), log, config, None)
        require_same(steps.step(users, torch.Generator(), 0.0).log_likelihood, wanted)
    unable = [part.name for part in posterior.trained_parts if "cuda" not in part.devices]
    if unable:
        with pytest.raises(SlatewiseError, match=f"'{unable[0]}' cannot be trained on a GPU"):
            DenseSteps(copy.deepcopy(posterior), log, config, None, compiled=False)
        return
    dense = DenseSteps(copy.deepcopy(posterior), log, config, None, compiled=False)
    result = dense.step(users, torch.Generator(), 0.0)
    assert result.finite
    if all_scored:
        require_same(result.log_likelihood, wanted)


def predictions(case: Case, directory: Path) -> None:
    """Evaluation predicts by the softmax of utilities."""
    log = case.dataset.interactions()
    everything = torch.ones(len(log.clicks), dtype=torch.bool)
    found = ModelRecommender(case.model, log=case.dataset).predict(log, everything)
    require_same(found.log_probabilities, case.log_probabilities[0][log.choices(everything)])
    require_same(found.no_click_log_probabilities, case.log_probabilities[1])


def features(case: Case, directory: Path) -> None:
    """What is learned of an item in a slate is what ranks it at that moment.

    Apart from its position, and from what is only known of an item in its slate.
    """
    on_items, positions = case.slate_utilities[0].numpy(), case.parameters.positions
    on_items = on_items - case.in_slates_alone
    factors = position_factors(case.parameters, case.log)
    for row in range(0, len(case.log.clicks), 40):
        cells = slice(int(case.log.slate_offsets[row]), int(case.log.slate_offsets[row + 1]))
        wanted = case.before(row)[case.log.slate_items[cells].numpy()]
        if positions is not None:
            assert factors is not None
            wanted = wanted + float(factors[row]) * positions.numpy()[: len(wanted)]
        require_same(on_items[cells], wanted)


def evaluation_ranking(case: Case, directory: Path) -> None:
    """Evaluation ranks by utilities, after the log and at any moment of it, in as many stages."""
    log, judged = case.dataset.interactions(), ModelRecommender(case.model, log=case.dataset)
    users = torch.tensor(WHO)
    ranked = judged.rank(log.of_users(users), ITEMS, times=torch.full((len(WHO),), END))
    for user, row in zip(WHO, ranked.tolist(), strict=True):
        require_ranking(row, case.as_a_slate(user))
    scored = torch.zeros(len(log.clicks), dtype=torch.bool)
    scored[(log.clicks >= 0).nonzero()[::25, 0]] = True
    ranks = judged.for_slates_of(ITEMS).target_ranks(log, scored).tolist()
    for row, rank in zip(scored.nonzero()[:, 0].tolist(), ranks, strict=True):
        utilities = case.as_a_slate_before(row)
        own = utilities[log.clicked_items[row]]
        assert (utilities > own + SINGLE).sum() < rank <= (utilities >= own - SINGLE).sum()


def judged_slates(case: Case, directory: Path) -> None:
    """The short slate that evaluation judges is what the library had made at that moment."""
    few, log = 4, case.dataset.interactions()
    judged = ModelRecommender(case.model, log=case.dataset).for_slates_of(few)
    recommender, users = Recommender(case.model), torch.repeat_interleave(log.user_offsets.diff())
    # Before a further click on a slate, the user is where no request finds her.
    rows = (log.first_choices & (log.clicks >= 0)).nonzero()[2::12, 0]
    scored = torch.zeros(len(log.clicks), dtype=torch.bool)
    scored[rows] = True
    ranks = judged.target_ranks(log, scored).tolist()
    for row, rank in zip(rows.tolist(), ranks, strict=True):
        user, time = users[row, None], log.times[row, None]
        if states := case.states(int(time)):
            recommender.refresh(states, int(time))
        asked = Users.of_histories([case.history_before(row)], 1, show_clicked=True)
        served = recommender.ranker.by_mean(asked, few)[0].tolist()
        before = log.of_users(user, row - log.user_offsets[user])
        assert judged.rank(before, few, times=time)[0].tolist() == served
        clicked = int(log.clicked_items[row])
        assert rank == served.index(clicked) + 1 if clicked in served else rank > few


def lists_as_slates(case: Case, directory: Path) -> None:
    """A list about to be shown is ranked by what its items have as a slate, position apart."""
    if case.model.posterior.ranking is not None and not case.in_lists_alone.any():
        return  # a list is ranked as all items are
    in_lists = case.slate_utilities[0].numpy() - case.in_slates_alone + case.in_lists_alone
    positions, factors = case.parameters.positions, position_factors(case.parameters, case.log)
    recommender = Recommender(case.model)
    for row in case.log.first_choices.nonzero()[3::15, 0].tolist():
        time, source = int(case.log.times[row]), int(case.log.sources[row])
        if states := case.states(time):
            recommender.refresh(states, time)
        cells = slice(int(case.log.slate_offsets[row]), int(case.log.slate_offsets[row + 1]))
        items = case.log.slate_items[cells].numpy()
        wanted = in_lists[cells].copy()
        if positions is not None:
            assert factors is not None
            wanted -= float(factors[row]) * positions.numpy()[: len(wanted)]
        ids = [case.model.item_ids[item] for item in items]
        found = recommender.maker.rank(KnownUser(case.history_before(row)), ids, source=source)
        assert found.items == [ids[index] for index in np.argsort(-wanted, kind="stable")]
        require_same(found.utilities, np.sort(wanted)[::-1], 1e-4)


def greedy_slates(case: Case, directory: Path) -> None:
    """The library's greedy slate is in the order of utilities."""
    recommender = recommender_of(case)
    for user in WHO:
        slate = slate_of(case, recommender, user)
        wanted = case.as_a_slate(user, history=slate.history)
        require_ranking(slate.numbers.tolist(), wanted)


@dataclass(frozen=True)
class Everybody:
    """Some users of the log, as those of a file."""

    case: Case
    digest: str = "the contract"

    @property
    def users(self) -> pl.Series:
        return pl.Series("user_id", WHO)

    def histories(self, start: int, count: int) -> tuple[list[UserHistory], int]:
        return [self.case.histories[user] for user in WHO[start : start + count]], 0


def files_of_users(case: Case, directory: Path) -> None:
    """A file of users has the library's slates; so have all users at once, or it is refused."""
    recommender, few = recommender_of(case), 7
    known = [KnownUser(case.histories[user]) for user in WHO]
    slates = recommender.maker.make(known, Constraints(), few, Greedy(), [0] * len(WHO))
    rankers: list[Ranker | None] = [None]
    terms = case.model.posterior.parts.terms.values()
    if (
        any(term.ranks != "never" for term in terms)
        or any(term.in_lists and term.candidates for term in case.model.terms.by_name.values())
        or case.model.config.evidence
        or not case.is_distance
    ):
        with pytest.raises(SlatewiseError, match="are made on the CPU"):
            BatchRanker(case.model, "cpu")
    else:
        rankers.append(BatchRanker(case.model, "cpu"))
    directory.mkdir(exist_ok=True)
    for number, ranker in enumerate(rankers):
        out = directory / f"slates-{number}.parquet"
        recommend_to_file(
            *(recommender, Everybody(case), out),
            strategy=Greedy(),
            k=few,
            seed=0,
            about={},
            progress=lambda *progress: None,
            ranker=ranker,
        )
        rows = pl.read_parquet(out).group_by("user_id", maintain_order=True).agg("item_id")
        assert rows["item_id"].to_list() == [slate.items for slate in slates]


def given_lists(case: Case, directory: Path) -> None:
    """A given list is ordered by the utilities that slates are made by, however it came."""
    recommender, ids = recommender_of(case), case.model.item_ids
    # Terms of slates: see `lists_as_slates`.
    recommender.ranker.terms.set_features(TermFeatures(END, None, {}), recommender.items)
    for user in WHO:
        asked = np.random.default_rng(user).permutation(ITEMS)[:9]
        events = events_of(case, case.histories[user])
        found = recommender.rank([ids[item] for item in asked], events)
        wanted = case.after_all(user)[asked]
        assert found.items == [ids[item] for item in asked[np.argsort(-wanted)]]
        require_same(found.utilities, np.sort(wanted)[::-1])
        chances = np.exp(wanted - wanted.max())
        require_same(found.probabilities, np.sort(chances / chances.sum())[::-1])


def rankings(case: Case, directory: Path) -> None:
    """The ranker ranks by utilities: in closed form, in draws and by expected relevance."""
    users = Users.of_histories([case.histories[user] for user in WHO], 1, show_clicked=True)
    ranker = recommender_of(case).ranker
    ranked = [ranker.by_mean(users, ITEMS)]
    if case.drawn_for_sure:
        ranked += [ranker.by_draws(users, ITEMS, 1)[:, 0]]
        ranked += [ranker.by_expectation(users, ITEMS, 2)]
    for ranking in ranked:
        for user, row in zip(WHO, ranking.tolist(), strict=True):
            require_ranking(row, case.as_a_slate(user))


def explanations(case: Case, directory: Path) -> None:
    """What an explanation says each part adds, sums to the utility, and to the relevance shown."""
    recommender = recommender_of(case)
    slate = slate_of(case, recommender, WHO[1])
    wanted = case.as_a_slate(WHO[1], history=slate.history)
    reasons = recommender.explain(slate, draws=2)
    for number, reason in zip(slate.numbers.tolist(), reasons, strict=True):
        require_same(sum(reason.adds.values()), wanted[number])
        if case.drawn_for_sure:
            require_same(np.log(reason.relevance), wanted[number], 1e-4)
    for name, added in case.added(slate.history, END, again=case.ranks_again).items():
        require_same([reason.adds[name] for reason in reasons], added[slate.numbers])


def online_studies(case: Case, directory: Path) -> None:
    """A model that serves a simulated platform shows the library's slates at that moment."""
    # On a platform, ids are numbers, and slates come from recommendations or searches.
    model = replace(case.model, item_ids=list(range(ITEMS)), source_names=list(PLATFORM_SOURCES))
    memory = SimpleNamespace(histories=lambda who: [case.histories[user] for user in who])
    items = pl.DataFrame({"item_id": range(ITEMS), "group": ["a"] * ITEMS})
    platform: Any = SimpleNamespace(
        log=SimpleNamespace(items=items), memory=memory, market=SimpleNamespace(life=None)
    )
    served = ServedModel(model, case.dataset, platform)
    served.arrive(Moment(0.0, END), DaySlates.empty(6, 1))
    few = 7
    found = served.slates(np.array(WHO), Greedy(), few, 0)
    own, source = [case.histories[user] for user in WHO], PLATFORM_SOURCES.index("recommendation")
    users = Users.of_histories(own, 0, show_clicked=False, source=source)
    assert found.tolist() == recommender_of(case).maker.rows(users, few, Greedy()).tolist()


def shown_propensities(case: Case, directory: Path) -> None:
    """What is surely shown at each position is what the utility has there."""
    recommender = recommender_of(case)
    slate = slate_of(case, recommender, WHO[2])
    found = propensities(recommender.ranker, Greedy(), slate, 2, 0)
    assert (found.probability.max(axis=0) == 1).all()
    likeliest = found.numbers[found.probability.argmax(axis=0)].tolist()
    require_ranking(likeliest, case.as_a_slate(WHO[2], history=slate.history))


def off_policy_weights(case: Case, directory: Path) -> None:
    """Slates of the log are weighed by the utilities that slates are made by."""
    recommender = recommender_of(case)
    slate = slate_of(case, recommender, WHO[3])
    live: Any = SimpleNamespace(ranker=recommender.ranker)
    serving: Any = SimpleNamespace(propensities=None)
    found = weigh(live, slate, serving, Thompson(), Greedy(), 2)
    wanted = case.as_a_slate(WHO[3], history=slate.history)
    require_same(np.log(found.relevance), wanted[slate.numbers], 1e-4)
    (greedy,) = found.wanted
    require_same(np.log(greedy), np.sort(wanted)[::-1], 1e-4)


def live_service(case: Case, directory: Path) -> None:
    """The live service makes the same slate of the same history, and makes it again on replay.

    It hears of items in another order than the model has them: first of those that were seen first.
    """
    config = ServiceConfig.build({"arms": {"one": {"strategy": "greedy"}}}, "the contract")
    ids = case.model.item_ids
    slates, outcomes = [], []
    for user, history in enumerate(case.histories):
        for number, showing in enumerate(history.showings()):
            items = tuple(str(ids[item]) for item in showing.items)
            source, slate_id = case.model.source_names[showing.source], f"{user}-{number}"
            clicked = tuple(items[click] for click in showing.clicks)
            slates.append(SlateRecord(slate_id, f"u{user}", showing.time, source, items))
            outcomes.append(Outcome(slate_id, len(items), clicked, showing.time))
    loaded = Store.open(config.store_url(made(directory / "shop")))
    loaded.write(slates, outcomes)
    loaded.close()
    service = a_service(directory / "shop", case.model, config)
    live = service._live["main"]
    live.refresh(service.store, END)
    service.clock = Clock(wall=lambda: END)
    replayer = Replayer(directory / "shop", config, service.store)
    for user in WHO:
        request = Request(f"u{user}", k=ITEMS, clicked="show")
        record, slate, _ = service.recommend(request)
        numbers = [ids.index(item) for item in slate.items]
        time = END if record.serving is None else record.serving.refreshed or END
        require_ranking(numbers, case.as_a_slate(user, time))
        if case.drawn_for_sure:
            utilities = case.as_a_slate(user, time)[numbers]
            require_same(np.log(slate.relevance), utilities, 1e-4)
        assert replayer.slate(record).items == slate.items
    service.store.close()


def learning(case: Case, directory: Path) -> None:
    """What is learned from an answer goes by the utilities of its slate, or is refused."""
    recommender = Recommender(case.model)
    if learning_obstacle(case.model) is not None:
        with pytest.raises(SlatewiseError, match="cannot learn from answers"):
            recommender.observe([])
        return
    on_items = case.slate_utilities[0].numpy() - case.in_slates_alone + case.in_lists_alone
    for row in case.log.first_choices.nonzero()[5::15, 0].tolist():
        time, source = int(case.log.times[row]), int(case.log.sources[row])
        if states := case.states(time):
            recommender.refresh(states, time)
        cells = slice(int(case.log.slate_offsets[row]), int(case.log.slate_offsets[row + 1]))
        items = case.log.slate_items[cells].numpy().astype(np.int64)
        shown = recommender.view.of(case.history_before(row), items, source)
        shown = ShownSlate.unpacked(shown.packed(), case.model.config.dimensions)
        found, none = ItemLearner(case.model, recommender.ranker.table).utilities(shown, len(items))
        require_same(found, on_items[cells], 1e-4)
        require_same(none, case.slate_utilities[1][row], 1e-4)


def saving(case: Case, directory: Path) -> None:
    """A saved model comes back as it was."""
    runs.save(case.model, directory / "run")
    loaded = runs.load(directory / "run")
    assert loaded.config == case.model.config
    again = replace(case, model=loaded)
    require_same(again.slate_utilities[0], case.slate_utilities[0], 0)
    require_same(again.slate_utilities[1], case.slate_utilities[1], 0)
    require_same(again.after_all(WHO[0]), case.after_all(WHO[0]), 0)


def warm_start(case: Case, directory: Path) -> None:
    """A warm start keeps the parameters of all parts."""
    fresh = posterior_of(case.model.config, case.dataset, 99)
    with torch.no_grad():
        take_over(fresh, case.model, case.dataset)
    wanted = case.model.posterior.tensors()
    for name, tensor in fresh.tensors().items():
        require_same(tensor, wanted[name], 0)


def nights(case: Case, directory: Path) -> None:
    """A night judges the model that serves, whatever numbers its own log gives to all things."""
    log, model = as_a_night_has_it(case.dataset.path.parent), copy.deepcopy(case.model)
    model.posterior.pool = SlatePool(sharpness=0.8, no_click=0.3)
    case = Case(model, case.dataset)
    for name in ("source_names", "group_names"):
        assert getattr(log, name)[0] not in getattr(case.dataset, name)
    again = Case(transfer(model, log), log)
    assert again.model.posterior.ranking is model.posterior.ranking
    for found, wanted in zip(again.slate_utilities, case.slate_utilities, strict=True):
        require_same(found[: len(wanted)].detach(), wanted.detach())
    own, moments = np.arange(ITEMS), np.full(ITEMS, END)
    there = np.array([again.model.number_of(item) for item in case.model.item_ids])
    for name, term in case.model.terms.that_rank("all items").items():
        said = again.model.terms.by_name[name].at_times(log)(there, moments)
        require_same(said, term.at_times(case.dataset)(own, moments))


def recommender_of(case: Case) -> Recommender:
    """Return a recommender at the end of the log."""
    recommender = Recommender(case.model)
    if states := case.states(END):
        recommender.refresh(states, END)
    return recommender


def slate_of(case: Case, recommender: Recommender, user: int) -> Slate:
    """Return the greedy slate of all items for what a user did in the log."""
    events = events_of(case, case.histories[user])
    return recommender.recommend(events, ITEMS, strategy=Greedy(), clicked="show", seed=0)


def events_of(case: Case, history: UserHistory) -> list[Seen]:
    """Return a history as a caller of `recommend` would tell it."""
    ids, sources = case.model.item_ids, case.model.source_names
    return [
        Seen(
            [ids[item] for item in showing.items],
            [ids[showing.items[click]] for click in showing.clicks],
            sources[showing.source],
        )
        for showing in history.showings()
    ]


CHECKS: Final[dict[str, Callable[[Case, Path], None]]] = {
    check.__name__: check
    for check in (
        training,
        training_steps,
        predictions,
        features,
        evaluation_ranking,
        judged_slates,
        greedy_slates,
        files_of_users,
        given_lists,
        lists_as_slates,
        rankings,
        explanations,
        online_studies,
        shown_propensities,
        off_policy_weights,
        live_service,
        learning,
        saving,
        warm_start,
        nights,
    )
}
"""Every consumer of a model."""
