"""Updates of large tables, at the cost of the rows that a step touches.

Shapes: I table rows, D dimensions, F cells, R distinct rows among them.
"""

import numpy as np
import torch
from torch import Tensor

from slatewise.model.kernels.backend import has_numba, loops


def unique_rows(cells: Tensor, scratch: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct rows in cells, each cell's index among them, how often each occurs.

    With a scratch the rows come in order of first appearance, in O(F). Without one, or where
    numba is missing or the cells are on another device, torch sorts them: rows come in ascending
    order.

    Args:
        cells: [F] int32 or int64, rows of a table.
        scratch: [I] int32 on the CPU, all -1; left so.

    Returns:
        rows [R] int64, local [F] int32 with `rows[local] == cells`, counts [R] int32.

    """
    if scratch is None or not has_numba() or cells.device.type != "cpu":
        rows, local, counts = torch.unique(cells, return_inverse=True, return_counts=True)
        return rows.long(), local.int(), counts.int()
    if scratch.dtype != torch.int32 or not scratch.is_contiguous():
        raise ValueError("scratch must be a contiguous int32 tensor")
    rows = torch.empty(len(cells), dtype=torch.int64)
    local, counts = (torch.empty(len(cells), dtype=torch.int32) for _ in range(2))
    arrays = (tensor.numpy() for tensor in (cells.contiguous(), scratch, rows, local, counts))
    found = loops("rows").first_appearances(*arrays)
    if found < 0:
        raise IndexError(f"a cell is not one of the {len(scratch):,} rows")
    return rows[:found], local, counts[:found]


class RowAdam:
    """Adam with momentum per entry and second moment per row, updated only for touched rows.

    A row of gradient g moves m <- b1 m + (1 - b1) g, s <- b2 s + (1 - b2) mean(g^2), and the row
    by -lr m' / (sqrt(s') + eps), where m' and s' are corrected for their start at zero by the
    row's own count of steps. One s per row needs D times less memory than one per entry and, on
    simulated slates, predicts a little better.
    """

    def __init__(
        self,
        table: Tensor,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        """Prepare to update a table [I, D] in place; float32 on the CPU for the fast loop."""
        if table.ndim != 2 or not table.is_contiguous():
            raise ValueError("the table must be a contiguous matrix")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be in [0, 1), not {betas}")
        self.table = table.detach()
        self.lr, self.betas, self.eps = lr, betas, eps
        self.momentum = torch.zeros_like(self.table)
        self.second_moment = table.new_zeros(len(table), requires_grad=False)
        self.steps = torch.zeros(len(table), dtype=torch.int32, device=table.device)
        self._most_steps = 0
        self._corrections = self._corrections_up_to(1023)

    def step(self, rows: Tensor, gradient: Tensor, lr: float | None = None) -> None:
        """Update the rows [R] (int64, each at most once) by their gradient [R, D]."""
        if gradient.shape != (len(rows), self.table.shape[1]):
            raise ValueError(f"the gradient is {list(gradient.shape)} for {len(rows)} rows")
        self._most_steps += 1
        if self._most_steps >= len(self._corrections):
            self._corrections = self._corrections_up_to(2 * self._most_steps)
        lr = self.lr if lr is None else lr
        on_cpu = self.table.device.type == "cpu" and self.table.dtype == torch.float32
        if not on_cpu or not has_numba():
            self._torch_step(rows, gradient, lr)
            return
        # 1 - beta in float64: 1 - float32(0.999) would be off by 1e-5.
        shares = [share for beta in self.betas for share in (beta, 1 - beta)]
        if not loops("rows").adam_kernel(self.table.shape[1])(
            self.table.numpy(),
            self.momentum.numpy(),
            self.second_moment.numpy(),
            self.steps.numpy(),
            rows.to(torch.int64).contiguous().numpy(),
            gradient.detach().to(torch.float32).contiguous().numpy(),
            *(np.float32(number) for number in (lr, *shares, self.eps)),
            self._corrections.numpy(),
        ):
            raise IndexError(f"a row is not one of the table's {len(self.table):,}")

    def state(self) -> dict[str, Tensor]:
        """Return what, beside the table, an exact continuation needs; shared, not copied."""
        return {
            "momentum": self.momentum,
            "second_moment": self.second_moment,
            "steps": self.steps,
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Continue from a state that `state` returned."""
        for name, own in self.state().items():
            if state[name].shape != own.shape:
                raise ValueError(f"{name} is {list(state[name].shape)}, not {list(own.shape)}")
            own.copy_(state[name])
        self._most_steps = int(self.steps.max()) if len(self.steps) else 0
        self._corrections = self._corrections_up_to(2 * self._most_steps + 1023)

    def _corrections_up_to(self, steps: int) -> Tensor:
        """[steps + 1, 2] the factors that undo the start at zero: of m, and of sqrt(s).

        A table, because two powers per row would cost more than the rest of its update.
        """
        count = torch.arange(steps + 1, dtype=torch.float64).clamp(min=1)
        first, second = (1 / (1 - torch.pow(beta, count)) for beta in self.betas)
        return torch.stack([first, second.sqrt()], 1).to(self.table.device, torch.float32)

    def _torch_step(self, rows: Tensor, gradient: Tensor, lr: float) -> None:
        beta1, beta2 = self.betas
        self.steps[rows] += 1
        momentum = self.momentum[rows].mul_(beta1).add_(gradient, alpha=1 - beta1)
        second = self.second_moment[rows].mul_(beta2)
        second.add_(gradient.square().mean(1), alpha=1 - beta2)
        self.momentum[rows], self.second_moment[rows] = momentum, second
        first_factor, second_factor = self._corrections[self.steps[rows].long()].unbind(1)
        size = lr * first_factor / (second.sqrt() * second_factor + self.eps)
        self.table[rows] -= size[:, None] * momentum
