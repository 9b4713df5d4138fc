"""slatewise out of the box on real logs, beside tuned models of others and every baseline.

`--data` is a folder of development logs, which is not part of this repository: `retailrocket` and
`tafeng` hold clicks alone, `kuairand` and `openbandit` slates of one item, each as log.parquet and
items.parquet. `--worlds` adds simulated logs, and some that share nothing with the simulator
(`other_worlds.py`). What is fitted is what the commands fit: `train` with its defaults,
`train --auto` where a log has slates, and `evaluate --against`, with the usual settings of each
model of others and with the best of `--trials` by the validation part. All have the same split and
see the same past.

Clicks alone are judged by the share of next clicks of the test part among the 20 best of all items,
slates by the log-likelihood of what happened, after calibration. Values are of one seed each;
`gain` is the mean over the seeds of one model minus that of another, paired by user, with its 95 %
interval over users. With `--keep` a benchmark that was interrupted goes on where it ended, row by
row, and `--kept` shows what there is. Of networks every setting is kept: `network_trials.py` fits
them side by side, on a GPU too, to the datasets in that folder.
"""

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import other_worlds
from harness import Row, Target, circumstances, kept, parse, parser, report
from neighbours import Neighbours
from network_trials import SLOWEST, Trial, as_kept, best_of
from slatewise import ModelRecommender, SlateDataset, evaluate, load
from slatewise.cli import app
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import BASELINES as BUILT_IN
from slatewise.evaluation import COMPARATORS, Calibration, Estimate, Evaluation, fit_baselines
from slatewise.evaluation.baselines import boosting, sequences
from slatewise.selection import plan_fit
from slatewise.selection.record import SELECTION
from slatewise.simulation import load_config, write_log

TENTHS = SplitConfig(valid_share=0.1, test_share=0.1)
BY_USER = TENTHS.model_copy(update={"prefix": 5})
BY_TIME = TENTHS.model_copy(update={"method": "time"})


class Log(NamedTuple):
    """Where a log is below the folder of data, how it is split, and which users it keeps."""

    folder: str
    split: SplitConfig
    one_user_in: int = 1
    draw: int = 0


LOGS = {
    "kuairand": Log("kuairand", BY_TIME),
    "kuairand, 1 user in 4": Log("kuairand", BY_TIME, 4),
    "kuairand, 1 user in 20": Log("kuairand", BY_TIME, 20),
    "kuairand, 1 user in 20, others": Log("kuairand", BY_TIME, 20, 1),
    "kuairand, 1 user in 20, again others": Log("kuairand", BY_TIME, 20, 2),
    "openbandit, random": Log("openbandit/random", BY_TIME),
    "openbandit, bts": Log("openbandit/bts", BY_TIME),
    "retailrocket": Log("retailrocket", BY_USER),
    "tafeng": Log("tafeng", BY_USER),
    "margarine": Log(
        "margarine", BY_USER.model_copy(update={"valid_share": 0.2, "test_share": 0.2})
    ),
}
"""In the order in which they are measured; `margarine` are purchases of R's package bayesm."""
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "news": ("news", {"users": 400}),
    "demo": ("demo", {"users": 400}),
    "video": ("video", {"users": 200}),
    "market": ("market", {"users": 400}),
    "demo, outside": (
        "demo",
        {"seed": 77, "truth": "outside", "users": 1_000, "search_share": 0.3}
        | {"max_slate": 12, "mean_scroll": 6.0, "catalogue": {"items": 700, "groups": 15}},
    ),
    "market, other": ("market", {"seed": 78, "users": 900, "search_share": 0.2, "days": 14}),
    "video, outside": ("video", {"seed": 79, "truth": "outside", "users": 700}),
}
"""Presets of simulated logs, split by time, and what of them is changed."""
TRAIN, AUTO, BASELINES = "train", "train --auto", "baselines"
PLAIN, NO_NETWORK, COLD = "train --terms none", "train without network", "train at temperature .1"
FITS: dict[str, tuple[str, ...]] = {
    TRAIN: (),
    AUTO: ("--auto",),
    PLAIN: ("--terms", "none"),
    NO_NETWORK: (),
    COLD: (),
}
"""How the model is fitted: the options of `slatewise train`; others are settings, see `_asked`."""
NEIGHBOURS = "neighbours"
OTHERS = (*COMPARATORS, NEIGHBOURS)
WHAT = (
    TRAIN,
    BASELINES,
    "lightgbm",
    NEIGHBOURS,
    AUTO,
    "bpr",
    "gru4rec",
    "sasrec",
    *(tuple(FITS)[2:]),
)
"""What is fitted, in this order."""
OF_SLATES, OF_CLICKS = (
    (AUTO, "lightgbm", NO_NETWORK),
    ("bpr", "gru4rec", "sasrec", NEIGHBOURS, COLD),
)
"""What is fitted only to logs of slates, and only to clicks alone: `--auto` has no choice there."""
MINIATURE = {
    "LOGS": {"clicks": Log("clicks", BY_USER)},
    "WORLDS": {"tiny": ("tiny", {"users": 60})},
    "FITS": FITS | {TRAIN: ("--terms", "history"), AUTO: ()},
    "SETTINGS": "[training]\nmax_epochs = 1\n",
    **{"EPOCHS": 1, "ROUNDS": 5, "seeds": [0], "trials": [1], "worlds": ["tiny"]},
}
SETTINGS = ""
"""Of `train`, in TOML."""
EPOCHS, ROUNDS = sequences.EPOCHS, boosting.ROUNDS


class _MissingError(Exception):
    """A row is not kept, and none is to be made."""


def main() -> None:
    """Fit and judge all that was asked for; show it."""
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, help="the folder of development logs")
    arguments.add_argument("--logs", nargs="+", help="of these: " + "; ".join(LOGS))
    arguments.add_argument(
        "--worlds", nargs="*", default=[], choices=[*WORLDS, *other_worlds.WORLDS]
    )
    arguments.add_argument("--what", nargs="+", default=WHAT, choices=WHAT)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--trials", type=int, nargs="+", default=[1, 8])
    arguments.add_argument("--device", default="cpu", help="what networks of others train on")
    arguments.add_argument("--kept", action="store_true", help="show what is kept, make nothing")
    options = parse(arguments, globals())
    boosting.ROUNDS = ROUNDS
    with tempfile.TemporaryDirectory() as scratch:
        home = options.keep or Path(scratch)
        if options.small:
            options.data = _clicks_of_tiny(Path(scratch))
        found = list(_measured(options, home))
    rows = [one for log in dict.fromkeys(row["log"] for row in found) for one in _rows(found, log)]
    report(
        options,
        "Real logs, and simulated ones",
        {
            **dict.fromkeys(("log", "measure", "model", "trials", "seeds", "values"), "{}"),
            **{"over_train": "{}", "over_auto": "{}", "cpu_s": "{:.0f}"},
        },
        rows,
        list(_targets(rows)),
    )


def _measured(options: Any, home: Path) -> Iterator[Row]:
    """Yield a row for each log, model, seed and number of trials: what was found, and where."""
    there = [n for n, log in LOGS.items() if options.data and (options.data / log.folder).exists()]
    logs = options.logs or there
    for what, name in product(options.what, [*logs, *options.worlds]):
        folder = home / re.sub("[^a-z0-9]+", "-", name)
        dataset = cache(partial(_prepared, name, options.data, folder))
        tried = options.trials if what in OTHERS else [1]
        seeds = [0] if what in (BASELINES, NEIGHBOURS) else options.seeds
        for trials, seed in product(tried, seeds):
            title = f"{what} {seed}" + (f" of {trials}" if what in OTHERS else "")
            make = partial(_judged, dataset, what, seed, trials, folder, options.device)
            with suppress(_MissingError):
                row = kept(folder / "rows", title, _refused if options.kept else make)
                for model, one in row["models"].items():
                    about = {"log": name, "model": model, "seed": seed, "trials": trials}
                    yield row["about"] | about | {"estimate": one}


def _refused() -> Row:
    raise _MissingError


def _prepared(name: str, data: Path, folder: Path) -> SlateDataset:
    """Prepare a log, or open it if it was prepared before."""
    out = folder / "dataset"
    if out.exists():
        return SlateDataset.open(out)
    with tempfile.TemporaryDirectory() as scratch:
        source, split = Path(scratch), BY_TIME
        if name in LOGS:
            split = LOGS[name].split
            source = _some_users(data, LOGS[name], source)
        else:
            source /= name
            _write_world(name, source)
        return prepare(source, source, out, division=split)


def _write_world(name: str, folder: Path) -> None:
    if name in other_worlds.WORLDS:
        other_worlds.write(name, folder, seed=0)
    else:
        preset, changed = WORLDS[name]
        write_log(load_config(preset, **changed), folder)


def _some_users(data: Path, log: Log, copy: Path) -> Path:
    """Return a log, or a copy with the slates of one user in so many, drawn at random."""
    whole, one_in = data / log.folder, log.one_user_in
    if one_in == 1:
        return whole
    rows = pl.read_parquet(whole / "log.parquet")
    users = rows["user_id"].unique().sort()
    drawn = np.random.default_rng(log.draw).permutation(len(users))[: len(users) // one_in]
    rows.filter(pl.col("user_id").is_in(users[drawn].implode())).write_parquet(copy / "log.parquet")
    shutil.copy(whole / "items.parquet", copy)
    return copy


def _judged(
    dataset: Callable[[], SlateDataset],
    what: str,
    seed: int,
    trials: int,
    folder: Path,
    device: str,
) -> Row:
    """Fit one model, or all baselines, and judge the test part."""
    log, more = dataset(), dict[str, Any]()
    measure = "recall@20" if _clicks_only(log) else "log_likelihood"
    start = time.process_time()
    found = dict[str, Evaluation]()
    if what in (OF_SLATES if _clicks_only(log) else OF_CLICKS):
        pass
    elif what in SLOWEST:
        tried = [Trial(folder, what, seed, number) for number in range(trials)]
        return best_of(tried, device=device, epochs=EPOCHS)
    elif what in FITS:
        found = {what: _trained(log, what, seed, folder, more)}
    elif what == NEIGHBOURS:
        found = {what: evaluate(Neighbours.fit(log, trials=trials), log)}
    else:
        named = [] if what == BASELINES else ["base rate", what]
        fitted = fit_baselines(log, named, seed=seed, trials=trials)
        own = fitted if what == BASELINES else {what: fitted[what]}
        found = {name: evaluate(one, log) for name, one in own.items()}
    seconds = time.process_time() - start
    models = {n: _kept_estimate(one, measure) for n, one in found.items() if _has(one, measure)}
    where = circumstances()
    about = {"measure": measure, "cpu_s": seconds, "commit": where["commit"], **more}
    return {"about": about | {"date": where["date"]}, "models": models}


def _clicks_only(log: SlateDataset) -> bool:
    return bool((np.diff(log.slate_offsets) == 1).all() and (log.clicks >= 0).all())


def _trained(log: SlateDataset, how: str, seed: int, folder: Path, more: Row) -> Evaluation:
    """Train as the command does, and judge; adds what was chosen to `more`."""
    run = folder / f"{how.replace(' ', '')}-{seed}"
    shutil.rmtree(run, ignore_errors=True)  # of a benchmark that was interrupted
    command = ["train", str(log.path), str(run), "--seed", str(seed), *_asked(log, how, folder)]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        app(command, standalone_mode=False)
    model = load(run)
    evidence = (f"evidence from {source}" for source in model.config.evidence)
    more |= {"terms": [*model.config.terms, *evidence], "likelihood": model.config.likelihood}
    if (run / SELECTION).exists():
        table = json.loads((run / SELECTION).read_text())["comparisons"]
        known = [one for one in table if one["name"] in BUILT_IN]
        more["best_baseline"] = max(known, key=lambda one: one["log_likelihood"])["name"]
    calibration = None if _clicks_only(log) else Calibration.from_json(model.calibration or {})
    return evaluate(ModelRecommender(model, log=log), log, calibration=calibration)


def _asked(log: SlateDataset, how: str, folder: Path) -> list[str]:
    """Return the options of the command, with a file of settings."""
    asked, settings = list(FITS[how]), folder / "settings.toml"
    settings.write_text(SETTINGS + ("[model]\ntemperature = 0.1\n" if how == COLD else ""))
    if how == NO_NETWORK:
        usual = plan_fit(log).model.terms
        asked = ["--terms", ",".join(name for name in usual if name != "network") or "none"]
    return [*asked, "--config", str(settings)]


def _has(found: Evaluation, measure: str) -> bool:
    return measure in found.estimates


def _kept_estimate(found: Evaluation, measure: str) -> Row:
    """Return an estimate with its resamples, of which paired differences are made later."""
    after = found.calibrated
    return as_kept((after if after is not None and _has(after, measure) else found)[measure])


def _mean(rows: Sequence[Row]) -> Estimate:
    """Return the mean of a model's estimates over its seeds, resample by resample."""
    estimates = [row["estimate"] for row in rows]
    value = float(np.mean([one["value"] for one in estimates]))
    replicates = np.mean(np.array([one["replicates"] for one in estimates], dtype=float), axis=0)
    (sample,) = {one["sample"] for one in estimates}
    return Estimate.of(value, replicates, estimates[0]["count"], sample)


def _rows(found: list[Row], log: str) -> Iterator[Row]:
    """Yield a row for every model of a log, the best first: its values, and what ours gain."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in found:
        if row["log"] == log:
            groups.setdefault((row["model"], row["trials"]), []).append(row)
    means = {key: _mean(rows) for key, rows in groups.items()}
    for key in sorted(groups, key=lambda one: -means[one].value):
        rows, mean = groups[key], means[key]
        about = {name: rows[0].get(name) for name in ("log", "measure", "model", "trials")}
        values = [row["estimate"]["value"] for row in rows]
        row = about | {
            "seeds": " ".join(str(one["seed"]) for one in rows),
            "values": " ".join(f"{value:.4f}" for value in values),
            "cpu_s": float(np.mean([one["cpu_s"] for one in rows])),
            "exact": values,
            "mean": mean.to_json(),
            "device": rows[0].get("device", "cpu"),
            "commits": sorted({one["commit"] for one in rows}),
            "dates": sorted(one["date"] for one in rows),
        }
        if key[0] in FITS:
            row["likelihood"] = rows[0]["likelihood"]
            row["terms"] = [one["terms"] for one in rows]  # of each seed
        if all("best_baseline" in one for one in rows):
            row["best_baselines"] = [one["best_baseline"] for one in rows]  # by its own trials
            beside = [groups.get((name, 1)) for name in row["best_baselines"]]
            if all(beside):
                gain = mean - _mean([one[0] for one in beside if one])
                row["gain_over_best_baselines"] = gain.to_json()
        for name, ours in (("train", TRAIN), ("auto", AUTO)):
            gain = _gain(groups.get((ours, 1), []), rows) if ours != key[0] else None
            row[f"gain_of_{name}"] = None if gain is None else gain.to_json()
            row[f"over_{name}"] = "" if gain is None else _shown(gain)
        yield row


def _gain(ours: Sequence[Row], other: Sequence[Row]) -> Estimate | None:
    """Return what the mean of a fit's seeds gains over another's; of two fits, of equal seeds."""
    if other[0]["model"] in FITS:
        both = {row["seed"] for row in ours} & {row["seed"] for row in other}
        ours, other = ([row for row in rows if row["seed"] in both] for rows in (ours, other))
    return _mean(ours) - _mean(other) if ours and other else None


def _shown(gain: Estimate) -> str:
    return f"{gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"


def _targets(rows: list[Row]) -> Iterator[Target]:
    """Yield that what we fit is not certainly worse than the best of others, nor --auto than train.

    The best of others is picked on the test part: that is rather too hard on the model.
    """
    for log in dict.fromkeys(row["log"] for row in rows):
        own = [row for row in rows if row["log"] == log]
        others = [row for row in own if row["model"] not in FITS]
        for name, ours in (("train", TRAIN), ("auto", AUTO)):
            best = next((row for row in others if row[f"gain_of_{name}"] is not None), None)
            beside = [best, *(row for row in own if ours == AUTO and row["model"] == TRAIN)]
            for row in beside:
                if row is not None and (gain := row[f"gain_of_{name}"]) is not None:
                    what = f"thousandths that {ours} may gain over {row['model']}, {log}"
                    yield Target(what, 1_000 * gain["high"], 0.0, at_least=True)


def _clicks_of_tiny(home: Path) -> Path:
    """Write the clicks of a tiny world as a log of clicks alone; return the folder of such logs."""
    world, log = home / "tiny", home / "data" / "clicks"
    _write_world("tiny", world)
    log.mkdir(parents=True)
    rows = pl.read_parquet(world / "log.parquet").filter(pl.col("click").is_not_null())
    rows.with_columns(slate=pl.concat_list("click")).write_parquet(log / "log.parquet")
    shutil.copy(world / "items.parquet", log)
    return home / "data"


if __name__ == "__main__":
    main()
