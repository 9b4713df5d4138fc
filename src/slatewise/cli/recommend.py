"""`slatewise recommend`: the slate of one user as a table, or of a file of users as Parquet."""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slatewise.cli.service import TIMES
from slatewise.cli.show import console, progress, table
from slatewise.cli.slate_tables import ranked_table, reason_table, slate_table, sum_table
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset
    from slatewise.data.formats import LogFormat
    from slatewise.model.fitted import ItemId
    from slatewise.slates import Recommender, Strategy, bulk

_USUAL_STRATEGY = "in-slate-thompson"
_USUAL_K = 20
_READ_AT_ONCE = 2_000_000
"""Interactions of a log that is read without being asked for: some seconds."""


def recommend(
    run: Annotated[Path, typer.Argument(help="A run that slatewise train made.")],
    clicks: Annotated[
        str | None,
        typer.Option(help="What one user clicked, oldest first: a,b,c; '' for a new user."),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Table with user_id and item_id, a row per click; an exposure log, or a dataset."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Exposure log or dataset to compute popularity from; default: the run's dataset."
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(help=r"TOML file with \[log]: columns of --users and --log."),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME",
            formats=TIMES,
            help="Time of the slates (UTC), such as 2026-11-16T09:30; default: right after the "
            "last event of --log.",
        ),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            help="Order these items: a,b,c for --clicks; else a table of user_id and items, a list "
            "each, or item_id, a row each."
        ),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="greedy, thompson, in-slate-thompson, posterior-mean, epsilon-mix, or "
            "package.module:Name."
        ),
    ] = _USUAL_STRATEGY,
    k: Annotated[
        int | None,
        typer.Option("--k", min=1, help="Items in a slate (20), or of the candidates (all)."),
    ] = None,
    exclude: Annotated[str, typer.Option(help="Items not to show to one user: a,b,c.")] = "",
    source: Annotated[
        str | None,
        typer.Option(help="Where they will be shown; by default, where most training slates were."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Parquet file for the slates of --users.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Random seed; drawn if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, or cuda for the slates of --users.")] = "cpu",
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain why each item is shown.")
    ] = False,
) -> None:
    """Make slates: for one user's clicks, or for every user of a file."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.data.formats import load_formats  # noqa: PLC0415
    from slatewise.slates import Recommender, named_strategy  # noqa: PLC0415
    from slatewise.slates.strategies import explores  # noqa: PLC0415

    names = None if mapping is None else load_formats(mapping)[0]
    if names is not None and users is None and log is None:
        raise SlatewiseError("--mapping names columns of a log.", "Give --users or --log too.")
    if candidates is not None:
        given = {
            "--strategy": strategy != _USUAL_STRATEGY,
            "--exclude": exclude,
            "--seed": seed is not None,
            "--explain": explain,
            "--device": device != "cpu",
        }
        for option in filter(given.get, given):
            raise SlatewiseError(
                f"{option} has no effect with --candidates.",
                "Leave it out: candidates are ordered by their mean utility.",
            )
    if candidates is not None and clicks is None:
        _rank_file(run, Path(candidates), users, log, names, at, k, source, out)
        return
    if (clicks is None) == (users is None):
        raise SlatewiseError(
            "slates need either --clicks or --users.",
            "Give --clicks a,b,c (--clicks '' for a new user) or --users FILE.",
        )
    if device != "cpu" and users is None:
        raise SlatewiseError("one slate is made on the CPU.", "Leave out --device.")
    if at is not None and log is None:
        raise SlatewiseError("--at has no effect without --log.", "Give --log too.")
    chosen, length = named_strategy(strategy), k or _USUAL_K
    target = None if users is None else _new_file(out)
    recommender = Recommender.load(run)
    if recommender.model.exploration_note and explores(chosen):
        console.print(recommender.model.exploration_note)
    popularity = _refresh(recommender, run, log, names, at)
    if users is not None and target is not None:
        about = {"run": str(run.resolve()), "popularity": popularity}
        asked = chosen, length, seed or 0, source
        _for_all(recommender, users, names, target, *asked, about, device)
        return
    if candidates is not None:
        ranked = recommender.rank(
            _ids(recommender, candidates), _ids(recommender, clicks or ""), k=k, source=source
        )
        console.print(ranked_table(ranked))
        _print_ignored(ranked.unknown, ranked.left_out)
        known = popularity is not None
        _print_missing(recommender, slates_known=False, popularity_known=known, lists=True)
        return
    slate = recommender.recommend(
        _ids(recommender, clicks or ""),
        length,
        strategy=chosen,
        exclude=_ids(recommender, exclude),
        source=source,
        seed=seed,
    )
    if explain:
        reasons = recommender.explain(slate)
        console.print(reason_table(reasons))
        console.print(sum_table(reasons))
        own = recommender.model.posterior.parts.relevance
        console.print(f"{own.name}: {own.words}", style="dim")
    else:
        console.print(slate_table(slate))
    _print_ignored(slate.unknown)
    _print_missing(recommender, slates_known=False, popularity_known=popularity is not None)
    console.print(f"\n{slate.strategy}, seed {slate.seed}", style="dim")


def _print_ignored(unknown: "list[ItemId]", left_out: "Sequence[ItemId]" = ()) -> None:
    """Print which items had no part in a slate or an order."""
    for what, items in (("Unknown items, ignored", unknown), ("Not on offer, left out", left_out)):
        if items:
            console.print(f"{what}: {', '.join(map(str, items))}", style="dim")


def _rank_file(
    run: Path,
    candidates: Path,
    users: Path | None,
    log: Path | None,
    names: "LogFormat | None",
    at: datetime | None,
    k: int | None,
    source: str | None,
    out: Path | None,
) -> None:
    """Order the candidates of a file of users."""
    from slatewise.slates import Recommender, bulk  # noqa: PLC0415 (torch is slow to load)

    target = _new_file(out)
    recommender = Recommender.load(run)
    popularity = _refresh(recommender, run, log, names, at)
    with ExitStack() as stack:
        is_log, visitors = _visitors(recommender, users, names, stack) if users else (False, None)
        report = stack.enter_context(progress())
        asked = bulk.read_candidates(candidates, type(recommender.items.ids[0]))
        counts = bulk.rank_to_file(
            recommender, asked, visitors, target, k=k, progress=report, source=source
        )
    result = table("Ranked", "", "count")
    for what, count in counts.items():
        result.add_row(what, f"{count:,}")
    console.print(result)
    known = popularity is not None
    _print_missing(recommender, slates_known=is_log, popularity_known=known, lists=True)
    console.print(f"\nRanked: {target}")


def _visitors(
    recommender: "Recommender", users: Path, names: "LogFormat | None", stack: ExitStack
) -> "tuple[bool, bulk.Visitors]":
    """Return whether a file of users is a log, and what they did; its repairs are printed."""
    from slatewise.slates import bulk, logs  # noqa: PLC0415 (torch is slow to load)

    if logs.is_log(users, names):
        dataset = stack.enter_context(logs.opened_log(users, recommender, names))
        _print_repairs(dataset)
        return True, logs.LoggedUsers(dataset, recommender)
    clicks = bulk.read_histories(users, type(recommender.items.ids[0]), names)
    return False, bulk.ClickingUsers(clicks, recommender)


def _new_file(out: Path | None) -> Path:
    if out is None:
        raise SlatewiseError("slates of many users need a file.", "Give --out FILE.parquet.")
    if out.exists():
        raise SlatewiseError(f"{out} exists already.", "Choose another file, or delete it.")
    return out


def _refresh(
    recommender: "Recommender",
    run: Path,
    log: Path | None,
    names: "LogFormat | None",
    at: datetime | None,
) -> dict[str, Any] | None:
    """Update popularity from a log, or from what the run was trained on if that is still there.

    Returns the log's hash and the time, for the file of slates.
    """
    from slatewise.slates import logs  # noqa: PLC0415 (torch is slow to load)

    log = log or _log_of(run, recommender)
    if log is None:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    asked = None if at is None else (at.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1)
    with logs.opened_log(log, recommender, names) as dataset:
        time = logs.refresh_from(recommender, dataset, asked)
        when = epoch + timedelta(microseconds=time)
        console.print(f"Popularity as of {when:%Y-%m-%d %H:%M:%S} UTC.", style="dim")
        return {"log": dataset.content_hash, "time": time}


def _log_of(run: Path, recommender: "Recommender") -> Path | None:
    """Return the dataset of a run if a term needs it; None if it is gone or large."""
    from slatewise.training import runs  # noqa: PLC0415 (torch is slow to load)

    if not recommender.model.terms.with_state:
        return None
    try:
        dataset = runs.dataset_of(run)
    except SlatewiseError:
        return None
    return dataset.path if dataset.num_interactions <= _READ_AT_ONCE else None


def _for_all(
    recommender: "Recommender",
    users: Path,
    names: "LogFormat | None",
    out: Path,
    strategy: "Strategy",
    k: int,
    seed: int,
    source: str | None,
    about: dict[str, Any],
    device: str,
) -> None:
    from slatewise.slates import bulk  # noqa: PLC0415
    from slatewise.slates.batched import BatchRanker  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    ranker = None
    if device != "cpu":
        ranker = BatchRanker(recommender.model, device, recommender.ranker)
        about |= {"device": device}
    with ExitStack() as stack:
        is_log, visitors = _visitors(recommender, users, names, stack)
        report = stack.enter_context(progress())
        unknown = bulk.recommend_to_file(
            recommender,
            visitors,
            out,
            strategy=strategy,
            k=k,
            seed=seed,
            about=about | {"posterior": runs.fingerprint(Path(about["run"]))},
            progress=report,
            ranker=ranker,
            source=source,
        )
    result = table("Slates", "", "count")
    result.add_row("users", f"{len(visitors.users):,}")
    what = "items in slates" if is_log else "clicks on items"
    result.add_row(f"unknown {what}, ignored", f"{unknown:,}")
    console.print(result)
    popular = about["popularity"] is not None
    _print_missing(recommender, slates_known=is_log, popularity_known=popular)
    console.print(f"\nSlates: {out}")


def _print_repairs(dataset: "SlateDataset") -> None:
    """Print the repairs of a log, except for items that the model does not know."""
    for problem in dataset.meta["report"]["problems"]:
        if problem["what"] != "item is not in the items table":
            repair = f"{problem['repair']}; first: {problem['file']}, row {problem['row']:,}"
            console.print(f"{problem['count']:,} times: {problem['what']} ({repair})", style="dim")


def _print_missing(
    recommender: "Recommender", *, slates_known: bool, popularity_known: bool, lists: bool = False
) -> None:
    """Print which inputs of the ranking are missing: of all items, or of given lists."""
    model, missing = recommender.model, list[str]()
    if not popularity_known:
        missing += [
            f"{name} (items count as new; give --log)"
            for name, term in model.terms.with_state.items()
            if lists or term.ranks == "all items" or term.candidates
        ]
    if not slates_known:
        if terms := list(model.terms.that_rank("items met")):
            missing.append(f"slates shown before ({', '.join(terms)})")
        missing += ["slates without a click (give --users a log)"] * bool(model.config.evidence)
    if missing:
        console.print(f"Missing data: {', '.join(missing)}.", style="dim")


def _ids(recommender: "Recommender", text: str) -> list[int | str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not isinstance(recommender.items.ids[0], int):
        return list(names)
    # A name that is no number cannot be an item; as text it is reported as unknown.
    return [int(name) if name.lstrip("-").isdigit() else name for name in names]
