import random
import threading
import time
from collections.abc import Sequence

from slatewise.service.store import Store
from slatewise.service.store.records import ItemState, Outcome, SlateRecord, Visit
from tests.service.store.making import SERVED, click, raw, slate

LOCK = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "BEGIN; SELECT * FROM counters FOR UPDATE; LOCK slates IN EXCLUSIVE MODE",
}


def visit_of(shown: SlateRecord, outcomes: Sequence[Outcome]) -> Visit:
    """What became of a slate, by the words of `Outcome`; outcomes in the order of their writing."""
    clicked: list[str] = []
    for outcome in sorted(outcomes, key=lambda outcome: outcome.time):
        clicked += [item for item in outcome.clicked if item not in clicked]
    reached = [len(shown.items) if o.seen is None else o.seen for o in outcomes]
    reached += [shown.items.index(item) + 1 for item in clicked]
    return Visit(shown, max(reached), tuple(clicked))


class Model:
    """A store that is as slow and as plain as can be: everything in a list, with its number."""

    def __init__(self) -> None:
        self.log: list[SlateRecord | Outcome] = []

    def visits(self, until: int) -> list[Visit]:
        known = self.log[:until]
        slates = [record for record in known if isinstance(record, SlateRecord)]
        outcomes = [record for record in known if isinstance(record, Outcome)]
        of = {s.slate_id: [o for o in outcomes if o.slate_id == s.slate_id] for s in slates}
        made = [visit_of(s, of[s.slate_id]) for s in slates if of[s.slate_id]]
        return sorted(made, key=lambda visit: visit.slate.time)

    def history(self, user: str, last: int, until: int) -> tuple[Visit, ...]:
        return tuple(v for v in self.visits(until) if v.slate.user_id == user)[-last:]


def filled(store: Store, seed: int, batches: int) -> Model:
    """Write what random users do, in random order, some of it twice; return the same, plainly."""
    draw, model = random.Random(seed), Model()
    slates: list[SlateRecord] = []
    for batch in range(batches):
        new = [
            slate(
                f"s{batch}-{n}",
                draw.choice(["ann", "bob", None]),
                draw.randrange(20),
                tuple(draw.sample("abcdefgh", draw.randrange(1, 6))),
                draw.choice([SERVED, None]),
            )
            for n in range(draw.randrange(4))
        ]
        slates += new
        about = draw.choices(slates, k=draw.randrange(5)) if slates else []
        outcomes = [
            click(
                s.slate_id,
                *draw.sample(s.items, draw.randrange(2)),
                time=draw.randrange(9),
                seen=draw.choice([None, draw.randrange(len(s.items) + 1)]),
            )
            for s in about
        ]
        model.log += new
        told = {(o.slate_id, o.key) for o in model.log if isinstance(o, Outcome)}
        for outcome in outcomes:
            if (outcome.slate_id, outcome.key) not in told:
                told.add((outcome.slate_id, outcome.key))
                model.log.append(outcome)
        store.write([*draw.choices(slates, k=min(2, len(slates))), *new], outcomes)
        assert store.seq() == len(model.log)
    return model


def test_history_is_what_was_known_at_any_number(store: Store) -> None:
    model = filled(store, seed=1, batches=25)
    for until in range(0, len(model.log) + 1, 3):
        for user, last in (("ann", 3), ("ann", 99), ("bob", 1)):
            history = store.history(user, last, until)
            assert history.visits == model.history(user, last, until)
            # The number that came with it gives the same again, whatever comes later.
            assert history.seq <= until
            assert store.history(user, last, history.seq) == history
    assert store.history("ann", 99).visits == model.history("ann", 99, len(model.log))
    assert len(store.history("ann", 99).visits) > 5


def test_the_newest_slates_of_a_user_that_nobody_answered_come_oldest_first(store: Store) -> None:
    model = filled(store, 5, 40)
    for user in ("ann", "bob"):
        heard = {visit.slate.slate_id for visit in model.visits(len(model.log))}
        slates = [record for record in model.log if isinstance(record, SlateRecord)]
        unheard = [s for s in slates if s.user_id == user and s.slate_id not in heard]
        assert len(unheard) > 3
        expected = sorted(unheard, key=lambda slate: slate.time)  # ties in the order of numbers
        assert store.unanswered(user, 1_000) == expected
        assert store.unanswered(user, 3) == expected[-3:]


def test_answers_come_one_by_one_in_the_order_of_their_numbers(store: Store) -> None:
    model = filled(store, seed=3, batches=15)
    answers, page = [], store.answers_since(0, 4)
    while page:
        answers += page
        page = store.answers_since(page[-1].seq, 4)
    told = [(n + 1, o) for n, o in enumerate(model.log) if isinstance(o, Outcome)]
    assert [(a.seq, a.slate_id, a.clicked) for a in answers] == [
        (number, outcome.slate_id, outcome.clicked) for number, outcome in told
    ]
    assert [a.seq for a in store.answers_since(0, 99, until=told[3][0])] == [n for n, _ in told[:4]]


def test_reading_does_not_wait_for_a_writer(store: Store, store_url: str) -> None:
    store.write([slate("s")], [click("s", "a")])
    store.put_items([("a", "g", ItemState.SHOWN)])
    known = store.history("ann", 5)
    stranger = raw(store_url)
    stranger.execute(LOCK[store_url.partition(":")[0]])
    stranger.execute("UPDATE counters SET value = 99")
    stranger.execute("DELETE FROM slates")
    writer = threading.Thread(target=store.write, args=([slate("t")], [click("t")]))
    writer.start()
    began = time.monotonic()
    assert store.history("ann", 5) == known
    assert store.slate("s") == slate("s")
    assert store.seq() == 2
    assert [len(batch) for batch in store.export(0, 9_999)] == [1]
    assert len(store.items(None, 5)) == 1
    store.ping()
    assert time.monotonic() - began < 5  # A writer would have waited for 10.
    assert writer.is_alive()
    stranger.execute("ROLLBACK")
    stranger.close()
    writer.join(timeout=60)
    assert len(store.history("ann", 5).visits) == 2


def test_nobody_who_follows_the_numbers_misses_what_others_write(
    store: Store, store_url: str
) -> None:
    writers, each = 4, 25
    stores = [Store.open(store_url) for _ in range(writers)]

    def write(who: int) -> None:
        draw = random.Random(who)
        for n in range(each):
            names = [f"{who}-{n}-{i}" for i in range(draw.randrange(1, 6))]
            stores[who].write([slate(name) for name in names], [click(name) for name in names])

    threads = [threading.Thread(target=write, args=(who,)) for who in range(writers)]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    reached, last_round = 0, False
    while True:
        answers = store.answers_since(reached, 7)
        seen += [answer.slate_id for answer in answers]
        if last_round and not answers:
            break
        reached = answers[-1].seq if answers else reached
        last_round = not any(thread.is_alive() for thread in threads)
    for thread, opened in zip(threads, stores, strict=True):
        thread.join()
        opened.close()
    everything = [visit.slate.slate_id for batch in store.export(0, 9_999) for visit in batch]
    assert len(everything) > writers * each
    assert sorted(seen) == sorted(everything)


def test_the_last_time_is_that_of_a_slate_of_ours(store: Store) -> None:
    assert store.last_served() == 0
    store.write([slate("s", time=50, serving=SERVED), slate("t", time=90)], [])
    store.write([slate("u", time=20, serving=SERVED)], [])
    assert store.last_served() == 50
