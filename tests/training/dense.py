"""The objective without any of its economies: all items, one user after the other, float64.

Nothing here comes from the model's own modules but the numbers of its configuration.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from slatewise.data.interactions import Interactions
from slatewise.model.config import ModelConfig
from slatewise.model.likelihood import exposure_weights
from tests.model.ragged import histories

Tensors = dict[str, Tensor]


def leaves(tensors: Tensors) -> Tensors:
    """Copy a posterior's tensors into float64, with gradients."""
    return {name: tensor.double().clone().requires_grad_() for name, tensor in tensors.items()}


class Dense:
    """−ELBO / N of a whole batch for given noise."""

    def __init__(
        self, config: ModelConfig, free: Tensors, noise: Tensors, groups: Tensor, sources: list[str]
    ) -> None:
        names = {name.rsplit(".", 1)[0] for name in free}
        self.config, self.groups, self.sources = config, groups, sources
        self.q = {
            name: Normal(
                free[f"{name}.mean"], config.sigma_max * torch.sigmoid(free[f"{name}.raw"])
            )
            for name in names
        }
        self.value = {name: q.loc + q.scale * noise[name].double() for name, q in self.q.items()}
        self.vectors = self.value["items"][:, : config.dimensions]
        self.biases = self.value["items"][:, config.dimensions :].sum(1)

    def negative_elbo(
        self,
        batch: Interactions,
        *,
        shares: Tensor,
        total: int,
        prefix: Sequence[int] | None = None,
        initial_noise: Tensor | None = None,
    ) -> Tensor:
        """Return −mean log-likelihood + τ KL / N; of item i's divergence, shares[i] is charged.

        With an amortised initial state, `prefix` clicks of each user make hers, with
        `initial_noise` [B, D].
        """
        config, count = self.config, len(batch.clicks)
        likelihood, scored = torch.zeros((), dtype=torch.float64), 0
        divergence = self._shared_kl() / total + (shares * self.item_kl()).sum() / count
        for user, met in enumerate(histories(batch)):
            clicked = [each.click for each in met if each.click >= 0]
            state, known = self.value["initial_state"], 0
            if prefix is not None and prefix[user] > 0:
                assert initial_noise is not None
                known = prefix[user]
                start = self._amortised(clicked[:known])
                state = start.loc + start.scale * initial_noise[user]
                prior = Normal(torch.zeros_like(start.loc), config.sigma_h0)
                divergence = divergence + kl_divergence(start, prior).sum() / count
            clicks = 0
            for each in met:
                if clicks >= known:
                    likelihood = likelihood + self._log_likelihood(state, each, batch)
                    scored += 1
                if each.click >= 0:
                    state = self._moved(state, self.vectors[each.click])
                    clicks += 1
                elif self.sources[each.source] in config.evidence:
                    state = self._moved_by_slate(state, each.slate, each.source)
        return -likelihood / max(scored, 1) + config.temperature * divergence

    def item_kl(self) -> Tensor:
        """Cross-entropy minus entropy, with the group mean's variance in the former: [I]."""
        q = self.q["items"]
        if self.config.prior == "flat":
            scale = self._by_column(self.config.sigma_v, self.config.sigma_bias)
            return kl_divergence(q, Normal(torch.zeros_like(q.loc), scale)).sum(1)
        means = self.q["group_means"]
        squared = self.value["group_spreads"][self.groups] ** 2 + self.config.scale_floor**2
        centre, wobble = means.loc[self.groups], means.scale[self.groups]
        distance = (q.loc - centre) ** 2 + q.scale**2 + wobble**2
        cross = 0.5 * torch.log(2 * math.pi * squared) + distance / (2 * squared)
        return (cross - q.entropy()).sum(1)

    def _shared_kl(self) -> Tensor:
        config = self.config
        scales = {
            "initial_state": config.sigma_h0,
            "no_click": config.sigma_no_click,
            "evidence": config.sigma_evidence,
            "group_means": self._by_column(config.kappa_mu, config.kappa_bias),
            "group_spreads": self._by_column(config.kappa_sigma, config.kappa_bias),
            "position": config.sigma_position,
            "position_factor": config.sigma_position_factor,
            **dict.fromkeys(("history", "popularity", "propensity"), config.sigma_weights),
        } | dict.fromkeys(("from_item", "from_state", "output"), config.sigma_rnn)
        total = torch.zeros((), dtype=torch.float64)
        for name, q in self.q.items():
            if name == "drift_logit":
                total = total + self._drift_kl(q)
            elif name != "items":
                total = (
                    total + kl_divergence(q, Normal(torch.zeros_like(q.loc), scales[name])).sum()
                )
        return total

    def _by_column(self, of_vectors: float, of_biases: float) -> Tensor:
        scales = [of_vectors] * self.config.dimensions
        return torch.tensor(scales + [of_biases] * ("bias" in self.config.terms)).double()

    @staticmethod
    def _drift_kl(q: Normal) -> Tensor:
        """Integrate over a fine grid."""
        grid = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
        x = q.loc + q.scale * grid
        gamma = torch.sigmoid(x)
        inside = torch.linspace(0, 1, 20_001, dtype=torch.float64)
        bell = Normal(0.5, 0.3)
        normaliser = torch.trapezoid(bell.log_prob(inside).exp(), inside)
        log_q = q.log_prob(x) - torch.log(gamma * (1 - gamma))
        log_prior = bell.log_prob(gamma) - normaliser.log()
        mass = torch.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        return torch.trapezoid(mass * (log_q - log_prior), grid)

    def _amortised(self, clicked: list[int]) -> Normal:
        vectors = self.vectors[clicked]
        weight = self.config.memory ** torch.arange(len(clicked) - 1, -1, -1).double()
        mean = (weight[:, None] * vectors).sum(0) / weight.sum()
        scale = (vectors.var(0, unbiased=False) + 0.01).sqrt()
        return Normal(mean, scale.clamp(max=self.config.sigma_max))

    def _moved_by_slate(self, state: Tensor, slate: list[int], source: int) -> Tensor:
        """Go a fraction of the way to where a click on its mean would lead a GRU at reset."""
        fraction = torch.tanh(
            self.value["evidence"][self.config.evidence.index(self.sources[source])]
        )
        target = self.vectors[slate].mean(0)
        if self.config.dynamics == "gru":
            target = torch.tanh(self.value["from_item"][2 * len(state) :] @ target)
        if fraction < 0:
            fraction = fraction * torch.exp(-(target - state).norm())
        return (1 - fraction) * state + fraction * target

    def _moved(self, state: Tensor, item: Tensor) -> Tensor:
        if self.config.dynamics == "linear":
            drift = torch.sigmoid(self.value["drift_logit"])
            return drift * state + (1 - drift) * item
        weights = self.value["from_item"], self.value["from_state"]
        return torch.gru_cell(item[None], state[None], *weights)[0]

    def _passing(self, n: int, batch: Interactions) -> tuple[Tensor, Tensor]:
        """What features and positions add: to each item of the slate, and to no click."""
        items = torch.zeros(int(batch.scroll_lengths[n]), dtype=torch.float64)
        no_click = torch.zeros((), dtype=torch.float64)
        first, end = batch.slate_offsets[n], batch.slate_offsets[n + 1]
        weights = [self.value[name] for name in ("history", "popularity") if name in self.value]
        if weights:
            items = items + batch.cell_features[first:end].double() @ torch.cat(weights)
        if "position" in self.value:
            *of_source, returning, regular = self.value["position_factor"]
            before = n - int(batch.user_offsets[batch.user_offsets <= n].max())
            factor = of_source[batch.sources[n]] + returning * (before > 0) + regular * (before > 4)
            items = items + factor.exp() * self.value["position"][: len(items)]
        if "propensity" in self.value:
            no_click = batch.step_features[n].double() @ self.value["propensity"]
        return items, no_click

    def _log_likelihood(
        self, state: Tensor, met: tuple[int, list[int], int, int], batch: Interactions
    ) -> Tensor:
        n, slate, click, source = met
        config = self.config
        profile = state if config.dynamics == "linear" else self.value["output"] @ state
        closeness = -(self.vectors - profile).square().sum(1).sqrt()  # [I]
        utility = closeness + self.biases
        on_items, on_no_click = self._passing(n, batch)
        no_click = self.value["no_click"][len(slate) - 1] + on_no_click
        in_slate = utility[slate] + on_items
        chosen = in_slate[slate.index(click)] if click >= 0 else no_click
        log_likelihood = chosen - torch.logsumexp(torch.cat([in_slate, no_click[None]]), 0)
        if config.likelihood == "all-item":
            seen, everything = (
                torch.logsumexp(torch.cat([part, no_click[None]]), 0)
                for part in (utility[slate], utility)
            )
            log_likelihood = log_likelihood + seen - everything
        if config.likelihood == "source-aware":
            kappa = config.sharpness
            lam = exposure_weights(config, self.sources)[self.sources[source]]
            seen = torch.logsumexp(kappa * closeness[slate], 0)
            log_likelihood = log_likelihood + lam * (seen - torch.logsumexp(kappa * closeness, 0))
        return log_likelihood
