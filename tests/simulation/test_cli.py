import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slatewise.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["slatewise", "simulate", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_simulate_writes_a_log_and_says_what(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log"
    options = ["--preset", "tiny", "--truth", "outside", "--seed", 3, "--users", 40]
    options += ["--search-share", 0.5, "--policy", "promoted"]
    assert run(monkeypatch, out, *options) == 0
    said = capsys.readouterr().out
    rows = pq.read_metadata(out / "log.parquet").num_rows
    assert f"{rows:,}" in said
    assert pq.read_metadata(out / "truth" / "interactions.parquet").num_rows == rows
    config = json.loads((out / "truth" / "config.json").read_text())["config"]
    chosen = {key: config[key] for key in ("truth", "seed", "users", "search_share", "policy")}
    assert chosen == {
        "truth": "outside",
        "seed": 3,
        "users": 40,
        "search_share": 0.5,
        "policy": "promoted",
    }
    assert run(monkeypatch, out, *options) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(monkeypatch, out, *options, "--overwrite") == 0


def test_a_configuration_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("users = 20\n[catalogue]\nitems = 60\ngroups = 4\n")
    assert run(monkeypatch, tmp_path / "log", "--preset", "tiny", "--config", file) == 0
    assert pq.read_metadata(tmp_path / "log" / "items.parquet").num_rows == 60


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--preset", "huge"], "huge"),
        (["--policy", "best"], "policy"),
        (["--truth", "mine"], "truth"),
        (["--search-share", "1.5"], "search_share"),
        (["--users", "0"], "users"),
        (["--config", "absent.toml"], "absent.toml"),
        (["--config", "broken.toml"], "TOML"),
        (["--config", "unknown.toml"], "colour"),
        (["--config", "groups.toml"], "groups"),
        (["--config", "slate.toml"], "slate"),
    ],
)
def test_bad_input_ends_in_a_sentence_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.toml").write_text("users = = 3")
    Path("unknown.toml").write_text("colour = 'red'")
    Path("groups.toml").write_text("[catalogue]\nitems = 30\ngroups = 40")
    Path("slate.toml").write_text("max_slate = 201")
    assert run(monkeypatch, "out", "--preset", "tiny", *options) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert "error" in said.lower()
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*out*"))


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    command = "from slatewise.cli import main; main()"
    arguments = ["simulate", str(tmp_path / "out"), "--users", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".out.*/log.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == []
