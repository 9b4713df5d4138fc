"""`claims`: where the paper's claims hold, as maps over the regime of a site.

The paper has one site: ads that live for days, most of them seen a few dozen times, and much
search. Here its four claims are asked of a grid of simulated sites, which differ in how long items
live, how much is searched, and in kind: items on offer, slates a night, or whatever else is set:

- GRU dynamics bring more clicks than linear ones;
- the all-item likelihood brings more clicks than the slate likelihood;
- that turns when search is missing from the log;
- in-slate Thompson sampling brings more clicks than greedy slates, learning from the log of all
  arms or, where `own_days` is set, each from its own slates.

A claim holds in a regime if the 95 % interval of the difference, over worlds and users, is above 0,
and there are worlds enough for a verdict. The turn is asked of the change of a difference: by how
much more all-item leads slate with most search than with least, paired by world. It holds if that
is above 0 and the lead changes sides. Single sites differ by luck, so means over all sites of a
kind, a life or a share of search stand beside the map.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import product
from typing import Annotated, Any, Final, NamedTuple, Self

import numpy as np
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from slatewise.config import Config, SettingError
from slatewise.errors import SlatewiseError
from slatewise.experiments.comparison import compare_arms
from slatewise.experiments.days import run_days
from slatewise.experiments.findings import WORLDS, Finding
from slatewise.experiments.online import Arm, OnlineConfig
from slatewise.experiments.pooling import PooledEstimate
from slatewise.experiments.power import Power, power
from slatewise.experiments.rates import Rates, RateSample, pooled_row
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Summary, Unit, merged
from slatewise.simulation import load_config
from slatewise.simulation.config import Share

SLATE, LINEAR, ALL_ITEM = "slate-gru-hier", "slate-linear-hier", "all-item-gru-hier"
IN_SLATE: Final = "in-slate-thompson"
POOLED, OWN = "pooled", "own"
YES, NO, OPEN = "holds", "the opposite holds", "cannot be told"


class Claim(NamedTuple):
    """Two arms, of which the first should bring more clicks."""

    text: str
    first: Arm
    second: Arm
    part: str = POOLED


CLAIMS: Final = {
    "gru": Claim("GRU dynamics over linear ones", Arm(SLATE), Arm(LINEAR)),
    "all-item": Claim("all-item over slate likelihood", Arm(ALL_ITEM), Arm(SLATE)),
    "in-slate": Claim("in-slate Thompson over greedy", Arm(SLATE, IN_SLATE), Arm(SLATE)),
    "in-slate, own data": Claim(
        "in-slate Thompson over greedy, each on its own data",
        *(Arm(SLATE, IN_SLATE), Arm(SLATE), OWN),
    ),
}
TURN: Final = "turn"


class SiteKind(Config):
    """What else sites differ in, beside lives and search; without a setting, that of the study."""

    offered: PositiveInt = 150
    """Items on offer at any time."""
    slates_a_day: PositiveFloat | None = None
    """Mean number of slates that a person meets in a day."""
    simulation: dict[str, Any] = Field(default={})
    """Further settings of the simulator, over those of the study."""


KindName = Annotated[str, Field(pattern=r"^[\w.+-]+$")]
"""What may stand in the name of a unit."""


class ClaimsConfig(OnlineConfig):
    """Settings of the study of claims."""

    lives: tuple[NonNegativeFloat, ...] = Field(default=(0.0, 48.0, 120.0), min_length=1)
    """Hours that items live; 0 for ever."""
    shares: tuple[Share, ...] = Field(default=(0.0, 0.5, 0.8), min_length=1)
    """Shares of search."""
    kinds: dict[KindName, SiteKind] = Field(default={"site": SiteKind()}, min_length=1)
    """Kinds of sites by name: each has all lives and shares of search."""
    days: PositiveInt = 5
    """Days that all arms learn from all."""
    own_days: NonNegativeInt = 0
    """Days that greedy and in-slate Thompson learn from slates of their own; 0 leaves it out."""

    @model_validator(mode="after")
    def _sites(self) -> Self:
        # Now, and not after an hour in the middle of the study.
        for regime in regimes(self):
            try:
                regime.of(self).simulated(self.seeds[0])
            except SlatewiseError as error:
                raise SettingError.of(error, f"{regime.name}: ") from error
        return self


_FOR_EVER: Final = {"hours": 0.0, "half_life": 0.0, "burst": 0.0, "new_groups": 0.0}


class Regime(NamedTuple):
    """A site of the grid."""

    kind: str
    life: float
    search: float

    @property
    def name(self) -> str:
        """What its unit is called."""
        return f"{self.kind}-life-{self.life:g}-search-{self.search:g}"

    def of(self, config: ClaimsConfig) -> ClaimsConfig:
        """Return the settings of the site."""
        kind = config.kinds[self.kind]
        given = merged(config.simulation, kind.simulation)
        given["search_share"] = self.search
        life = {"hours": self.life} if self.life else _FOR_EVER
        given["life"] = merged(given.get("life", {}), life)
        given["policy"] = "front-page" if self.life else "random"
        days = given.get("days", load_config(config.preset).days)
        # Items are published all along: those on offer are a share of all that there will be.
        turnover = (24 * days + self.life) / self.life if self.life else 1.0
        items = round(kind.offered * turnover)
        given["catalogue"] = merged(given.get("catalogue", {}), {"items": items})
        visits = kind.slates_a_day or config.slates_a_day
        return config.model_copy(update={"simulation": given, "slates_a_day": visits})


def regimes(config: ClaimsConfig) -> list[Regime]:
    """Return all sites of the grid."""
    return [Regime(*cell) for cell in product(config.kinds, config.lives, config.shares)]


def _parts(config: ClaimsConfig) -> list[str]:
    """Return which units a site has: one for all arms, and one for each that learns alone."""
    own = [f"{OWN}-{strategy}" for strategy in ("greedy", IN_SLATE)] if config.own_days else []
    return [POOLED, *own]


def units(config: ClaimsConfig) -> list[Unit]:
    """One unit for each seed, site and part."""
    return [
        Unit(seed, f"{regime.name}-{part}")
        for seed in config.seeds
        for regime in regimes(config)
        for part in _parts(config)
    ]


def run(config: ClaimsConfig, unit: Unit, bench: Bench) -> Tables:
    """Run the arms of one site."""
    regime, part = next(
        (regime, part)
        for regime in regimes(config)
        for part in _parts(config)
        if unit.part == f"{regime.name}-{part}"
    )
    site = regime.of(config)
    if part == POOLED:
        arms = [Arm(SLATE), Arm(LINEAR), Arm(ALL_ITEM), Arm(SLATE, IN_SLATE)]
        tables = run_days(site, unit.seed, arms, config.days, bench)
    else:
        arm = Arm(SLATE, part.removeprefix(f"{OWN}-"))
        tables = run_days(site, unit.seed, [arm], config.own_days, bench)
    about = regime._asdict() | {"part": part.partition("-")[0]}
    return {name: [about | row for row in tables[name]] for name in ("shown", "nights")}


def summarise(config: ClaimsConfig, tables: Tables) -> Summary:
    """Compare the arms of each claim in each regime, and say where it holds."""
    compared = [*_compared(config, tables)]
    rows = [one.row for one in compared] + [*_turns(compared)]
    headline = [
        {
            "claim": _text(claim),
            "regimes": len(own),
            **{answer: sum(row["holds"] == answer for row in own) for answer in (YES, NO, OPEN)},
        }
        for claim, own in _by_claim(rows).items()
    ]
    shown: Tables = {"map": rows, "means": [*_means(compared)], "headline": headline}
    return Summary(shown, list(_findings(rows)), headline="headline")


class _Compared(NamedTuple):
    """A claim in a regime, with what its difference was in each world."""

    row: Row
    gap: RateSample


def _compared(config: ClaimsConfig, tables: Tables) -> Iterator[_Compared]:
    """Yield the difference of each claim in each regime."""
    for regime in regimes(config):
        shown, nights = (_of(tables[name], regime._asdict()) for name in ("shown", "nights"))
        for name, claim in CLAIMS.items():
            arms = {claim.first.name, claim.second.name}
            own = [row for row in _of(shown, {"part": claim.part}) if row["arm"] in arms]
            if {row["arm"] for row in own} != arms:
                continue
            days = config.days if claim.part == POOLED else config.own_days
            rates = Rates(own, {"all": range(days)}, config.resamples)
            found, seen = compare_arms(rates, claim.first.name, claim.second.name, "all")
            views = [row["views_per_item"] for row in _of(nights, {"part": claim.part})]
            gap = rates.rate(claim.first.name, "all") - rates.rate(claim.second.name, "all")
            row = _row(name, regime, float(np.mean(views)), found, seen)
            yield _Compared(_site(config, regime) | row, gap)


def _site(config: ClaimsConfig, regime: Regime) -> Row:
    """Return how large a site is."""
    nightly = config.people() * regime.of(config).slates_a_day
    return {"offered": config.kinds[regime.kind].offered, "slates_a_night": round(nightly)}


def _of(rows: list[Row], fields: Mapping[str, Any]) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def _row(claim: str, regime: Regime, views: float, found: PooledEstimate, seen: Power) -> Row:
    return {
        "claim": claim,
        **regime._asdict(),
        "views_per_item": views,
        **pooled_row(found),
        **asdict(seen),
        "holds": _answer(found),
    }


def _answer(found: PooledEstimate) -> str:
    """Return the verdict of an interval; a few worlds are not enough for one."""
    if len(found.by_seed) < WORLDS or found.low <= 0 <= found.high:
        return OPEN
    return YES if found.low > 0 else NO


def _turns(compared: list[_Compared]) -> Iterator[Row]:
    """Yield whether all-item over slate turns between most search and least, of sites alike."""
    sites: dict[tuple[str, float], list[_Compared]] = {}
    for one in compared:
        if one.row["claim"] == "all-item":
            sites.setdefault((one.row["kind"], one.row["life"]), []).append(one)
    for own in sites.values():
        most, least = (pick(own, key=lambda one: one.row["search"]) for pick in (max, min))
        if most is least or len(most.gap.values) != len(least.gap.values):
            continue
        found = (most.gap - least.gap).pooled()
        change = {**pooled_row(found), **asdict(power(found, math.nan))}
        verdict = _turn(_answer(found), most.row, least.row)
        yield least.row | change | {"claim": TURN, "holds": verdict}


def _turn(change: str, most: Row, least: Row) -> str:
    """Return whether the lead changes sides, from its change and from both ends."""
    if most["holds"] == least["holds"] != OPEN:
        return NO
    if change == YES and not most["value"] > 0 > least["value"]:
        return OPEN
    return change


def _means(compared: list[_Compared]) -> Iterator[Row]:
    """Yield each claim's mean over all sites, and over those of each kind, life and share.

    Worlds are averaged first, so that the interval over worlds is that of the mean.
    """
    for claim in CLAIMS:
        own = [one for one in compared if one.row["claim"] == claim]
        # Of other worlds, a site would change the mean by what they are like.
        if not own or len({len(one.gap.values) for one in own}) > 1:
            continue
        for axis in ("all", *Regime._fields):
            for level in dict.fromkeys(one.row.get(axis, "all") for one in own):
                sites = [one.gap for one in own if one.row.get(axis, "all") == level]
                found = RateSample(
                    np.mean([gap.values for gap in sites], axis=0),
                    np.mean([gap.resamples for gap in sites], axis=0),
                ).pooled()
                head = {"claim": claim, "axis": axis, "level": str(level), "sites": len(sites)}
                yield head | pooled_row(found) | {"holds": _answer(found)}


def _by_claim(rows: list[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["claim"], []).append(row)
    return found


def _text(claim: str) -> str:
    return CLAIMS[claim].text if claim in CLAIMS else "all-item over slate turns without search"


def _findings(rows: list[Row]) -> Iterator[Finding]:
    """Return for each claim the share of the regimes in which it holds."""
    for claim, own in _by_claim(rows).items():
        count = len(own)
        surely, never = (sum(row["holds"] == answer for row in own) for answer in (YES, NO))
        where = [_where(row) for row in own if row["holds"] == YES]
        note = "it holds in no regime that was tried" if not where else f"holds: {'; '.join(where)}"
        yield Finding(
            f"In most regimes: {_text(claim)}?",
            "share of the regimes in which it holds; the interval ends with those that cannot tell",
            sum(row["value"] > 0 for row in own) / count,
            surely / count,
            1 - never / count,
            reference=0.5,
            paper="above",
            note=note,
            worlds=max((len(row["by_seed"]) for row in own), default=0) or None,
        )


def _where(row: Row) -> str:
    life = f"lives of {row['life']:g} h" if row["life"] else "items for ever"
    return f"{row['kind']}, {life}, {row['search']:.0%} search"


def settings_of(about: Mapping[str, Any]) -> tuple[list[str], list[float], list[float]]:
    """Return kinds, lives and shares of the grid from what a result says of its settings."""
    settings = about["settings"]
    return list(settings["kinds"]), settings["lives"], settings["shares"]


STUDY: Final = Study(
    "claims",
    "Where the paper's claims hold: maps over lives, search and kinds of sites",
    ClaimsConfig,
    units,
    run,
    summarise,
)
