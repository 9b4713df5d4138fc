"""The whole job at FINN.no's size: simulate, prepare, train, evaluate and make 100,000 slates.

Every stage runs as its command in a process of its own, for two models: the paper's, and what
`train` fits without options. What counts is how much of what could be known was learned: the
truth's gain in held-out log-likelihood over the click rate by source and scroll length, and the
share of that gain that a model has. Nothing can have more than all of it.

With `--ladder`, models are trained with other batches and stages as well, each against the clock
and no longer than `--ladder-seconds`. With `--keep` and `--folder`, stages that are done are not
repeated.
"""

import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness import Row, Target, kept, parse, parser, report, show, slatewise
from slatewise.data import SlateDataset
from slatewise.model.config import ModelConfig
from slatewise.training import TrainingConfig, fit
from slatewise.training.loop import Progress

SCALE = 1.0
LADDER = tuple(
    (batch, stages) for batch in (3_000, 10_000, 30_000) for stages in ("joint", "two-step")
)
SLATES, ON_CPU = 100_000, 5_000
"""Users who get slates: of the paper's model on the device, and of the other on the CPU, where a
network ranks candidates again."""
DIMENSIONS = 25
"""As many as the world has."""
TRAINING: dict[str, Any] = {}
MODEL: dict[str, Any] = {}
"""Settings of training of both models, and of the model of `train`."""
MINIATURE = {
    "SCALE": 0.0005,
    "SLATES": 20,
    "ON_CPU": 10,
    "DIMENSIONS": 3,
    "TRAINING": {"max_epochs": 2},
    "MODEL": {"network_units": 4, "network_members": 1},
    "LADDER": ((512, "joint"),),
    "ladder": True,
    "ladder_seconds": 1.0,
}
MARKS = (15, 30, 60)
"""Seconds after which rungs of the ladder are compared."""
SOURCES = ("all sources", "search", "recommendation")
PAPERS, USUAL = "slate-gru-hier", "defaults"
"""The models: the paper's, with as many dimensions as the world has, and that of `train`."""
LIMITS = {"train": 600.0, "evaluate": 60.0, "recommend": 60.0}
"""Seconds that the stages of each model may take at full size."""
SIMULATE = 180.0
LEAST_SHARE = 0.6
DEVICE_GB = 16.0


def main() -> None:
    """Run the job, and tell how long each stage took and what the model learned."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments.add_argument(
        "--scale", type=float, help="share of the users and items; all by itself"
    )
    arguments.add_argument("--ladder", action="store_true", help="compare batches and stages too")
    arguments.add_argument("--ladder-seconds", type=float, default=60.0, help="of training a rung")
    arguments.add_argument("--folder", type=Path, help="keep the files here; else they are gone")
    options = parse(arguments, globals())
    scale = SCALE if options.scale is None else options.scale
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        stages, learned = _job(folder, scale, options.device, options.keep)
        ladder = _ladder(folder, options) if options.ladder else []
    show("What was learned", _LEARNED, learned)
    if ladder:
        columns = {f"after_{mark}_s": "{}" for mark in MARKS}
        show("Held-out log-likelihood against wall-clock", _LADDER | columns, ladder)
    taken = {row["stage"]: row for row in stages}
    shares = {row["model"]: row["share"] for row in learned if row["source"] == SOURCES[0]}
    report(
        options,
        "FINN.no, stages",
        {"stage": "{}", "seconds": "{:,.1f}", "peak_gb": "{:.2f}", "device_gb": "{:.2f}"},
        stages,
        [
            Target("seconds to simulate", taken["simulate"]["seconds"], SIMULATE),
            *(
                Target(f"seconds to {name}", taken[name]["seconds"], most)
                for model in (PAPERS, USUAL)
                for command, most in LIMITS.items()
                for name in [f"{command}, {model}"]
            ),
            *(
                Target(f"share of the truth's gain, {model}", share, LEAST_SHARE, at_least=True)
                for model, share in shares.items()
            ),
            *(
                Target(f"GB of a GPU to train, {model}", row["device_gb"], DEVICE_GB)
                for model in (PAPERS, USUAL)
                for row in [taken[f"train, {model}"]]
            ),
        ],
        learned=learned,
        ladder=ladder,
        scale=scale,
        device=options.device,
    )


_LEARNED = {
    "model": "{}",
    "source": "{}",
    "base_rate": "{:.4f}",
    "log_likelihood": "{:.4f}",
    "truth": "{:.4f}",
    "share": "{:.1%}",
}
_LADDER = {
    "batch_users": "{:,}",
    "stages": "{}",
    "seconds": "{:,.0f}",
    "epochs": "{}",
    "validation": "{:.4f}",
}


def _job(folder: Path, scale: float, device: str, keep: Path | None) -> tuple[list[Row], list[Row]]:
    """Run all stages; return their times, and what the models learned by source."""

    def stage(command: str, *arguments: str, model: str = "", into: Path | None = None) -> Row:
        name = f"{command}, {model}" if model else command

        def run() -> Row:
            return {"stage": name} | slatewise(command, *arguments, into=into)._asdict()

        return kept(keep, name, run)

    log, dataset = (str(folder / name) for name in ("log", "dataset"))
    where = () if device == "cpu" else ("--device", device)
    paper = {"dimensions": DIMENSIONS, "likelihood": "slate"}
    models = {PAPERS: (paper, ("--terms", "none")), USUAL: (MODEL, ())}
    stages = [
        stage("simulate", log, "--preset", "finn", "--scale", str(scale)),
        stage("prepare", log, log, dataset),
    ]
    truth = truth_log_likelihood(Path(log), SlateDataset.open(dataset))
    learned: list[Row] = []
    for model, (settings, options) in models.items():
        run, found = str(folder / f"run-{model}"), folder / f"evaluation-{model}.json"
        config, slates = folder / f"{model}.toml", str(folder / f"slates-{model}.parquet")
        config.write_text(_section("model", settings) + _section("training", TRAINING))
        asked = (*options, "--config", str(config), "--device", device)
        count, ranks = (SLATES, where) if model == PAPERS else (min(SLATES, ON_CPU), ())
        users = _histories(folder / f"users-{model}.parquet", Path(log), count)
        out = ("--users", users, "--out", slates, "--k", "20", *ranks)
        stages += [
            stage("train", dataset, run, *asked, model=model),
            stage("evaluate", run, dataset, *where, "--json", model=model, into=found),
            stage("recommend", run, *out, model=model) | {"slates": count},
        ]
        learned += _learned(model, json.loads(found.read_text()), truth)
    return stages, learned


def _section(name: str, settings: dict[str, Any]) -> str:
    """Return settings in TOML."""
    return f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in settings.items())


def _histories(file: Path, log: Path, count: int) -> str:
    """Write what the first users of the log clicked, as `recommend --users` reads it."""
    rows = pl.scan_parquet(log / "log.parquet").filter(pl.col("user_id") < count)
    clicks = rows.select("user_id", "time", item_id="click").collect()
    clicks.write_parquet(file)
    return str(file)


def truth_log_likelihood(log: Path, dataset: SlateDataset) -> dict[str, float]:
    """Return the mean log-likelihood of the test part under the truth, by source."""
    lengths = np.diff(dataset.user_offsets)
    users = np.flatnonzero(np.asarray(dataset.valid_end) < lengths)
    names = dataset.user_ids[users]
    first = pl.DataFrame({"user_id": names, "first": np.asarray(dataset.valid_end)[users]})
    columns = pl.concat(
        [
            pl.scan_parquet(log / "log.parquet").select(
                "user_id", "time", "slate", "click", "source"
            ),
            pl.scan_parquet(log / "truth" / "interactions.parquet").select(
                "choice_probability", "no_click_probability"
            ),
        ],
        how="horizontal",
    )
    held_out = (
        columns.with_columns(pl.col("user_id").cast(names.dtype))
        .join(first.lazy(), on="user_id", how="inner")
        .sort("user_id", "time")
        .with_columns(number=pl.int_range(pl.len()).over("user_id"))
        .filter(pl.col("number") >= pl.col("first"))
        .collect()
    )
    cells = held_out.with_row_index("row").select("row", "slate", "click", "choice_probability")
    cells = cells.explode("slate", "choice_probability").filter(pl.col("slate") == pl.col("click"))
    chosen = cells.select("row", clicked="choice_probability")
    scored = (
        held_out.with_row_index("row")
        .join(chosen, on="row", how="left")
        .select("source", log=pl.coalesce("clicked", "no_click_probability").log())
    )
    by_source = dict(scored.group_by("source").agg(pl.col("log").mean()).rows())
    return {"all sources": float(scored["log"].mean()), **by_source}  # type: ignore[arg-type]


def _learned(model: str, evaluated: dict[str, Any], truth: dict[str, float]) -> list[Row]:
    """Compare a model with the base rate and with the truth, by source."""
    found, base = (_by_source(evaluated[name]) for name in (next(iter(evaluated)), "base rate"))
    return [
        {
            "model": model,
            "source": source,
            "base_rate": base[source],
            "log_likelihood": found[source],
            "truth": truth[source],
            "share": (found[source] - base[source]) / (truth[source] - base[source]),
        }
        for source in SOURCES
    ]


def _by_source(evaluated: dict[str, Any]) -> dict[str, float]:
    found = evaluated["metrics"]["log_likelihood"]
    return {SOURCES[0]: found["value"]} | {
        name: one["value"] for name, one in found["sources"].items()
    }


def _ladder(folder: Path, options: Any) -> list[Row]:
    """Train with other batches and in other stages."""
    dataset = SlateDataset.open(folder / "dataset")
    return [
        kept(
            options.keep,
            f"ladder {batch} {stages}",
            lambda batch=batch, stages=stages: _rung(dataset, batch, stages, options),  # type: ignore[misc]
        )
        for batch, stages in LADDER
    ]


class _TimeIsUpError(Exception):
    """Training took as long as it may."""


def _rung(dataset: SlateDataset, batch: int, stages: str, options: Any) -> Row:
    """Train for a while; return the likelihood after each epoch, by seconds since the start."""
    curve: list[tuple[float, float]] = []
    start = time.perf_counter()

    def watch(progress: Progress) -> None:
        taken = time.perf_counter() - start
        if len(progress.history) > len(curve):
            curve.append((taken, progress.history[-1]["validation"]))
        if taken > options.ladder_seconds and curve:
            raise _TimeIsUpError

    training = TrainingConfig(**TRAINING | {"batch_users": batch, "optimisation": stages})
    model = ModelConfig(dimensions=DIMENSIONS, likelihood="slate")
    with suppress(_TimeIsUpError):
        fit(dataset, model, training, device=options.device, observer=watch)
    best = {
        f"after_{mark}_s": f"{max(values):.4f}" if values else ""
        for mark in MARKS
        for values in [[value for taken, value in curve if taken <= mark]]
    }
    return {
        "batch_users": batch,
        "stages": stages,
        "seconds": curve[-1][0],
        "epochs": len(curve),
        "validation": max(value for _, value in curve),
        **best,
        "curve": curve,
    }


if __name__ == "__main__":
    main()
