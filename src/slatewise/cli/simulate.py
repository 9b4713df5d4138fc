"""`slatewise simulate`: a marketplace log with its truth."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from slatewise.cli.show import console, progress, table
from slatewise.simulation import SourceSummary, load_config, write_log


def simulate(
    out: Annotated[Path, typer.Argument(help="Directory to create.")],
    preset: Annotated[
        Literal["tiny", "demo", "finn", "news", "video"], typer.Option(help="Kind of world.")
    ] = "demo",
    truth: Annotated[
        Literal["paper", "outside"] | None, typer.Option(help="How the users choose.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same log.")] = None,
    users: Annotated[int | None, typer.Option(help="Number of users.")] = None,
    search_share: Annotated[
        float | None, typer.Option(help="Share of the slates that are searches.")
    ] = None,
    policy: Annotated[
        Literal["random", "promoted", "more-like-this", "front-page"] | None,
        typer.Option(help="What fills the recommendations."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of further settings; options win over it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace OUT.")] = False,
) -> None:
    """Simulate a marketplace: the log that a platform would have, and the truth beside it."""
    settings = load_config(
        preset,
        config,
        truth=truth,
        seed=seed,
        users=users,
        search_share=search_share,
        policy=policy,
    )
    with progress() as bars:
        written = write_log(settings, out, overwrite=overwrite, progress=bars)
    account = table("Simulated log", "", "count", "click rate")
    account.add_row("users", f"{written.users:,}")
    account.add_row("items", f"{written.items:,}")
    account.add_row("slates", f"{written.slates:,}")
    account.add_row("  from search", *_counts(written.search))
    account.add_row("  from recommendation", *_counts(written.recommendation))
    account.add_row("items seen per slate", f"{written.mean_scroll:.1f}")
    account.add_row("megabytes", f"{written.bytes / 1e6:,.1f}")
    console.print(account)
    console.print(f"\nLog: {out}")


def _counts(source: SourceSummary) -> tuple[str, str]:
    return f"{source.slates:,}", f"{source.click_rate:.1%}" if source.slates else ""
