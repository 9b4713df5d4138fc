"""The scores of finished trials in a file, from which an interrupted selection resumes.

The first line identifies the selection, each further one is a trial. A repeated selection goes
through the same trials in the same order and takes known scores from here; a file of another
selection, and a truncated line, are ignored.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slatewise.evaluation import Estimate


class Memory:
    """Scores by a text that identifies a trial; without a file, nothing is kept."""

    def __init__(self, file: Path | None, belongs_to: Mapping[str, Any]) -> None:
        self._file = file
        self._known: dict[str, Estimate] = {}
        if file is None:
            return
        head = json.dumps(belongs_to, sort_keys=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        kept = [line for line in lines[1:] if self._read(line)] if lines[:1] == [head] else []
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in [head, *kept]), encoding="utf-8")

    def score(self, trial: str, make: Callable[[], Estimate]) -> Estimate:
        """Return the score of a trial, computed and kept if it is not known yet."""
        if trial not in self._known:
            self._known[trial] = made = make()
            if self._file is not None:
                values = [made.value, made.count, made.sample, made.replicates.tolist()]
                with self._file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps([trial, *values]) + "\n")
        return self._known[trial]

    def _read(self, line: str) -> bool:
        try:
            trial, value, count, sample, replicates = json.loads(line)
            self._known[trial] = Estimate.of(value, np.array(replicates), count, sample)
        except (ValueError, TypeError):
            return False
        return True
