"""`slatewise recommend`: the slate of one user as a table, or of a file of users as Parquet."""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from slatewise.cli.service import TIMES
from slatewise.cli.show import console, progress, table
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset
    from slatewise.data.formats import LogFormat
    from slatewise.model.fitted import ItemId
    from slatewise.slates import RankedItems, Reason, Recommender, Slate, Strategy, bulk

_BAR = 20
_USUAL_STRATEGY = "in-slate-thompson"
_USUAL_K = 20


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
        typer.Option(help="Exposure log or dataset to compute popularity from."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(help=r"TOML file with \[log]: columns of the log in --users and --log."),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            formats=TIMES,
            help="Time of the slates (UTC); default: right after the last event of --log.",
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
        _rank_file(run, Path(candidates), users, log, names, at, k, out)
        return
    if (clicks is None) == (users is None):
        raise SlatewiseError(
            "slates need either --clicks or --users.",
            "Give --clicks a,b,c or --users FILE, one of them.",
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
    popularity = _refresh(recommender, log, names, at)
    if users is not None and target is not None:
        about = {"run": str(run.resolve()), "popularity": popularity}
        _for_all(recommender, users, names, target, chosen, length, seed or 0, about, device)
        return
    if candidates is not None:
        ranked = recommender.rank(
            _ids(recommender, candidates), _ids(recommender, clicks or ""), k=k
        )
        console.print(_ranked(ranked))
        _print_ignored(ranked.unknown, ranked.left_out)
        _print_missing(recommender, slates_known=False, popularity_known=popularity is not None)
        return
    slate = recommender.recommend(
        _ids(recommender, clicks or ""),
        length,
        strategy=chosen,
        exclude=_ids(recommender, exclude),
        seed=seed,
    )
    if explain:
        reasons = recommender.explain(slate)
        console.print(_reasons(reasons))
        console.print(_sums(reasons))
        own = recommender.model.posterior.parts.relevance
        console.print(f"{own.name}: {own.words}", style="dim")
    else:
        console.print(_shown(slate))
    _print_ignored(slate.unknown)
    _print_missing(recommender, slates_known=False, popularity_known=popularity is not None)
    console.print(f"\n{slate.strategy}, seed {slate.seed}", style="dim")


def _print_ignored(unknown: "list[ItemId]", left_out: "Sequence[ItemId]" = ()) -> None:
    """Print which items had no part in a slate or an order."""
    for what, items in (("Unknown items, ignored", unknown), ("Not on offer, left out", left_out)):
        if items:
            console.print(f"{what}: {', '.join(map(str, items))}", style="dim")


def _ranked(ranked: "RankedItems") -> Table:
    """Show given items in their order."""
    result = table("In the order of their utility", "item", "group", "utility", "probability")
    result.columns[1].justify = "left"
    columns = (ranked.items, ranked.groups, ranked.utilities, ranked.probabilities)
    for item, group, utility, probability in zip(*columns, strict=True):
        shown = f"{utility:.4f}".replace("-", "−")
        result.add_row(str(item), group, shown, f"{probability:.4f}")
    return result


def _rank_file(
    run: Path,
    candidates: Path,
    users: Path | None,
    log: Path | None,
    names: "LogFormat | None",
    at: datetime | None,
    k: int | None,
    out: Path | None,
) -> None:
    """Order the candidates of a file of users."""
    from slatewise.slates import Recommender, bulk  # noqa: PLC0415 (torch is slow to load)

    target = _new_file(out)
    recommender = Recommender.load(run)
    popularity = _refresh(recommender, log, names, at)
    with ExitStack() as stack:
        is_log, visitors = _visitors(recommender, users, names, stack) if users else (False, None)
        report = stack.enter_context(progress())
        asked = bulk.read_candidates(candidates, type(recommender.items.ids[0]))
        counts = bulk.rank_to_file(recommender, asked, visitors, target, k=k, progress=report)
    result = table("Ranked", "", "count")
    for what, count in counts.items():
        result.add_row(what, f"{count:,}")
    console.print(result)
    _print_missing(recommender, slates_known=is_log, popularity_known=popularity is not None)
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
    clicks = bulk.read_histories(users, type(recommender.items.ids[0]))
    return False, bulk.ClickingUsers(clicks, recommender)


def _new_file(out: Path | None) -> Path:
    if out is None:
        raise SlatewiseError("slates of many users need a file.", "Give --out FILE.parquet.")
    if out.exists():
        raise SlatewiseError(f"{out} exists already.", "Choose another file, or delete it.")
    return out


def _refresh(
    recommender: "Recommender",
    log: Path | None,
    names: "LogFormat | None",
    at: datetime | None,
) -> dict[str, Any] | None:
    """Update popularity from a log; return the log's hash and the time, for the file of slates."""
    from slatewise.slates import logs  # noqa: PLC0415 (torch is slow to load)

    if log is None:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    asked = None if at is None else (at.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1)
    with logs.opened_log(log, recommender, names) as dataset:
        time = logs.refresh_from(recommender, dataset, asked)
        when = epoch + timedelta(microseconds=time)
        console.print(f"Popularity as of {when:%Y-%m-%d %H:%M:%S} UTC.", style="dim")
        return {"log": dataset.content_hash, "time": time}


def _for_all(
    recommender: "Recommender",
    users: Path,
    names: "LogFormat | None",
    out: Path,
    strategy: "Strategy",
    k: int,
    seed: int,
    about: dict[str, Any],
    device: str,
) -> None:
    from slatewise.slates import bulk  # noqa: PLC0415
    from slatewise.slates.batched import BatchRanker  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    ranker = None
    if device != "cpu":
        ranker, about = BatchRanker(recommender.model, device), about | {"device": device}
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
    recommender: "Recommender", *, slates_known: bool, popularity_known: bool
) -> None:
    """Print which inputs of the ranking are missing."""
    model, missing = recommender.model, list[str]()
    if not popularity_known:
        missing += [f"{name} (items count as new; give --log)" for name in model.terms.with_state]
    if not slates_known:
        missing += [f"{name} beyond the clicks" for name in model.terms.that_rank("items met")]
        missing += ["slates without a click"] * bool(model.config.evidence)
    if missing:
        console.print(f"Not known here: {', '.join(missing)}.", style="dim")


def _ids(recommender: "Recommender", text: str) -> list[int | str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not isinstance(recommender.items.ids[0], int):
        return list(names)
    # A name that is no number cannot be an item; as text it is reported as unknown.
    return [int(name) if name.lstrip("-").isdigit() else name for name in names]


def _shown(slate: "Slate") -> Table:
    result = table("Slate", "item", "group", "relevance", "uncertainty")
    result.columns[1].justify = "left"
    result.columns[3].justify = "left"
    most = float(slate.uncertainty.max(initial=0)) or 1.0
    for item, group, relevance, spread in zip(
        slate.items, slate.groups, slate.relevance, slate.uncertainty, strict=True
    ):
        bar = "█" * round(_BAR * spread / most)
        result.add_row(str(item), group, f"{relevance:.4f}", f"{spread:.4f} {bar}")
    return result


def _reasons(reasons: "list[Reason]") -> Table:
    result = table(
        "Slate",
        "item",
        "group",
        "relevance",
        "±",
        "shown as",
        "rank 10–90 %",
        "nearest click",
        "views",
    )
    for reason in reasons:
        low, _, high = (">200" if rank is None else str(rank) for rank in reason.ranks)
        near = "" if reason.nearest_click is None else str(reason.nearest_click)
        result.add_row(
            str(reason.item),
            reason.group,
            f"{reason.relevance:.4f}",
            f"{reason.uncertainty:.4f}",
            reason.shown_as,
            f"{low}–{high}",
            near,
            f"{reason.views:,}",
        )
    return result


def _sums(reasons: "list[Reason]") -> Table:
    """Show what each part adds to the utility of each item."""
    adds = reasons[0].adds if reasons else {}
    result = table("\nUtility, term by term", "item", *adds, "sum")
    for reason in reasons:
        values = list(reason.adds.values())
        shown = [f"{value:+.3f}".replace("-", "−") for value in (*values, sum(values))]
        result.add_row(str(reason.item), *shown)
    return result
