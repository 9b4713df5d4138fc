"""Fit the weights of a logarithmic pool of the model and terms that see slates (`model.pool`).

Model and terms were fitted to the training part separately; their weights are fitted to held-out
choices. They are few and the likelihood is concave, so Newton's method takes a second. A further
click on a slate, given that there was one, is a choice among what is left.

Shapes: N interactions, F items seen, M held-out choices, P columns of terms that see slates.
"""

from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import offsets_of
from slatewise.features.linear_choice import LinearChoice
from slatewise.model.gaussian import Gaussian
from slatewise.model.pool import SlatePool
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.model.terms import FittedTerms
from slatewise.model.utility import item_utilities, no_click_utilities
from slatewise.training.validation import held_out

_USERS: Final = 20_000
"""Most users whose choices are used."""
_LEAST: Final = 0.05
"""κ at least: weights are divided by it."""
_HALF: Final = 0.5
"""Prior mean and standard deviation of the weight of the model and of each column."""


def fit_pool(
    posterior: Posterior, terms: FittedTerms, dataset: SlateDataset, described: Interactions
) -> float | None:
    """Fit the pool to validation choices, and set it; return their mean log-likelihood.

    `described` has the features that the posterior was fitted with. None, and no pool, for a model
    without terms that are pooled.
    """
    seeing = {n: term for n, term in terms.by_name.items() if term.in_lists and term.pooled}
    if not seeing:
        return None
    rng = torch.Generator().manual_seed(0)
    users = torch.nonzero(described.valid_end > described.train_end).squeeze(1)
    ends = described.valid_end
    users = users[torch.randperm(len(users), generator=rng)[:_USERS].sort().values]
    batch = described.of_users(users, ends[users])
    chosen = (batch.scroll_lengths > 0) & held_out(batch).bool()
    columns = [term.describe_in(dataset)(batch) for term in seeing.values()]
    with torch.no_grad():
        for name in seeing:
            posterior.shared[name].mean.zero_()  # so far the model says nothing of it
        posterior.training = True
        logit = _choices(posterior, batch, chosen, torch.cat(columns, 1))
        posterior.training = False
    best = logit.fit(least=_LEAST)
    kappa, precision = float(best[0]), logit.precision(best)[1:-1, 1:-1]
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    means, sds = (
        torch.split(torch.from_numpy(values / kappa).float(), [len(part.T) for part in columns])
        for values in (best[1:-1], spread)
    )
    for name, mean, sd in zip(seeing, means, sds, strict=True):
        _set(posterior.shared[name], mean, sd)
    posterior.pool = SlatePool(kappa, float(best[-1]))
    return logit.log_likelihood(best) / int(chosen.sum())


def _set(own: Gaussian, mean: Tensor, sd: Tensor) -> None:
    with torch.no_grad():
        own.mean.copy_(mean)
        own.raw.copy_(own.raw_of(sd, most=0.99))


def _choices(
    posterior: Posterior, batch: Interactions, chosen: Tensor, columns: Tensor
) -> LinearChoice:
    """Return the choices [M] between what a model and other terms say: κ, P weights, and c."""
    parameters = posterior.expected()
    steps = ClickSteps.of(batch, parameters.evidence)
    profiles = known_profiles(parameters, batch, steps)[steps.state_of]
    on_items = item_utilities(parameters, profiles, batch)  # [F]
    no_click = no_click_utilities(parameters, batch)[chosen]  # [M]
    options = batch.choices(chosen)  # [F]
    before = torch.nn.functional.pad(options.cumsum(0), (1, 0))  # [F + 1]
    starts = batch.slate_offsets[:-1][chosen]
    clicks = batch.clicks[chosen].long()
    clicks = torch.where(clicks < 0, -1, before[starts + clicks.clamp(min=0)] - before[starts])
    items = torch.cat([on_items[:, None], columns, torch.zeros(len(columns), 1)], 1)[options]
    none = torch.cat([no_click[:, None], torch.zeros(len(no_click), columns.shape[1] + 1)], 1)
    none[:, -1] = 1
    halves = np.full(1 + columns.shape[1], _HALF)
    lengths = before[batch.slate_offsets[1:][chosen]] - before[starts]
    return LinearChoice.with_no_click(
        offsets_of(lengths.numpy()),
        clicks.numpy(),
        items.double().numpy(),
        none.double().numpy(),
        mean=np.append(halves, 0.0),
        sd=np.append(halves, 1.0),
        can_pass=batch.first_choices[chosen].numpy(),
    )
