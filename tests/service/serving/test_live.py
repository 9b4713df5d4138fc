"""A slate is of one state of things, also when they change while it is made."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slatewise.service.serving import Request, Service
from slatewise.service.serving.live import ServedSlate
from slatewise.service.serving.users import ANONYMOUS
from slatewise.slates import Greedy, Ranker, Users
from slatewise.slates.users import Ints
from tests.service.serving.world import a_model, a_service, put


class Interrupted:
    """Greedy, with something that happens while it ranks."""

    name = "interrupted"

    def __init__(self, happens: Callable[[], None]) -> None:
        self.happens, self.times = happens, 0

    def slates(self, ranker: Ranker, users: Users, k: int) -> Ints:
        slates = Greedy().slates(ranker, users, k)
        self.times += 1
        self.happens()
        return slates


def ask(service: Service, strategy: Interrupted) -> ServedSlate:
    request = Request(k=5)
    return service._live["main"].answer(ANONYMOUS.lookup(()), request, strategy, 1, time=1)


def hide_the_best(service: Service) -> str:
    """Hide what greedy shows first, in the store."""
    best = str(ask(service, Interrupted(lambda: None)).slate.items[0])
    put(service, best, state="hidden")
    return best


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return a_service(tmp_path, a_model())


def follow(service: Service, patience: float = 30.0) -> None:
    """Take changes over in another thread, as its request would."""
    thread = threading.Thread(target=lambda: service._follow_items([]), daemon=True)
    thread.start()
    thread.join(timeout=patience)


def test_a_slate_is_made_again_when_items_change_under_way(service: Service) -> None:
    best = hide_the_best(service)
    strategy = Interrupted(lambda: follow(service))
    answer = ask(service, strategy)
    assert strategy.times == 2
    assert best not in answer.slate.items
    assert answer.catalogue == service.store.item_seq()


def test_a_failure_of_a_slate_that_is_made_again_is_none(service: Service) -> None:
    put(service, "new")

    def fail_once() -> None:
        if strategy.times == 1:
            follow(service)
            raise IndexError

    strategy = Interrupted(fail_once)
    assert len(ask(service, strategy).slate.items) == 5
    assert strategy.times == 2


def test_a_failure_that_is_nobody_elses_is_told(service: Service) -> None:
    def fail() -> None:
        raise IndexError

    with pytest.raises(IndexError):
        ask(service, Interrupted(fail))


def test_changes_without_end_do_not_keep_a_slate_waiting(service: Service) -> None:
    def change() -> None:
        put(service, f"new-{strategy.times}")
        follow(service, 30.0 if strategy.times < 4 else 0.2)

    strategy = Interrupted(change)
    answer = ask(service, strategy)
    assert strategy.times == 4  # the last one with changes kept out
    assert answer.catalogue == service.store.item_seq() - 1
