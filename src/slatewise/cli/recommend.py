"""`slatewise recommend`: the slate of one user as a table, or of a file of users as Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slatewise.cli.show import console, progress, table
from slatewise.errors import SlatewiseError

if TYPE_CHECKING:
    from slatewise.strategies import Recommender, Slate, Strategy

_BAR = 20


def recommend(
    run: Annotated[Path, typer.Argument(help="A run that slatewise train made.")],
    clicks: Annotated[
        str | None,
        typer.Option(help="What one user clicked, oldest first: a,b,c; '' for nobody known."),
    ] = None,
    users: Annotated[
        Path | None, typer.Option(help="Table with user_id and item_id, a row per click.")
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(help="greedy, thompson, in-slate-thompson, posterior-mean or epsilon-mix."),
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
    from slatewise.strategies import Recommender, named_strategy  # noqa: PLC0415

    if (clicks is None) == (users is None):
        raise SlatewiseError(
            "say who the slates are for.", "Give --clicks a,b,c or --users FILE, one of them."
        )
    chosen = named_strategy(strategy)
    if users is not None:
        _for_all(run, users, out, chosen, k, seed or 0)
        return
    recommender = Recommender.load(run)
    slate = recommender.recommend(
        _ids(recommender, clicks or ""),
        k,
        strategy=chosen,
        exclude=_ids(recommender, exclude),
        seed=seed,
    )
    console.print(_reasons(recommender, slate) if explain else _shown(slate))
    if slate.unknown:
        names = ", ".join(map(str, slate.unknown))
        console.print(f"Not known and ignored: {names}", style="dim")
    _say_what_is_missing(recommender)
    console.print(f"\n{slate.strategy}, seed {slate.seed}", style="dim")


def _for_all(
    run: Path,
    users: Path,
    out: Path | None,
    strategy: "Strategy",
    k: int,
    seed: int,
) -> None:
    from slatewise.strategies import Recommender, bulk  # noqa: PLC0415
    from slatewise.training import runs  # noqa: PLC0415

    if out is None:
        raise SlatewiseError("slates of many users need a file.", "Give --out FILE.parquet.")
    if out.exists():
        raise SlatewiseError(f"{out} exists already.", "Choose another file, or delete it.")
    recommender = Recommender.load(run)
    histories = bulk.read_histories(users, type(recommender.items.ids[0]))
    with progress() as report:
        unknown = bulk.recommend_to_file(
            recommender,
            histories,
            out,
            strategy=strategy,
            k=k,
            seed=seed,
            about={"run": str(run.resolve()), "posterior": runs.fingerprint(run)},
            progress=report,
        )
    result = table("Slates", "", "count")
    result.add_row("users", f"{len(histories):,}")
    result.add_row("clicks on unknown items, ignored", f"{unknown:,}")
    console.print(result)
    _say_what_is_missing(recommender)
    console.print(f"\nSlates: {out}")


def _say_what_is_missing(recommender: "Recommender") -> None:
    """Name what the model ranks by and a list of clicks does not tell."""
    config = recommender.model.config
    untold = [f"{term} (items count as new)" for term in config.terms if term == "popularity"]
    untold += ["history beyond the clicks"] * ("history" in config.terms)
    untold += ["slates without a click"] * bool(config.evidence)
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


def _reasons(recommender: "Recommender", slate: "Slate") -> Table:
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
    for reason in recommender.explain(slate):
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
