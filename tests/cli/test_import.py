from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.errors import InputError

BEHAVIORS = "1\tU1\t11/15/2019 8:55:22 AM\tN9\tN1-0 N2-1\n2\tU2\t11/9/2019 1:05:01 PM\t\tN2-0\n"
NEWS = "N1\tsports\tgolf\tTitle\t\t\t\t\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "mind"
    folder.mkdir()
    (folder / "behaviors.tsv").write_text(BEHAVIORS)
    (folder / "news.tsv").write_text(NEWS)
    return folder


def test_an_import_ends_with_its_account(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app, ["import", "mind", str(source), str(out)], env={"COLUMNS": "120"}
    )
    assert result.exit_code == 0, result.output
    assert pl.read_parquet(out / "log.parquet")["slate"].to_list() == [["N1", "N2"], ["N2"]]
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for start, count in (("interactions read", 2), ("interactions written", 2), ("items", 2)):
        assert any(line.startswith(start) and line.endswith(f" {count}") for line in lines), (
            result.output
        )
    assert "not in the item table" in result.output


def test_an_existing_target_needs_overwrite(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = ["import", "mind", str(source), str(out)]
    refused = CliRunner().invoke(app, command)
    assert "exists already" in str(refused.exception)
    assert CliRunner().invoke(app, [*command, "--overwrite"]).exit_code == 0


def test_a_problem_reaches_the_top_as_an_error_to_print(source: Path, tmp_path: Path) -> None:
    (source / "news.tsv").unlink()
    result = CliRunner().invoke(app, ["import", "mind", str(source), str(tmp_path / "out")])
    assert isinstance(result.exception, InputError)
    unknown = CliRunner().invoke(app, ["import", "netflix", str(source), str(tmp_path / "out")])
    assert unknown.exit_code == 2
