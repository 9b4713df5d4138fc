"""Adam as torch computes it, without what `torch.optim.Adam` loads with its first step.

An optimiser of torch loads torch's compiler, which nothing here uses: 1.6 CPU seconds in every
process that trains, as much as all else that is imported.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim.adam import adam as torch_adam


class Adam:
    """Moves the parameters that have a gradient, bit by bit as `torch.optim.Adam` would.

    With `decay` it is `torch.optim.AdamW`. `state` holds what is known of each parameter under the
    names that torch gives it.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        decay: float = 0.0,
        fused: bool = False,
    ) -> None:
        self._parameters = list(parameters)
        self._betas, self._epsilon, self._decay, self._fused = betas, epsilon, decay, fused
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Take a step by the gradients."""
        moved = [one for one in self._parameters if one.grad is not None]
        if not moved:
            return
        states = [self._state_of(one) for one in moved]
        torch_adam(
            moved,
            [one.grad for one in moved if one.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            foreach=not self._fused,
            fused=self._fused,
            decoupled_weight_decay=True,
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            lr=rate,
            weight_decay=self._decay,
            eps=self._epsilon,
            maximize=False,
        )

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter not in self.state:
            # A fused step is counted where it is taken.
            where = parameter.device if self._fused else None
            self.state[parameter] = {
                "step": torch.zeros((), device=where),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]
