"""Typing commands, as a person does."""

from collections.abc import Callable

import pytest

from slatewise.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line and return its exit code, output and errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["slatewise", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, errors = capsys.readouterr()
        return code, out, errors

    return call
