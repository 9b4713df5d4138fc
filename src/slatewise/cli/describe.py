"""`slatewise describe`: what is in a dataset."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slatewise.cli.show import console, histogram, table
from slatewise.data.dataset import SlateDataset

_BINS = 25


def describe(
    dataset: Annotated[Path, typer.Argument(help="A prepared dataset.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Read all data and check that it is intact.")
    ] = False,
) -> None:
    """Show users, items, rates and histograms of a dataset."""
    from slatewise.data.description import describe as describe_dataset  # noqa: PLC0415

    opened = SlateDataset.open(dataset)
    if verify:
        opened.verify()
    facts = describe_dataset(opened)
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _show(facts)


def _show(facts: dict[str, Any]) -> None:
    size = table(facts["path"], "", "")
    several = facts["slates"] < facts["interactions"]
    per_user = facts["interactions_per_user"]
    for label, value in {
        "users": f"{facts['users']:,}",
        "interactions": f"{facts['interactions']:,}",
        "  per user": f"{per_user['least']:,} to {per_user['most']:,}, mean {per_user['mean']:.1f}",
        **({"slates": f"{facts['slates']:,}, some with several clicks"} if several else {}),
        "clicks": f"{facts['clicks']:,}",
        "items": f"{facts['items']:,}, of which {facts['items_seen']:,} were seen",
        "groups": f"{facts['groups']:,}",
        "items seen per slate": f"{facts['views'] / facts['slates']:.1f}",
        "from": str(facts["first_time"]),
        "to": str(facts["last_time"]),
        "content hash": facts["content_hash"],
    }.items():
        size.add_row(label, value)
    counts = ("slates", "clicks") if several else ("interactions", "clicks")
    rates = table("Click rate by source", "source", *counts, "click rate")
    for name, source in facts["sources"].items():
        rate = source["click_rate"]
        rates.add_row(
            name,
            *(f"{source[name]:,}" for name in counts),
            "–" if rate is None else f"{rate:.3f}",
        )
    parts = table("Split", "part", "users", "interactions")
    for name, counts in facts["split"].items():
        parts.add_row(name, f"{counts['users']:,}", f"{counts['interactions']:,}")
    for part in (
        size,
        rates,
        parts,
        histogram("Slates by items seen", binned(facts["slate_lengths"])),
        histogram("Items by views", facts["views_per_item"]),
    ):
        console.print(part)
        console.print()
    for hint in facts["hints"]:
        console.print(hint, style="bold yellow", soft_wrap=True)


def binned(counts: dict[str, int]) -> dict[str, int]:
    """Put counts by number into at most 25 bins of one width."""
    if len(counts) <= _BINS:
        return counts
    width = -(-max(map(int, counts)) // _BINS)
    bins: dict[str, int] = {}
    for number, count in counts.items():
        low = (int(number) - 1) // width * width + 1
        label = f"{low}-{low + width - 1}"
        bins[label] = bins.get(label, 0) + count
    return bins
