"""The whole job at FINN.no's size: simulate, prepare, train, evaluate and make 100,000 slates.

Every stage runs as its command in a process of its own. What counts is how much of what could be
known was learned: the truth's gain in held-out log-likelihood over the click rate by source and
scroll length, and the share of that gain that the model has. Nothing can have more than all of it.

With `--ladder`, models are trained with other batches and stages as well, each against the clock.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness import Row, Target, parse, parser, report, show, slatewise
from slatewise.data import SlateDataset

SCALE = 1.0
LADDER = tuple(
    (batch, stages) for batch in (3_000, 10_000, 30_000) for stages in ("joint", "two-step")
)
SLATES = 100_000
DIMENSIONS = 25
"""As many as the world has."""
TRAINING: dict[str, Any] = {"batch_users": 10_000}
MINIATURE = {
    "SCALE": 0.0005,
    "SLATES": 20,
    "DIMENSIONS": 5,
    "TRAINING": {"max_epochs": 2},
    "LADDER": ((512, "joint"),),
    "ladder": True,
}
SOURCES = ("all sources", "search", "recommendation")
LIMITS = {"simulate": 180.0, "train": 600.0, "evaluate": 60.0, "recommend": 60.0}
"""Seconds that the stages may take at full size."""


def main() -> None:
    """Run the job, and tell how long each stage took and what the model learned."""
    arguments = parser(__doc__)
    arguments.add_argument("--device", default="cpu", help="cpu or cuda")
    arguments.add_argument(
        "--scale", type=float, help="share of the users and items; all by itself"
    )
    arguments.add_argument("--ladder", action="store_true", help="compare batches and stages too")
    arguments.add_argument("--folder", type=Path, help="keep the files here; else they are gone")
    options = parse(arguments, globals())
    scale = SCALE if options.scale is None else options.scale
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        stages, learned = _job(folder, scale, options.device)
        ladder = _ladder(folder, options.device) if options.ladder else []
    show("What was learned", _LEARNED, learned)
    if ladder:
        show("Held-out log-likelihood against wall-clock", _LADDER, ladder)
    taken = {row["stage"]: row["seconds"] for row in stages}
    share = learned[0]["share"]
    report(
        options,
        "FINN.no, stages",
        {"stage": "{}", "seconds": "{:,.1f}", "peak_gb": "{:.2f}"},
        stages,
        [
            *(Target(f"seconds to {name}", taken[name], most) for name, most in LIMITS.items()),
            Target("share of the truth's gain", share, 0.6, at_least=True),
        ],
        learned=learned,
        ladder=ladder,
        scale=scale,
        device=options.device,
    )


_LEARNED = {
    "source": "{}",
    "base_rate": "{:.4f}",
    "model": "{:.4f}",
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


def _job(folder: Path, scale: float, device: str) -> tuple[list[Row], list[Row]]:
    """Run all stages; return their times, and what the model learned by source."""
    log, dataset, run = (str(folder / name) for name in ("log", "dataset", "run"))
    settings = _settings(folder / "train.toml", TRAINING)
    fitted = ("--terms", "none", "--config", settings, "--device", device)
    stages = [
        _stage("simulate", log, "--preset", "finn", "--scale", str(scale)),
        _stage("prepare", log, log, dataset),
        _stage("train", dataset, run, *fitted),
    ]
    found = folder / "evaluation.json"
    start = time.perf_counter()
    peak = _evaluated(run, dataset, device, found)
    stages.append({"stage": "evaluate", "seconds": time.perf_counter() - start, "peak_gb": peak})
    users = _histories(folder / "users.parquet", Path(log), SLATES)
    where = () if device == "cpu" else ("--device", device)
    slates = ("--users", users, "--out", str(folder / "slates.parquet"), "--k", "20", *where)
    stages.append(_stage("recommend", run, *slates))
    evaluated = json.loads(found.read_text())
    opened = SlateDataset.open(dataset)
    return stages, _learned(evaluated, truth_log_likelihood(Path(log), opened))


def _stage(command: str, *arguments: str) -> Row:
    taken, peak = slatewise(command, *arguments)
    return {"stage": command, "seconds": taken, "peak_gb": peak}


def _settings(file: Path, training: dict[str, Any]) -> str:
    """Write the settings of a model as large as the paper's."""
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in training.items())
    file.write_text(f"[model]\ndimensions = {DIMENSIONS}\n\n[training]\n{values}")
    return str(file)


def _evaluated(run: str, dataset: str, device: str, out: Path) -> float:
    """Evaluate in a process of its own, keep what it prints, and return its peak memory in GB."""
    return slatewise("evaluate", run, dataset, "--device", device, "--json", into=out)[1]


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


def _learned(evaluated: dict[str, Any], truth: dict[str, float]) -> list[Row]:
    """Compare the model with the base rate and with the truth, by source."""
    model, base = (_by_source(evaluated[name]) for name in ("slate-gru-hier", "base rate"))
    return [
        {
            "source": source,
            "base_rate": base[source],
            "model": model[source],
            "truth": truth[source],
            "share": (model[source] - base[source]) / (truth[source] - base[source]),
        }
        for source in SOURCES
    ]


def _by_source(evaluated: dict[str, Any]) -> dict[str, float]:
    found = evaluated["metrics"]["log_likelihood"]
    return {SOURCES[0]: found["value"]} | {
        name: one["value"] for name, one in found["sources"].items()
    }


def _ladder(folder: Path, device: str) -> list[Row]:
    """Train with other batches and in other stages."""
    rows = []
    for batch, stages in LADDER:
        run = folder / f"run-{batch}-{stages}"
        training = TRAINING | {"batch_users": batch, "optimisation": stages}
        settings = _settings(folder / "ladder.toml", training)
        fitted = ("--terms", "none", "--config", settings, "--device", device)
        taken, _ = slatewise("train", str(folder / "dataset"), str(run), *fitted)
        metrics = json.loads((run / "run.json").read_text())["metrics"]
        rows.append(
            {
                "batch_users": batch,
                "stages": stages,
                "seconds": taken,
                "epochs": metrics["epochs"],
                "validation": metrics["validation_log_likelihood"],
                "curve": [
                    json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()
                ],
            }
        )
    return rows


if __name__ == "__main__":
    main()
