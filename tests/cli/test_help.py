"""The help texts: readable in a narrow terminal, with the names that other texts use."""

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from slatewise.cli import COMMANDS, app

NAMES = [name for commands in COMMANDS.values() for name in commands]


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_fits_80_columns_names_arguments_and_gives_switches_no_type(name: str) -> None:
    command = [name, "--help"] if name else ["--help"]
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, command)
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.output.splitlines())
    assert "{" not in result.output
    assert "bool" not in result.output.lower()
    assert "%Y" not in result.output
    assert "list[" not in result.output


def test_every_command_is_listed_under_a_heading() -> None:
    assert sorted(get_command(app).commands) == sorted(NAMES)  # type: ignore[attr-defined]
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["--help"]).output
    assert all(f"─ {heading} ─" in shown for heading in COMMANDS)


def test_prepare_says_what_is_missing() -> None:
    result = CliRunner().invoke(app, ["prepare", "log.csv"])
    assert result.exit_code != 0
    assert "OUT is missing" in str(result.exception)
