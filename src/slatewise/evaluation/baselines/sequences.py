"""Networks that predict the next click from the clicks before: GRU4Rec, SASRec and BPR.

They see what the model sees: training clicks to learn from, validation clicks to stop by, and
before each prediction the same user's strict past. The catalogue is ranked by the score of an item,
state · vector + bias. In a slate, the utility of an item is scale · log softmax(score), that of no
click as with the baselines that count, with numbers fitted on the validation part.

Settings, of which `TRIALS` are tried one after the other, and the epoch are chosen by the recall of
the next clicks of the validation part, which is what rankings are judged by. (Stopping by the whole
NDCG ends early on sparse logs, where the ranks of rare items get worse first.)

Shapes: N interactions, M states (a user has one before her first click and one after each), W
windows of L tokens, D dimensions, I items, C targets of a step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import numpy as np
import torch
from torch import Tensor, nn

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.errors import SlatewiseError
from slatewise.evaluation.baselines.counting import Choice
from slatewise.evaluation.baselines.encoders import EXACT, WINDOW, Encoder, Settings
from slatewise.evaluation.parts import part_bounds, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import CELLS, target_ranks, top_items
from slatewise.evaluation.rows import Floats, row_numbers
from slatewise.model.adam import Adam

USERS: Final = 128
"""Windows of a training step, fewer where their scores would not fit or an epoch had few steps."""
STEPS: Final = 16
"""Steps of an epoch, at least."""
EPOCH: Final = 100_000
"""Windows of an epoch, at most; another draw of them each time."""
EPOCHS: Final = 100
PATIENCE: Final = 5
"""Epochs without a better recall after which training ends."""
JUDGED: Final = 5_000
"""Validation users by which an epoch is judged and the choice is fitted, at most."""
K: Final = 20
"""Items among which the next click should be; a tenth of them where there are few."""
_TRAINING_CELLS: Final = 1 << 25
"""Scores of targets x items held at once in training."""

Score = tuple[float, float]
"""Recall, and the mean reciprocal rank by which equals are told apart."""
_NOTHING: Final[Score] = (-1.0, 0.0)


TRIALS: Final = (
    Settings(),
    Settings(128, 0.5),
    Settings(64, 0.5),
    Settings(128, 0.2, 0.3),
    Settings(64, 0.2, 0.3),
    Settings(128, 0.5, 0.3),
    Settings(128, 0.2),
    Settings(32, 0.2),
)
"""Settings in the order in which they are tried."""


@dataclass(frozen=True)
class Windows:
    """Click sequences of users, each cut into windows that overlap by half."""

    tokens: Int64Array
    """[M] what led to each state: the item clicked, −1 before the first click"""
    starts: Int64Array
    """[W] where each window begins"""
    lengths: Int64Array
    """[W]"""
    skipped: Int64Array
    """[W] how many states of it belong to the window before"""
    states: Int64Array
    """[N] the state right before each interaction"""

    @classmethod
    def of(cls, interactions: Interactions) -> "Windows":
        """Take the clicks of every user in their order."""
        clicked = interactions.clicked_items.numpy().astype(np.int64)
        is_click = clicked >= 0
        before = offsets_of(is_click.astype(np.int64))  # [N + 1] clicks before each, over all users
        offsets = interactions.user_offsets.numpy()
        users = row_numbers(offsets)
        lengths = 1 + np.diff(before[offsets])  # [B] states of each user
        firsts = offsets_of(lengths)[:-1]
        tokens = np.full(int(lengths.sum()), -1)
        states = firsts[users] + before[:-1] - before[offsets[:-1]][users]
        tokens[states[is_click] + 1] = clicked[is_click]
        half = WINDOW // 2
        counts = 1 + np.maximum(0, -(-(lengths - WINDOW) // half))  # windows of each user
        within = ranges(np.zeros_like(counts), counts)
        owner = np.repeat(np.arange(len(lengths)), counts)
        starts = firsts[owner] + half * within
        ends = np.minimum(starts + WINDOW, (firsts + lengths)[owner])
        return cls(tokens, starts, ends - starts, np.where(within > 0, half, 0), states)

    def padded(self, windows: Int64Array, start: int) -> tuple[Tensor, Tensor]:
        """Return the tokens of some windows [w, L], −1 read as `start`, and which are there."""
        columns = np.arange(self.lengths[windows].max())
        there = columns < self.lengths[windows, None]
        index = np.where(there, self.starts[windows, None] + columns, 0)
        tokens = np.where(there, self.tokens[index], -1)
        tokens[tokens < 0] = start
        return torch.from_numpy(tokens), torch.from_numpy(there)


class NextClick:
    """A trained network as a recommender: a `Predictor` and a `Ranker`."""

    def __init__(self, encoder: Encoder, choice: Choice, score: Score) -> None:
        self.encoder, self.choice, self.score = encoder.eval(), choice, score

    @classmethod
    def fit(
        cls,
        kind: type[Encoder],
        dataset: SlateDataset,
        *,
        seed: int = 0,
        trials: int = 1,
        device: str = "cpu",
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Self:
        """Train on the training part and keep what finds most validation clicks.

        That is, of the first `trials` settings in `TRIALS` and their epochs. `progress` hears of
        the epochs.
        """
        tried = TRIALS[:trials]
        total = len(tried) * EPOCHS
        shifted = (partial(_shifted, progress, n * EPOCHS, total) for n in range(len(tried)))
        fitted = (
            cls.with_settings(kind, dataset, one, seed=seed, device=device, progress=heard)
            for one, heard in zip(tried, shifted, strict=True)
        )
        best = max(fitted, key=lambda one: one.score)  # the first of equals
        progress(total, total)
        return best

    @classmethod
    def with_settings(
        cls,
        kind: type[Encoder],
        dataset: SlateDataset,
        settings: Settings,
        *,
        seed: int = 0,
        device: str = "cpu",
        progress: Callable[[int], None] = lambda done: None,
    ) -> Self:
        """Train with one setting; keep the epoch that finds most validation clicks."""
        draft = Choice(1.0, 0.0, np.zeros(len(dataset.source_names)))
        judged = _validation(dataset, np.random.default_rng(seed))
        with torch.random.fork_rng(_numbers(device)):  # weights, dropout and negatives
            torch.manual_seed(seed)
            model = cls(kind(dataset.num_items, settings).to(device), draft, _NOTHING)
            rng = np.random.default_rng([seed, 1])
            model.score = model._train(Windows.of(_training(dataset)), judged, rng, progress)
        scored = scored_interactions(judged, "validation") & judged.first_choices
        slates, scores = Slates.of(judged, scored), model._log_scores(judged, scored)
        model.choice = Choice.fit(slates, scores, len(dataset.source_names))
        return model

    def _train(
        self,
        windows: Windows,
        judged: Interactions,
        rng: np.random.Generator,
        progress: Callable[[int], None],
    ) -> Score:
        """Train until the score on validation clicks gains no more; return the best."""
        encoder = self.encoder
        rate = encoder.rate * encoder.settings.pace
        optimiser = Adam(encoder.parameters(), decay=0.01)
        best, waited, kept = _NOTHING, 0, encoder.state_dict()
        for epoch in range(EPOCHS):
            progress(epoch)
            encoder.train()
            for batch in _batches(windows, len(encoder.bias), rng):
                tokens, there = self._padded(windows, batch)
                follows = there[:, 1:]  # the next token is the target
                states = encoder(tokens[:, :-1])[follows]
                loss = encoder.loss(states, tokens[:, 1:][follows])
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(encoder.parameters(), 5.0)
                optimiser.step(rate)
            encoder.eval()
            score = self._score(judged)
            waited = 0 if score > best else waited + 1
            if score > best:
                best = score
                kept = {name: one.clone() for name, one in encoder.state_dict().items()}
            if waited == PATIENCE:
                break
        encoder.load_state_dict(kept)
        return best

    def _score(self, judged: Interactions) -> Score:
        """Return recall of validation clicks, and their mean reciprocal rank.

        In a small catalogue recall soon has no room left, and reciprocal ranks decide.
        """
        k = max(1, min(K, len(self.encoder.bias) // 10))
        ranks = self.target_ranks(judged, scored_interactions(judged, "validation"))
        return float((ranks <= k).float().mean()), float(ranks.float().reciprocal().mean())

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Predict the scored interactions; see `Predictor`."""
        slates = Slates.of(interactions, scored)
        return self.choice.predict(slates, self._log_scores(interactions, scored))

    def _log_scores(self, interactions: Interactions, scored: Tensor) -> Floats:
        """Return the log softmax, over all items, of those seen in scored slates: [F]."""
        slates = Slates.of(interactions, scored)
        states = self._states(interactions)[1][scored]  # [n, D]
        out = np.empty(len(slates.items), dtype=np.float64)
        for rows in _chunks(len(states), len(self.encoder.bias)):
            scores = self._scores(states[rows]).log_softmax(1).cpu().numpy()
            cells = slice(slates.offsets[rows.start], slates.offsets[rows.stop])
            owner = row_numbers(slates.offsets[rows.start : rows.stop + 1])
            out[cells] = scores[owner, slates.items[cells]]
        return out

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items after everything given: [B, k]; see `Ranker`."""
        last = self._states(interactions)[0]
        chunks = _chunks(len(last), len(self.encoder.bias))
        found = [top_items(self._scores(last[rows]).cpu(), k, exclude) for rows in chunks]
        return torch.cat([torch.empty(0, k, dtype=torch.int64), *found])

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click among all items: [M]; see `Ranker`."""
        clicked = scored & (interactions.clicks >= 0)
        states = self._states(interactions)[1][clicked]
        targets = interactions.clicked_items[clicked].long().to(states.device)
        items = len(self.encoder.bias)
        return target_ranks(lambda rows: self._scores(states[rows]), targets, items).cpu()

    def _scores(self, states: Tensor) -> Tensor:
        with torch.no_grad():
            return states @ self.encoder.targets().T + self.encoder.bias

    def _states(self, interactions: Interactions) -> tuple[Tensor, Tensor]:
        """Return the states of users after all they did [B, D], and before each step [N, D]."""
        windows, device = Windows.of(interactions), self.encoder.bias.device
        states = torch.empty(len(windows.tokens), self.encoder.settings.dimensions, device=device)
        for start in range(0, len(windows.starts), 512):
            batch = np.arange(start, min(start + 512, len(windows.starts)))
            tokens, there = self._padded(windows, batch)
            columns = torch.arange(tokens.shape[1], device=device)
            skipped = torch.from_numpy(windows.skipped[batch, None]).to(device)
            own = there & (columns >= skipped)
            index = torch.from_numpy(windows.starts[batch, None]).to(device) + columns
            with torch.no_grad():
                states[index[own]] = self.encoder(tokens)[own]
        ends = np.flatnonzero(np.append(windows.tokens[1:] < 0, np.ones(1, bool)))
        return states[ends], states[windows.states]

    def _padded(self, windows: Windows, batch: Int64Array) -> tuple[Tensor, Tensor]:
        device = self.encoder.bias.device
        tokens, there = windows.padded(batch, len(self.encoder.bias))
        return tokens.to(device), there.to(device)


def _shifted(progress: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _numbers(device: str) -> list[int]:
    """Return the numbers of GPUs whose random state a fit touches."""
    return [torch.cuda.current_device()] if torch.device(device).type == "cuda" else []


def _training(dataset: SlateDataset) -> Interactions:
    users = torch.from_numpy(np.flatnonzero(dataset.train_end > 0))
    return dataset.interactions().of_users(users, part_bounds(dataset, "training")[1][users])


def _validation(dataset: SlateDataset, rng: np.random.Generator) -> Interactions:
    """Return validation users up to the end of their validation part."""
    first, end = part_bounds(dataset, "validation")
    users = rng.permutation(np.flatnonzero((end > first).numpy()))[:JUDGED]
    there = torch.from_numpy(np.sort(users))
    found = dataset.interactions().of_users(there, end[there])
    if not (scored_interactions(found, "validation") & (found.clicks >= 0)).any():
        raise SlatewiseError(
            "the dataset has no validation click, by which a comparator knows when to stop.",
            "Prepare it with a larger --valid-share.",
        )
    return found


def _batches(windows: Windows, items: int, rng: np.random.Generator) -> Iterator[Int64Array]:
    """Yield the windows of an epoch that have a next click, in random order."""
    usable = rng.permutation(np.flatnonzero(windows.lengths > 1))[:EPOCH]
    most = _TRAINING_CELLS / (min(items, EXACT) * max(1.0, float(windows.lengths.mean())))
    size = max(1, min(USERS, int(max(8, most)), len(usable) // STEPS))
    for start in range(0, len(usable), size):
        yield usable[start : start + size]


def _chunks(rows: int, items: int) -> Iterator[slice]:
    step = max(1, CELLS // items)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
