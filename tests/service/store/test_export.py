import gc
import tracemalloc

from slatewise.service.store import Store
from slatewise.service.store.records import Visit
from tests.service.store.making import SERVED, click, slate
from tests.service.store.test_queries import filled


def test_an_export_has_the_visits_of_the_span_oldest_first(store: Store) -> None:
    model = filled(store, seed=4, batches=30)
    span = [visit for visit in model.visits(store.seq()) if 5 <= visit.slate.time < 15]
    for batch in (1, 4, 1_000):
        batches = list(store.export(5, 15, batch))
        assert [visit for part in batches for visit in part] == span
        assert all(0 < len(part) <= batch for part in batches)
    assert len(span) > 5
    assert list(store.export(100, 200)) == []


def test_slates_of_ours_come_with_what_became_of_them(store: Store) -> None:
    model = filled(store, seed=5, batches=30)
    became = {visit.slate.slate_id: visit for visit in model.visits(store.seq())}
    ours = [s for s in model.log if getattr(s, "serving", None) is not None]
    for batch in (1, 4, 1_000):
        served = [pair for part in store.served(0, 100, batch) for pair in part]
        assert sorted(s.slate_id for s, _ in served) == sorted(s.slate_id for s in ours)
        assert all(visit == became.get(shown.slate_id) for shown, visit in served)
        times = [shown.time for shown, _ in served]
        assert times == sorted(times)
    assert None in [visit for _, visit in served]


def test_what_is_written_meanwhile_is_left_out_and_does_not_wait(store: Store) -> None:
    shown = [slate(f"s{n}", time=n, serving=SERVED) for n in range(6)]
    store.write(shown, [click(s.slate_id, seen=1) for s in shown])
    export, served = store.export(0, 100, 2), store.served(0, 100, 2)
    visits, pairs = next(export), next(served)
    store.write([slate("late", time=5)], [click("late"), click("s4", "a", seen=3)])
    visits += [visit for part in export for visit in part]
    pairs += [pair for part in served for pair in part]
    assert visits == [visit for _, visit in pairs] == [Visit(s, 1, ()) for s in shown]


def test_an_export_holds_no_more_than_a_batch_at_a_time(store: Store) -> None:
    def peak(batch: int) -> int:
        gc.collect()
        tracemalloc.start()
        count = sum(len(part) for part in store.export(0, 10_000, batch))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == 4_000
        return most

    items = tuple(f"item-{n}" for n in range(20))
    shown = [slate(f"s{n}", time=n, items=items) for n in range(4_000)]
    store.write(shown, [click(s.slate_id) for s in shown])
    del shown
    assert peak(100) < peak(4_000) / 5
