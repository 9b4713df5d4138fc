"""Forward selection: in every round the candidate with the greatest gain joins the model.

In every round each candidate is added to the model so far, and the richer model is fitted to part
of the log. Its gain is the difference in log-likelihood one step ahead, on users who were in no
fit, with a paired interval over users. The rounds end when no interval lies above 0 with a gain
worth having.

Models are judged after calibration by source, as they are used: the posterior mean alone expects
too many clicks, more so the less is known, and that would be mistaken for what a term explains.
Trials are fitted by the slate likelihood whatever the model's own: only it is a probability of what
happened, and a term adds the same to a slate under all three.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import (
    Calibration,
    Estimate,
    LogLikelihood,
    ModelRecommender,
    bootstrap,
    half_lives_of,
    predict_part,
)
from slatewise.model.config import ModelConfig
from slatewise.model.item_features import ItemFeatures
from slatewise.selection.candidates import Choice, added, candidates_of
from slatewise.selection.config import SelectionConfig, trial_recipe
from slatewise.selection.memory import Memory
from slatewise.selection.record import CandidateResult, Outcome, Round, Selection
from slatewise.selection.trial import Trial, trial_of
from slatewise.training import TrainingConfig, fit
from slatewise.training.loop import Progress as State

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and how much there is, if known."""


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
    trial = trial_of(dataset, config, seed)
    if not model.is_given("half_lives"):
        model = model.changed(half_lives=half_lives_of(trial.fitting))
    names, impossible = candidates_of(model, dataset, described=item_features is not None)
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
    work = _Trials(
        trial, recipe, item_features, seed, Memory(memory, about | {"of": digests}), progress
    )
    current = work.judge(
        Choice(model.model_copy(update={"likelihood": "slate"})), "the model to begin with"
    )
    rounds: list[Round] = []
    while names:
        found = {
            name: work.judge(added(current.choice, name), f"round {len(rounds) + 1}: {name}")
            for name in names
        }
        record = _round(current, found, config.least_gain)
        rounds.append(record)
        kept = [tried.name for tried in record.tried if tried.outcome == "kept"]
        if not kept:
            break
        current = found[kept[0]]
        again = [tried.name for tried in record.tried if tried.outcome == "tried again"]
        names = [name for name in again if name not in current.choice.model.terms]
    chosen = {name: getattr(current.choice.model, name) for name in ("terms", "evidence")}
    return Selection(
        model.model_copy(update=chosen),
        rounds,
        impossible,
        list(_notes(dataset, trial)),
        about,
        described=current.choice.described,
    )


class _ScoredChoice(NamedTuple):
    choice: Choice
    score: Estimate


def _round(current: _ScoredChoice, found: Mapping[str, _ScoredChoice], least: float) -> Round:
    """Compare every candidate with the model without it, and keep the best if it gains enough."""
    gains = {name: one.score - current.score for name, one in found.items()}
    improving = {name: g.value for name, g in gains.items() if g.low > 0 and g.value >= least}
    best = max(improving, key=improving.__getitem__, default=None)

    def outcome(name: str) -> Outcome:
        if name == best:
            return "kept"
        if gains[name].high < least:
            return "hopeless"
        return "not kept" if best is None else "tried again"

    tried = [
        CandidateResult(name, g.value, g.low, g.high, outcome(name)) for name, g in gains.items()
    ]
    return Round(current.choice.name, current.score.value, tried)


@dataclass(frozen=True)
class _Trials:
    """Fits and scores models, always in the same way."""

    trial: Trial
    training: TrainingConfig
    item_features: ItemFeatures | None
    seed: int
    memory: Memory
    progress: Progress

    def judge(self, choice: Choice, stage: str) -> _ScoredChoice:
        """Fit a model and return its mean log-likelihood on the judging users."""
        trial = choice.model.model_dump_json() + f" described={choice.described}"
        return _ScoredChoice(choice, self.memory.score(trial, lambda: self._score(choice, stage)))

    def _score(self, choice: Choice, stage: str) -> Estimate:
        def observe(at: State) -> None:
            self.progress(stage, at.epoch, self.training.max_epochs)

        fitted = fit(
            self.trial.fitting,
            choice.model,
            self.training,
            seed=self.seed,
            item_features=self.item_features if choice.described else None,
            observer=observe,
        )
        sources = self.trial.judging.source_names
        ending, judging = (
            predict_part(ModelRecommender(fitted, log=log), log, "validation")
            for log in (self.trial.fitting, self.trial.judging)
        )
        judged = Calibration.fit(ending, sources).apply(judging, sources)
        return bootstrap(LogLikelihood(), judged, seed=self.seed)


def _notes(dataset: SlateDataset, trial: Trial) -> list[str]:
    """Return remarks on the split that terms were judged by."""
    if not trial.by_time:
        return [
            "The times of the log are only an order: terms were judged on users whom the trial "
            "models did not know. Item vectors and biases may have seen clicks of others that were "
            "later."
        ]
    notes = ["Terms were judged on interactions later than all that the trial models learned from."]
    if dataset.meta["split"]["method"] == "user":
        notes.append(
            "The dataset itself is split by user, although its log has times. Popularity, history "
            "and propensity read only the past there too. Item vectors and biases do not: those of "
            "the trained model have seen clicks later than the validation and test interactions "
            "that it is judged on, and look a little too good. slatewise prepare --split time "
            "judges without that."
        )
    return notes
