"""The training loop, top to bottom.

Everything random in it is drawn from (seed, stage, epoch, step), so a run that stops between two
steps and is resumed takes the same steps as one that never stopped.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Exposure
from slatewise.model.posterior import Posterior
from slatewise.model.registry import DYNAMICS, TERMS
from slatewise.training.config import TrainingConfig
from slatewise.training.dense import DenseSteps
from slatewise.training.peers import ALONE, Peers
from slatewise.training.steps import Result, SparseSteps, StepResult
from slatewise.training.validation import Validation

_LOOSE = 0.1
"""τ of the first stage where items are found in a whole catalogue."""
_WORST = -1e30
"""A validation likelihood below any other; JSON has no infinity."""
FIRST_IS_BEST = (
    "The best epoch was the first: what the model learned after it did not help on the validation "
    "interactions. Try a lower learning_rate, a smaller batch_users, or a log with more clicks; "
    "with terms, compare with --auto what they bring."
)
_SKIPPED_IN_A_ROW = 20
"""Steps that are not finite, one after the other, after which training fails."""


@dataclass
class Progress:
    """The state of training that, with the tensors, is enough to resume exactly."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    """steps done in this epoch"""
    steps: int = 0
    """steps an epoch has"""
    rate: float = 0.0
    best: float = _WORST
    mark: float = _WORST
    """the likelihood that an epoch must beat by `least_gain` to count as better"""
    since_best: int = 0
    skipped: int = 0
    """steps that were not finite, in all"""
    skipped_in_a_row: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    """one record per epoch"""

    @property
    def best_epoch(self) -> int:
        """The best epoch of the last stage, from 1; 0 before any."""
        stage = [one["validation"] for one in self.history if one["stage"] == self._last_stage]
        return 1 + stage.index(max(stage)) if stage else 0

    @property
    def _last_stage(self) -> int:
        return int(self.history[-1]["stage"]) if self.history else 0

    @property
    def warning(self) -> str | None:
        """What is wrong with a fit that ended where it began, and what to do about it."""
        epochs = sum(one["stage"] == self._last_stage for one in self.history)
        return FIRST_IS_BEST if self.best_epoch == 1 and epochs > 1 else None


class Steps(Protocol):
    """Takes training steps on some device."""

    users: Tensor
    """[users with training interactions]"""
    views: Tensor
    """[I] how often each item was seen in training"""
    seeds: tuple[int, ...]
    """what sets the noise of this worker's steps apart from that of others, if anything"""

    def step(self, users: Tensor, generator: torch.Generator, rate: float) -> Result:
        """Update the posterior from the training interactions of some users [B]."""

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimiser."""

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""


@dataclass(frozen=True)
class Stage:
    """One optimisation to convergence."""

    dynamics: str
    frozen_items: bool
    temperature: float
    terms: tuple[str, ...] = ()
    """those that the model has here"""
    frozen_users: bool = False
    """whether what moves users stays as it is too: then terms and no click are learned alone"""


def stages_of(model: ModelConfig, training: TrainingConfig, *, warm: bool = False) -> list[Stage]:
    """Return the optimisation stages in order (two-step optimisation, Section posterior).

    With an exposure term, a first one under a weak prior comes before them. Items begin together,
    drawn with noise: a full prior then pays more for a dimension that says little yet than the
    clicks do, closes it, and training ends in a worse optimum. Once items have left their groups,
    the same prior keeps them where they are.

    With terms last, those that explain clicks wait until items and dynamics are fitted without
    them. A `warm` start has left its groups, and its items are there already.
    """
    early = model.terms
    waiting = [name for name in early if not _is_latent(name, model)]
    # Those that are pooled come in after all stages, by themselves.
    pooled = [name for name in waiting if TERMS[name].in_lists and TERMS[name].pooled]
    if training.optimisation == "terms-last" and pooled != waiting:
        early = tuple(name for name in early if name not in waiting)
    last = Stage(model.dynamics, False, model.temperature, early)
    stages = [last] if warm else _cold(last, training)
    if not (warm or model.likelihood == "slate" or model.temperature <= _LOOSE):
        stages.insert(0, replace(stages[0], temperature=_LOOSE))
    if early != model.terms:
        stages.append(replace(last, terms=model.terms, frozen_items=True, frozen_users=True))
    return stages


def _cold(last: Stage, training: TrainingConfig) -> list[Stage]:
    """Return one stage, or the two of which the first learns items."""
    first = DYNAMICS[last.dynamics].first_stage
    if first is None or training.optimisation != "two-step":
        return [last]
    return [replace(last, dynamics=first), replace(last, frozen_items=True)]


def _is_latent(term: str, model: ModelConfig) -> bool:
    """Return whether a term is a part of items, or of every model of such a log."""
    return TERMS[term].automatic or bool(TERMS[term].item_columns(model))


@dataclass
class Training:
    """One training run in memory: iterate over `advance`, then take the `result`.

    It can be interrupted after any step; `state` and `restore` carry it over.
    """

    model: ModelConfig
    config: TrainingConfig
    interactions: Interactions
    item_groups: Tensor
    group_names: list[str]
    sources: list[str]
    seed: int
    progress: Progress = field(default_factory=Progress)
    item_features: Tensor | None = None
    """[I, Q] on which the prior means of items depend"""
    start: Callable[[Posterior], Tensor] | None = None
    """initialises a new posterior from an earlier model, and returns how often items [I] had been
    seen by it"""
    peers: Peers = ALONE
    """the workers who train it together; the interactions are those of this one's users"""

    def __post_init__(self) -> None:
        """Prepare the first stage."""
        peers = self.peers
        self.longest = peers.greatest(int(self.interactions.scroll_lengths.max()))
        declined = self.longest > 1 or peers.any(bool((self.interactions.clicks < 0).any()))
        self.exposure = Exposure.of(self.model, self.sources, declined=declined)
        warm = self.start is not None
        self.stages = stages_of(self.model, self.config, warm=warm)
        self._earlier_views = torch.zeros_like(self.item_groups)
        self._waiting: list[Result] = []
        self._enter_stage()

    def _enter_stage(self) -> None:
        """Build what the current stage optimises, starting from the last one's result."""
        at = self.progress
        stage = self.stages[min(at.stage, len(self.stages) - 1)]
        settings = {
            "dynamics": stage.dynamics,
            "temperature": stage.temperature,
            "terms": stage.terms,
        }
        model = self.model.model_copy(update=settings)
        interactions = self.interactions
        if stage.terms != self.model.terms:  # terms with features wait
            interactions = replace(interactions, cell_features=None, step_features=None)
        self.validation = Validation(
            interactions,
            self.exposure,
            len(self.item_groups),
            draws=self.config.validation_draws,
            seed=self.seed,
            peers=self.peers,
        )
        generator = seeded(self.seed, at.stage)
        previous = getattr(self, "posterior", None)
        self.posterior = Posterior(
            model,
            self.item_groups,
            self.group_names,
            self.longest,
            generator,
            self.sources,
            self.item_features,
        )
        self.posterior.training = True
        if self.start is not None:
            self._earlier_views = self.start(self.posterior)
        if previous is not None:
            learned = previous.tensors()
            own = self.posterior.tensors()
            same = {n: t for n, t in learned.items() if n in own and t.shape == own[n].shape}
            self.posterior.load(own | same)
        on_cpu = self.interactions.clicks.device.type == "cpu"
        self.steps: Steps = (SparseSteps if on_cpu else DenseSteps)(
            self.posterior,
            interactions,
            self.config,
            self.exposure,
            frozen_items=stage.frozen_items,
            frozen_users=stage.frozen_users,
            peers=self.peers,
        )
        if self.start is not None:
            at.best = at.mark = self.validation.score(self.posterior)
        elif previous is None:
            self.posterior.widen(self.steps.views)
        self.best = {name: tensor.clone() for name, tensor in self.posterior.tensors().items()}

    @property
    def views(self) -> Tensor:
        """How often each item was seen, here or else in the earlier model: [I]."""
        own = self.steps.views
        return torch.where(own > 0, own, self._earlier_views)

    def advance(self) -> Iterator[Result]:
        """Take one step after the other until all stages have converged."""
        at = self.progress
        while at.stage < len(self.stages):
            at.rate = at.rate or self.config.rate
            users, peers = self.steps.users, self.peers
            order = seeded(self.seed, at.stage, at.epoch, *peers.seeds)
            shuffled = users[torch.randperm(len(users), generator=order).to(users.device)]
            everyone = peers.total(len(users))
            batch_users = self.config.batch(everyone, self.model.likelihood)
            batches = peers.batches(shuffled, everyone, batch_users)
            at.steps = len(batches)
            for batch in batches[at.step :]:
                generator = seeded(self.seed, at.stage, at.epoch, at.step, *self.steps.seeds)
                result = self.steps.step(batch, generator, at.rate)
                self._count(result)
                at.step += 1
                if at.step == len(batches):
                    self._end_epoch()
                yield result

    def _count(self, result: Result) -> None:
        """Count a step that was not taken: at once, or where the device has it, after the epoch."""
        self._waiting.append(result)
        if isinstance(result, StepResult):
            self._count_waiting()

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for result in waiting:
            self._count_one(result)

    def _count_one(self, result: Result) -> None:
        at = self.progress
        at.skipped_in_a_row = 0 if result.finite else at.skipped_in_a_row + 1
        at.skipped += not result.finite
        if at.skipped_in_a_row >= _SKIPPED_IN_A_ROW:
            raise SlatewiseError(
                f"{_SKIPPED_IN_A_ROW} steps in a row were not finite (last loss {result.loss}).",
                "Lower learning_rate, or raise scale_floor or the priors' scales.",
            )

    def _end_epoch(self) -> None:
        at, config = self.progress, self.config
        self._count_waiting()
        # Held-out interactions have new items too, which training left where they started.
        self.posterior.fill_unseen(self.views)
        score = self.validation.score(self.posterior)
        if score > at.best:
            at.best = score
            for name, tensor in self.posterior.tensors().items():
                self.best[name].copy_(tensor)  # a second copy would be a fifth of an item's bytes
        if score > at.mark + config.least_gain:
            at.mark, at.since_best = score, 0
        else:
            at.since_best += 1
            if at.since_best % config.plateau == 0:
                at.rate *= config.drop
        at.history.append(
            {
                "stage": at.stage,
                "dynamics": self.stages[at.stage].dynamics,
                "epoch": at.epoch,
                "validation": score,
                "best": at.best,
                "since_best": at.since_best,
                "rate": at.rate,
                "skipped": at.skipped,
            }
        )
        at.epoch, at.step = at.epoch + 1, 0
        if at.since_best >= config.patience or at.epoch >= config.max_epochs:
            self._end_stage()

    def _end_stage(self) -> None:
        at = self.progress
        self.posterior.load(self.best)
        at.stage += 1
        if at.stage < len(self.stages):
            at.epoch, at.rate, at.since_best = 0, 0.0, 0
            at.best = at.mark = _WORST
            self._enter_stage()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return tensors and plain values from which `restore` resumes exactly."""
        self._count_waiting()
        parts = {
            "posterior": self.posterior.tensors(),
            "best": self.best,
            "optimiser": self.steps.state(),
        }
        tensors = {
            f"{part}/{name}": t for part, named in parts.items() for name, t in named.items()
        }
        return tensors, asdict(self.progress)

    def restore(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.progress.stage = progress["stage"]
        self._enter_stage()
        self.progress = Progress(**progress)
        parts: dict[str, dict[str, Tensor]] = {"posterior": {}, "best": {}, "optimiser": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = tensor.to(self.interactions.clicks.device)
        self.posterior.load(parts["posterior"])
        self.best = parts["best"]
        self.steps.load_state(parts["optimiser"])

    def result(self) -> Posterior:
        """Return the posterior, with the group's predictive for items that were never seen."""
        self.posterior.training = False
        return self.posterior


def seeded(*path: int) -> torch.Generator:
    """Return a generator that depends on all of these numbers."""
    state = np.random.SeedSequence(list(path)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))
