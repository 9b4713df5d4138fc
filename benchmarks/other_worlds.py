"""Made-up logs that share nothing with slatewise's simulator: to check what was chosen elsewhere.

No world has a latent space, a softmax or a popularity that the model could find again: people here
take the first thing that is good enough, weigh hotels by rules, click on and on, or follow habits.
Each world is a function from a random generator to its rows and its items.

Shapes: I items, G groups, n items of a slate.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from numpy.random import Generator

Rows = Iterator[tuple[int, float, list[int], list[int], str]]
"""User, hours since the beginning, slate, what was clicked of it in order, and source."""
Floats = npt.NDArray[np.float64]
START = 1_700_000_000
"""Seconds since 1970 at which every log begins."""


def write(name: str, folder: Path, *, seed: int, users: int | None = None) -> None:
    """Write a world's log.parquet and items.parquet, with as many users as it has by itself."""
    make, usual = WORLDS[name]
    rows, items = make(np.random.default_rng([seed, usual]), users or usual)
    log = pl.DataFrame(
        list(rows),
        schema={
            "user_id": pl.Int64,
            "time": pl.Float64,
            "slate": pl.List(pl.Int64),
            "click": pl.List(pl.Int64),
            "source": pl.String,
        },
        orient="row",
    )
    log = log.with_columns(time=pl.from_epoch((START + 3_600 * pl.col("time")).cast(pl.Int64)))
    if log["click"].list.len().max() == 1:
        log = log.with_columns(click=pl.col("click").list.first())
    folder.mkdir(parents=True, exist_ok=True)
    log.sort("user_id", "time").write_parquet(folder / "log.parquet")
    pl.DataFrame(items).write_parquet(folder / "items.parquet")


def portal(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Front pages of a day's articles: people read on until one is good enough, and click one."""
    days, per_day, sections = 7, 60, 10
    published = np.sort(rng.uniform(-24, 24 * days, per_day * (days + 1)))
    section = rng.integers(sections, size=len(published))
    quality = rng.beta(1.5, 4, len(published))

    def rows() -> Rows:
        for user in range(users):
            loved = rng.choice(sections, rng.integers(1, 4), replace=False)
            patience, read = rng.uniform(0.7, 0.95), set[int]()
            for time in np.sort(rng.uniform(0, 24 * days, rng.integers(5, 16))):
                fresh = np.flatnonzero((published < time) & (published > time - 24))
                age = time - published[fresh]
                rank = quality[fresh] * np.exp(-age / 12) + rng.normal(0, 0.05, len(fresh))
                slate = fresh[np.argsort(-rank)[:10]]
                appeal = quality[slate] * np.where(np.isin(section[slate], loved), 2.5, 0.6)
                appeal[[item in read for item in slate.tolist()]] = 0
                stops = np.flatnonzero(rng.random(len(slate)) > patience)
                seen = int(stops[0]) + 1 if len(stops) else len(slate)
                good = np.flatnonzero(appeal[:seen] > rng.random())
                click = int(slate[good[0] if len(good) else np.argmax(appeal)])
                read.add(click)
                yield user, float(time), slate.tolist(), [click], "home"

    when = pl.Series(START + 3_600 * published).cast(pl.Int64)
    date = pl.select(pl.from_epoch(when)).to_series()
    return rows(), {"item_id": np.arange(len(published)), "group": section, "published": date}


def clips(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """One clip at a time, for people who are bored or not and like some makers."""
    items, makers = 900, 90
    maker, quality = rng.integers(makers, size=items), rng.beta(2, 4, items)
    fame = 1 / (1 + rng.permutation(items)) ** 0.6
    by_maker = [np.flatnonzero(maker == one) for one in range(makers)]

    def rows() -> Rows:
        for user in range(users):
            liked = rng.choice([one for one in range(makers) if len(by_maker[one])], 8, False)
            keen, bored, time = rng.beta(2, 2), False, rng.uniform(0, 24 * 14)
            met = dict[int, int]()
            for _ in range(rng.integers(30, 90)):
                own = rng.random() < 0.5
                item = rng.choice(by_maker[rng.choice(liked)]) if own else None
                item = int(rng.choice(items, p=fame / fame.sum()) if item is None else item)
                chance = keen * quality[item] * (2.2 if maker[item] in liked else 0.8)
                chance *= (0.4 if bored else 1.2) * 0.5 ** met.get(item, 0)
                clicked = rng.random() < chance
                met[item] = met.get(item, 0) + 1
                bored = rng.random() < (0.8 if bored else 0.1)
                time += rng.exponential(0.02) if rng.random() < 0.95 else rng.exponential(24)
                yield user, time, [item], [item] * int(clicked), "feed"

    return rows(), {"item_id": np.arange(items), "group": maker}


def hotels(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Long lists of hotels: a budget and least stars rule most out, the best of the rest wins."""
    towns, each = 40, 40
    town, stars = np.repeat(np.arange(towns), each), rng.integers(1, 6, towns * each)
    price = 25 * stars * rng.lognormal(0, 0.4, towns * each)
    rating = np.clip(rng.normal(6 + 0.5 * stars, 0.8), 1, 10)
    crowd = rng.dirichlet(np.full(towns, 0.7))

    def rows() -> Rows:
        for user in range(users):
            budget, least = rng.lognormal(4.0, 0.5), rng.integers(1, 5)
            thrift, time = rng.uniform(0, 0.04), rng.uniform(0, 24 * 30)
            place = rng.choice(towns, p=crowd)
            for _ in range(rng.integers(1, 6)):
                listed = np.flatnonzero(town == place)
                order = np.argsort(-(rating[listed] + rng.normal(0, 1, len(listed))))
                seen = min(30, 8 + rng.geometric(0.07))
                slate = listed[order[:seen]]
                fits = (price[slate] <= budget) & (stars[slate] >= least)
                worth = rating[slate] - thrift * price[slate] - 0.05 * np.arange(len(slate))
                worth = np.where(fits, worth + rng.normal(0, 0.4, len(slate)), -np.inf)
                click = [int(slate[np.argmax(worth)])] if fits.any() else []
                yield user, time, slate.tolist(), click, "search"
                if click or rng.random() < 0.3:
                    place = rng.choice(towns, p=crowd)
                budget, time = budget * rng.uniform(1, 1.3), time + rng.exponential(12)

    prices: Any = {"price": price.round(2), "stars": stars, "rating": rating.round(1)}
    return rows(), {"item_id": np.arange(len(town)), "group": town} | prices


def gallery(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Pictures without groups: six kinds of people, each of whom likes a picture or does not."""
    items, kinds = 500, 6
    affinity = rng.beta(0.4, 2.0, (kinds, items))
    crowd = rng.dirichlet(np.full(kinds, 2.0))

    def rows() -> Rows:
        for user in range(users):
            kind, time = rng.choice(kinds, p=crowd), rng.uniform(0, 24 * 20)
            for _ in range(rng.integers(15, 31)):
                slate = rng.choice(items, rng.integers(4, 9), replace=False)
                likes = slate[rng.random(len(slate)) < affinity[kind, slate]]
                best = likes[np.argsort(-affinity[kind, likes])][:1]
                yield user, time, slate.tolist(), best.tolist(), "wall"
                time += rng.exponential(6)

    return rows(), {"item_id": np.arange(items)}


def songs(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Clicks alone: people replay what they played, follow chains of songs, or stay with a band."""
    items, bands = 1_200, 80
    band, after = rng.integers(bands, size=items), rng.integers(items, size=(items, 5))
    fame = 1 / (1 + rng.permutation(items)) ** 0.8
    by_band = [np.flatnonzero(band == one) for one in range(bands)]

    def rows() -> Rows:
        for user in range(users):
            played, time = [int(rng.choice(items, p=fame / fame.sum()))], rng.uniform(0, 24 * 40)
            habit = rng.beta(2, 4)
            for _ in range(rng.integers(20, 50)):
                way = rng.random()
                if way < habit:
                    item = played[-1 - min(len(played) - 1, int(rng.exponential(8)))]
                elif way < habit + 0.4 * (1 - habit):
                    item = int(rng.choice(after[played[-1]]))
                elif way < habit + 0.8 * (1 - habit):
                    item = int(rng.choice(by_band[band[played[-1]]]))
                else:
                    item = int(rng.choice(items, p=fame / fame.sum()))
                played.append(item)
                time += 0.06 if rng.random() < 0.9 else rng.exponential(20)
                yield user, time, [item], [item], "player"

    return rows(), {"item_id": np.arange(items), "group": band}


def answers(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Results of web searches, clicked from the top until something is enough."""
    topics, pages = 120, 3_000
    topic, trust = rng.integers(topics, size=pages), rng.beta(2, 3, pages)
    crowd = rng.dirichlet(np.full(topics, 0.5))
    by_topic = [np.flatnonzero(topic == one) for one in range(topics)]
    usable = np.array([len(one) >= 10 for one in by_topic])
    crowd = crowd * usable / (crowd * usable).sum()

    def rows() -> Rows:
        for user in range(users):
            own = rng.choice(topics, 4, p=crowd, replace=False)
            time, done = rng.uniform(0, 24 * 20), set[int]()
            for _ in range(rng.integers(8, 22)):
                about = rng.choice(own) if rng.random() < 0.6 else rng.choice(topics, p=crowd)
                found = by_topic[about]
                order = np.argsort(-(trust[found] + rng.normal(0, 0.25, len(found))))
                slate, clicks = found[order[:10]].tolist(), list[int]()
                for item in slate:
                    again = item in done
                    if rng.random() < (0.75 if again else 0.45 * trust[item] + 0.05):
                        clicks.append(item)
                        done.add(item)
                        if rng.random() < 0.65:
                            break
                    elif rng.random() < 0.1:
                        break
                yield user, time, slate, clicks, "search"
                time += rng.exponential(20)

    return rows(), {"item_id": np.arange(pages), "group": topic}


def bazaar(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """Classified ads that come and go: a need, a price, and a first offer that is cheap enough."""
    items, kinds, days = 2_500, 25, 30
    kind, born = rng.integers(kinds, size=items), rng.uniform(-240, 24 * days, items)
    gone = born + rng.exponential(24 * 8, items) + 12
    price, value = rng.lognormal(0, 0.5, items), rng.lognormal(0, 0.3, items)

    def rows() -> Rows:
        for user in range(users):
            need, pay = rng.integers(kinds), rng.lognormal(0.2, 0.4)
            time = rng.uniform(0, 24 * (days - 8))
            for _ in range(rng.integers(6, 17)):
                there = np.flatnonzero((born <= time) & (gone > time))
                searched = rng.random() < 0.6
                there = there[kind[there] == need] if searched else there
                newest = there[np.argsort(-born[there])][: 60 if searched else 120]
                length = min(len(newest), int(rng.integers(5, 16)))
                time += rng.exponential(8)
                if length < 2:
                    continue
                slate = rng.choice(newest, length, replace=False)
                deal = value[slate] * pay / price[slate] * np.where(kind[slate] == need, 1, 0.25)
                good = np.flatnonzero(deal * rng.lognormal(0, 0.3, length) > 1.8)
                click = [int(slate[good[0]])] if len(good) else []
                if click and rng.random() < 0.3:
                    need, pay = rng.integers(kinds), rng.lognormal(0.2, 0.4)
                yield user, time, slate.tolist(), click, "search" if searched else "feed"

    return rows(), {"item_id": np.arange(items), "group": kind, "price": price.round(2)}


def adverts(rng: Generator, users: int) -> tuple[Rows, dict[str, Any]]:
    """One advertisement at a time, of which one in fifty is clicked."""
    items, hours = 60, 24 * 10
    rate, brand = 0.02 * rng.lognormal(0, 0.6, items), rng.integers(12, size=items)

    def rows() -> Rows:
        for user in range(users):
            mood, dear = rng.lognormal(-0.5, 1.0), rng.integers(12)
            seen = np.zeros(items)
            for time in np.sort(rng.uniform(0, hours, rng.integers(5, 16))):
                item = int(rng.integers(items))
                chance = rate[item] * mood * (3 if brand[item] == dear else 1) / (1 + seen[item])
                seen[item] += 1
                yield user, float(time), [item], [item] * int(rng.random() < chance), "banner"

    return rows(), {"item_id": np.arange(items), "group": brand}


WORLDS: dict[str, tuple[Callable[[Generator, int], tuple[Rows, dict[str, Any]]], int]] = {
    "portal": (portal, 2_500),
    "clips": (clips, 600),
    "hotels": (hotels, 5_000),
    "gallery": (gallery, 1_200),
    "songs": (songs, 1_500),
    "answers": (answers, 2_000),
    "bazaar": (bazaar, 4_000),
    "adverts": (adverts, 5_000),
}
"""Worlds with their numbers of users."""
