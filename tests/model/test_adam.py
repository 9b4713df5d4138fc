import pytest
import torch

from slatewise.model.adam import Adam


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_those_of_torch_bit_by_bit(decay: float, fused: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    ours = [torch.randn(size, generator=generator, requires_grad=True) for size in (7, 1, 4)]
    theirs = [one.detach().clone().requires_grad_() for one in ours]
    adam = Adam(ours, betas=(0.8, 0.99), epsilon=1e-9, decay=decay, fused=fused)
    way = {"fused": fused, "foreach": not fused, "weight_decay": decay}
    known = torch.optim.AdamW(theirs, betas=(0.8, 0.99), eps=1e-9, **way)
    adam.step(0.1)  # without a gradient there is nothing to do
    for step in range(1, 9):
        adam.zero_grad()
        known.zero_grad()
        for mine, other in list(zip(ours, theirs, strict=True))[step % 2 :]:
            mine.grad = torch.randn(mine.shape, generator=generator)
            other.grad = mine.grad.clone()
        known.param_groups[0]["lr"] = 0.3 / step
        adam.step(0.3 / step)
        known.step()
        assert all(torch.equal(mine, other) for mine, other in zip(ours, theirs, strict=True))
    for mine, other in zip(ours, theirs, strict=True):
        assert adam.state[mine].keys() == known.state[other].keys()
        assert all(
            torch.equal(value, known.state[other][k]) for k, value in adam.state[mine].items()
        )
