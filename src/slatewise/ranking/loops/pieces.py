"""The pieces of the loops that depend on the relevance, chosen when a loop is compiled.

A relevance is a type: a loop that is called with `Distance()` is compiled with the functions of
`loops.distance`, one called with `Dot()` with those of `loops.dot`, and neither asks again.
"""

from typing import Any, NamedTuple

from numba.extending import overload

from slatewise.compiled.compilation import Kernel
from slatewise.ranking.loops import distance, dot

TILE = 4
"""Profiles that share the load of a block, in `four`."""


class Distance(NamedTuple):
    """The relevance −‖z − v‖ of an item v for a profile z."""


class Dot(NamedTuple):
    """The relevance z · v."""


_HOMES = {Distance: distance, Dot: dot}


def _piece(name: str) -> Kernel:
    """Return a function that stands for the one of this name in the module of a relevance."""

    def stand_in(relevance: Any, *arguments: Any) -> Any:
        raise NotImplementedError

    def choose(relevance: Any, *arguments: Any) -> Any:
        return getattr(_HOMES[relevance.instance_class], name).py_func

    inlined: Any = getattr(distance, name)
    overload(stand_in, jit_options=inlined.targetoptions, strict=False)(choose)
    return stand_in


score = _piece("score")
expected_score = _piece("expected_score")
one = _piece("one")
four = _piece("four")
within = _piece("within")
surveyed = _piece("surveyed")
hope_of = _piece("hope_of")
widened = _piece("widened")
least_reach = _piece("least_reach")
chance = _piece("chance")
fill_bounds = _piece("fill_bounds")
best_profile = _piece("best_profile")
drawn_score = _piece("drawn_score")
