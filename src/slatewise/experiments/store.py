"""A study on disk: what was asked, every finished unit, and what was gathered from them.

OUT/NAME/study.json       what was run, with which settings, and how long it took
OUT/NAME/units/*.json     the tables of each finished unit
OUT/NAME/unfinished/      what a unit under way has set aside; gone when it is finished
OUT/NAME/TABLE.parquet    all rows of a table, also as TABLE.json
OUT/NAME/findings.json    what follows from them
"""

import hashlib
import json
import math
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from slatewise.errors import InputError, SlatewiseError
from slatewise.experiments.findings import Finding
from slatewise.files import atomic_file
from slatewise.files import write_json as write_plain_json
from slatewise.version import __version__

Row = dict[str, Any]
"""A row of a table: plain numbers, text, None, or lists of them."""
Tables = dict[str, list[Row]]

FORMAT: Final = "slatewise-study"
VERSION: Final = 1
STUDY, FINDINGS = "study.json", "findings.json"
UNFINISHED: Final = "unfinished"


def plain(value: Any) -> Any:
    """Return the value as JSON knows it: numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(file: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write what a study found as a JSON file that appears whole or not at all."""
    write_plain_json(file, plain(value), indent=indent)


def read_json(file: Path) -> dict[str, Any]:
    """Read an object from a JSON file, or raise an error if it is damaged."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            "the file is missing or damaged.", "Remove it and run the study again.", file=file
        ) from error
    if not isinstance(value, dict):
        raise InputError("this is not an object.", "Run the study again.", file=file)
    return value


@dataclass(frozen=True)
class UnitRecord:
    """What a finished unit left."""

    tables: Tables
    seconds: float
    cpu_seconds: float
    version: str


class Store:
    """The directory of one study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._units = folder / "units"

    def begin(self, description: dict[str, Any]) -> None:
        """Start afresh, or resume a study of the same description.

        `description["settings"]` must be the same; the seeds may grow.
        """
        file = self.folder / STUDY
        if file.exists():
            self._require_same(read_json(file), plain(description))
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise SlatewiseError(
                f"{self.folder} holds something other than a study.", "Choose another directory."
            )
        self._units.mkdir(parents=True, exist_ok=True)
        write_json(file, description | {"finished": False})

    def _require_same(self, stored: dict[str, Any], description: dict[str, Any]) -> None:
        if stored.get("format") != FORMAT or stored.get("version") != VERSION:
            raise SlatewiseError(
                f"{self.folder / STUDY} is not of a study that this release can resume.",
                "Choose another directory.",
            )
        before, now = stored.get("settings", {}), description["settings"]
        for name in sorted({*before, *now}):
            # A setting that a later release added is absent before, and empty now.
            if (before.get(name) or None) != (now.get(name) or None):
                raise SlatewiseError(
                    f"the study in {self.folder} was started with another '{name}' "
                    f"({before.get(name)!r}, not {now.get(name)!r}).",
                    "Resume with the same settings, or choose another directory.",
                )

    def scratch(self, unit: str) -> Path:
        """Return a directory of the unit's own, kept until the unit is."""
        path = self.folder / UNFINISHED / unit
        path.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, unit: str, tables: Tables, seconds: float, cpu_seconds: float) -> None:
        """Store a finished unit, whole or not at all."""
        tables = plain(tables)
        record = {
            "unit": unit,
            "slatewise": __version__,
            "seconds": round(seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "digest": _digest(tables),
            "tables": tables,
        }
        write_json(self._units / f"{unit}.json", record, indent=None)
        shutil.rmtree(self.folder / UNFINISHED / unit, ignore_errors=True)

    def has(self, unit: str) -> bool:
        """Return whether there is a file of the unit, sound or not."""
        return (self._units / f"{unit}.json").exists()

    def unit(self, unit: str) -> UnitRecord | None:
        """Return a finished unit; None if there is none or it is damaged."""
        try:
            record = read_json(self._units / f"{unit}.json")
        except InputError:
            return None
        tables = record.get("tables")
        if record.get("unit") != unit or record.get("digest") != _digest(tables):
            return None
        return UnitRecord(
            record["tables"], record["seconds"], record["cpu_seconds"], record["slatewise"]
        )

    def finish(
        self, description: dict[str, Any], tables: Tables, findings: Sequence[Finding]
    ) -> None:
        """Write what was gathered; `study.json` says last that the study is finished."""
        for name, rows in tables.items():
            write_table(self.folder / name, rows)
        write_json(self.folder / FINDINGS, [finding.to_json() for finding in findings])
        shutil.rmtree(self.folder / UNFINISHED, ignore_errors=True)
        write_json(self.folder / STUDY, description | {"finished": True, "tables": list(tables)})


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as `path`.parquet and `path`.json."""
    with atomic_file(path.with_name(f"{path.name}.parquet")) as partial:
        pl.DataFrame(plain(list(rows)), infer_schema_length=None).write_parquet(partial)
    write_json(path.with_name(f"{path.name}.json"), list(rows), indent=None)


def versions() -> dict[str, str]:
    """Return what the numbers were made with."""
    import torch  # noqa: PLC0415 (takes a second: only a study that runs pays)

    return {
        "slatewise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": str(torch.__version__),
        "platform": platform.system() + " " + platform.machine(),
    }


def _digest(tables: Any) -> str:
    text = json.dumps(tables, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class StudyResult:
    """A finished study, read back."""

    name: str
    about: dict[str, Any]
    """What is in `study.json`: title, settings, seeds, units with seconds, versions."""
    tables: dict[str, pl.DataFrame]
    findings: list[Finding]

    @classmethod
    def load(cls, folder: str | Path) -> "StudyResult":
        """Read a finished study from OUT/NAME."""
        folder = Path(folder)
        about = read_json(folder / STUDY)
        if about.get("format") != FORMAT or not about.get("finished"):
            raise InputError(
                "this is not a finished study.", "Run it to its end first.", file=folder
            )
        try:
            tables = {
                name: pl.read_parquet(folder / f"{name}.parquet", glob=False)
                for name in about["tables"]
            }
            found = json.loads((folder / FINDINGS).read_text(encoding="utf-8"))
            findings = [Finding.from_json(one) for one in found]
        except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
            raise InputError(
                "a table of the study is missing or damaged.",
                "Run the study again: finished units are kept.",
                file=folder,
            ) from error
        return cls(str(about["study"]), about, tables, findings)
