"""The pages keep their promises: what they show runs, what they list exists, links resolve.

In README.md and docs/*.md, top to bottom, in one empty directory a page:

- a fence that names a file (```csv log.csv) is written to that file;
- a ```python fence is run, in one namespace a page;
- in a ```sh fence, every `slatewise` command is run, and `make demo` as the Makefile has it;
- the lines of a ```text fence right after it must be in its output, in that order, apart from
  spaces; a line of three dots stands for lines left out.

Other fences (```console, ```toml without a name) only show.
"""

import importlib
import re
import shlex
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data.dataset import ARRAYS
from slatewise.data.formats import ItemsFormat, LogFormat
from slatewise.data.reductions import PRESETS, PrepareConfig
from slatewise.experiments.study import STUDIES
from slatewise.selection import SELECTION
from slatewise.training import runs

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE, STUDY = "{settings} slatewise.service.settings", "{settings} slatewise.experiments"
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


class Fence(NamedTuple):
    """A fenced block of a page."""

    kind: str
    file: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def fences(page: Path) -> list[Fence]:
    text = page.read_text(encoding="utf-8")
    return [
        Fence(found[1], found[2] or "", found[3], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    output = ""
    for fence in fences(page):
        place = f"{name_of(page)}, line {fence.line}"
        if fence.file:
            Path(fence.file).write_text(fence.text, encoding="utf-8")
        elif fence.kind == "python":
            # Empty lines first, so that a failure names the line of the page.
            code = compile("\n" * fence.line + fence.text, str(page), "exec")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(code, namespace)
        elif fence.kind == "sh":
            output = "".join(run(command, place) for command in commands(fence.text))
        elif fence.kind == "text" and output:
            compare(fence.text, output, place, exactly="simulate" not in output.lower())
        output = output if fence.kind == "sh" else ""


def commands(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words == ["make", "demo"]:
            yield from demo()
        elif words[:1] == ["slatewise"]:
            yield words[1:]


def demo() -> Iterator[list[str]]:
    """Yield the commands of `make demo` as make would run them, on a smaller world."""
    dry = subprocess.run(
        ["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for line in dry.stdout.splitlines():
        if "/slatewise " in line:
            yield quick(shlex.split(line)[1:])


def quick(command: list[str]) -> list[str]:
    """Return the command for the tiny world; a study trains two models at most, for one epoch.

    That shows whether it runs.
    """
    if command[0] != "experiment":
        return ["tiny" if word == "demo" else word for word in command]
    command, settings = list(command), "/dev/null"
    if "--config" in command:
        option = command.index("--config")
        settings = command[option + 1]
        del command[option : option + 2]
    text, stages = (ROOT / settings).read_text(), ("training", "nightly")
    for stage in stages if command[1].startswith("online") else stages[:1]:
        table = f"[{stage}]\nmax_epochs = 1\n"
        text = re.sub(rf"\[{stage}\]\n(max_epochs = .*\n)?", table, text)
        text += "" if table in text else f"\n{table}"
    if command[1] != "offline" and "--jobs" in command:  # there is one world: nothing to share
        option = command.index("--jobs")
        del command[option : option + 2]
    if command[1] == "offline":
        text = f'variants = ["slate-gru-hier", "slate-linear-hier"]\n{text}'
    text = re.sub(r"(?m)^seeds = .*$", "seeds = [0]", text)
    text = re.sub(r"(?m)^own_days = [1-9].*$", "own_days = 2", text)
    if command[1].startswith("online") and "preset" not in text:
        text = f'preset = "tiny"\nusers = 100\n{text}'
    Path("quick.toml").write_text(text)
    return [*command, "--config", "quick.toml"]


def run(command: list[str], place: str) -> str:
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, f"{place}: {command}\n{result.output}{result.exception or ''}"
    return result.output


def compare(shown: str, output: str, place: str, *, exactly: bool) -> None:
    """Look for the shown lines in the output, one after the other.

    Digits of a simulation may differ: its last bits, and so its clicks, depend on the processor.
    """

    def plain(line: str) -> str:
        line = " ".join(line.split())
        return line if exactly else re.sub(r"\d", "0", line)

    rest = iter([plain(line) for line in output.splitlines()])
    for line in shown.splitlines():
        if plain(line) not in ("", "..."):
            assert plain(line) in rest, f"{place}: not in the output: {line}\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in LINK.findall(page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), f"{name_of(page)} links to {target}"
        if heading:
            assert heading in headings(file), f"{name_of(page)} links to {target}#{heading}"


def headings(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def table(page: str, section: str) -> list[list[str]]:
    """Return the rows of the first table of a section, without code marks."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, found, after = text.partition(f"# {section}\n")
    assert found, f"docs/{page} has no section '{section}'"
    lines = after[after.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines[2:]
    ]


def test_the_presets_are_as_listed() -> None:
    settings = {row[0]: row[1:3] for row in table("log-format.md", "Presets")}
    pairs = {
        field: [getattr(PRESETS[name], field) for name in ("all", "paper")]
        for field in PrepareConfig.model_fields
    }
    assert settings == {
        f"--{field.replace('_', '-')}": ["none" if one is None else str(one) for one in pair]
        for field, pair in pairs.items()
        if pair[0] != pair[1]
    }


def test_every_field_of_a_mapping_is_listed() -> None:
    sections = ("One row per interaction", "One row per impression", "Conventions")
    listed = {row[0] for section in sections for row in table("log-format.md", section)}
    assert listed == set(LogFormat.model_fields)
    assert {row[0] for row in table("log-format.md", "The items table")} == {
        *ItemsFormat.model_fields,
        "anything else",
    }


def test_every_array_is_listed_with_its_type() -> None:
    listed = {row[0]: row[1] for row in table("dataset.md", "Arrays")}
    assert listed == ARRAYS


@pytest.mark.parametrize(
    ("page", "section", "reference"),
    [
        ("log-format.md", "Repaired and counted", "{problems}"),
        ("log-format.md", "Options", "{options} prepare"),
        ("http-api.md", "Requests", "{requests}"),
        ("model.md", "Configuration", "{settings} slatewise.model.config:ModelConfig"),
        ("training.md", "Settings", "{settings} slatewise.training:TrainingConfig"),
        ("training.md", "Options", "{options} train"),
        ("evaluation.md", "The model", "{options} evaluate"),
        ("exploring.md", "Which strategy pays on your site", "{options} advise"),
        ("experiments.md", "Options", "{options} experiment"),
        ("experiments.md", "Settings", f"{STUDY}.study:StudyConfig"),
        (
            "experiments.md",
            "Online studies",
            f"{STUDY}.online:OnlineConfig",
        ),
        ("experiments.md", "Settings", f"{STUDY}.offline:OfflineConfig"),
        ("experiments.md", "Settings", f"{STUDY}.terms:TermsConfig"),
        ("experiments.md", "Settings", f"{STUDY}.exposure:ExposureConfig"),
        ("experiments.md", "Settings", f"{STUDY}.claims:ClaimsConfig"),
        ("experiments.md", "Online studies", f"{STUDY}.online_models:OnlineModelsConfig"),
        ("experiments.md", "Online studies", f"{STUDY}.missing_search:MissingSearchConfig"),
        ("experiments.md", "Online studies", f"{STUDY}.online_strategies:OnlineStrategiesConfig"),
        ("experiments.md", "The report", "{options} report"),
        ("tuning.md", "Settings", f"{STUDY}.tuning.config:TuneConfig"),
        ("service.md", "Bring your log", "{options} load"),
        ("service.md", "Export", "{options} export"),
        ("service.md", "Options", "{options} serve"),
        ("service-settings.md", "The service", f"{SERVICE}:ServiceConfig"),
        ("service-settings.md", "Arms", f"{SERVICE}:ArmConfig"),
        ("service-settings.md", "Limits", f"{SERVICE}:LimitsConfig"),
        ("service-settings.md", "Learning between nights", f"{SERVICE}:LearningConfig"),
        ("service-experiments.md", "Analysis", "{options} analyse"),
        ("retraining.md", "Settings", f"{SERVICE}:RetrainingConfig"),
        ("retraining.md", "Options", "{options} retrain"),
        ("retraining.md", "Going back", "{options} rollback"),
        ("deploying.md", "Retention", f"{SERVICE}:RetentionConfig"),
    ],
)
def test_the_site_lists_settings_and_options_where_they_are_looked_for(
    page: str, section: str, reference: str
) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    after = text.partition(f"# {section}\n")[2]
    assert f"\n```{reference}\n" in re.split(r"^## ", after, flags=re.MULTILINE)[0]


def test_every_study_is_listed() -> None:
    assert [row[0] for row in table("experiments.md", "Studies")] == list(STUDIES)


def test_every_file_of_a_run_is_listed() -> None:
    files = {runs.RUN, runs.POSTERIOR, runs.ITEMS, runs.GROUPS, runs.CHECKPOINT, runs.LOG}
    files |= {runs.TERMS, SELECTION}
    assert {row[0] for row in table("training.md", "The run directory")} == files


def test_what_an_equation_became_exists() -> None:
    names = re.findall(r"`((?:model|training|evaluation)\.[\w.]+)`", equations())
    assert len(names) > 20
    for name in names:
        parts = name.split(".")
        modules = [n for n in range(len(parts), 0, -1) if is_module(".".join(parts[:n]))]
        found = importlib.import_module(f"slatewise.{'.'.join(parts[: modules[0]])}")
        for part in parts[modules[0] :]:
            found = getattr(found, part)


def equations() -> str:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    return text.partition("# Equations and functions\n")[2].partition("\n## ")[0]


def is_module(name: str) -> bool:
    path = ROOT / "src" / "slatewise" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
