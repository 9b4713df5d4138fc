"""Workers that train one model, here as threads: what they send each other is the same."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from slatewise.cli.cluster import joined_peers
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.training.config import TrainingConfig
from slatewise.training.loop import Training
from slatewise.training.peers import ALONE, Peers
from tests.model.ragged import random_interactions

ITEMS, GROUPS, LONGEST, USERS = 40, 4, 6, 60


@dataclass
class Meeting:
    """Where threads leave tensors for each other."""

    size: int
    left: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=600)


@dataclass(frozen=True)
class Threads(Peers):
    """Peers in threads of one process."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        self.meeting.left[self.rank] = tensor.clone()
        self.meeting.barrier.wait()
        found = [self.meeting.left[rank] for rank in range(self.size)]
        self.meeting.barrier.wait()
        return found

    def sum(self, tensor: Tensor) -> Tensor:
        return torch.stack(self.gather(tensor)).sum(0)

    def greatest(self, number: int) -> int:
        return max(int(one) for one in self.gather(torch.tensor(number)))


def together(size: int, work: Callable[[Peers], Any]) -> list[Any]:
    meeting = Meeting(size)
    peers = [Threads(rank, size, meeting=meeting) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, peers))


@pytest.fixture(scope="module")
def log() -> Interactions:
    drawn = random_interactions(5, users=USERS, items=ITEMS, longest_slate=LONGEST)
    ends = (drawn.train_end - 1).clamp(min=0)
    return Interactions(**(vars(drawn) | {"train_end": ends, "valid_end": drawn.train_end}))


def training(log: Interactions, peers: Peers, **settings: Any) -> Training:
    model = ModelConfig(dimensions=3, **settings)
    mine = log if peers.size == 1 else log.of_users(peers.share(log.num_users))
    groups, names = torch.arange(ITEMS) % GROUPS, [str(g) for g in range(GROUPS)]
    config = TrainingConfig(batch_users=USERS, max_epochs=6, optimisation="joint")
    sources = ["recommendation", "search"]
    return Training(model, config, mine, groups, names, sources, seed=3, peers=peers)


def trained(log: Interactions, peers: Peers, **settings: Any) -> tuple[dict[str, Tensor], float]:
    work = training(log, peers, **settings)
    for _ in work.advance():
        pass
    return work.result().tensors(), work.progress.best


MODELS = [
    {"dynamics": "linear"},
    {"dynamics": "gru", "prior": "flat"},
    {"dynamics": "linear", "likelihood": "all-item", "negatives": 64},
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_without_noise_three_workers_learn_what_one_does(
    log: Interactions, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of all users, and noise that is zero: nothing but the division of work differs."""
    first = training(log, ALONE, **model).posterior.tensors()
    monkeypatch.setattr(
        "slatewise.model.gaussian.Gaussian.noise", lambda self, _: torch.zeros_like(self.mean)
    )
    alone, score = trained(log, ALONE, **model)
    workers = together(3, lambda peers: trained(log, peers, **model))
    for found, best in workers:
        assert best == pytest.approx(score, abs=1e-5)
        for name, tensor in alone.items():
            torch.testing.assert_close(found[name], tensor, rtol=2e-3, atol=2e-4)
            assert torch.equal(found[name], workers[0][0][name])
    assert (alone["items.mean"] - first["items.mean"]).abs().max() > 0.02


def test_all_workers_have_the_same_model_whatever_their_noise(log: Interactions) -> None:
    (one, best), (other, same) = together(2, lambda peers: trained(log, peers))
    assert best == same
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_gradients_of_touched_rows_add_up() -> None:
    rows = [torch.tensor([4, 1]), torch.tensor([7]), torch.tensor([1, 7, 0])]
    gradients = [torch.rand(len(r), 3, generator=torch.Generator().manual_seed(7)) for r in rows]
    dense = torch.zeros(9, 3)
    for touched, gradient in zip(rows, gradients, strict=True):
        dense.index_add_(0, touched, gradient)

    def exchange(peers: Peers) -> tuple[Tensor, Tensor]:
        scratch = torch.full((9,), -1, dtype=torch.int32)
        return peers.exchange_rows(rows[peers.rank], gradients[peers.rank], scratch)

    for touched, summed in together(3, exchange):
        assert sorted(touched.tolist()) == [0, 1, 4, 7]
        torch.testing.assert_close(summed, dense[touched])


def test_users_are_shared_out_and_steps_are_as_many() -> None:
    peers = [Peers(rank, 3) for rank in range(3)]
    shares = [one.share(10) for one in peers]
    assert sorted(torch.cat(shares).tolist()) == list(range(10))
    steps = [one.batches(mine, 10, 4) for one, mine in zip(peers, shares, strict=True)]
    assert [len(parts) for parts in steps] == [3, 3, 3]
    assert [len(part) for part in ALONE.batches(torch.arange(10), 10, 4)] == [4, 4, 2]


def test_a_worker_without_a_gpu_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for name, value in (("WORLD_SIZE", "4"), ("RANK", "2"), ("LOCAL_RANK", "2")):
        monkeypatch.setenv(name, value)
    with pytest.raises(SlatewiseError, match="worker 3 of this machine has no GPU: there are 2"):
        Peers.of_environment("cuda")


def test_workers_of_torchrun_are_found_by_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        "torch.distributed.init_process_group", lambda kind, **about: met.append((kind, about))
    )
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert Peers.of_environment() == ALONE
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    assert Peers.of_environment() == Peers(2, 4)
    ((kind, about),) = met
    assert kind == "gloo"
    assert (about["rank"], about["world_size"], about["init_method"]) == (2, 4, "env://")

    taken: list[int] = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert Peers.of_environment("cuda") == Peers(2, 4, on_gpus=True)
    assert met[1][0] == "cpu:gloo,cuda:nccl"
    assert taken == [1]


def test_workers_want_a_cluster() -> None:
    with pytest.raises(SlatewiseError, match="cluster"):
        joined_peers(None, 2, "cpu", auto=False)
