"""The click rate of one policy from the log of another, where both ran side by side.

A logged bandit as Open Bandit has it: the folder (`--log DIR`) has `random` and `bts`, each with
log.parquet, items.parquet and _extra/logged.parquet, which says row by row how likely the policy
was to show the item. The rate of the uniform policy is estimated from the rows that Bernoulli
Thompson sampling logged, by campaign, and stands beside what the uniform policy got. `z` is the
difference in standard errors; where too few rows decide, there is no estimate, and `problem` says
why. Without a folder such logs are simulated, with more clicks than a real site has.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from harness import Row, Target, parse, parser, report
from slatewise.evaluation.off_policy import OffPolicyEstimate, ips, self_normalised
from slatewise.evaluation.rows import Floats, Integers

ROWS = 30_000
FARTHEST = 4.0
"""Standard errors that an estimate may be off by."""
MINIATURE = {"ROWS": 3_000}


@dataclass(frozen=True)
class Logged:
    """Rows that a policy logged: one item each, clicked or not."""

    users: Integers
    campaigns: np.ndarray
    clicked: Floats
    propensities: Floats
    choices: Floats
    """How many items the campaign of each row has."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a log and its propensities."""
        log = pl.read_parquet(folder / "log.parquet")
        logged = pl.read_parquet(folder / "_extra" / "logged.parquet")
        items = pl.read_parquet(folder / "items.parquet")["item_id"].cast(pl.String)
        counts = dict(items.str.split("-").list.first().value_counts().iter_rows())
        return cls(
            log["user_id"].rank("dense").to_numpy().astype(np.int64),
            log["source"].to_numpy(),
            log["click"].is_not_null().to_numpy().astype(np.float64),
            logged["propensity"].to_numpy(),
            np.array([float(counts[one]) for one in log["source"]]),
        )

    @classmethod
    def drawn(cls, seed: int, sharpness: float) -> Self:
        """Simulate a policy that shows item i with a probability ∝ exp(sharpness · quality)."""
        rng, items = np.random.default_rng(seed), 20
        quality = np.random.default_rng(0).normal(size=items)
        shares = np.exp(sharpness * quality) / np.exp(sharpness * quality).sum()
        shown = rng.choice(items, ROWS, p=shares)
        clicked = rng.random(ROWS) < 0.1 / (1 + np.exp(-quality[shown]))
        users, everywhere = rng.integers(300, size=ROWS), np.full(ROWS, "simulated")
        return cls(users, everywhere, clicked * 1.0, shares[shown], np.full(ROWS, float(items)))

    def of(self, campaign: str) -> "Logged":
        """Return the rows of a campaign."""
        rows = self.campaigns == campaign
        columns = (self.users, self.campaigns, self.clicked, self.propensities, self.choices)
        return Logged(*(one[rows] for one in columns))


def main() -> None:
    """Compare estimates with what happened, by campaign and estimator."""
    arguments = parser(__doc__)
    arguments.add_argument("--log", type=Path)
    options = parse(arguments, globals())
    if options.log is None:
        uniform, logging = Logged.drawn(1, 0.0), Logged.drawn(2, 1.0)
    else:
        uniform, logging = (Logged.read(options.log / name) for name in ("random", "bts"))
    rows = [
        _row(campaign, uniform.of(campaign), estimated)
        for campaign in np.unique(logging.campaigns).tolist()
        for estimated in _estimates(logging.of(campaign))
    ]
    report(
        options,
        "The uniform policy, from the log of another",
        {
            "campaign": "{}",
            "estimator": "{}",
            "happened": "{:.4f}",
            "estimate": "{:.4f}",
            "low": "{:.4f}",
            "high": "{:.4f}",
            "z": "{:.1f}",
            "effective_users": "{:.0f}",
            "clipped": "{:.4f}",
            "problem": "{}",
        },
        rows,
        [
            Target(
                f"standard errors, {row['campaign']}, {row['estimator']}", abs(row["z"]), FARTHEST
            )
            for row in rows
            if not row["problem"]
        ],
    )


def _estimates(logged: Logged) -> list[OffPolicyEstimate]:
    weights = 1 / logged.choices / logged.propensities
    return [one(logged.users, logged.clicked, weights) for one in (ips, self_normalised)]


def _row(campaign: str, uniform: Logged, found: OffPolicyEstimate) -> Row:
    happened = float(uniform.clicked.mean())
    surplus = np.bincount(uniform.users, uniform.clicked - happened)  # of each user
    own = np.sqrt((surplus**2).sum()) / len(uniform.users)
    spread = np.hypot(own, (found.rate.high - found.rate.low) / 2 / 1.96)
    return {
        "campaign": campaign,
        "estimator": found.estimator,
        "happened": happened,
        "estimate": found.rate.value,
        "low": found.rate.low,
        "high": found.rate.high,
        "z": float((found.rate.value - happened) / spread),
        "effective_users": found.effective_users,
        "clipped": found.clipped,
        "problem": found.problem or "",
    }


if __name__ == "__main__":
    main()
