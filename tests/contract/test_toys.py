"""A part from outside joins every consumer; the contract finds a consumer that ignores it."""

import copy
import subprocess
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import slatewise.evaluation.model
import slatewise.model.likelihood
from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments import model_policy
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.part import Noise, Parameter
from slatewise.model.posterior import Posterior
from slatewise.model.registry import DYNAMICS, PRIORS, RELEVANCES, TERMS, Registry
from slatewise.model.terms import FeatureTerm, Term
from slatewise.ranking import Additions
from slatewise.slates import Recommender, bulk
from slatewise.slates.additions import RankingTerms
from slatewise.slates.terms_in_log import TermsInLog
from slatewise.training import warm
from tests.contract import toys
from tests.contract.checks import CHECKS, WHO, recommender_of, slate_of
from tests.contract.test_contract import require_another_ranking
from tests.contract.world import Case, case_of

TOYS: dict[str, tuple[Registry[Any], type[Any], str]] = {
    "term": (TERMS, toys.Beside, "terms"),
    "relevance": (RELEVANCES, toys.SquaredDistance, "relevance"),
    "dynamics": (DYNAMICS, toys.Average, "dynamics"),
    "prior": (PRIORS, toys.NarrowPrior, "prior"),
}
BY_PATH = ("training", "greedy_slates", "explanations", "live_service", "saving", "warm_start")
"""Consumers that could ask for a part by the wrong one of its two names."""
Patch = Callable[[pytest.MonkeyPatch], None]


def heavy_toy(dataset: SlateDataset) -> Case:
    """Return a model in which the toy term has a weight of 50."""
    TERMS.register(toys.Beside)
    case = case_of(dataset, terms=("beside",))
    with torch.no_grad():
        case.model.posterior.shared["beside"].mean.fill_(50.0)
    return case


@pytest.mark.parametrize("by_path", [False, True], ids=["registered", "by import path"])
@pytest.mark.parametrize("kind", TOYS)
def test_a_part_from_outside_means_the_same_to_every_consumer(
    kind: str, *, by_path: bool, dataset: SlateDataset, tmp_path: Path
) -> None:
    registry, part, setting = TOYS[kind]
    name = f"{part.__module__}:{part.__name__}" if by_path else registry.register(part).name
    case = case_of(dataset, **{setting: (name,) if setting == "terms" else name})
    for check in BY_PATH if by_path else CHECKS:
        CHECKS[check](case, tmp_path)
    if kind == "relevance":
        uncertain = case.with_uncertain_items()
        require_another_ranking(case, uncertain)
        for check in ("predictions", "evaluation_ranking", "greedy_slates", "given_lists"):
            CHECKS[check](uncertain, tmp_path)
    if kind == "term":
        require_another_ranking(case, case.with_double(name))


def test_a_term_that_trains_also_ranks(dataset: SlateDataset) -> None:
    heavy = heavy_toy(dataset)
    without = case_of(dataset)
    assert heavy.log_likelihood.mean() < without.log_likelihood.mean() - 1
    slate = slate_of(heavy, recommender_of(heavy), WHO[0])
    features = toys.Beside().met(heavy.histories[WHO[0]], slate.numbers)[1][:, 0]
    assert 0 < features.sum() < len(features)
    assert (np.diff(features) <= 0).all()  # what stood beside a click comes first


def test_a_model_with_a_part_from_outside_is_trained(dataset: SlateDataset) -> None:
    from slatewise.training import TrainingConfig, fit  # noqa: PLC0415

    for registry, part, _ in TOYS.values():
        registry.register(part)
    config = ModelConfig(
        dimensions=3, terms=("beside",), relevance="squared", dynamics="average", prior="narrow"
    )
    model = fit(dataset, config, TrainingConfig(max_epochs=1))
    assert model.posterior.shared["beside"].mean.abs().item() > 0
    assert model.posterior.shared["first_weight"].mean.abs().item() > 0
    assert len(Recommender(model).recommend(["i3"], 5, strategy="greedy", seed=0)) == 5


def without_features_in_training(patch: pytest.MonkeyPatch) -> None:
    likelihood = slatewise.model.likelihood
    honest = likelihood.slate_terms
    patch.setattr(
        likelihood,
        "slate_terms",
        lambda *args, **options: honest(
            *args, **(options | {"features": None, "feature_weights": None})
        ),
    )


def without_features_in_predictions(patch: pytest.MonkeyPatch) -> None:
    evaluation = slatewise.evaluation.model
    honest = evaluation.item_utilities
    patch.setattr(
        evaluation,
        "item_utilities",
        lambda parameters, *rest: honest(replace(parameters, cell_weights=None), *rest),
    )


def without_terms_in(owner: type[Any], verb: str, instead: object) -> Patch:
    """Return what lets a verb of the slates' terms answer as if there were none."""

    def patch_it(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, verb, lambda *args: instead)

    return patch_it


def without_terms_in_learning(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RankingTerms, "in_slate", lambda self, history, rows, *rest: np.zeros(len(rows)))


def without_features_of_slates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        toys.Beside,
        "describe_in",
        lambda self, log: lambda rows: torch.zeros(len(rows.slate_items), 1),
    )


def without_toy(model: SlateModel) -> SlateModel:
    """Return the same model with no weight on the toy term."""
    posterior = copy.deepcopy(model.posterior)
    with torch.no_grad():
        posterior.shared["beside"].mean.zero_()
    return replace(model, posterior=posterior)


def without_toy_in_files(patch: pytest.MonkeyPatch) -> None:
    honest = bulk._slates
    patch.setattr(
        bulk,
        "_slates",
        lambda recommender, *rest: honest(Recommender(without_toy(recommender.model)), *rest),
    )


def without_toy_in_studies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(model_policy, "Recommender", lambda model: Recommender(without_toy(model)))


def without_toy_in_runs(patch: pytest.MonkeyPatch) -> None:
    honest = Posterior.load

    def load(self: Posterior, tensors: dict[str, torch.Tensor]) -> None:
        honest(self, tensors | {"beside.mean": torch.zeros_like(tensors["beside.mean"])})

    patch.setattr(Posterior, "load", load)


def without_toy_in_warm_starts(patch: pytest.MonkeyPatch) -> None:
    honest = warm._indices

    def indices(names: Sequence[Hashable], earlier: Sequence[Hashable]) -> torch.Tensor:
        found = honest(names, earlier)
        return torch.full_like(found, -1) if "beside" in names else found

    patch.setattr(warm, "_indices", indices)


IGNORANT: dict[str, Patch] = {
    "training": without_features_in_training,
    "training_steps": without_features_in_training,
    "predictions": without_features_in_predictions,
    "features": without_features_of_slates,
    "evaluation_ranking": without_terms_in(TermsInLog, "added", 0.0),
    "judged_slates": without_terms_in(TermsInLog, "added", 0.0),
    "greedy_slates": without_terms_in(RankingTerms, "mean", Additions()),
    "files_of_users": without_toy_in_files,
    "given_lists": without_terms_in(RankingTerms, "mean_parts", {}),
    "lists_as_slates": without_terms_in(RankingTerms, "mean_parts", {}),
    "online_studies": without_toy_in_studies,
    "shown_propensities": without_terms_in(RankingTerms, "mean", Additions()),
    "off_policy_weights": without_terms_in(RankingTerms, "mean_parts", {}),
    "live_service": without_terms_in(RankingTerms, "mean", Additions()),
    "learning": without_terms_in_learning,
    "rankings": without_terms_in(RankingTerms, "draws", Additions()),
    "explanations": without_terms_in(RankingTerms, "mean_parts", {}),
    "saving": without_toy_in_runs,
    "warm_start": without_toy_in_warm_starts,
    "nights": without_toy_in_warm_starts,
}
"""How each consumer could ignore a term."""


@pytest.mark.parametrize("check", CHECKS)
def test_the_contract_fails_for_a_consumer_that_ignores_a_term(
    check: str, dataset: SlateDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = heavy_toy(dataset)
    CHECKS[check](case, tmp_path / "honest")
    IGNORANT[check](monkeypatch)
    with pytest.raises(AssertionError):
        CHECKS[check](replace(case), tmp_path / "ignorant")


@pytest.mark.parametrize("check", ["greedy_slates", "rankings", "live_service"])
def test_the_contract_fails_for_a_relevance_that_ranks_otherwise_than_it_trains(
    check: str, dataset: SlateDataset, tmp_path: Path
) -> None:
    RELEVANCES.register(toys.LyingRelevance)
    case = case_of(dataset, relevance="lying")
    CHECKS["training"](case, tmp_path)
    with pytest.raises(AssertionError, match="ranked above"):
        CHECKS[check](case, tmp_path)


def test_parameters_of_a_relevance_are_refused_where_they_would_be_dropped() -> None:
    class Learned(toys.SquaredDistance):
        name = "learned"

        def parameters(self, noise: Noise) -> dict[str, Parameter]:
            return {"scale": Parameter(torch.ones(1), 1.0)}

    with pytest.raises(SlatewiseError, match="Learned defines `parameters`") as error:
        RELEVANCES.register(Learned)
    assert "into a term" in str(error.value)


def test_dynamics_for_a_gpu_need_what_a_gpu_runs() -> None:
    class Hopeful(toys.Average):
        name = "hopeful"
        devices = frozenset(["cpu", "cuda"])

    DYNAMICS.register(Hopeful)
    with pytest.raises(SlatewiseError, match="need `in_place_profiles`"):
        ModelConfig.build({"dynamics": "hopeful"}, "the test")


def incomplete(**attributes: Any) -> Callable[[], type[FeatureTerm]]:
    """Return what makes the class of a term with only these attributes."""
    whole = {"name": "toy", "acts_on": "items", "ranks": "items met", "met": toys.Beside.met}
    chosen = {name: value for name, value in (whole | attributes).items() if value is not None}
    types = {name: ClassVar[str] for name in ("name", "acts_on", "ranks") if name in chosen}
    types |= {name: float for name in attributes if name == "size"}
    return lambda: type("Toy", (FeatureTerm,), chosen | {"__annotations__": types})


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"ranks": None}, "does not define `ranks`"),
        ({"ranks": "sometimes"}, "does not define `ranks`"),
        ({"acts_on": "everything"}, "does not define `acts_on`"),
        ({"met": None}, "ranks 'items met' and has no `met`"),
        ({"size": ...}, "has no `fit`"),
        ({"ranks": "all items"}, "ranks 'all items' and has no `item_state`"),
        ({"acts_on": "no click"}, "cannot rank items"),
    ],
)
def test_an_incomplete_term_is_refused_by_what_it_lacks(
    attributes: dict[str, Any], says: str
) -> None:
    with pytest.raises(SlatewiseError, match=says):
        incomplete(**attributes)()


def test_other_incomplete_parts_are_refused_by_what_they_lack() -> None:
    nameless = incomplete(name=None)()
    with pytest.raises(SlatewiseError, match="has no `name`"):
        TERMS.register(nameless)
    with pytest.raises(SlatewiseError, match="has no `pairs`"):
        RELEVANCES.register(type("Bare", (RELEVANCES["dot"].__base__,), {"name": "bare"}))
    with pytest.raises(SlatewiseError, match="has no `profiles`"):
        DYNAMICS.register(type("Bare", (toys.Dynamics,), {"name": "bare"}))
    with pytest.raises(SlatewiseError, match="is not a dynamics"):
        DYNAMICS.register(toys.SquaredDistance)


@pytest.mark.parametrize(
    ("registry", "part", "says"),
    [
        (DYNAMICS, toys.ForgetfulStep, "`step` and inherits `follow`, `fused`, `gates`, `scanned`"),
        (RELEVANCES, toys.Renamed, "overrides `name` and inherits `fused`"),
        (RELEVANCES, toys.Doubled, "overrides `pairs` and inherits `exact`, .*`many`"),
        (TERMS, toys.OtherHistory, "overrides `met` and inherits `describe_in`"),
    ],
)
def test_a_part_whose_shortcuts_go_by_another_equation_is_refused(
    registry: Registry[Any], part: type[Any], says: str
) -> None:
    """It would be trained as one model, and served as another."""
    with pytest.raises(SlatewiseError, match=says):
        registry.register(part)
    with pytest.raises(SlatewiseError, match=says) as found:
        _ = registry[f"{part.__module__}:{part.__name__}"]
    assert "too, as " in found.value.remedy


@pytest.mark.parametrize(
    ("registry", "part", "setting"),
    [
        (DYNAMICS, toys.HalfStep, "dynamics"),
        (RELEVANCES, toys.PlainDistance, "relevance"),
    ],
)
def test_a_part_derived_from_a_fast_one_means_the_same_to_every_consumer(
    registry: Registry[Any],
    part: type[Any],
    setting: str,
    dataset: SlateDataset,
    tmp_path: Path,
) -> None:
    case = case_of(dataset, **{setting: registry.register(part).name})
    for check in CHECKS.values():
        check(case, tmp_path)


def test_the_name_of_a_part_that_comes_with_slatewise_is_taken_by_import_path_too() -> None:
    with pytest.raises(SlatewiseError, match="there is a relevance 'distance' already"):
        RELEVANCES.register(toys.TakenName)
    with pytest.raises(SlatewiseError, match="there is a relevance 'distance' already"):
        _ = RELEVANCES["tests.contract.toys:TakenName"]
    same = "slatewise.model.relevance.distance:Distance"
    assert RELEVANCES[same] is RELEVANCES["distance"]


def test_relevances_can_be_imported_before_all_else() -> None:
    """As a module of another package does that derives one; kernels import them, too."""
    first = [sys.executable, "-c", "import slatewise.model.relevance"]
    assert subprocess.run(first, check=False).returncode == 0


def test_a_relevance_that_counts_on_loops_which_do_not_know_it_is_refused() -> None:
    counting = type("Counting", (toys.SquaredDistance,), {"name": "counting", "fused": True})
    RELEVANCES.register(counting)
    with pytest.raises(ValueError, match="no compiled loops know the relevance 'counting'"):
        ModelConfig(relevance="counting")


def test_dynamics_that_would_take_evidence_for_clicks_refuse_it() -> None:
    DYNAMICS.register(toys.Average)
    with pytest.raises(ValueError, match="average dynamics take no evidence"):
        ModelConfig(dynamics="average", evidence=("search",))


def test_a_part_derived_from_another_has_its_settings() -> None:
    PRIORS.register(toys.NarrowPrior)
    config = ModelConfig(prior="narrow", sigma_v=0.3)
    assert config.of(toys.NarrowPrior).sigma_v == 0.3
    again = ModelConfig.build(config.model_dump(), "a test")
    assert again.of(toys.NarrowPrior).sigma_v == again.of(PRIORS["flat"]).sigma_v == 0.3


def test_two_terms_of_one_name_are_refused() -> None:
    again = incomplete(name="history")()
    with pytest.raises(SlatewiseError, match="a term 'history' already"):
        TERMS.register(again)
    TERMS.register(toys.Beside)
    with pytest.raises(ValueError, match="two terms are called 'beside'"):
        ModelConfig(terms=("beside", "tests.contract.toys:Beside"))


def test_a_term_from_outside_that_nothing_would_add_is_refused() -> None:
    """The utility knows those without features by name: bias and position."""
    ignored = type(
        "Ignored",
        (Term,),
        {"name": "ignored", "ranks": "all items"}
        | {"__annotations__": {"name": ClassVar[str], "ranks": ClassVar[str]}},
    )
    with pytest.raises(SlatewiseError, match="FeatureTerm"):
        TERMS.register(ignored)
