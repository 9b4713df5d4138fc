"""Results that are kept name the code that they came from, and are valid JSON."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def commits_in(value: Any) -> Iterator[str]:
    """Yield what is called a commit, at any depth."""
    if isinstance(value, dict):
        named = [value.get("commit", []), value.get("commits", [])]
        for one in named:
            yield from [one] if isinstance(one, str) else one
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from commits_in(one)


def git(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *command], cwd=ROOT, input=given, capture_output=True, text=True, check=False
    )


def test_results_are_valid_json() -> None:
    for file in RESULTS:
        json.loads(file.read_text(), parse_constant=refuse)


def test_results_name_commits_of_this_repository() -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("NOT CHECKED: the history of this repository is not here")
    named = {
        (file.name, commit)
        for file in RESULTS
        for commit in commits_in(json.loads(file.read_text()))
    }
    assert len(named) > len(RESULTS) / 2
    asked = sorted({commit for _, commit in named})
    said = git("cat-file", "--batch-check", given="\n".join(f"{one}^{{commit}}" for one in asked))
    known = {
        commit
        for commit, line in zip(asked, said.stdout.splitlines(), strict=True)
        if not line.endswith("missing")
    }
    assert [(file, commit) for file, commit in sorted(named) if commit not in known] == []


def numbers_in(value: Any) -> Iterator[float]:
    """Yield all numbers, at any depth."""
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(one)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize(
    ("page", "begin", "end"),
    [
        ("README.md", "## On real logs", "[all"),
        ("benchmarks/results/real_logs.md", "# Real logs", "## Other results"),
    ],
)
def test_tables_of_real_logs_show_kept_numbers(page: str, begin: str, end: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("−", "-")
    shown = re.findall(r"(?<![\d.])[+-]?\.\d+", text.partition(begin)[2].partition(end)[0])
    file = ROOT / "benchmarks" / "results" / "real_logs.json"
    rounded = {
        f"{sign * number:.{digits}f}"
        for number in numbers_in(json.loads(file.read_text())["rows"])
        for digits in (3, 4)
        for sign in (1, -1)
    }
    assert len(shown) > 10
    assert [one for one in shown if one.lstrip("+").replace(".", "0.", 1) not in rounded] == []
