from typing import Literal

import pytest
import torch

from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior

ITEMS, GROUPS, D = 60, 3, 3


def a_model(
    dynamics: Literal["gru", "linear"] = "gru",
    prior: Literal["hierarchical", "flat"] = "hierarchical",
    initial: Literal["causal", "amortised"] = "causal",
    scale: float = 0.2,
    evidence: tuple[str, ...] = (),
) -> SlateModel:
    """Items a00 … a59, in turn of the groups red, green and blue, all with one posterior scale."""
    config = ModelConfig(
        dynamics=dynamics,
        prior=prior,
        initial_state=initial,
        dimensions=D,
        sigma_max=2.0,
        evidence=evidence,
    )
    sources = ["search", "recommendation"]
    seeded = torch.Generator().manual_seed(7)
    posterior = Posterior(config, torch.arange(ITEMS) % GROUPS, range(GROUPS), 25, seeded, sources)
    with torch.no_grad():
        posterior.items.mean.copy_(0.7 * torch.randn(ITEMS, D, generator=seeded))
        posterior.items.raw.fill_(float(torch.logit(torch.tensor(scale / 2.0))))
    return SlateModel(
        posterior,
        [f"a{number:02d}" for number in range(ITEMS)],
        ["red", "green", "blue"],
        sources,
        torch.arange(ITEMS),
    )


@pytest.fixture(scope="module")
def model() -> SlateModel:
    return a_model()
