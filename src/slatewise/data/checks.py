"""Checks of logged interactions: problems are repaired and counted or, in strict mode, refused."""

from pathlib import Path
from typing import Literal

import polars as pl

from slatewise.data.columns import UNKNOWN
from slatewise.data.report import Problem, Reduction, Report
from slatewise.errors import InputError


class Checker:
    """Checks batches of interactions, keeping the account in a report."""

    def __init__(
        self,
        report: Report,
        files: list[Path],
        several_clicks: Literal["each", "first"],
        *,
        clicks_by_position: bool = False,
        listed: pl.Series | None = None,
    ) -> None:
        self._report = report
        self._files = files
        self._several_clicks = several_clicks
        self._clicks_by_position = clicks_by_position
        self._listed = listed
        self.clicks = 0
        """On items of their slates, so far."""

    def clean(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return the usable rows, each with at most one click.

        In: `file`, `row`, `user`, `time`, `slate` [list], `click` [list], `source`, `position`.
        Out: the same without `position`, `click` a single id or null, `source` never null.
        """
        self._report.slates += batch.height
        batch = self._drop(batch, Problem.NO_USER, _lacks_user(batch.schema["user"]))
        batch = self._drop(batch, Problem.NO_TIME, pl.col("time").is_null())
        batch = self._drop(batch, Problem.EMPTY_SLATE, pl.col("slate").list.len().fill_null(0) == 0)
        batch = self._drop(batch, Problem.NO_ITEM, _lacks_item(batch.schema["slate"]))
        batch = self._resolve_positions(batch)
        batch = self._remove_copies(batch)
        batch = self._unfold_clicks(batch)
        elsewhere = pl.col("click").is_not_null() & ~pl.col("slate").list.contains(pl.col("click"))
        batch = self._drop(batch, Problem.CLICK_ELSEWHERE, elsewhere)
        batch = self._remove_unlisted(batch)
        self.clicks += batch["click"].count()
        self._note(batch, Problem.NO_SOURCE, pl.col("source").is_null())
        return batch.with_columns(pl.col("source").fill_null(UNKNOWN)).drop("position")

    def unlisted(self, first_seen: pl.DataFrame) -> None:
        """Note items (`file`, `row`, `slate`) that the items table does not list."""
        first_seen = first_seen.sort("file", "row", maintain_order=True)
        note = f" ({first_seen['slate'][0]})" if first_seen.height else ""
        self._report.found(Problem.UNLISTED_ITEM, first_seen, self._files, note)

    def require_clicks(self) -> None:
        """Refuse a log in which no click is on an item of its slate."""
        astray = self._report.findings.get(Problem.CLICK_ELSEWHERE)
        if astray is not None and not self.clicks:
            raise InputError(
                f"none of the {astray.count:,} clicks is in its slate.",
                "Clicks and slates must name items alike: check the columns, and --delimiter.",
                file=astray.file,
                row=astray.row,
                column=self._report.columns.get("click"),
            )

    def _note(self, batch: pl.DataFrame, problem: Problem, where: pl.Expr) -> None:
        self._report.found(problem, batch.filter(where).select("file", "row"), self._files)

    def _drop(self, batch: pl.DataFrame, problem: Problem, where: pl.Expr) -> pl.DataFrame:
        self._note(batch, problem, where)
        return batch.filter(~where)

    def _resolve_positions(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Take the click from its position where only that is given; compare where both are."""
        position = pl.col("position")
        if self._clicks_by_position:
            outside = position.is_not_null() & ~position.is_between(1, pl.col("slate").list.len())
            batch = self._drop(batch, Problem.BAD_POSITION, outside)
            chosen = pl.col("slate").list.slice(position - 1, 1)
            return batch.with_columns(click=pl.when(position.is_not_null()).then(chosen))
        at_position = pl.col("slate").list.get(position - 1, null_on_oob=True)
        one_click = pl.col("click").list.len() == 1
        alone = position.is_between(1, pl.col("slate").list.len()) & _clicks_nothing()
        self._note(batch, Problem.POSITION_ALONE, alone)
        differs = position.is_not_null() & one_click & (pl.col("click").list.first() != at_position)
        self._note(batch, Problem.POSITION_DIFFERS, differs.fill_null(value=True) & one_click)
        return batch

    def _remove_copies(self, batch: pl.DataFrame) -> pl.DataFrame:
        copies = pl.col("slate").list.n_unique() != pl.col("slate").list.len()
        if not batch.select(copies.any()).item():
            return batch
        self._note(batch, Problem.DUPLICATE_ITEM, copies)
        once = pl.col("slate").list.unique(maintain_order=True)
        return batch.with_columns(slate=pl.when(copies).then(once).otherwise("slate"))

    def _remove_unlisted(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Keep items that the items table lists, where only those were asked for."""
        if self._listed is None:
            return batch
        rows = batch.select("slate").with_row_index("number")
        shown = rows.explode("slate", empty_as_null=False).filter(
            pl.col("slate").is_in(self._listed.implode())
        )
        kept = shown.group_by("number", maintain_order=True).agg(listed=pl.col("slate"))
        slates = rows.select("number").join(kept, on="number", how="left", maintain_order="left")
        batch = batch.with_columns(listed=slates["listed"])
        fewer = pl.col("listed").list.len().fill_null(0) < pl.col("slate").list.len()
        self._note(batch, Problem.UNLISTED_SHOWN, fewer)
        lost = pl.col("listed").is_null() | ~pl.col("listed").list.contains(pl.col("click"))
        lost &= pl.col("listed").is_null() | pl.col("click").is_not_null()
        self._report.reduced(Reduction.UNLISTED_CLICK, int(batch.select(lost.sum()).item()))
        return batch.filter(~lost).with_columns(slate="listed").drop("listed")

    def _unfold_clicks(self, batch: pl.DataFrame) -> pl.DataFrame:
        extra = int((batch["click"].list.len().fill_null(0).cast(pl.Int64) - 1).clip(0).sum())
        if self._several_clicks == "first" or extra == 0:
            self._report.clicks_ignored += extra
            return batch.with_columns(pl.col("click").list.first())
        self._report.clicks_unfolded += extra
        return batch.explode("click", empty_as_null=True, keep_nulls=True)


def _clicks_nothing() -> pl.Expr:
    return pl.col("click").list.len().fill_null(0) == 0


def _lacks_user(user: pl.DataType) -> pl.Expr:
    lacking = pl.col("user").is_null()
    return lacking | (pl.col("user") == "") if user == pl.String else lacking


def _lacks_item(slate: pl.DataType) -> pl.Expr:
    items = pl.col("slate")
    lacking = items.list.contains(None, nulls_equal=True)
    if slate == pl.List(pl.String):
        lacking |= items.list.contains("")
    return lacking
