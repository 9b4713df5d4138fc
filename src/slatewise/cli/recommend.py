"""`slatewise recommend`: the slate of one user as a table, or of a file of users as Parquet."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset
    from slatewise.slates import Reason, Recommender, Slate, Strategy

_BAR = 20
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"]


def recommend(
    run: Annotated[Path, typer.Argument(help="A run that slatewise train made.")],
    clicks: Annotated[
        str | None,
        typer.Option(help="What one user clicked, oldest first: a,b,c; '' for nobody known."),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Table with user_id and item_id, a row per click; an exposure log, or a dataset."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Exposure log or dataset that says how popular items are."),
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option(formats=_TIMES, help="When (UTC); right after the last event of --log."),
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="greedy, thompson, in-slate-thompson, posterior-mean, epsilon-mix, or "
            "package.module:Name."
        ),
    ] = "in-slate-thompson",
    k: Annotated[int, typer.Option("--k", min=1, help="Items in a slate.")] = 20,
    exclude: Annotated[str, typer.Option(help="Items not to show to one user: a,b,c.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Parquet file for the slates of --users.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of everything random; drawn if not given.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each item is there.")] = False,
) -> None:
    """Make slates: for one user's clicks, or for every user of a file."""
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.slates import Recommender, named_strategy  # noqa: PLC0415

    if (clicks is None) == (users is None):
        raise SlatewiseError(
            "say who the slates are for.", "Give --clicks a,b,c or --users FILE, one of them."
        )
    if at is not None and log is None:
        raise SlatewiseError("--at says when, and nothing changes by it.", "Give --log too.")
    chosen = named_strategy(strategy)
    place = None if users is None else _free_place(out)
    recommender = Recommender.load(run)
    popularity = _refresh(recommender, log, at)
    if users is not None and place is not None:
        about = {"run": str(run.resolve()), "popularity": popularity}
        _for_all(recommender, users, place, chosen, k, seed or 0, about)
        return
    slate = recommender.recommend(
        _ids(recommender, clicks or ""),
        k,
        strategy=chosen,
        exclude=_ids(recommender, exclude),
        seed=seed,
    )
    if explain:
        reasons = recommender.explain(slate)
        console.print(_reasons(reasons))
        console.print(_sums(reasons, recommender))
    else:
        console.print(_shown(slate))
    if slate.unknown:
        names = ", ".join(map(str, slate.unknown))
        console.print(f"Not known and ignored: {names}", style="dim")
    _say_what_is_missing(recommender, slates_told=False, popularity_told=popularity is not None)
    console.print(f"\n{slate.strategy}, seed {slate.seed}", style="dim")


def _free_place(out: Path | None) -> Path:
    if out is None:
        raise SlatewiseError("slates of many users need a file.", "Give --out FILE.parquet.")
    if out.exists():
        raise SlatewiseError(f"{out} exists already.", "Choose another file, or delete it.")
    return out


def _refresh(
    recommender: "Recommender", log: Path | None, at: datetime | None
) -> dict[str, Any] | None:
    """Tell the model what is popular, by what a log says; return what tells this from others."""
    from slatewise.slates import logs  # noqa: PLC0415 (torch is slow to load)

    if log is None:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    asked = None if at is None else (at.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1)
    with logs.opened_log(log, recommender) as dataset:
        time = logs.refresh_from(recommender, dataset, asked)
        when = epoch + timedelta(microseconds=time)
        console.print(f"Popularity as of {when:%Y-%m-%d %H:%M:%S} UTC.", style="dim")
        return {"log": dataset.content_hash, "time": time}


def _for_all(
    recommender: "Recommender",
    users: Path,
    out: Path,
    strategy: "Strategy",
    k: int,
    seed: int,
    about: dict[str, Any],
) -> None:
    from slatewise.slates import bulk, logs  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    told = logs.is_log(users)
    with ExitStack() as stack:
        visitors: bulk.Visitors
        if told:
            dataset = stack.enter_context(logs.opened_log(users, recommender))
            _say_what_was_repaired(dataset)
            visitors = logs.LoggedUsers(dataset, recommender)
        else:
            clicks = bulk.read_histories(users, type(recommender.items.ids[0]))
            visitors = bulk.ClickingUsers(clicks, recommender)
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
        )
    result = table("Slates", "", "count")
    result.add_row("users", f"{len(visitors.users):,}")
    what = "items in slates" if told else "clicks on items"
    result.add_row(f"{what} that are not known, ignored", f"{unknown:,}")
    console.print(result)
    popular = about["popularity"] is not None
    _say_what_is_missing(recommender, slates_told=told, popularity_told=popular)
    console.print(f"\nSlates: {out}")


def _say_what_was_repaired(dataset: "SlateDataset") -> None:
    """Name what was wrong with a log, but for items that the model does not know."""
    for problem in dataset.meta["report"]["problems"]:
        if problem["what"] != "item is not in the items table":
            place = f"{problem['repair']}; first: {problem['file']}, row {problem['row']:,}"
            console.print(f"{problem['count']:,} times: {problem['what']} ({place})", style="dim")


def _say_what_is_missing(
    recommender: "Recommender", *, slates_told: bool, popularity_told: bool
) -> None:
    """Name what the model ranks by and was not told."""
    model, untold = recommender.model, list[str]()
    if not popularity_told:
        untold += [
            f"{name} (items count as new; --log tells it)"
            for name in model.terms.that_rank("all items")
        ]
    if not slates_told:
        untold += [f"{name} beyond the clicks" for name in model.terms.that_rank("items met")]
        untold += ["slates without a click"] * bool(model.config.evidence)
    if untold:
        console.print(f"Not known here: {', '.join(untold)}.", style="dim")


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


def _sums(reasons: "list[Reason]", recommender: "Recommender") -> Table:
    """Show what each term adds to the utility of each item."""
    adds = reasons[0].adds if reasons else {}
    parts = [name for name in adds if name != "bias" or "bias" in recommender.model.config.terms]
    result = table("\nUtility at the posterior mean, term by term", "item", *parts, "sum")
    for reason in reasons:
        values = [reason.adds[name] for name in parts]
        shown = [f"{value:+.3f}".replace("-", "−") for value in (*values, sum(values))]
        result.add_row(str(reason.item), *shown)
    return result
