"""Hosts that share a PostgreSQL act as one: two directories, one store."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from slatewise.cli import app
from slatewise.errors import SlatewiseError
from slatewise.service.http.limits import RateLimit
from slatewise.service.http.shared_limits import SharedLimit
from slatewise.service.serving import Request, Service, replay
from slatewise.service.serving.models import Models
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.settings.changed_arms import changed_arms_text
from slatewise.service.store import Store
from slatewise.service.store.engine import Database
from slatewise.service.store.schema import MODEL_FILES
from slatewise.training import runs
from tests.service.conftest import new_schema
from tests.service.postgres import Postgres
from tests.service.serving.world import TERMS, a_model, a_service, made, put, visit

pytestmark = pytest.mark.xdist_group("postgresql")

Hosts = tuple[Service, Service]


@pytest.fixture
def config(postgres: Postgres) -> ServiceConfig:
    store = {"url": new_schema(postgres)}
    return ServiceConfig.build({"store": store, "cache_seconds": 0.0}, "a test")


@pytest.fixture
def hosts(tmp_path: Path, config: ServiceConfig) -> Iterator[Hosts]:
    """Two hosts; the first began with a model that counts popularity, the second came later."""
    first = a_service(tmp_path / "first", a_model(TERMS), config)
    visit(first, "ann", ["a00", "a01", "a02"], ["a01"])
    put(first, "new-1", "new-2")
    first.refresh()
    second = a_service(tmp_path / "second", None, config)
    yield first, second
    first.store.close()
    second.store.close()


def promoted(service: Service, seed: int, folder: Path) -> str:
    """Let a host promote another model, as a night does."""
    models = Models.of(service.directory, "main", service.store)
    runs.save(a_model(TERMS, seed=seed), folder)
    version = models.add(folder, lambda least: service.store.take_version("main", least))
    models.promote(version, "a test")
    return version


def slate(service: Service, user: str = "ann") -> tuple[str, ...]:
    record, _, _ = service.recommend(Request(user, k=10, seed=3))
    return record.items


def serving(service: Service) -> tuple[str, str]:
    return service.arms[0].version, service.arms[0].digest


def test_a_new_host_serves_what_the_others_serve_and_the_same_slates(hosts: Hosts) -> None:
    first, second = hosts
    assert serving(first)[0] == "1"
    assert serving(second) == serving(first)
    assert slate(second) == slate(first)


def test_a_promoted_version_serves_on_all_hosts(hosts: Hosts, tmp_path: Path) -> None:
    first, second = hosts
    for number, (one, other) in enumerate(((first, second), (second, first)), start=2):
        version = promoted(one, number, tmp_path / f"run-{number}")
        assert version == str(number)
        visit(one, "bo", ["a05", "a06"], ["a06"])
        put(one, f"late-{number}")
        other.refresh()  # this one begins, though the other promoted it
        assert serving(other)[0] == version
        visit(one, "bo", ["a07", "a08"], ["a08"])
        one.refresh()
        other.refresh()
        assert serving(one) == serving(other)
        assert slate(one) == slate(other)
        assert slate(one, "bo") == slate(other, "bo")


def test_a_slate_of_one_host_is_made_again_on_another(
    hosts: Hosts, tmp_path: Path, config: ServiceConfig
) -> None:
    first, _ = hosts
    promoted(first, 2, tmp_path / "run-2")
    first.refresh()
    record, made_then, _ = first.recommend(Request("ann", k=10))
    first.store.write([record], [])
    again = replay(made(tmp_path / "third"), config, first.store, record)
    assert again.items == made_then.items
    assert again.relevance.tolist() == made_then.relevance.tolist()


def test_a_rollback_counts_for_all_hosts_and_names_the_store(
    hosts: Hosts, tmp_path: Path, config: ServiceConfig
) -> None:
    first, second = hosts
    promoted(first, 2, tmp_path / "run-2")
    first.refresh()
    second.refresh()
    with pytest.raises(SlatewiseError, match="Hosts share this model"):
        app(["rollback", str(second.directory)], standalone_mode=False)
    assert config.store.url is not None
    told = ["rollback", str(second.directory), "--store", config.store.url]
    app(told, standalone_mode=False)
    first.refresh()
    second.refresh()
    assert serving(first) == serving(second)
    assert serving(first)[0] == "1"


def test_a_version_that_is_damaged_in_the_store_does_not_serve_and_is_named(
    hosts: Hosts, tmp_path: Path, config: ServiceConfig
) -> None:
    first, second = hosts
    promoted(first, 2, tmp_path / "run-2")
    database = Database(config.store_url(tmp_path))
    damage = update(MODEL_FILES).values(content=b"nonsense")
    database.write(lambda connection: connection.execute(damage).close())
    database.close()
    second.refresh()
    assert serving(second)[0] == "1"
    assert any("is damaged in the store" in problem for problem in second.ready())
    assert slate(second)
    first.refresh()
    assert serving(first)[0] == "2"


def test_arms_that_one_host_changes_change_on_all(hosts: Hosts) -> None:
    first, second = hosts
    arms = {"main": ArmConfig(share=0), "new": ArmConfig(strategy="greedy")}
    first.store.put_arms(changed_arms_text(first.given, arms))
    for host in hosts:
        host.refresh()
        assert host.config.shares == {"main": 0, "new": 1}
        record, _, _ = host.recommend(Request("ann", k=3))
        assert record.serving is not None
        assert (record.serving.arm, record.serving.strategy) == ("new", "greedy")
    late = Service.open(second.directory, second.given, second.store)
    assert late.config.shares == {"main": 0, "new": 1}
    second.store.put_arms("")
    for host in hosts:
        host.refresh()
        assert not host.has_changed_arms
        assert host.recommend(Request("ann", k=3))[0].serving.arm == "main"  # type: ignore[union-attr]


def test_a_host_that_was_killed_after_telling_the_others_takes_it_over(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Models, new: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Models, "_keep", killed)
        with pytest.raises(KeyboardInterrupt):
            promoted(hosts[0], 2, tmp_path / "run-2")
    for host in hosts:
        host.refresh()
        assert serving(host)[0] == "2"


def test_hosts_give_up_old_versions_together(hosts: Hosts, tmp_path: Path) -> None:
    first, second = hosts
    for number in (2, 3, 4):
        promoted(first, number, tmp_path / f"run-{number}")
        second.refresh()
    shared = Models.of(first.directory, "main", first.store)
    assert shared.shelf is not None
    shared.prune(keep=2)
    assert shared.shelf.versions() == ["3", "4"]
    promoted(first, 5, tmp_path / "run-5")
    second.refresh()
    assert Models.of(second.directory, "main").versions() == ["3", "4", "5"]
    left = first.store.read(lambda c: c.execute(MODEL_FILES.select()).all())
    used = {d for v in shared.shelf.versions() for d in shared.shelf.files(v).values()}
    assert {row.digest for row in left} == used


def test_a_host_with_a_model_tells_an_empty_store(tmp_path: Path, config: ServiceConfig) -> None:
    alone = a_service(tmp_path / "first", a_model(TERMS))
    alone.store.close()
    moved = Service.open(tmp_path / "first", config, Store.open(config.store_url(tmp_path)))
    other = a_service(tmp_path / "second", None, config)
    assert serving(moved)[0] == "1"
    assert serving(other) == serving(moved)
    moved.store.close()
    other.store.close()


def test_a_large_file_travels_in_parts(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = hosts
    monkeypatch.setattr("slatewise.service.store.versions.PART", 700)
    promoted(first, 2, tmp_path / "run-2")
    second.refresh()
    assert serving(second)[0] == "2"


def test_a_token_has_its_rate_once_over_all_hosts(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limits = [RateLimit.alone(10.0) for _ in hosts]
    shared = [
        SharedLimit(limit, ["token"], host.store, tmp_path / f"{number}.lock")
        for number, (limit, host) in enumerate(zip(limits, hosts, strict=True))
    ]
    for one in (*shared, *shared):  # they know of each other
        one.exchange()
    assert limits[0].take(0, units=15) == 0
    for one in shared:
        one.exchange()
    assert sum(limits[1].take(0) == 0 for _ in range(20)) == 5
    for one in shared:
        one.close()
    assert not hosts[0].store.published_usage()
