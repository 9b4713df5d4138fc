"""Workers that train one model together: each has its share of the users, all the same model.

Every step, each works out the gradient of its own part of the batch. Shared parameters are few:
their gradients are summed as one vector. Of the items, only the rows that some worker touched
travel between CPUs, and between GPUs the whole table, which takes less time there than to find
those rows. All workers then take the same step, so that their models stay equal to the last bit and
any of them can write the checkpoint.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor

from slatewise.errors import SlatewiseError
from slatewise.model.kernels.rows import unique_rows

PATIENCE: Final = timedelta(minutes=10)
"""How long a worker waits for the others; a validation of many users takes minutes."""


@dataclass(frozen=True)
class Peers:
    """All workers as one of them sees it; a single worker exchanges nothing."""

    rank: int = 0
    """the number of this one; 0 writes the files"""
    size: int = 1
    """how many there are"""
    on_gpus: bool = False
    """whether each has a GPU, and they exchange what lies there without their hosts"""

    @classmethod
    def join(cls, rank: int, size: int, address: str, device: str = "cpu") -> "Peers":
        """Join the other workers at an address such as tcp://10.0.0.1:29500."""
        on_gpus = device != "cpu"
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpus else "gloo",
            init_method=address,
            rank=rank,
            world_size=size,
            timeout=PATIENCE,
        )
        return cls(rank, size, on_gpus)

    @classmethod
    def of_environment(cls, device: str = "cpu") -> "Peers":
        """Join the workers that `torchrun` started, if any; each takes a GPU of its machine."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1 or "RANK" not in os.environ:
            return cls()
        if device != "cpu":
            _take_gpu(int(os.environ.get("LOCAL_RANK", "0")))
        return cls.join(int(os.environ["RANK"]), size, "env://", device)

    def leave(self) -> None:
        """Part from the others."""
        if self.size > 1:
            dist.destroy_process_group()

    @property
    def seeds(self) -> tuple[int, ...]:
        """What sets the random numbers of this worker apart; nothing for a single one."""
        return (self.rank,) if self.size > 1 else ()

    def share(self, count: int) -> Tensor:
        """Return which of the users are this worker's."""
        return torch.arange(self.rank, count, self.size)

    def sum(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all workers."""
        if self.size > 1:
            tensor = tensor.clone()
            dist.all_reduce(tensor)
        return tensor

    def averaging(self, count: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what averages tensors over all workers, each weighted by its count []."""
        if self.size == 1:
            return lambda tensor: tensor
        weight = count / self.sum(count).clamp(min=1)
        return lambda tensor: self.sum(tensor * weight)

    def total(self, number: int) -> int:
        """Add up a number over all workers."""
        return int(self.sum(torch.tensor(number)))

    def greatest(self, number: int) -> int:
        """Return the greatest of the workers' numbers."""
        if self.size > 1:
            greatest = torch.tensor(number)
            dist.all_reduce(greatest, op=dist.ReduceOp.MAX)
            return int(greatest)
        return number

    def any(self, flag: bool) -> bool:
        """Return whether it is so for any worker."""
        return bool(self.greatest(int(flag)))

    def batches(self, users: Tensor, everyone: int, batch_users: int) -> Sequence[Tensor]:
        """Divide this worker's users [U'] into its parts of the steps of an epoch.

        All workers have as many steps as one with all the users, `everyone`, would have.
        """
        if self.size == 1:
            return torch.split(users, batch_users)
        return torch.tensor_split(users, -(-everyone // batch_users))

    def largest_batch(self, users: int, everyone: int, batch_users: int) -> int:
        """Return how many users the largest of its `batches` has."""
        if self.size == 1:
            return min(batch_users, users)
        return -(-users // -(-everyone // batch_users))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all workers, which have one shape."""
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor.contiguous())
        return gathered

    def exchange_rows(
        self, rows: Tensor, gradient: Tensor, scratch: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sum the gradients [R, C] of touched rows [R] over all workers: those any touched."""
        counts = [int(count) for count in self.gather(torch.tensor([len(rows)]))]
        # Gathering wants equal shapes; what is filled up is cut off again.
        missing = max(counts) - len(rows)
        all_rows = self.gather(torch.nn.functional.pad(rows, (0, missing)))
        gradients = self.gather(torch.nn.functional.pad(gradient, (0, 0, 0, missing)))
        cells = torch.cat([part[:n] for part, n in zip(all_rows, counts, strict=True)])
        parts = torch.cat([part[:n] for part, n in zip(gradients, counts, strict=True)])
        touched, local, _ = unique_rows(cells, scratch)
        summed = gradient.new_zeros(len(touched), gradient.shape[1])
        return touched, summed.index_add_(0, local, parts)


def _take_gpu(number: int) -> None:
    """Work on one GPU of this machine, which no other worker has."""
    there = torch.cuda.device_count()
    if number >= there:
        raise SlatewiseError(
            f"worker {number + 1} of this machine has no GPU: there are {there}.",
            "Start as many workers as the machine has GPUs, or use --device cpu.",
        )
    torch.cuda.set_device(number)


ALONE: Final = Peers()
