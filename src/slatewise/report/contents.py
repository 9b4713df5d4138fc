"""The studies of a directory, and the section of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slatewise.errors import SlatewiseError
from slatewise.experiments.store import STUDY, StudyResult, read_json
from slatewise.experiments.study import STUDIES
from slatewise.report.section import Section, Table, text_of
from slatewise.report.takeaway import Takeaway
from slatewise.words import counted


@dataclass(frozen=True)
class StudyEntry:
    """A study with its section."""

    result: StudyResult
    section: Section

    @property
    def takeaway(self) -> Takeaway | None:
        """What the first screen says of it."""
        title = str(self.result.about["title"])
        tried = title.partition(": ")[2] or title
        return self.section.takeaway or Takeaway.of_findings(tried, self.result.findings)


@dataclass(frozen=True)
class Report:
    """Everything that goes on the page."""

    studies: Sequence[StudyEntry]
    unfinished: Sequence[str]
    missing: Sequence[str]
    """Studies that could be run and were not."""


def collect(out: str | Path) -> Report:
    """Read the studies in OUT, in the order in which the paper has them."""
    out = Path(out)
    found = [file.parent for file in out.glob(f"*/{STUDY}")]
    if not found:
        raise SlatewiseError(
            f"there is no study in {out}.", f"Run one: slatewise experiment offline {out}"
        )
    order = list(STUDIES)
    found.sort(key=lambda folder: (_position(order, folder.name), folder.name))
    finished = [folder for folder in found if read_json(folder / STUDY).get("finished")]
    studies = [StudyResult.load(folder) for folder in finished]
    return Report(
        [StudyEntry(result, section_of(result)) for result in studies],
        [folder.name for folder in found if folder not in finished],
        [name for name in order if name not in {folder.name for folder in found}],
    )


def _position(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def section_of(result: StudyResult) -> Section:
    """Show a study in its own way, or else by its tables."""
    module = f"slatewise.report.sections.{result.name.replace('-', '_')}"
    if find_spec(module) is not None:
        section: Section = import_module(module).section(result)
        return section
    tables = [Table.of(frame, name, file=name) for name, frame in result.tables.items()]
    return Section(str(result.about["title"]), (), tables)


def agreement(report: Report) -> str:
    """Count how many of the paper's findings were found again."""
    all_ = [finding for shown in report.studies for finding in shown.result.findings]
    held = [finding.agreement for finding in all_ if finding.paper is not None]
    if not held:
        return f"{counted(len(all_), 'comparison')}, not in the paper."
    agrees, disagrees = held.count("agrees"), held.count("disagrees")
    return (
        f"Comparisons that are in the paper too: {len(held)} (agree: {agrees}, "
        f"disagree: {disagrees}, undecided: {len(held) - agrees - disagrees}). "
        f"Not in the paper: {len(all_) - len(held)}. A verdict needs a 95 % interval "
        "that excludes the reference."
    )


def what_was_run(result: StudyResult) -> str:
    """Return a sentence on what was run, and how long it took."""
    about, settings = result.about, result.about["settings"]
    if about["dataset"] is not None:
        on = f"the dataset {about['dataset']}"
    elif settings.get("run") is not None:
        on = f"the run {settings['run']}"
    else:
        truth = f", truth {settings['truth']}" if settings.get("truth") else ""
        on = f"simulated marketplaces, preset {settings['preset']}{truth}"
    seconds = [unit["seconds"] for unit in about["units"].values()]
    cpu = sum(unit["cpu_seconds"] for unit in about["units"].values())
    seeds = ", ".join(map(str, about["seeds"]))
    return (
        f"Run on {on}. Seed{'s' * (len(about['seeds']) > 1)} {seeds}; "
        f"{counted(len(seconds), 'unit')} in {duration(sum(seconds))} "
        f"({duration(cpu)} of CPU time)."
    )


def duration(seconds: float) -> str:
    """Return seconds in words, such as 5 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def run_tables(result: StudyResult) -> list[Table]:
    """Return settings, versions, units and datasets as tables."""
    about = result.about
    seeds = {"seeds": ", ".join(map(str, about["seeds"]))}
    settings = _flat(seeds | about["settings"])
    units = [
        [name, text_of(unit["seconds"]), text_of(unit["cpu_seconds"]), unit["slatewise"]]
        for name, unit in about["units"].items()
    ]
    tables = [
        Table("Settings", ("setting", "value"), [[k, text_of(v)] for k, v in settings.items()]),
        Table("Made with", ("", "version"), [[k, v] for k, v in about["versions"].items()]),
        Table("Units", ("unit", "seconds", "CPU seconds", "slatewise"), units),
    ]
    if "dataset" in result.tables:
        tables.insert(0, _datasets(result))
    return tables


def _datasets(result: StudyResult) -> Table:
    """One column a seed."""
    rows = result.tables["dataset"].to_dicts()
    names = [name for name in rows[0] if name != "seed"]
    facts = [[name.replace("_", " "), *(text_of(row[name]) for row in rows)] for name in names]
    return Table("Datasets", ["", *(f"seed {row['seed']}" for row in rows)], facts, file="dataset")


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        else:
            flat[before + name] = ", ".join(map(str, value)) if isinstance(value, list) else value
    return flat
