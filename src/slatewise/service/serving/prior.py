"""Day zero: what is believed of items before any click, as a model that can already serve.

All items are alike, and nothing is known of any: Thompson strategies show each equally often, and
learn. A greedy strategy has nothing to be greedy about, and shows the same items to everybody.
"""

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.model.registry import PRIORS, TERMS

PRIOR: Final = "prior"
"""What versions before any training are called."""
_LONGEST_SLATE: Final = 1
"""Of the no-click parameters, which rank nothing."""

Floats = npt.NDArray[np.float32]


def prior_version(config: ModelConfig) -> str:
    """Name the model before training; another configuration has another name."""
    digest = hashlib.sha256(_without_data(config).model_dump_json().encode()).hexdigest()
    return f"{PRIOR}-{digest[:12]}"


def prior_model(config: ModelConfig, source: str) -> SlateModel:
    """Return a model without items; they come with `prior_items`, like items that are added.

    Users are moved by clicks as at the start of training: towards what they clicked. What terms
    need a log for is left out, since there is none.
    """
    config = _without_data(config)
    nothing = torch.empty(0, dtype=torch.int64)
    seeded = torch.Generator().manual_seed(0)  # the same in every worker, and in a replay
    posterior = Posterior(config, nothing, [], _LONGEST_SLATE, seeded, [source])
    return SlateModel(posterior, [], [], [source], nothing)


def prior_items(config: ModelConfig, count: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return means and scales [R, D], biases and scales of biases [R] of new items."""
    scales = PRIORS[config.prior].before_data(config).numpy().astype(np.float32)  # [C]
    size = config.dimensions
    bias = scales[size:].sum()  # of a model without biases 0
    return (
        np.zeros((count, size), np.float32),
        np.tile(scales[:size], (count, 1)),
        np.zeros(count, np.float32),
        np.full(count, bias, np.float32),
    )


def waiting(config: ModelConfig) -> list[str]:
    """Return a note of the parts that day zero leaves out."""
    names = [term for term in config.terms if term not in _without_data(config).terms]
    names += ["evidence"] * bool(config.evidence)
    return [f"before the first training without {', '.join(names)}"] if names else []


def _without_data(config: ModelConfig) -> ModelConfig:
    """Leave out terms that are computed from a log, and evidence, whose sources it names."""
    terms = tuple(term for term in config.terms if TERMS[term].item_columns(config))
    return config.model_copy(update={"terms": terms, "evidence": ()})
