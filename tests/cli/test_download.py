import json
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data.public.download import FINN_FILES
from slatewise.data.public.fetcher import FetchError


def test_files_that_are_there_are_kept(tmp_path: Path) -> None:
    (tmp_path / "ind2val.json").write_text(json.dumps({"category": {}}))
    for file in FINN_FILES[1:]:
        np.savez(tmp_path / file.name, **dict.fromkeys(file.arrays, np.zeros(1)))
    result = CliRunner().invoke(app, ["download", "finn", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output.count("there already") == 3
    assert f"slatewise import finn {tmp_path} OUT" in result.output


def test_a_refusal_says_what_to_do_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(app, ["download", "finn", str(tmp_path), "--base-url", url])
    assert isinstance(result.exception, FetchError)
    assert "in a browser" in result.exception.remedy
