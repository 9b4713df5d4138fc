"""The networks of GRU4Rec, SASRec and BPR: from clicks to states that items are compared with.

Shapes: w windows of L tokens, D dimensions, I items, C targets of a step, K negatives.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

WINDOW: Final = 50
"""Clicks that a network looks back at most, and half as many at least where there are more."""
EXACT: Final = 30_000
"""Items up to which the softmax is over all of them; beyond, over targets and negatives."""
NEGATIVES: Final = 4_096


@dataclass(frozen=True)
class Settings:
    """How large a network is, and how it learns."""

    dimensions: int = 64
    dropout: float = 0.2
    pace: float = 1.0
    """Learning rate, as a multiple of what its kind has by default."""


class Encoder(nn.Module, ABC):
    """Turns tokens into states, each from the tokens up to it; holds the vectors of items."""

    rate: ClassVar[float]
    """Learning rate of AdamW."""

    def __init__(self, num_items: int, settings: Settings) -> None:
        super().__init__()
        self.settings, dimensions = settings, settings.dimensions
        self.vectors = nn.Embedding(num_items + 1, dimensions)  # the last one begins a sequence
        nn.init.normal_(self.vectors.weight, std=dimensions**-0.5)
        self.bias = nn.Parameter(torch.zeros(num_items))
        self.dropout = nn.Dropout(settings.dropout)

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Return the states after tokens [w, L]: [w, L, D]."""

    def targets(self) -> Tensor:
        """Return the vectors [I, D] that states are compared with."""
        return self.vectors.weight[:-1]

    def loss(self, states: Tensor, items: Tensor) -> Tensor:
        """Return the mean loss of the next clicks [C] after states [C, D]: a softmax."""
        if len(self.bias) <= EXACT:
            return functional.cross_entropy(states @ self.targets().T + self.bias, items)
        drawn = torch.randint(len(self.bias), (NEGATIVES,), device=items.device)
        own = (states * self.targets()[items]).sum(1) + self.bias[items]
        others = states @ self.targets()[drawn].T + self.bias[drawn]  # [C, K]
        # Each of K stands for I / K items; the target itself is counted once.
        others = others + np.log(len(self.bias) / NEGATIVES)
        others = others.masked_fill(drawn == items[:, None], -torch.inf)
        return (torch.logaddexp(own, others.logsumexp(1)) - own).mean()


class GRU(Encoder):
    """A gated recurrent unit over the clicks (Hidasi et al., 2016; constrained embeddings)."""

    rate = 3e-3

    def __init__(self, num_items: int, settings: Settings) -> None:
        super().__init__(num_items, settings)
        self.gru = nn.GRU(settings.dimensions, settings.dimensions, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the hidden states [w, L, D]."""
        states: Tensor = self.gru(self.dropout(self.vectors(tokens)))[0]
        dropped: Tensor = self.dropout(states)
        return dropped


class SelfAttention(Encoder):
    """Two layers of causal self-attention (Kang & McAuley, 2018), with the full softmax."""

    rate = 2e-3

    def __init__(self, num_items: int, settings: Settings) -> None:
        super().__init__(num_items, settings)
        dimensions = settings.dimensions
        self.positions = nn.Parameter(torch.zeros(WINDOW, dimensions))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                *(dimensions, 2, 2 * dimensions, settings.dropout),
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(dimensions)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs of the last layer [w, L, D]."""
        length = tokens.shape[1]
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        scale = self.settings.dimensions**0.5
        states = self.dropout(self.vectors(tokens) * scale + self.positions[:length])
        for layer in self.layers:
            states = layer(states, src_mask=causal, is_causal=True)
        normed: Tensor = self.norm(states)
        return normed


class MeanOfClicks(Encoder):
    """Pairwise ranking (BPR, Rendle et al., 2009) of a user who is the mean of her clicks.

    Users who come after training have no vector of their own, so that a user is made of what she
    clicked, Σ p / √n, as in FISM (Kabbur et al., 2013).
    """

    rate = 5e-3

    def __init__(self, num_items: int, settings: Settings) -> None:
        super().__init__(num_items, settings)
        self.compared = nn.Embedding(num_items, settings.dimensions)
        nn.init.normal_(self.compared.weight, std=settings.dimensions**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return Σ p / √n over the tokens so far: [w, L, D]."""
        count = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)[:, None]
        mean: Tensor = self.dropout(self.vectors(tokens)).cumsum(1) / count.sqrt()
        return mean

    def targets(self) -> Tensor:
        """Return vectors of their own."""
        return self.compared.weight

    def loss(self, states: Tensor, items: Tensor) -> Tensor:
        """Return −log σ(score of the click − score of an item at random), over ten of them."""
        drawn = torch.randint(len(self.bias), (len(items), 10), device=items.device)
        own = (states * self.targets()[items]).sum(1) + self.bias[items]
        others = torch.einsum("cd,ckd->ck", states, self.targets()[drawn]) + self.bias[drawn]
        return -functional.logsigmoid(own[:, None] - others).mean()


NETWORKS: Final[dict[str, type[Encoder]]] = {
    "gru4rec": GRU,
    "sasrec": SelfAttention,
    "bpr": MeanOfClicks,
}
