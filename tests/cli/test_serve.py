"""`slatewise serve`: what it refuses before it starts, and what it starts with."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.errors import SlatewiseError

TOKENS = "read:0123456789abcdef,admin:fedcba9876543210"


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """Note what would be supervised."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.delenv("SLATEWISE_TOKENS", raising=False)
    monkeypatch.setattr(
        "slatewise.service.http.supervisor.supervise", lambda *what: found.append(what)
    )
    yield found
    for what in found:
        what[3].close()


def serve(*options: object) -> str:
    result = CliRunner().invoke(app, ["serve", *map(str, options)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_without_tokens_it_does_not_start(tmp_path: Path, started: list[Any]) -> None:
    with pytest.raises(SlatewiseError, match="no tokens") as refusal:
        serve(tmp_path / "service")
    assert "SLATEWISE_TOKENS" in refusal.value.remedy
    assert "--open" in refusal.value.remedy
    assert not started
    assert not (tmp_path / "service").exists()


def test_open_is_for_this_machine_alone(tmp_path: Path, started: list[Any]) -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1"):
        with pytest.raises(SlatewiseError, match="accepts requests from every machine"):
            serve(tmp_path, "--open", "--host", host)
    assert not started
    serve(tmp_path, "--open", "--port", 0)
    assert started[0][2] is None


def test_tokens_and_open_contradict_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLATEWISE_TOKENS", TOKENS)
    with pytest.raises(SlatewiseError, match="contradict"):
        serve(tmp_path, "--open")


def test_tokens_come_from_the_environment_or_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Any]
) -> None:
    file = tmp_path / "tokens"
    file.write_text("write:0123456789abcdef\n")
    file.chmod(0o644)
    with pytest.raises(SlatewiseError, match="may be read by others"):
        serve(tmp_path / "service", "--tokens", file)
    file.chmod(0o600)
    said = serve(tmp_path / "service", "--tokens", file, "--port", 0)
    monkeypatch.setenv("SLATEWISE_TOKENS", TOKENS)
    said += serve(tmp_path / "service", "--port", 0)
    assert [len(what[2].roles) for what in started] == [1, 2]
    assert "0123456789abcdef" not in said


def test_the_command_line_goes_before_the_file(tmp_path: Path, started: list[Any]) -> None:
    config = tmp_path / "service.toml"
    config.write_text('salt = "x"\n[retraining]\nat = "02:00"\nkeep = 3\n')
    url = f"sqlite:///{tmp_path}/other.sqlite"
    options = ["--config", config, "--retrain-at", "03:30", "--store", url, "--workers", 3]
    serve(tmp_path / "service", "--open", "--port", 0, *options)
    directory, settings, _, _, workers, reread = started[0]
    assert (directory, workers) == (tmp_path / "service", 3)
    assert (settings.retraining.at, settings.retraining.keep) == ("03:30", 3)
    assert (settings.salt, settings.store.url) == ("x", url)
    assert (tmp_path / "other.sqlite").exists()
    config.write_text('salt = "y"\n')
    again, tokens = reread()
    assert (again.salt, again.retraining.at, again.store.url, tokens) == ("y", "03:30", url, None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--retrain-at", "25:00"], "time of day"),
        (["--store", "mysql://shop:swordfish@db/x"], "neither of SQLite nor of PostgreSQL"),
        (["--config", "/no/such/file"], "cannot be read"),
        (["--run", "/no/such/run"], "no/such/run"),
        (["--host", "192.0.2.1", "--port", "1"], "accepts requests from every machine"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    tmp_path: Path, options: list[str], problem: str, started: list[Any]
) -> None:
    with pytest.raises(SlatewiseError, match=problem) as refusal:
        serve(tmp_path / "service", "--open", *options)
    assert refusal.value.remedy
    assert "swordfish" not in str(refusal.value)
    assert not started


def test_a_taken_port_is_refused_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SlatewiseError, match=f"127.0.0.1:{port} cannot be listened on"):
            serve(tmp_path, "--open", "--port", port)


def test_where_it_serves_is_said(tmp_path: Path, started: list[Any]) -> None:
    said = serve(tmp_path / "service", "--open", "--port", 0)
    assert f"http://127.0.0.1:{started[0][3].getsockname()[1]}" in said
