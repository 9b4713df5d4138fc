"""`slatewise simulate`: a marketplace log with its truth."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from slatewise.cli.show import console, progress, table
from slatewise.simulation import SourceSummary, load_config, write_log
from slatewise.simulation.processes import available_cores


def simulate(
    out: Annotated[Path, typer.Argument(help="Directory to create.")],
    preset: Annotated[
        Literal["tiny", "demo", "finn", "news", "market", "video"],
        typer.Option(help="Kind of world."),
    ] = "demo",
    truth: Annotated[
        Literal["paper", "outside"] | None, typer.Option(help="How the users choose.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same log.")] = None,
    users: Annotated[int | None, typer.Option(help="Number of users.")] = None,
    scale: Annotated[
        float | None, typer.Option(help="Share of the preset's users and items.")
    ] = None,
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
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes side by side; all cores if left out."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace OUT.")] = False,
) -> None:
    """Simulate a marketplace: write the log of its slates and clicks, and the truth behind it."""
    settings = load_config(
        preset,
        config,
        scale=scale,
        truth=truth,
        seed=seed,
        users=users,
        search_share=search_share,
        policy=policy,
    )
    with progress() as bars:
        side_by_side = available_cores() if jobs is None else jobs
        written = write_log(settings, out, overwrite=overwrite, jobs=side_by_side, progress=bars)
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
