"""Selection by leaving out: what the model with everything loses without one of its parts.

One model is fitted without any candidate and one with all of them, to part of the log. From the
latter, each candidate is left out in turn: the smaller model starts from what the larger has
learned and is fitted for a few epochs more, as the larger is for comparison. The gain of a
candidate is the difference in log-likelihood one step ahead, on users who were in no fit, with a
paired interval over users. Those whose interval lies above 0 with a gain worth having are kept, and
so are the terms that training takes without asking, unless their interval rules such a gain out.
Terms that see whole slates, the network, are tried last, beside those. What is left must gain as
much over the terms that training takes, all of them together, or these are chosen.

Models are judged after calibration by source, as they are used. Trials are fitted by the slate
likelihood whatever the model's own: only it is a probability of what happened, and a term adds the
same to a slate under all three.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import (
    Calibration,
    Estimate,
    LogLikelihood,
    ModelRecommender,
    Predictor,
    bootstrap,
    fit_baselines,
    predict_part,
)
from slatewise.features import half_lives_of
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.registry import TERMS
from slatewise.selection.candidates import (
    ModelChoice,
    candidates_of,
    first_stage_of,
    with_all,
    without,
)
from slatewise.selection.config import SelectionConfig, trial_recipe
from slatewise.selection.memory import Memory
from slatewise.selection.record import ANOTHER_SEED, CandidateResult, Comparison, Selection
from slatewise.selection.trial import TrialSplits, trial_of
from slatewise.training import TrainingConfig, fit
from slatewise.training.sizes import SLATE_TERMS
from slatewise.training.unused import training_of, unused_settings, without_unused

DEFAULT: Final = "the default terms"
"""Name of the trial, and of the comparison, of what training takes without asking."""
Progress = Callable[[str, int, int], None]
"""Called with what is tried, how many trials are done, and how many there are in all."""
_TRIALS: Final = 7
"""Beside those of candidates: with all candidates, twice, with those that gain, with the default
terms, with none, the baselines, and by another seed."""


def select(
    dataset: SlateDataset,
    model: ModelConfig | None = None,
    config: SelectionConfig | None = None,
    *,
    training: TrainingConfig | None = None,
    item_features: ItemFeatures | None = None,
    seed: int = 0,
    memory: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Selection:
    """Choose the terms and evidence that improve held-out likelihood; those of `model` stay.

    `training` is how the chosen model will be fitted; trials do the same with fewer epochs.
    `item_features` are a candidate like the terms. The same dataset, configurations and seed give
    the same choice, bit for bit on one machine. With `memory`, a file, finished trials are kept
    there, and an interrupted selection resumes after the last.
    """
    model, config = model or ModelConfig(), config or SelectionConfig()
    asked = set(model.model_dump(exclude_unset=True))
    trial = trial_of(dataset, config, seed)
    if not model.is_given("half_lives"):
        model = model.changed(half_lives=half_lives_of(trial.fitting))
    names, impossible = candidates_of(model, dataset, described=item_features is not None)
    first, unfit = first_stage_of(model, dataset)
    impossible |= unfit
    begin = model
    if set(first) & set(model.terms):
        begin = model.changed(terms=tuple(name for name in model.terms if name not in first))
    recipe = trial_recipe(trial.fitting, training or TrainingConfig(), config)
    about = {
        "seed": seed,
        "settings": config.model_dump(),
        "training": recipe.model_dump(mode="json"),
        "split": "time" if trial.by_time else "user",
        "fitted_users": trial.users,
        "judging_users": trial.judges,
        "judged_interactions": trial.judged,
    }
    digests = [dataset.content_hash, item_features and item_features.digest]
    known = Memory(memory, about | {"of": digests})
    trials = len(names) + _TRIALS
    work = _Trials(dataset, trial, recipe, config, item_features, seed, known, progress, trials)
    # Trials rank nothing: fitting the weights of rankings would be in vain.
    bare = ModelChoice(begin.changed(likelihood="slate", ranking="slate", **_one_member(model)))
    chosen, results = _choose(work, bare, names)
    kept = {"terms": (*chosen.model.terms, *first), "evidence": chosen.model.evidence}
    found = model.model_copy(update=kept)
    unused = unused_settings(found, item_features=chosen.described)
    return Selection(
        without_unused(found, item_features=chosen.described),
        results,
        _comparisons(work, bare, _with_default_terms(work, bare, names), chosen),
        impossible,
        [
            *_notes(dataset, trial),
            *map(_first_stage_note, first),
            *(
                f"The setting {name} is not used: it is for {unused[name]}."
                for name in sorted(asked & unused.keys())
            ),
        ],
        about,
        described=chosen.described,
    )


def _first_stage_note(name: str) -> str:
    return (
        f"'{name}' finds what slates are made of, and predicts nothing within them: it is in the "
        "model, with weights that training fits to held-out clicks."
    )


def _one_member(model: ModelConfig) -> dict[str, int]:
    """Return the settings by which trials fit one network, where the chosen model has several.

    One of them tells what the term is worth, in a fraction of the time.
    """
    return {} if model.is_given("network_members") else {"network_members": 1}


def _choose(
    work: "_Trials", bare: ModelChoice, names: list[str]
) -> tuple[ModelChoice, list[CandidateResult]]:
    """Leave out each candidate in turn, then all that gain nothing; then try terms that see slates.

    A term that sees whole slates explains what other terms would, but does not rank the catalogue.
    So it is tried last, in addition to the terms that were chosen without it. It learns more from
    the whole log than from the part that a trial fits: left out for want of a sure gain there
    (+.002 ± .003), the network was worth .010 on the whole of a log of short videos. So it stays
    unless a gain is ruled out.
    """
    terms = [name for name in names if name in TERMS]
    usual = _default_terms(work)
    seeing = [name for name in terms if TERMS[name].in_lists and TERMS[name].pooled]
    chosen, results = _left(work, bare, [name for name in names if name not in seeing], usual)
    for name in seeing:
        before = work.judge(chosen, "with the terms that gain")
        more = with_all(chosen, [name])
        gain = work.judge(more, f"with the {name}") - before
        kept = gain.high >= work.config.least_gain
        results.append(CandidateResult(name, gain.value, gain.low, gain.high, kept))
        chosen = more if kept else chosen
    default = _with_default_terms(work, bare, names)
    if not _same(chosen, default):
        # A trial sees a part of the log, and one term after the other. On front pages popularity
        # lost in it without the network, gained .0008 beside it, and .0055 once the whole was seen.
        gain = work.judge(chosen, "with the terms that gain") - work.judge(default, DEFAULT)
        if gain.value < work.config.least_gain:
            results = [replace(one, kept=one.name in default.model.terms) for one in results]
            chosen = default
    else:
        work.skip(DEFAULT)
    return chosen, sorted(results, key=lambda one: -one.gain)


def _default_terms(work: "_Trials") -> list[str]:
    """Return the terms that training takes without asking."""
    return [name for name in SLATE_TERMS if TERMS[name].default_obstacle(work.dataset) is None]


def _with_default_terms(work: "_Trials", bare: ModelChoice, names: list[str]) -> ModelChoice:
    usual = _default_terms(work)
    return with_all(bare, [name for name in names if name in usual])


def _same(one: ModelChoice, other: ModelChoice) -> bool:
    """Return whether two choices have the same parts, in whatever order."""
    parts = [(set(each.model.terms), set(each.model.evidence)) for each in (one, other)]
    return parts[0] == parts[1] and one.described == other.described


def _left(
    work: "_Trials", bare: ModelChoice, names: list[str], usual: Sequence[str]
) -> tuple[ModelChoice, list[CandidateResult]]:
    """Return what is left of a model with candidates, and what each gains.

    A trial is too small to be certain of most terms that a log pays for: where the `usual` ones had
    to be, the choice predicted the test part worse than `train` did (.006 worse on a twentieth of
    a log of short videos, for want of the propensity that gained +.007 ± .022).
    """
    if not names:
        return bare, []
    whole = with_all(bare, names)
    full = work.judge(whole, "with everything")
    again = work.judge(whole, "with everything, a little longer", start=whole)
    least = work.config.least_gain
    results = []
    for name in names:
        less = without(whole, name)
        warm = less.model.item_columns == whole.model.item_columns
        start = whole if warm and less.described == whole.described else None
        score = work.judge(less, f"without {name}", start=start)
        gain = (full if start is None else again) - score
        certain = gain.low > 0 and gain.value >= least
        kept = certain or (name in usual and gain.high >= least)
        results.append(CandidateResult(name, gain.value, gain.low, gain.high, kept))
    gaining = {one.name for one in results if one.kept}
    chosen = with_all(bare, [name for name in names if name in gaining])
    lost = full - work.judge(chosen, "with the terms that gain")
    if chosen != whole and lost.low > 0 and lost.value >= least:
        # Parts that can stand in for each other gain little one by one, and much together.
        results = [replace(one, kept=True) for one in results]
        chosen = whole
    return chosen, results


def _comparisons(
    work: "_Trials", bare: ModelChoice, default: ModelChoice, chosen: ModelChoice
) -> list[Comparison]:
    """Compare the chosen model with others, with baselines, and with itself by another seed."""
    score = work.judge(chosen, "with the terms that gain")
    others = {"the model without candidates": work.judge(bare, "the model without candidates")}
    if not _same(chosen, default):
        others[DEFAULT] = work.judge(default, DEFAULT)
    others |= work.judge_baselines()
    others[ANOTHER_SEED] = work.judge(chosen, "another seed", seed=work.seed + 1)
    rows = {name: (other, score - other) for name, other in others.items()}
    return [Comparison(n, s.value, d.value, d.low, d.high) for n, (s, d) in rows.items()]


@dataclass
class _Trials:
    """Fits and scores models, always in the same way."""

    dataset: SlateDataset
    trial: TrialSplits
    training: TrainingConfig
    config: SelectionConfig
    item_features: ItemFeatures | None
    seed: int
    memory: Memory
    progress: Progress
    trials: int
    """how many there will be"""
    _done: set[str] = field(default_factory=set)
    _fitted: dict[str, SlateModel] = field(default_factory=dict)

    def judge(
        self,
        choice: ModelChoice,
        stage: str,
        *,
        start: ModelChoice | None = None,
        seed: int | None = None,
    ) -> Estimate:
        """Fit a model, from what another has learned if given, and score it on later users."""
        self._begin(stage)
        seed = self.seed if seed is None else seed
        what = f"{choice.model.model_dump_json()} described={choice.described} seed={seed}"
        trial = what if start is None else f"{what} after {start.name}"

        def score() -> Estimate:
            if start is not None:
                fitted = self._fit(choice, seed, start=self._kept(start))
            elif seed != self.seed:
                fitted = self._fit(choice, seed)
            else:
                fitted = self._kept(choice)
            return self._score(lambda log: ModelRecommender(fitted, log=log))

        return self.memory.score(trial, score)

    def judge_baselines(self) -> dict[str, Estimate]:
        """Score what needs no model, fitted to the same interactions."""
        self._begin("baselines")
        fitted = fit_baselines(self.trial.fitting, seed=self.seed)

        def score(name: str) -> Estimate:
            return self._score(lambda log: fitted[name])

        return {name: score(name) for name in fitted}

    def skip(self, stage: str) -> None:
        """Count a trial that is not needed among those that are done."""
        self._done.add(stage)

    def _begin(self, stage: str) -> None:
        """Report what is tried next."""
        if stage not in self._done:
            self.progress(stage, len(self._done), self.trials)
            self._done.add(stage)

    def _kept(self, choice: ModelChoice) -> SlateModel:
        """Return the fit of a model, made once; after a resumed selection, made again."""
        if choice.name not in self._fitted:
            self._fitted[choice.name] = self._fit(choice, self.seed)
        return self._fitted[choice.name]

    def _fit(
        self, choice: ModelChoice, seed: int, *, start: SlateModel | None = None
    ) -> SlateModel:
        epochs = self.training.max_epochs if start is None else self.config.further_epochs
        model = without_unused(choice.model, item_features=choice.described)
        training = self.training.model_copy(update={"max_epochs": epochs})
        return fit(
            self.trial.fitting,
            model,
            training_of(model, training),
            seed=seed,
            start=start,
            item_features=self.item_features if choice.described else None,
        )

    def _score(self, recommender: Callable[[SlateDataset], Predictor]) -> Estimate:
        """Calibrate by the users who ended the fit, and score on those who judge."""
        sources = self.trial.judging.source_names
        ending, judging = (
            predict_part(recommender(log), log, "validation")
            for log in (self.trial.fitting, self.trial.judging)
        )
        judged = Calibration.fit(ending, sources).apply(judging, sources)
        return bootstrap(LogLikelihood(), judged, seed=self.seed)


def _notes(dataset: SlateDataset, trial: TrialSplits) -> list[str]:
    """Return remarks on the split that terms were judged by."""
    if not trial.by_time:
        return [
            "The times of the log are only an order: terms were judged on users whom the trial "
            "models did not know. Item vectors and biases may have seen clicks of others that were "
            "later."
        ]
    notes = [
        "Terms were judged on interactions later than those that the trial models were trained on."
    ]
    if dataset.meta["split"]["method"] == "user":
        notes.append(
            "The dataset itself is split by user, although its log has times. Popularity, history "
            "and propensity read only the past there too. Item vectors and biases do not: those of "
            "the trained model have seen clicks later than the validation and test interactions "
            "that it is judged on, and look a little too good. slatewise prepare --split time "
            "judges without that."
        )
    return notes
