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
    from slatewise.model.fitted import SlateModel
    from slatewise.training.loop import Progress as State

_SECONDS_BETWEEN_LINES = 10.0
_FEW_HELD_OUT = 300
"""Validation interactions below which a fit depends on who happened to be held out."""


def train(
    context: typer.Context,
    dataset: Annotated[Path, typer.Argument(help="A prepared dataset.")],
    run: Annotated[Path, typer.Argument(help="Directory of the run, created or resumed.")],
    likelihood: Annotated[
        Literal["slate", "all-item", "source-aware"] | None,
        typer.Option(help="What a click is a choice from; by default, by the log."),
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
        typer.Option(help="Terms of the utility, such as bias,history; or none."),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="First choose the terms by held-out likelihood."),
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
    # Threads of the group that still run when Python ends abort one exit in four.
    context.call_on_close(peers.leave)
    # Torch takes a second to load: only commands that need it pay.
    from slatewise.cli.item_features import read_item_features  # noqa: PLC0415
    from slatewise.model.config import ModelConfig  # noqa: PLC0415
    from slatewise.model.parts import require_device  # noqa: PLC0415
    from slatewise.selection import finish_fit, plan_fit, with_usual_likelihood  # noqa: PLC0415
    from slatewise.training import StoppedError, fit, runs  # noqa: PLC0415
    from slatewise.training.config import TrainingConfig  # noqa: PLC0415

    if not auto and peers.rank == 0:  # before what takes minutes; --auto has checks of its own
        if ray is None:  # else the machines of the cluster have it
            require_device(device)
        runs.require_room(run, resume=resume)
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
    model, notes = with_usual_likelihood(opened, model)
    described = read_item_features(opened, item_features, features)
    selection = None
    if auto and _can_choose(opened):
        require_cpu(device)
        files = selection_files(run, resume=resume)
        with _stopping_cleanly(KeyboardInterrupt, run):
            choice, selection = choose(opened, model, training, described, files, seed)
        model, described = choice.model, described if choice.described else None
        resume = files.begun
    plan = plan_fit(opened, model, training, device=device)
    for note in (*notes, *plan.notes):
        console.print(note)
    if plan.model.terms and not model.is_given("terms"):
        console.print("--terms none trains without terms; --auto chooses them by held-out data.")
    _warn_of_few(opened)
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

    with _Bar(plan.model.name, plan.training.patience) as bar, _stopping_cleanly(StoppedError, run):
        here = partial(fit, peers=peers, doing=bar.tell)
        fitted = (here if ray is None else on_ray(ray, workers))(
            opened,
            plan.model,
            plan.training,
            seed=seed,
            device=device,
            item_features=described,
            run=run,
            resume=resume,
            observer=observe,
        )
    if peers.rank > 0:  # the first writes and tells
        return
    _show_outcome(fitted, finish_fit(fitted, opened, seed=seed, run=run))
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
    console.print(fitted.config.name, style="bold", soft_wrap=True)
    account, metrics = table("", "", ""), fitted.metrics
    for what, value in _likelihoods(fitted).items():
        account.add_row(what, f"{value:.4f}".replace("-", "−"))
    account.add_row("epochs", f"{metrics['epochs']:,}")
    account.add_row("best epoch", f"{metrics['best_epoch']:,}")
    account.add_row("skipped steps (not finite)", f"{metrics['skipped_steps']:,}")
    for count, recall in sorted(recalls.items()):
        ranked = f"{count:,} reranked" if count else "one stage"
        account.add_row(f"recall@20 of held-out clicks, {ranked}", f"{recall:.3f}")
    console.print(account)
    if metrics["warning"]:
        console.print(f"Warning: {metrics['warning']}")
    notes = [note for term in fitted.terms.by_name.values() for note in term.notes]
    for note in dict.fromkeys(notes):  # two networks read the same columns
        console.print(note)
    if fitted.exploration_note:
        console.print(fitted.exploration_note)


def _likelihoods(fitted: "SlateModel") -> dict[str, float]:
    """Return the likelihoods of training by name; the last is the one that its progress showed.

    That one has the exposure, where the likelihood has it, and where slates have several clicks
    also when users stop. `evaluate` leaves both out, so that each click is judged alike, and so
    does the pool with terms that see whole slates.
    """
    config, own = fitted.config, fitted.metrics["validation_log_likelihood"]
    also = ["exposure"] * (config.likelihood != "slate") + ["enough"] * ("enough" in config.terms)
    whole = f" with {' and '.join(also)}" if also else ""
    if fitted.posterior.pool is None or not fitted.history:
        return {f"validation log-likelihood{whole}": own}
    return {
        "validation log-likelihood of choices": own,
        f"  in training{whole}": fitted.history[-1]["best"],
    }


def _can_choose(dataset: SlateDataset) -> bool:
    """Return whether terms can be chosen for a log; print why not if it has only clicks."""
    from slatewise.training.sizes import LogSize  # noqa: PLC0415 (torch is slow to load)

    clicks_only = LogSize.of(dataset).clicks_only
    if clicks_only:
        console.print(
            "This log has only clicks, so --auto cannot compare terms: it takes the usual ones."
        )
    return not clicks_only


def _warn_of_few(dataset: SlateDataset) -> None:
    """Warn if little decides when training ends and how much terms count."""
    held_out = int((dataset.valid_end - dataset.train_end).sum())
    if 0 < held_out < _FEW_HELD_OUT:
        remedy = " or a smaller --prefix" if dataset.meta["split"]["prefix"] else ""
        console.print(
            f"Warning: only {held_out:,} validation interactions decide when training ends and how "
            f"much terms count. Prepare with a larger --valid-share{remedy}."
        )


def _terms(option: str | None) -> tuple[str, ...] | None:
    """Read the names of terms; None if none were given."""
    if option is None:
        return None
    return () if option == "none" else tuple(name.strip() for name in option.split(","))


def _exposure(options: list[str] | None) -> dict[str, float] | None:
    """Read `source=weight` options, or return None without any."""
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
                f"--exposure {option}: this is not SOURCE=WEIGHT.",
                "Write --exposure search=0.3, once for each source.",
            )
    return weights


@contextmanager
def _stopping_cleanly(stopped: type[BaseException], run: Path) -> Iterator[None]:
    """Turn an interrupt into the exit code of Ctrl-C, and print how to resume."""
    try:
        yield
    except stopped:
        console.print(f"Stopped and saved. Resume with the same command and --resume.\nRun: {run}")
        raise typer.Exit(130) from None


class _Bar:
    """A progress line of training; without a terminal, a new line every ten seconds."""

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

    def tell(self, what: str) -> None:
        """Show what is done before the first step."""
        self._bars.update(self._task, description=what)
        if self._bars.disable:
            print(f"{self._name}: {what}", file=sys.stderr, flush=True)

    def show(self, at: "State") -> None:
        """Show the progress of training."""
        text = f"stage {at.stage + 1} epoch {at.epoch + 1}"
        if at.history and at.history[-1]["stage"] == at.stage:  # a new stage has no best yet
            reached, best = at.history[-1]["validation"], at.best
            text += f" · {reached:.4f}, best {best:.4f}".replace("-", "−")
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
