"""`slatewise train`: from a dataset to a fitted model."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from slatewise.cli.cluster import joined_peers, on_ray
from slatewise.cli.show import console, table
from slatewise.cli.term_selection import choose, require_cpu, selection_files
from slatewise.config import read_toml
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError, install_remedy
from slatewise.model.registry import DYNAMICS, PRIORS, RELEVANCES, one_of

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig
    from slatewise.model.fitted import SlateModel
    from slatewise.training.loop import Progress as State
    from slatewise.training.sizes import LogSize

_SECONDS_BETWEEN_LINES = 10.0


def train(
    dataset: Annotated[Path, typer.Argument(help="A prepared dataset.")],
    run: Annotated[Path, typer.Argument(help="Directory of the run, created or resumed.")],
    likelihood: Annotated[
        Literal["slate", "all-item", "source-aware"] | None,
        typer.Option(help="What a click is compared with."),
    ] = None,
    relevance: Annotated[
        str | None, typer.Option(help=f"Utility of an item to a user: {one_of(RELEVANCES)}.")
    ] = None,
    dynamics: Annotated[
        str | None, typer.Option(help=f"How clicks move the user: {one_of(DYNAMICS)}.")
    ] = None,
    exposure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE=WEIGHT",
            help="How much slates of a source count as evidence (source-aware); repeatable.",
        ),
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help=f"Prior of items given their groups: {one_of(PRIORS)}.")
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option(help="Terms of the utility, such as bias,history; none is the paper's model."),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="First choose the terms that improve held-out likelihood."),
    ] = False,
    item_features: Annotated[
        Path | None, typer.Option(help="Table with item_id and a column for each item feature.")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Which columns of that table or of the dataset to use: price,brand=category."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help=r"TOML file with \[model] and \[training]; options win over it."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(help="Train on a Ray cluster: its address, auto, or local for this machine."),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Workers of the cluster, each with a share of the users.")
    ] = 1,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log to RUN/tensorboard.")
    ] = False,
) -> None:
    """Fit a model; interrupt it with Ctrl-C and continue with --resume, to the same result."""
    peers = joined_peers(ray, workers, device, auto=auto)
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.cli.item_features import read_item_features  # noqa: PLC0415
    from slatewise.evaluation import ModelRecommender, calibrate, settle_candidates  # noqa: PLC0415
    from slatewise.model.config import ModelConfig  # noqa: PLC0415
    from slatewise.model.likelihood import exposure_weights  # noqa: PLC0415
    from slatewise.training import StoppedError, fit, runs, sizes  # noqa: PLC0415
    from slatewise.training.config import TrainingConfig  # noqa: PLC0415

    document = _read_settings(config)
    asked = {
        "likelihood": likelihood,
        "relevance": relevance,
        "dynamics": dynamics,
        "prior": prior,
        "exposure": _exposure(exposure),
        "terms": _terms(terms),
    }
    chosen = {name: value for name, value in asked.items() if value is not None}
    model = ModelConfig.build(document.get("model", {}) | chosen, f"{config or 'options'}, [model]")
    training = TrainingConfig.build(document.get("training", {}), f"{config}, [training]")
    opened = SlateDataset.open(dataset)
    size = sizes.LogSize.of(opened)
    model = _with_usual_likelihood(model, size)
    if model.likelihood == "source-aware":
        _show_exposure(exposure_weights(model, opened.source_names), given=model.exposure)
    described = read_item_features(opened, item_features, features)
    selection = None
    if auto and _can_choose(size):
        require_cpu(device)
        files = selection_files(run, resume=resume)
        with _stopping_cleanly(KeyboardInterrupt, run):
            choice, selection = choose(opened, model, training, described, files, seed)
        model, described = choice.model, described if choice.described else None
        resume = files.begun
    elif not size.clicks_only:
        model = _with_usual_terms(model, opened, device)
    training = sizes.with_optimisation(training, model, opened)
    model, training = sizes.settled(model, training, size)
    board = _Board(run / "tensorboard") if tensorboard else None

    def observe(at: "State") -> None:
        nonlocal selection
        if selection is not None:  # now there is a run to keep it in
            selection.write(run)
            files.memory.unlink()
            selection = None
        bar.show(at)
        if board is not None:
            board.show(at)

    with _Bar(model.name, training.patience) as bar, _stopping_cleanly(StoppedError, run):
        fitted = (
            partial(fit, device=device, peers=peers) if ray is None else on_ray(ray, workers)
        )(
            opened,
            model,
            training,
            seed=seed,
            item_features=described,
            run=run,
            resume=resume,
            observer=observe,
        )
    if peers.rank > 0:  # the first writes and tells
        return
    calibration = calibrate(ModelRecommender(fitted, log=opened), opened)
    recalls = settle_candidates(fitted, opened, seed=seed)
    runs.update(run, calibration=calibration.to_json(), terms=fitted.terms.to_json())
    _show_outcome(fitted, recalls)
    console.print(f"\nRun: {run}")


def _read_settings(config: Path | None) -> dict[str, Any]:
    """Read the settings of the model and of training from a file, if there is one."""
    document = read_toml(config) if config is not None else {}
    for section, settings in document.items():
        if section not in {"model", "training"} or not isinstance(settings, dict):
            raise SlatewiseError(
                f"{config}: unknown section '{section}'.", "There are [model] and [training]."
            )
    return document


def _show_outcome(fitted: "SlateModel", recalls: dict[int, float]) -> None:
    """Print what training measured, and what its user should know."""
    account, metrics = table(fitted.config.name, "", ""), fitted.metrics
    # Where slates have several clicks, training also learns when users stop; `evaluate` leaves
    # that out, so that each click is judged alike, and so does the pool with a network.
    apart = fitted.posterior.pool is None and "enough" in fitted.config.terms
    whole = " with enough" if apart else ""
    score = f"{metrics['validation_log_likelihood']:.4f}"
    account.add_row(f"validation log-likelihood{whole}", score)
    account.add_row("epochs", f"{metrics['epochs']:,}")
    account.add_row("best epoch", f"{metrics['best_epoch']:,}")
    account.add_row("steps not finite, skipped", f"{metrics['skipped_steps']:,}")
    for count, recall in sorted(recalls.items()):
        ranked = f"{count:,} ranked again" if count else "ranked once"
        account.add_row(f"recall@20 of held-out clicks, {ranked}", f"{recall:.3f}")
    console.print(account)
    if metrics["warning"]:
        console.print(f"Warning: {metrics['warning']}")
    for note in (note for term in fitted.terms.by_name.values() for note in term.notes):
        console.print(note)
    if fitted.exploration_note:
        console.print(fitted.exploration_note)


def _can_choose(size: "LogSize") -> bool:
    """Return whether a log can tell terms apart, and print it where it cannot."""
    if size.clicks_only:
        console.print(
            "Nothing was declined in this log to choose terms by: it gets the usual ones."
        )
    return not size.clicks_only


def _terms(option: str | None) -> tuple[str, ...] | None:
    """Read the names of terms; None where nothing was said."""
    if option is None:
        return None
    return () if option == "none" else tuple(name.strip() for name in option.split(","))


def _with_usual_likelihood(model: "ModelConfig", size: "LogSize") -> "ModelConfig":
    """Return the model with the likelihood that suits a log, and print why if it was not given."""
    from slatewise.training import TrainingConfig, sizes  # noqa: PLC0415 (torch is slow to load)

    found = sizes.with_likelihood(model, size)
    if found != model:
        console.print("Every slate is one clicked item: the likelihood is all-item.")
        if not sizes.settled(found, TrainingConfig(), size)[0].repeats:
            console.print("No user clicks an item twice: a click is compared with what is left.")
    return found


def _with_usual_terms(model: "ModelConfig", dataset: SlateDataset, device: str) -> "ModelConfig":
    """Return the model with the usual terms if none were given, and print which these are."""
    from slatewise.training import sizes  # noqa: PLC0415 (torch is slow to load)

    found, missing = sizes.with_terms(model, dataset, device)
    if found != model:
        line = f"Terms, as the log has what they need: {', '.join(found.terms)}"
        line += "".join(f"; no {name}: {why}" for name, why in missing.items())
        console.print(f"{line}. Without any: --terms none; chosen for this log: --auto.")
    return found


def _exposure(options: list[str] | None) -> dict[str, float] | None:
    """Read `source=weight` options; None for none."""
    if not options:
        return None
    weights = {}
    for option in options:
        source, _, weight = option.rpartition("=")
        try:
            weights[source] = float(weight)
        except ValueError:
            source = ""
        if not source:
            raise SlatewiseError(
                f"--exposure {option}: this is not a source and its weight.",
                "Write --exposure search=0.3, once for each source.",
            )
    return weights


def _show_exposure(weights: dict[str, float], given: dict[str, float] | None) -> None:
    """Print how much slates of each source count, and why where that is not given."""
    line = "Exposure: " + ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
    if given is None:
        line += " (by default search counts, or all sources where none is called search)"
    console.print(line)


@contextmanager
def _stopping_cleanly(stopped: type[BaseException], run: Path) -> Iterator[None]:
    """Turn an interrupt into the exit code of Ctrl-C, and print how to resume."""
    try:
        yield
    except stopped:
        console.print(f"Stopped and saved. Resume with the same command and --resume.\nRun: {run}")
        raise typer.Exit(130) from None


class _Bar:
    """A line that shows where training stands; without a terminal, a line every ten seconds."""

    def __init__(self, name: str, patience: int) -> None:
        terminal = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=terminal,
            transient=True,
            disable=not terminal.is_terminal,
        )
        self._name, self._patience = name, patience
        self._task = self._bars.add_task(name)
        self._printed = time.monotonic()

    def show(self, at: "State") -> None:
        """Show where training stands."""
        text = f"stage {at.stage + 1} epoch {at.epoch + 1}"
        if at.history and at.history[-1]["stage"] == at.stage:  # a new stage has no best yet
            text += f" · {at.history[-1]['validation']:.4f}, best {at.best:.4f}"
            text += f" · patience {self._patience - at.since_best}"
        self._bars.update(self._task, description=text, completed=at.step, total=at.steps)
        if self._bars.disable and time.monotonic() - self._printed >= _SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            line = f"{self._name}: {text} · step {at.step} of {at.steps}"
            print(line, file=sys.stderr, flush=True)

    def __enter__(self) -> "_Bar":
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()


class _Board:
    """Epochs as curves for TensorBoard."""

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (optional)
        except ImportError as error:
            raise SlatewiseError(
                "TensorBoard is not installed.", install_remedy("tensorboard")
            ) from error
        self._directory, self._writer_of = directory, SummaryWriter
        self._epochs: int | None = None

    def show(self, at: "State") -> None:
        """Write the epochs that have ended since; those before a --resume are there already."""
        if self._epochs is None:
            self._epochs = len(at.history) - (at.step == 0)  # at 0, one has just ended
        fresh = at.history[self._epochs :]
        if not fresh:
            return
        # What stands there from here on was logged after the checkpoint, and is taken again.
        writer = self._writer_of(str(self._directory), purge_step=self._epochs)
        for record in fresh:
            for name in ("validation", "best", "rate"):
                writer.add_scalar(name, record[name], self._epochs)
            self._epochs += 1
        writer.close()
