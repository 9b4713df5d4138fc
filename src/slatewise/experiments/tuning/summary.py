"""From the trials of all searches to tables, findings and files for `train`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slatewise.experiments.findings import Finding
from slatewise.experiments.pooling import PooledEstimate
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Summary
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.scoring import METRICS, difference
from slatewise.model.config import ModelConfig
from slatewise.training.config import TrainingConfig
from slatewise.training.unused import matters


def summarise(config: TuneConfig, tables: Tables) -> Summary:
    """Compare what was found with the defaults, and write it down for `train`."""
    differences = {
        (variant, metric): pooled
        for variant in config.variants
        for metric in METRICS
        if (pooled := difference(config, tables.get("judged", []), variant, metric)) is not None
    }
    rows = [
        {"variant": variant, "metric": metric, "value": p.value, "low": p.low, "high": p.high}
        for (variant, metric), p in differences.items()
    ]
    headline = [
        _headline(config, tables, seed, variant)
        for seed in config.seeds
        for variant in config.variants
        if _trials(tables, seed, variant)
    ]
    if not headline:  # Every variant was left out.
        return Summary()
    findings = [_finding(config, *key, pooled) for key, pooled in differences.items()]
    files = dict(_files(config, tables))
    return Summary({"differences": rows, "headline": headline}, findings, "headline", files)


def _headline(config: TuneConfig, tables: Tables, seed: int, variant: str) -> Row:
    """One row for each search; its test gain is that of its own world."""
    trials = _trials(tables, seed, variant)
    best = _best_row(trials)
    judged = [row for row in tables["judged"] if row["seed"] == seed]
    gain = difference(config, judged, variant, "log_likelihood")
    numbers = (gain.value, gain.low, gain.high) if gain is not None else (None,) * 3
    value, low, high = map(_number, numbers)
    ended = [row["status"] for row in trials]
    early = [f", {ended.count(name)} {name}" for name in ("stopped", "failed") if name in ended]
    return {
        "variant": variant,
        "seed": seed,
        "trials": f"{len(trials)}{''.join(early)}",
        "best": best["trial"],
        "hitrate" if config.objective == "hitrate" else "validation": _number(best["value"]),
        "defaults": _number(trials[0]["value"]),
        "test gain": f"{value} [{low}, {high}]",
    }


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}".replace("-", "−")


def _trials(tables: Tables, seed: int, variant: str) -> list[Row]:
    rows = tables.get("trials", [])
    return [row for row in rows if row["seed"] == seed and row["variant"] == variant]


def _best_row(trials: Sequence[Row]) -> Row:
    completed = [row for row in trials if row["status"] == "completed"]
    return max(completed, key=lambda row: float(row["value"]))


def _finding(config: TuneConfig, variant: str, metric: str, pooled: PooledEstimate) -> Finding:
    texts = {
        "log_likelihood": "Do the settings found predict held-out choices better than the defaults",
        "hitrate": "Do the settings found have a higher hitrate than the defaults",
    }
    names = {"log_likelihood": "test log-likelihood", "hitrate": f"test hitrate@{config.k}"}
    note = pooled.note()
    if config.objective == "hitrate":
        note += "; chosen by hitrate, which tells exposure from taste badly"
    return Finding(
        f"{texts[metric]} ({variant})?",
        f"{names[metric]}, found minus defaults",
        *(pooled.value, pooled.low, pooled.high),
        note=note,
    )


def _files(config: TuneConfig, tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield a file for `slatewise train --config` for each search."""
    for seed in config.seeds:
        for variant in config.variants:
            trials = _trials(tables, seed, variant)
            if trials:
                best, space = _best_row(trials), config.space(variant)
                model, training = space.configs({name: best[name] for name in space.ranges})
                head = (
                    f"# {variant}: trial {best['trial']} of {len(trials)}, "
                    f"{config.objective} {best['value']:.4f} with seed {seed}\n"
                )
                yield f"best-{variant}-seed-{seed}.toml", head + as_toml(model, training)


def as_toml(model: ModelConfig, training: TrainingConfig) -> str:
    """Write both configurations, every setting that matters, as `train --config` reads them."""
    settings = ModelConfig.settings()
    unused = {name for name in settings if not matters(model, name, item_features=False)}
    lines = []
    for section, config in (("model", model), ("training", training)):
        lines.append(f"\n[{section}]")
        values = config.model_dump(exclude_none=True).items()
        lines += [f"{name} = {_toml(value)}" for name, value in values if name not in unused]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Write a number, a text, or a list or table of them; TOML has them as JSON does."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_toml(name)} = {_toml(part)}" for name, part in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
