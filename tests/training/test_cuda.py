"""Whole fits on a GPU, as `--device cuda` runs them: compiled, from the first step to the run."""

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import Exposure
from slatewise.model.posterior import Posterior
from slatewise.model.resident import resident
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.network import NetworkTerm
from slatewise.simulation import load_config, write_log
from slatewise.training import StoppedError, TrainingConfig, fit, load
from slatewise.training.dense import DenseSteps
from slatewise.training.loop import Progress
from slatewise.training.peers import Peers
from tests.training.test_peers import together

pytestmark = [
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="NO CUDA DEVICE: whole fits on a GPU are NOT tested here",
    ),
    # Compiling may warn of what is Triton's own.
    pytest.mark.filterwarnings("default"),
]
TRAINING = TrainingConfig(batch_users=64, max_epochs=12)
VARIANTS = {
    "slate-gru-hier": ModelConfig(dimensions=4),
    "slate-linear-flat": ModelConfig(dimensions=4, dynamics="linear", prior="flat"),
    "all-item-gru-hier": ModelConfig(dimensions=4, likelihood="all-item", negatives=32),
    "source-aware-linear-hier": ModelConfig(
        dimensions=4, likelihood="source-aware", dynamics="linear"
    ),
    "dot": ModelConfig(dimensions=4, relevance="dot"),
    "evidence": ModelConfig(dimensions=4, evidence=("search",)),
    "amortised": ModelConfig(dimensions=4, initial_state="amortised"),
    "terms": ModelConfig(
        dimensions=4, terms=("bias", "co_clicks", "history", "position", "propensity", "source")
    ),
}
NETWORK = ModelConfig(dimensions=4, terms=("bias", "network"), network_units=16, network_members=2)
variants = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder = tmp_path_factory.mktemp("cuda")
    write_log(load_config("tiny"), folder / "log")
    return prepare(folder / "log", folder / "log", folder / "set")


@variants
def test_a_fit_on_the_gpu_ends_where_one_on_the_cpu_does(
    config: ModelConfig, dataset: SlateDataset, tmp_path: Path
) -> None:
    """The same steps with the same noise: what differs is the order of additions."""

    def dense(*arguments: Any, peers: Peers, **options: Any) -> DenseSteps:
        return DenseSteps(*arguments, **options, compiled=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slatewise.training.loop.SparseSteps", dense)
        start = fit(dataset, config, TRAINING.model_copy(update={"max_epochs": 1}))
        here = fit(dataset, config, TRAINING)
    there = fit(dataset, config, TRAINING, device="cuda", run=tmp_path / "run")
    likelihoods = [m.metrics["validation_log_likelihood"] for m in (start, here, there)]
    learned = likelihoods[1] - likelihoods[0]
    assert learned > 0.01, likelihoods
    assert abs(likelihoods[2] - likelihoods[1]) < 0.1 * learned, likelihoods
    assert there.metrics["skipped_steps"] == 0
    assert {t.device.type for t in there.posterior.tensors().values()} == {"cpu"}
    stored = load(tmp_path / "run").posterior.tensors()
    for name, tensor in there.posterior.tensors().items():
        assert torch.equal(stored[name], tensor), name


def test_a_network_fitted_on_the_gpu_predicts_as_one_fitted_on_the_cpu(
    dataset: SlateDataset,
) -> None:
    here, there = (NetworkTerm.fit_on(NETWORK, dataset, device) for device in ("cpu", "cuda"))
    learned = here.validation[1] - here.validation[0]
    assert learned > 0.01
    assert abs(there.validation[1] - here.validation[1]) < 0.25 * learned
    assert {tensor.device.type for tensor in there._tensors.values()} == {"cpu"}
    log = dataset.interactions()
    one, two = (term.describe_in(dataset)(log)[:, 0] for term in (here, there))
    assert float(torch.corrcoef(torch.stack([one, two]))[0, 1]) > 0.9
    roots = [float((term._tensors["root"] ** 2).sum()) for term in (here, there)]
    assert roots[1] == pytest.approx(roots[0], rel=0.5)
    model = fit(dataset, NETWORK, TRAINING.model_copy(update={"max_epochs": 1}), device="cuda")
    assert model.terms.by_name["network"] is there


def test_stopped_and_resumed_it_ends_near_one_that_was_left_alone(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    """Near and not the same: a GPU adds in no fixed order."""
    config, run = VARIANTS["slate-gru-hier"], tmp_path / "run"
    whole = fit(dataset, config, TRAINING, device="cuda")

    def stop(progress: Progress) -> None:
        if (progress.epoch, progress.step) == (3, 1):
            raise StoppedError("stopped, as if it were killed.", "")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slatewise.training.trainer.CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(StoppedError):
            fit(dataset, config, TRAINING, device="cuda", run=run, observer=stop)
    first = []
    resumed = fit(
        dataset,
        config,
        TRAINING,
        device="cuda",
        run=run,
        resume=True,
        observer=lambda at: first.append((at.epoch, at.step)),
    )
    assert first[0] == (3, 1)
    vectors = [m.posterior.items.mean.detach() for m in (whole, resumed)]
    assert float((vectors[0] - vectors[1]).abs().max()) < 0.05
    metrics = [m.metrics["validation_log_likelihood"] for m in (whole, resumed)]
    assert metrics[0] == pytest.approx(metrics[1], abs=2e-3)
    with pytest.raises(SlatewiseError, match="another device"):
        fit(dataset, config, TRAINING, run=run, resume=True)


def steps_of(
    config: ModelConfig, dataset: SlateDataset, log: Interactions, **options: Any
) -> DenseSteps:
    groups = torch.tensor(dataset.item_groups, dtype=torch.int64, device="cuda")
    interactions = resident(log, "cuda")
    posterior = Posterior(
        config,
        groups,
        dataset.group_names,
        int(dataset.interactions().scroll_lengths.max()),
        torch.Generator().manual_seed(0),
        dataset.source_names,
    )
    exposure = Exposure.of(config, dataset.source_names)
    return DenseSteps(posterior, interactions, TRAINING, exposure, **options)


def described(config: ModelConfig, dataset: SlateDataset) -> Interactions:
    return FittedTerms.fit(config, dataset).in_training(dataset).describe_all(dataset)


def losses_of(steps: DenseSteps, *batches: Tensor) -> list[float]:
    """Take a step for each batch, always with the same noise."""
    return [
        steps.step(users, torch.Generator().manual_seed(n), 0.02).loss
        for n, users in enumerate(batches)
    ]


def assert_alike(one: DenseSteps, other: DenseSteps) -> None:
    """Adam makes a step of full size of a gradient that is nearly nothing, whatever its sign."""
    found = other.posterior.tensors()
    for name, tensor in one.posterior.tensors().items():
        wrong = (tensor - found[name]).abs() > 1e-3
        assert float(wrong.float().mean()) < 0.03, name


@variants
def test_compiled_steps_are_eager_steps(config: ModelConfig, dataset: SlateDataset) -> None:
    """Three steps from one start with the same noise, the last with a batch to be filled up."""
    log = described(config, dataset)
    plain, compiled = (steps_of(config, dataset, log, compiled=one) for one in (False, True))
    batches = plain.users[:64], plain.users[64:128], plain.users[128:150]
    assert losses_of(compiled, *batches) == pytest.approx(losses_of(plain, *batches), rel=1e-4)
    assert_alike(plain, compiled)


WORKERS = pytest.mark.parametrize("name", ["slate-gru-hier", "source-aware-linear-hier", "terms"])


@WORKERS
def test_two_workers_take_the_steps_of_one(name: str, dataset: SlateDataset) -> None:
    """Each with half of the users of every step, both on this GPU."""
    config, log = VARIANTS[name], described(VARIANTS[name], dataset)
    alone = steps_of(config, dataset, log)
    ours = [alone.users[first : first + 60] for first in (0, 60)]
    losses = losses_of(alone, *ours)

    def worker(peers: Peers) -> tuple[list[float], DenseSteps]:
        share = peers.share(dataset.num_users)
        steps = steps_of(config, dataset, log.of_users(share), peers=peers)
        batches = [torch.nonzero(torch.isin(share, users.cpu())).squeeze(1) for users in ours]
        return losses_of(steps, *(batch.cuda() for batch in batches)), steps

    for found, steps in together(2, worker):
        assert steps._graph is None  # threads cannot meet in a recorded step
        assert found == pytest.approx(losses, rel=1e-4)
        assert_alike(alone, steps)


@WORKERS
def test_what_workers_exchange_is_recorded_with_the_step(name: str, dataset: SlateDataset) -> None:
    """By NCCL, of which a worker alone is all there is: it sums up what it has."""
    config, log = VARIANTS[name], described(VARIANTS[name], dataset)
    alone = steps_of(config, dataset, log)
    with socket.socket() as free:
        free.bind(("", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    Peers.join(0, 1, address, "cuda")
    peers = Peers(0, 2, on_gpus=True)
    batches = peers.batches(alone.users, len(alone.users), 64)[:2]
    try:
        steps = steps_of(config, dataset, log, peers=peers)
        found = losses_of(steps, *batches)
    finally:
        peers.leave()
    assert steps._graph is not None
    assert found == pytest.approx(losses_of(alone, *batches), rel=1e-4)
    assert_alike(alone, steps)
