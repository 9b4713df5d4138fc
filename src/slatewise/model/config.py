"""What a model is: its likelihood, dynamics and priors, with the paper's symbol for each number."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from slatewise.config import Config

Term = Literal["bias", "history", "popularity", "propensity", "position"]
"""What may be added to the utility of an item or of no click, beside the distance."""


class ModelConfig(Config):
    """The sequential slate model (Section 3 of the paper); every σ and κ is a standard
    deviation.

    The defaults are those that worked on simulated logs, not the paper's tuned ones.
    """

    likelihood: Literal["slate", "all-item", "source-aware"] = "slate"
    """What the data say: the choice within the slate (eq. likelihood), the choice among all items
    (eq. likelihood_all-item), or the slate plus an exposure term weighted by source."""
    dynamics: Literal["gru", "linear"] = "gru"
    """How clicks move the user: eq. gru or eq. linearmodel."""
    prior: Literal["hierarchical", "flat"] = "hierarchical"
    """Prior of the item vectors: around their group's mean, or around zero (Section priors)."""
    initial_state: Literal["causal", "amortised"] = "causal"
    """h_0: one learned state for everybody, or the paper's average over the user's clicks, taken
    over a prefix that is never scored."""

    terms: tuple[Term, ...] = ()
    """Terms of the utility beside −‖z − v_i‖; none is the paper's model."""
    evidence: tuple[str, ...] = ()
    """Sources whose slates move the user without a click too, once they are past; none is the
    paper's model."""

    dimensions: PositiveInt = 10
    """d, the dimension of item vectors v_i and user profiles z_t."""
    hidden: PositiveInt | None = None
    """d_h, the dimension of the hidden state of the GRU; d without it."""

    temperature: float = Field(default=1.0, gt=0, le=1)
    """τ, by which the prior is weighted down (eq. posterior); 1 is the plain posterior."""
    sigma_max: PositiveFloat = 1.0
    """σ_max, above which no posterior standard deviation rises."""

    kappa_mu: PositiveFloat = 2.0
    """κ_μ, prior of the group means."""
    kappa_sigma: PositiveFloat = 1.0
    """κ_Σ, folded-normal prior of the group scales."""
    scale_floor: PositiveFloat = 0.1
    """Least group scale: below it the likelihood of item vectors has a funnel without bottom."""
    sigma_v: PositiveFloat = 0.5
    """σ_v, flat prior of the item vectors."""
    kappa_bias: PositiveFloat = 0.5
    """κ_b, prior of the group means of item biases, and folded-normal prior of their scales."""
    sigma_bias: PositiveFloat = 0.5
    """σ_b, flat prior of the item biases."""
    sigma_features: PositiveFloat = 0.3
    """σ_W, prior of the matrix that leads from the features of an item to its prior mean."""
    sigma_weights: PositiveFloat = 1.0
    """σ_w, prior of the weights of features, which are divided by their typical size."""
    sigma_position: PositiveFloat = 1.0
    """Prior of what a position in the slate adds."""
    half_lives: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = (1.0, 24.0)
    """Hours after which an event counts half in the popularity of an item."""
    sigma_rnn: PositiveFloat = 1.0
    """σ_rnn, prior of the GRU's weights."""
    sigma_h0: PositiveFloat = 1.0
    """σ_h0, prior of the initial state."""
    sigma_no_click: PositiveFloat = 3.0
    """Prior of log β_s, the utility of not clicking; the paper leaves it open."""
    sigma_evidence: PositiveFloat = 1.0
    """Prior of artanh ρ, the fraction of the way that a slate without a click moves the user."""
    memory: float = Field(default=0.8, gt=0, le=1)
    """w, by which the amortised initial state weighs a click less than the next one."""

    exposure: dict[str, NonNegativeFloat] = Field(default={"search": 0.3})
    """λ of each source in the source-aware likelihood; sources not named have 0."""
    sharpness: PositiveFloat = 2.0
    """κ, the power of relevance in the source-aware exposure term."""
    negatives: PositiveInt = 128
    """Items drawn a step to estimate the sum over the catalogue; exact when there are no more."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.initial_state == "amortised" and self.hidden not in (None, self.dimensions):
            raise ValueError("the amortised initial state needs hidden = dimensions")
        if self.dynamics == "linear" and self.hidden not in (None, self.dimensions):
            raise ValueError("linear dynamics have no hidden dimension of their own")
        if len(set(self.terms)) < len(self.terms):
            raise ValueError("a term is named twice")
        if len(set(self.evidence)) < len(self.evidence):
            raise ValueError("evidence names a source twice")
        return self

    @property
    def state_size(self) -> int:
        """The dimension of the hidden state."""
        return self.hidden or self.dimensions

    @property
    def item_columns(self) -> int:
        """How many numbers an item has: its vector, and perhaps a bias after it."""
        return self.dimensions + ("bias" in self.terms)

    @property
    def name(self) -> str:
        """The name the paper gives such a model, such as slate-gru-hier, then +term for each.

        +evidence stands at the end where slates without a click move users.
        """
        prior = "hier" if self.prior == "hierarchical" else "flat"
        more = [*self.terms, "evidence"] if self.evidence else self.terms
        return "+".join([f"{self.likelihood}-{self.dynamics}-{prior}", *more])
