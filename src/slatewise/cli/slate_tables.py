"""Tables of slates, of their reasons and of given items in order, as `recommend` prints them."""

from typing import TYPE_CHECKING

from rich.table import Table

from slatewise.cli.show import table

if TYPE_CHECKING:
    from slatewise.slates import RankedItems, Reason, Slate

_BAR = 20
"""Characters of the longest bar."""


def ranked_table(ranked: "RankedItems") -> Table:
    """Show given items in their order."""
    result = table("In the order of their utility", "item", "group", "utility", "probability")
    result.columns[1].justify = "left"
    columns = (ranked.items, ranked.groups, ranked.utilities, ranked.probabilities)
    for item, group, utility, probability in zip(*columns, strict=True):
        shown = f"{utility:.4f}".replace("-", "−")
        result.add_row(str(item), group, shown, f"{probability:.4f}")
    return result


def slate_table(slate: "Slate") -> Table:
    """Show the items of a slate, and how uncertain their relevance is."""
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


def reason_table(reasons: "list[Reason]") -> Table:
    """Show why each item is in a slate."""
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


def sum_table(reasons: "list[Reason]") -> Table:
    """Show what each part adds to the utility of each item."""
    adds = reasons[0].adds if reasons else {}
    result = table("\nUtility, term by term", "item", *adds, "sum")
    for reason in reasons:
        values = list(reason.adds.values())
        shown = [f"{value:+.3f}".replace("-", "−") for value in (*values, sum(values))]
        result.add_row(str(reason.item), *shown)
    return result
