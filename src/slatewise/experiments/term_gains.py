"""What follows from the log-likelihoods of models with and without terms, and of baselines."""

from collections.abc import Iterator, Sequence
from typing import Final

from slatewise.experiments.findings import Finding, shown_interval
from slatewise.experiments.offline_summary import Key, Scores
from slatewise.experiments.pooling import PooledEstimate
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Summary
from slatewise.model.registry import TERMS as REGISTERED
from slatewise.selection import FEATURES

NONE, EVIDENCE, ALL, AUTO = "none", "evidence", "all", "auto"
TERMS: Final = REGISTERED.names
ALONE: Final = (*TERMS, FEATURES, EVIDENCE)
"""What is tried alone; features stand in the prior of vectors and biases, so with a bias."""
PARTS: Final = (NONE, *ALONE, ALL, AUTO)
MODELS: Final = {part: f"+{part}" if part in ALONE else part for part in PARTS}
"""What each model is called: there is a baseline named popularity, too."""
LEAST: Final = 0.002
"""Nats that a cause is worth at least to count as one, and that a term without one may cost."""


class TermScores:
    """The calibrated test log-likelihoods of all seeds, world by world."""

    def __init__(self, tables: Tables, worlds: Sequence[str], *, same_users: bool) -> None:
        self._scores = Scores(tables, same_users=same_users)
        self.worlds = worlds
        known = {key.recommender for key in self._scores.keys}
        self.names = {
            world: [name.partition("/")[2] for name in known if name.startswith(f"{world}/")]
            for world in self.worlds
        }
        worths: dict[tuple[str, str], list[float]] = {}
        for row in tables.get("worths", []):
            worths.setdefault((row["world"], row["term"]), []).append(row["worth"])
        self._worths = {key: sum(found) / len(found) for key, found in worths.items()}

    def worth(self, world: str, part: str) -> float | None:
        """Return what the cause of a term is worth, over all seeds; None where it is unknown."""
        return self._worths.get((world, part))

    def models(self, world: str) -> list[str]:
        """Return the parts of a world that were fitted, but for the one without terms."""
        return [part for part in PARTS[1:] if MODELS[part] in self.names[world]]

    def value(self, world: str, name: str, *, calibrated: bool = True) -> PooledEstimate:
        """Pool over seeds."""
        return self._scores.pooled(_key(world, name, calibrated=calibrated))

    def gain(self, world: str, first: str, second: str) -> PooledEstimate:
        """Pool the paired differences."""
        found = self._scores.difference(_key(world, first), _key(world, second))
        if found is None:
            raise KeyError(f"{first} or {second} in {world}")
        return found

    def baselines(self, world: str) -> list[str]:
        """Return the baselines of a world, best first."""
        found = [name for name in self.names[world] if name not in MODELS.values()]
        return sorted(found, key=lambda name: -self.value(world, name).value)


def _key(world: str, name: str, *, calibrated: bool = True) -> Key:
    return Key(f"{world}/{name}", "log_likelihood", calibrated)


def summary_of(judged: TermScores) -> Summary:
    """Compare terms with none, and `--auto` with the baselines."""
    shown: Tables = {
        "likelihoods": list(_likelihoods(judged)),
        "gains": list(_gains(judged)),
        "against": list(_against(judged)),
        "headline": _headline(judged),
    }
    return Summary(shown, [*_term_findings(judged), *_auto_findings(judged)], headline="headline")


def _pooled(found: PooledEstimate) -> Row:
    return {"value": found.value, "low": found.low, "high": found.high, "by_seed": found.by_seed}


def _likelihoods(judged: TermScores) -> Iterator[Row]:
    for world in judged.worlds:
        models = [MODELS[part] for part in judged.models(world)]
        for name in [NONE, *models, *judged.baselines(world)]:
            for calibrated in (False, True):
                found = judged.value(world, name, calibrated=calibrated)
                head = {"world": world, "recommender": name, "calibrated": calibrated}
                yield head | _pooled(found)


def _gains(judged: TermScores) -> Iterator[Row]:
    """Yield what each model gains over the one without terms."""
    for world in judged.worlds:
        for part in judged.models(world):
            worth = judged.worth(world, part)
            head = {"world": world, "model": MODELS[part], "worth": worth}
            yield head | {"cause": _counts(worth)} | _pooled(judged.gain(world, MODELS[part], NONE))


def _counts(worth: float | None) -> bool | None:
    """Return whether a term has a cause in this world; None where it is unknown."""
    return None if worth is None else worth >= LEAST


def _against(judged: TermScores) -> Iterator[Row]:
    """Yield what `--auto` gains over each baseline."""
    for world in judged.worlds:
        for name in judged.baselines(world):
            yield {"world": world, "baseline": name} | _pooled(judged.gain(world, AUTO, name))


def _headline(judged: TermScores) -> list[Row]:
    """One row per model and baseline: gain over no terms in each world, for display."""
    models = dict.fromkeys(part for world in judged.worlds for part in judged.models(world))
    shown = [MODELS[part] for part in PARTS if part in models]
    names = dict.fromkeys(n for world in judged.worlds for n in judged.baselines(world))
    return [
        {"": name} | {world: _shown(judged, world, name) for world in judged.worlds}
        for name in [*shown, *names]
    ]


def _shown(judged: TermScores, world: str, name: str) -> str:
    """Show a gain and, in brackets, what the cause behind it is worth."""
    if name not in judged.names[world]:
        return "–"
    found = judged.gain(world, name, NONE)
    gain = shown_interval(found.value, found.low, found.high, signed=True, decimals=3)
    worth = judged.worth(world, name.removeprefix("+")) if name in MODELS.values() else None
    return gain if worth is None else f"{gain} ({worth:.3f})"


def _term_findings(judged: TermScores) -> Iterator[Finding]:
    for world in judged.worlds:
        for part in (part for part in judged.models(world) if part in ALONE):
            found, worth = judged.gain(world, MODELS[part], NONE), judged.worth(world, part)
            measure = f"test log-likelihood in {world}, {MODELS[part]} minus none"
            do = "do" if part == FEATURES else "does"
            question, reference = f"{do.capitalize()} {part} help in {world}", 0.0
            if _counts(worth):
                question += f", where the cause is worth {worth:.3f}"
            elif worth is not None:
                question = f"Without a cause in {world}, {do} {part} cost less than {LEAST} nats"
                reference = -LEAST
            yield Finding(
                f"{question}?",
                measure,
                *(found.value, found.low, found.high),
                reference=reference,
                note=found.note(reference),
            )


def _auto_findings(judged: TermScores) -> Iterator[Finding]:
    for world in judged.worlds:
        best = judged.baselines(world)[0]
        for other, words in ((best, f"the best baseline, {best},"), (ALL, "all terms together")):
            found = judged.gain(world, AUTO, other)
            yield Finding(
                f"Is --auto better than {words} in {world}?",
                f"test log-likelihood in {world}, --auto minus {other}",
                *(found.value, found.low, found.high),
                note=found.note(),
            )
