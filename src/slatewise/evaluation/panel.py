"""Several metrics at once: added up by user and source, and resampled together."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from slatewise.data.ragged import Int64Array
from slatewise.evaluation.bootstrap import EffectiveUsers, Estimate, Resampler, estimate
from slatewise.evaluation.metrics import Metric
from slatewise.evaluation.reliability import reliability_curve
from slatewise.evaluation.rows import Floats

ALL: Final = "all sources"
"""Stands for the slates of every source."""


class Panel:
    """A set of metrics, added up per user and source and resampled together."""

    def __init__(
        self, metrics: Sequence[Metric[Any]], sources: Sequence[str], resampler: Resampler
    ) -> None:
        self.metrics, self.sources, self.resampler = metrics, sources, resampler
        self._widths: list[int] = []
        self._effective = [EffectiveUsers() for _ in metrics]  # by source, and last of all sources

    def add(self, users: Int64Array, observed: Any) -> None:
        """Add what was observed of the next users [B]; `observed.users` are numbers within.

        `observed.sources` are asked for where the panel has sources.
        """
        rows, groups = max(len(self.sources), 1), observed.users
        if self.sources:
            groups = groups * rows + observed.sources
        blocks = [
            metric.sums(observed, groups, len(users) * rows).reshape(len(users), rows, -1)
            for metric in self.metrics
        ]  # [B, sources, P] each
        for metric, effective, block in zip(self.metrics, self._effective, blocks, strict=True):
            counts = metric.count(block)  # [B, sources]
            effective.add(np.column_stack([counts, counts.sum(axis=1)]))
        self._widths = [block.shape[-1] for block in blocks]
        self.resampler.add(users, np.concatenate(blocks, axis=-1).reshape(len(users), -1))

    def _totals(self) -> tuple[Floats, Floats]:
        """Return the sums [sources, P] and those of the resamples [R, sources, P]."""
        rows = max(len(self.sources), 1)
        totals = self.resampler.totals.reshape(rows, -1)
        return totals, self.resampler.resampled.reshape(len(self.resampler.resampled), rows, -1)

    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """Return metric -> source -> estimate."""
        totals, resampled = self._totals()
        out: dict[str, dict[str, Estimate]] = {}
        start = 0
        for metric, width, effective in zip(
            self.metrics, self._widths, self._effective, strict=True
        ):
            here = slice(start, start + width)
            start += width
            wide = effective.widening.tolist()
            columns = {
                ALL: (totals[:, here].sum(axis=0), resampled[:, :, here].sum(axis=1), wide[-1])
            }
            for number, name in enumerate(self.sources):
                columns[name] = totals[number, here], resampled[:, number, here], wide[number]
            out[metric.name] = {
                name: estimate(metric, total, replicates, self.resampler.sample, widening)
                for name, (total, replicates, widening) in columns.items()
                if name == ALL or metric.count(total) > 0
            }
        return out

    def curves(self) -> dict[str, list[dict[str, Any]]]:
        """Return the reliability curves, if the last metric is a calibration error."""
        sums = self._totals()[0][:, -self._widths[-1] :]
        curves = {ALL: reliability_curve(sums.sum(axis=0))}
        return curves | {
            name: reliability_curve(sums[number]) for number, name in enumerate(self.sources)
        }
