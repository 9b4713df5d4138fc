"""How much CPU time `slatewise train --auto` takes, stage by stage, and what it chooses.

The log is simulated: a news site of 1,700 users and about 50,000 slates, split by time, with the
settings that a newcomer has. The command runs in this process, so that its CPU seconds, of all
threads, can be read at every line that it writes: the loading of torch and of compiled code is the
first stage, and the training of the choice the last. The bare minimum is that last stage, which
`train` with the same terms would take, too.
"""

import json
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path

from harness import Row, Target, parse, parser, report, slatewise

PRESET = "news"
SETTINGS = ""
MINIATURE = {
    "users": 120,
    "PRESET": "tiny",
    "SETTINGS": (
        "[model]\ndimensions = 3\ndynamics = 'linear'\nevidence = ['search', 'recommendation']\n"
        "terms = ['co_clicks', 'history', 'popularity', 'propensity', 'source']\n"
        "[training]\nmax_epochs = 1\nbatch_users = 100\n"
    ),
}
_TRIAL = "choosing terms: "


def main() -> None:
    """Choose and train on one log; report each stage."""
    arguments = parser(__doc__)
    arguments.add_argument("--users", type=int, default=1_700)
    options = parse(arguments, globals())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        slatewise("simulate", f"{home}/log", "--preset", PRESET, "--users", str(options.users))
        split = ("--split", "time")
        slatewise("prepare", f"{home}/log", f"{home}/log", f"{home}/dataset", *split)
        meta = json.loads((home / "dataset" / "dataset.json").read_text())
        stamps = _train(home)
        found = json.loads((home / "run" / "selection.json").read_text())
    from slatewise.selection.record import ANOTHER_SEED  # noqa: PLC0415 (loading is measured)

    rows = _stages(stamps)
    whole = sum(row["cpu_s"] for row in rows)
    rows.append({"stage": "all", "cpu_s": whole, "seconds": sum(row["seconds"] for row in rows)})
    gains = {one["name"]: one["gain"] for one in found["comparisons"]}
    others = [gain for name, gain in gains.items() if name != ANOTHER_SEED]
    report(
        options,
        f"train --auto on {meta['counts']['interactions']:,} slates",
        {"stage": "{}", "cpu_s": "{:.1f}", "seconds": "{:.1f}"},
        rows,
        [
            Target("CPU seconds of the whole command", whole, 60),
            Target("nats over the best of all others", min(others), 0, at_least=True),
        ],
        chosen=found["name"],
        terms=found["chosen"]["terms"],
        gains=gains,
    )
    print(f"Chosen: {found['name']}")


class _Stamps(StringIO):
    """Takes text, and remembers the clocks at every line that starts a stage."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[tuple[str, float, float]] = []
        self.stamp("start")

    def stamp(self, stage: str) -> None:
        """Remember when a stage begins."""
        self.met.append((stage, time.process_time(), time.perf_counter()))

    def write(self, text: str) -> int:
        """Keep the text; a trial's line begins its stage, and the choice ends the last trial."""
        if text.startswith(_TRIAL):
            self.stamp(text.removeprefix(_TRIAL).partition(" (trial")[0])
        elif "Chosen: " in text:
            self.stamp("training the choice")
        return super().write(text)


def _train(home: Path) -> list[tuple[str, float, float]]:
    """Run the command; return the stages with the clocks at their beginnings, and at the end."""
    stamps, settings = _Stamps(), home / "settings.toml"
    settings.write_text(SETTINGS)
    with redirect_stdout(stamps), redirect_stderr(stamps):
        from slatewise.cli import app  # noqa: PLC0415 (its loading is measured)

        command = ["train", f"{home}/dataset", f"{home}/run", "--auto", "--config", str(settings)]
        app(command, standalone_mode=False)
    stamps.stamp("end")
    return stamps.met


def _stages(stamps: list[tuple[str, float, float]]) -> list[Row]:
    return [
        {"stage": stage, "cpu_s": later[1] - cpu, "seconds": later[2] - clock}
        for (stage, cpu, clock), later in pairwise(stamps)
    ]


if __name__ == "__main__":
    main()
