"""What a model is: its likelihood and its parts, with the paper's symbol for each number.

A configuration is flat, as people write it. The settings of a part stand in the part's own module;
here they are sorted by part, and looked up with `ModelConfig.of`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from slatewise.config import Config, Search, SettingError
from slatewise.errors import SlatewiseError
from slatewise.model.registry import DYNAMICS, INITIAL_STATES, PRIORS, RELEVANCES, TERMS, Registry

ONE_OF: Mapping[str, Registry[Any]] = {
    "relevance": RELEVANCES,
    "dynamics": DYNAMICS,
    "prior": PRIORS,
    "initial_state": INITIAL_STATES,
}
"""Fields that name one part, and where it is looked up."""


class ModelConfig(Config):
    """The sequential slate model (Section 3 of the paper); every σ and κ is a standard
    deviation.

    Settings of parts are given by name like all others: `ModelConfig(prior="flat", sigma_v=0.4)`.
    The defaults are those that worked on simulated logs, not the paper's tuned ones.
    """

    likelihood: Literal["slate", "all-item", "source-aware"] = "slate"
    """`slate`: the choice within the slate (eq. likelihood). `all-item`: the choice among all items
    (eq. likelihood_all-item). `source-aware`: the slate, and an exposure term weighted by
    source."""
    relevance: str = "distance"
    """Utility of item vector v for profile z: `distance`, −‖z − v‖ as in the paper, or `dot`, z ·
    v."""
    dynamics: str = "gru"
    """How clicks move the user: `gru` (eq. gru) or `linear` (eq. linearmodel)."""
    prior: str = "hierarchical"
    """Prior of item vectors: `hierarchical`, around the mean of their group, or `flat`, around
    zero."""
    initial_state: str = "causal"
    """h_0: `causal`, one learned state for all users, or `amortised`, the paper's average over the
    user's clicks, taken over a prefix that is never scored."""

    terms: tuple[str, ...] = ()
    """Terms of the utility beside the relevance; the paper's model has none."""
    ranking: Literal["auto", "slate", "next-click"] = "auto"
    """Weights that rank the catalogue: `slate`, of choices within slates, or `next-click`, of the
    next click among all items. `auto` is `next-click` for the all-item likelihood, for logs of
    clicks alone, and where items come and go."""
    repeats: bool = True
    """Whether users click items again. If not, as with ratings, the all-item likelihood compares a
    click with what its user has not clicked yet, and the term `history` keeps clicked items out of
    rankings."""
    evidence: tuple[str, ...] = ()
    """Sources whose slates move the user without a click, too; the paper's model has none."""

    dimensions: PositiveInt = 10
    """d, the dimension of item vectors v_i and user profiles z_t."""
    hidden: PositiveInt | None = None
    """d_h, the dimension of the GRU's hidden state; `dimensions` if not set."""

    sigma_max: Annotated[PositiveFloat, Search(0.05, 10.0)] = 1.0
    """σ_max, the largest posterior standard deviation."""
    temperature: Annotated[float, Field(gt=0, le=1), Search(0.01, 1.0)] = 1.0
    """τ in (0, 1], the weight of the prior (eq. posterior); 1 is the plain posterior."""
    sigma_h0: PositiveFloat = 1.0
    """σ_h0, prior of the initial state."""
    sigma_no_click: PositiveFloat = 3.0
    """Prior of log β_s, the utility of no click, and of log ε_k; the paper leaves it open."""
    sigma_weights: PositiveFloat = 1.0
    """σ_w, prior of the weights of features, which are scaled to a typical size of 1."""

    exposure: dict[str, NonNegativeFloat] | None = None
    """λ by source, for the source-aware likelihood; other sources have 0. If not set, 1 for the
    source `search`, or .3 for all sources in a log without one."""
    sharpness: PositiveFloat = 2.0
    """κ, the power of relevance in the source-aware exposure term."""
    negatives: PositiveInt = 1_024
    """Items drawn per step to estimate the sum over the catalogue; exact up to as many items."""

    parts: dict[str, SerializeAsAny[Config]] = Field(default={}, repr=False)
    """Settings of the parts, by part; written flat, beside the others."""

    @model_validator(mode="before")
    @classmethod
    def _sort_settings(cls, values: Any) -> Any:
        """Take the settings of parts out of those of the model, and build them."""
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        values.pop("parts", None)
        given: dict[str, Config] = {}
        for key, part in _parts_with_settings(values):
            own = {name: values[name] for name in part.Settings.model_fields if name in values}
            given[key] = _settings_of(part, own)
        # Parts may share a setting, as one that is derived from another does.
        shared = {name for part in given.values() for name in type(part).model_fields}
        return {name: value for name, value in values.items() if name not in shared} | {
            "parts": given
        }

    @model_serializer(mode="wrap")
    def _flatten(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the settings of parts beside the others."""
        values: dict[str, Any] = handler(self)
        for settings in values.pop("parts").values():
            values |= settings
        return values

    @field_validator(*ONE_OF)
    @classmethod
    def _is_a_part(cls, name: str, info: ValidationInfo) -> str:
        return _known(ONE_OF[str(info.field_name)], name)

    @field_validator("terms")
    @classmethod
    def _are_terms(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_known(TERMS, name) for name in names)

    @field_validator("terms", "evidence")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a name is given twice")
        return names

    @model_validator(mode="after")
    def _parts_go_together(self) -> Self:
        for part in self.part_classes():
            part.check(self)
        terms = [TERMS[name].name for name in self.terms]
        keeps_out = any(TERMS[name].keeps_out_clicked for name in self.terms)
        if not self.repeats and (self.likelihood, keeps_out) != ("all-item", True):
            raise ValueError(
                "repeats = false is for the all-item likelihood with the term history, which keeps "
                "items clicked before out of rankings"
            )
        twice = [name for name in terms if terms.count(name) > 1]
        if twice:
            raise ValueError(f"two terms are called '{twice[0]}'")
        return self

    def part_classes(self) -> Iterator[Any]:
        """Yield the classes of the parts of this model."""
        for field, registry in ONE_OF.items():
            yield registry[getattr(self, field)]
        for name in self.terms:
            yield TERMS[name]

    def of(self, part: Any) -> Any:
        """Return the settings of a part, its defaults where none are given."""
        return self.parts.get(_key(part)) or part.Settings()

    def changed(self, **values: Any) -> "ModelConfig":
        """Return the same model with other settings, of its parts too."""
        given = self.model_dump(exclude_unset=True)
        return ModelConfig.build(given | values, "the changed model")

    def is_given(self, name: str) -> bool:
        """Return whether a setting was given, instead of left at its default."""
        return any(name in one.model_fields_set for one in (self, *self.parts.values()))

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """Return all settings by name: those of every model, then those of each known part."""
        own = {name: field for name, field in cls.model_fields.items() if name != "parts"}
        for _, part in _parts_with_settings({}):
            own |= part.Settings.model_fields
        return own

    @classmethod
    def setting_names(cls) -> list[str]:
        """Return the names of all settings, those of parts too."""
        return list(cls.settings())

    @classmethod
    def build(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate `values`; a problem names `where` they came from, the field and the remedy."""
        for _, part in _parts_with_settings(values):
            own = part.Settings.model_fields
            part.Settings.build({name: values[name] for name in own if name in values}, where)
        return super().build(values, where)

    def __getattr__(self, name: str) -> Any:
        """Return a setting of a part, as if it were one of the model."""
        for settings in self.__dict__.get("parts", {}).values():
            if name in type(settings).model_fields:
                return getattr(settings, name)
        raise AttributeError(f"'{type(self).__name__}' has no setting '{name}'")

    @property
    def exploration_note(self) -> str | None:
        """Why draws of such a model explore too little, or None if they do not."""
        if self.temperature == 1:
            return None
        return (
            f"The prior counted {self.temperature:g} times in training (temperature): items look "
            "more certain than they are, and Thompson sampling hardly explores. Train with "
            "temperature = 1 to explore."
        )

    @property
    def item_columns(self) -> int:
        """How many numbers an item has: its vector, and perhaps a bias after it."""
        return self.dimensions + sum(len(TERMS[name].item_columns(self)) for name in self.terms)

    @property
    def name(self) -> str:
        """The name the paper gives such a model, such as slate-gru-hier, then +term for each.

        A relevance other than the distance stands after the likelihood; +evidence stands at the end
        where slates without a click move users.
        """
        prior = {"hierarchical": "hier"}.get(self.prior, self.prior)
        relevance = () if self.relevance == "distance" else (self.relevance,)
        base = "-".join([self.likelihood, *relevance, self.dynamics, prior])
        more = [*self.terms, "evidence"] if self.evidence else self.terms
        return "+".join([base, *more])


def _known(registry: Registry[Any], name: str) -> str:
    """Return the name of a part, refusing one that there is not."""
    try:
        registry[name]
    except SlatewiseError as error:
        raise SettingError.of(error) from error
    return name


def _settings_of(part: Any, values: Mapping[str, Any]) -> Config:
    try:
        built: Config = part.Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{first['loc'][0]}: {first['msg']}") from error
    return built


def _key(part: Any) -> str:
    return f"{part.__module__}:{part.__qualname__}"


def _parts_with_settings(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield all parts that have settings: those known, and those that a configuration names."""
    from slatewise.model.evidence import Evidence  # noqa: PLC0415 (needs torch)
    from slatewise.model.item_centre import ItemCentre  # noqa: PLC0415

    for field, registry in ONE_OF.items():
        named = [values[field]] if isinstance(values.get(field), str) else []
        yield from _of_kind(registry, named)
    terms = values.get("terms", ())
    yield from _of_kind(TERMS, [name for name in terms if isinstance(name, str)])
    for part in (Evidence, ItemCentre):
        yield _key(part), part


def _of_kind(registry: Registry[Any], named: list[str]) -> Iterator[tuple[str, Any]]:
    for name in dict.fromkeys([*registry, *named]):
        with suppress(SlatewiseError):  # the validator of the field says what is wrong
            part = registry[name]
            if part.Settings.model_fields:
                yield _key(part), part
