"""What is asked of the service."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from slatewise.errors import SlatewiseError
from slatewise.slates.maker import Constraints, require_length

KEPT: Final = 8_000
"""bytes of a request that the log keeps: some 600 ids. Of a longer one it keeps a digest, or who
may only read could have it write megabytes a second"""
_DIGEST: Final = "digest"


@dataclass(frozen=True)
class Request(Constraints):
    """A slate that is asked for; what is not said has the usual value."""

    user_id: str | None = None
    """None for an anonymous user"""
    clicks: tuple[str, ...] = ()
    """what she clicked just now, oldest first, after all that the service knows of her"""
    k: int = 20
    source: str | None = None
    """where the slate will be shown, by its name in the log; None for the service's own"""
    seed: int | None = None
    """of everything random; None draws one"""

    def require_sensible(self) -> None:
        """Refuse a length, caps or a seed that nothing can be made of."""
        require_length(self.k)
        self.require_caps()
        if self.seed is not None and not 0 <= self.seed < 1 << 63:
            raise SlatewiseError(f"the seed {self.seed} is no seed.", "Give a number from 0 up.")

    @property
    def ids(self) -> int:
        """How many ids it names."""
        return sum(len(tuple(names or ())) for names in (self.clicks, self.exclude, self.allow))

    def plain(self) -> dict[str, Any]:
        """Return what the slate depends on beside user, k, source and seed, as it is logged.

        Of more than KEPT bytes, a digest: `is_whole` tells.
        """
        values: dict[str, Any] = {"clicked": self.clicked}
        if self.clicks:
            values["clicks"] = list(self.clicks)
        if self.exclude:
            values["exclude"] = list(self.exclude)
        if self.allow is not None:
            values["allow"] = list(self.allow)
        if self.groups is not None:
            values["groups"] = self.groups if isinstance(self.groups, int) else dict(self.groups)
        return values if len(values) == 1 else _bounded(values)

    @classmethod
    def of_plain(cls, values: Mapping[str, Any], k: int, seed: int) -> "Request":
        """Return the logged request; the user is logged separately."""
        allow = values.get("allow")
        return cls(
            clicks=tuple(values.get("clicks", ())),
            k=k,
            exclude=tuple(values.get("exclude", ())),
            allow=None if allow is None else tuple(allow),
            groups=values.get("groups"),
            clicked=values.get("clicked", "exclude"),
            source=values.get("source"),
            seed=seed,
        )


def is_whole(logged: Mapping[str, Any]) -> bool:
    """Return whether the log has all of a request, so that its slate can be made again."""
    return _DIGEST not in logged


def _bounded(values: dict[str, Any]) -> dict[str, Any]:
    """Return what is logged of a request: itself, or a digest that tells it from others."""
    text = json.dumps(values, separators=(",", ":")).encode()
    if len(text) <= KEPT:
        return values
    digest = blake2b(text, digest_size=16).hexdigest()
    return {"clicked": values["clicked"], "bytes": len(text), _DIGEST: digest}
