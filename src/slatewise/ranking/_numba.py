"""The loops that numba compiles; D is any number, so each is compiled once and cached on disk.

Sixteen items are one vector of floats (`Lanes`), and a pass over the table is explicit vector
code: numba's own loops over `[block, D, 16]` keep the sums in memory and take twice as long. What
a pass does in floats only screens, with a margin for rounding; whatever passes is settled in
doubles. Everything stays in this file because numba's cache looks only at the file of the
outermost function.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

Kernel = Callable[..., Any]
WIDTH = 16
MARGIN = 2e-5
"""Relative error granted to sums of floats: safe for some 300 dimensions."""

# numba's own signatures describe the Python functions, not what these decorators make of them.
_njit: Any = numba.njit
_make_intrinsic: Any = numba.extending.intrinsic
_declare: Any = cgutils.get_or_insert_function
_loop: Any = cgutils.for_range
_local: Any = cgutils.alloca_once_value


def _compile(function: Kernel) -> Kernel:
    options = {"error_model": "numpy", "nogil": True, "fastmath": {"contract"}}
    try:
        kernel: Kernel = _njit(cache=True, **options)(function)
    except RuntimeError:  # no directory to keep the cache in
        kernel = _njit(**options)(function)
    return kernel


def _intrinsic(function: Kernel) -> Kernel:
    result: Kernel = _make_intrinsic(prefer_literal=True)(function)
    return result


# Sixteen floats side by side.

FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
FLOATS, INTS = ir.VectorType(FLOAT, WIDTH), ir.VectorType(INT32, WIDTH)
CONTRACT = ("contract",)


class Lanes(types.Type):
    """Sixteen floats in registers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, FLOATS)  # type: ignore[no-untyped-call]


def _data(context: Any, builder: Any, table: Any, value: Any) -> Any:
    return context.make_array(table)(context, builder, value).data


def _broadcast(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined)
    single = builder.insert_element(undefined, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(single, undefined, ir.Constant(INTS, [0] * WIDTH))


def _read(builder: Any, data: Any, at: Any) -> Any:
    place = builder.bitcast(builder.gep(data, [at]), FLOATS.as_pointer())
    return builder.load(place, align=4)


@_intrinsic
def _load(typing: Any, table: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _read(builder, _data(context, builder, table, values[0]), values[1])

    return lanes(table, types.int64), generate


@_intrinsic
def _store(typing: Any, table: Any, at: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.gep(_data(context, builder, table, values[0]), [values[1]])
        builder.store(values[2], builder.bitcast(place, FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(table, types.int64, lanes), generate


@_intrinsic
def _all(typing: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _broadcast(builder, values[0])

    return lanes(types.float32), generate


def _lanewise(operation: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return getattr(builder, operation)(*values, flags=CONTRACT)

        return lanes(lanes, lanes), generate

    return _intrinsic(typed)


_add, _subtract = _lanewise("fadd"), _lanewise("fsub")
_multiply, _divide = _lanewise("fmul"), _lanewise("fdiv")


def _chosen(comparison: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *values), *values)

        return lanes(lanes, lanes), generate

    return _intrinsic(typed)


_larger, _smaller = _chosen(">"), _chosen("<")
"""Where either is not a number, the second is taken."""


@_intrinsic
def _root(typing: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(FLOATS, [FLOATS])
        return builder.call(_declare(builder.module, kind, "llvm.sqrt.v16f32"), values)

    return lanes(lanes), generate


def _compared(comparison: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            bits = builder.bitcast(builder.fcmp_ordered(comparison, *values), ir.IntType(WIDTH))
            return builder.zext(bits, INT64)

        return types.int64(lanes, lanes), generate

    return _intrinsic(typed)


_below, _at_most = _compared("<"), _compared("<=")
"""One bit for every lane."""


@_intrinsic
def _where_positive(typing: Any, sign: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = ir.Constant(FLOATS, None)
        return builder.select(builder.fcmp_ordered(">=", values[0], zeros), values[1], zeros)

    return lanes(lanes, lanes), generate


@_intrinsic
def _total(typing: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total = values[0]
        for width in (8, 4, 2, 1):
            halves = (
                builder.shuffle_vector(
                    total,
                    ir.Constant(total.type, ir.Undefined),
                    ir.Constant(ir.VectorType(INT32, width), list(range(start, start + width))),
                )
                for start in (0, width)
            )
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(INT32, 0))

    return types.float32(lanes), generate


@_intrinsic
def _power_of_two(typing: Any, vector: Any) -> Any:
    """Return at least 2^x and at most 1.07 · 2^x for -126 <= x <= 0: the chords between integers."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: float) -> Any:
            return ir.Constant(FLOATS, [value] * WIDTH)

        shifted = builder.fmul(builder.fadd(values[0], constant(127.0)), constant(2.0**23))
        chord = builder.bitcast(builder.fptosi(shifted, INTS), FLOATS)
        return builder.fmul(chord, constant(float(np.float32(1.0001))))

    return lanes(lanes), generate


# At most log2(1 + f) for 0 <= f <= 1, by at most 0.0004.
_LOG2 = (-7.91495844e-2, 3.12211590e-1, -6.69512499e-1, 1.43609711, 2.04257e-4 - 2.1e-4)


@_intrinsic
def _log_of_two(typing: Any, vector: Any) -> Any:
    """Return at most log2(x), and at least that less 0.0004, for a positive x."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: int) -> Any:
            return ir.Constant(INTS, [value] * WIDTH)

        bits = builder.bitcast(values[0], INTS)
        exponent = builder.sub(builder.lshr(bits, constant(23)), constant(127))
        mantissa = builder.and_(bits, constant(0x7FFFFF))
        above_one = builder.bitcast(builder.or_(mantissa, constant(0x3F800000)), FLOATS)
        f = builder.fsub(above_one, ir.Constant(FLOATS, [1.0] * WIDTH))
        total = ir.Constant(FLOATS, None)
        for factor in _LOG2:
            term = ir.Constant(FLOATS, [float(np.float32(factor))] * WIDTH)
            total = builder.fadd(builder.fmul(total, f, flags=CONTRACT), term, flags=CONTRACT)
        return builder.fadd(builder.sitofp(exponent, FLOATS), total)

    return lanes(lanes), generate


@_intrinsic
def _random_lanes(typing: Any, first: Any, key: Any, other_key: Any) -> Any:
    """Return a float in [0, 1) with 24 bits for each number from `first` on and these keys.

    Two rounds of multiply and shift with a key before each.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: int) -> Any:
            return ir.Constant(INTS, [value] * WIDTH)

        count = _broadcast(builder, builder.trunc(values[0], INT32))
        x = builder.add(count, ir.Constant(INTS, list(range(WIDTH))))
        for value in values[1:]:
            x = builder.xor(x, _broadcast(builder, value))
            for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
                x = builder.xor(x, builder.lshr(x, constant(shift)))
                x = builder.mul(x, constant(factor))
            x = builder.xor(x, builder.lshr(x, constant(15)))
        bits = builder.uitofp(builder.lshr(x, constant(8)), FLOATS)
        return builder.fmul(bits, ir.Constant(FLOATS, [2.0**-24] * WIDTH))

    return lanes(types.int64, types.int32, types.int32), generate


@_intrinsic
def _squared_distances(typing: Any, blocks: Any, block: Any, rows: Any, row: Any, count: Any) -> Any:
    """Return the squared distances of the 16 columns of a block [D, 16] to `count` rows [D]."""
    number = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(blocks)(context, builder, values[0])
        size = builder.extract_value(array.shape, 1)
        start = builder.mul(values[1], builder.mul(size, ir.Constant(INT64, WIDTH)))
        points = _data(context, builder, rows, values[2])
        begin = [
            builder.mul(builder.add(values[3], ir.Constant(INT64, which)), size)
            for which in range(number)
        ]
        sums = [_local(builder, ir.Constant(FLOATS, None)) for _ in range(number)]
        for total in sums:
            builder.store(ir.Constant(FLOATS, None), total)
        with _loop(builder, size) as loop:
            at = builder.add(start, builder.mul(loop.index, ir.Constant(INT64, WIDTH)))
            column = _read(builder, array.data, at)
            for total, first in zip(sums, begin, strict=True):
                number_at = builder.gep(points, [builder.add(first, loop.index)])
                gap = builder.fsub(column, _broadcast(builder, builder.load(number_at)))
                square = builder.fmul(gap, gap, flags=CONTRACT)
                builder.store(builder.fadd(builder.load(total), square, flags=CONTRACT), total)
        results = [builder.load(total) for total in sums]
        return context.make_tuple(builder, signature.return_type, results)

    return types.UniTuple(lanes, number)(blocks, types.int64, rows, types.int64, count), generate


# Random numbers: xoshiro256++, whose state [4] is an argument.


@_compile
def _next(state: Any) -> Any:
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    s2 ^= s0
    s3 ^= s1
    state[1] = s1 ^ s2
    state[0] = s0 ^ s3
    state[2] = s2 ^ (s1 << np.uint64(17))
    state[3] = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return result


@_compile
def _uniform(state: Any) -> Any:
    """Return a number in [0, 1) with 53 bits: with 32 the tail would end at 2e-10."""
    return float(_next(state) >> np.uint64(11)) * 2.0**-53


def _ziggurat() -> tuple[Any, Any]:
    """Return the edges [257] of 256 layers of equal area under exp(-x²/2), and the heights."""
    edge, area = 3.6541528853610088, 0.00492867323399
    edges = np.empty(257)
    edges[0], edges[1], edges[256] = area / math.exp(-edge * edge / 2), edge, 0.0
    for layer in range(2, 256):
        before = edges[layer - 1]
        edges[layer] = math.sqrt(-2 * math.log(area / before + math.exp(-before * before / 2)))
    return edges, np.exp(-edges * edges / 2)


_EDGES, _HEIGHTS = _ziggurat()
_LAST = _EDGES[1]


@_compile
def _normal(state: Any) -> Any:
    """Return a standard normal number (Marsaglia and Tsang's ziggurat, no bit used twice)."""
    while True:
        bits = _next(state)
        layer = np.int64(bits & np.uint64(255))
        sign = 1.0 if bits & np.uint64(256) else -1.0
        x = float(bits >> np.uint64(11)) * 2.0**-53 * _EDGES[layer]
        if x < _EDGES[layer + 1]:
            return sign * x
        if layer == 0:
            while True:
                beyond = -math.log1p(-_uniform(state)) / _LAST
                if -2 * math.log1p(-_uniform(state)) >= beyond * beyond:
                    return sign * (_LAST + beyond)
        height = _HEIGHTS[layer] + _uniform(state) * (_HEIGHTS[layer + 1] - _HEIGHTS[layer])
        if height < math.exp(-x * x / 2):
            return sign * x


# The best so far: a heap with the worst of them on top, with caps by group.


@_compile
def _worse(score: Any, item: Any, other: Any, other_item: Any) -> Any:
    return score < other or (score == other and item > other_item)


@_compile
def _sift_down(scores: Any, items: Any, size: Any, place: Any) -> None:
    score, item = scores[place], items[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        right = child + 1
        if right < size and _worse(scores[right], items[right], scores[child], items[child]):
            child = right
        if not _worse(scores[child], items[child], score, item):
            break
        scores[place], items[place] = scores[child], items[child]
        place = child
    scores[place], items[place] = score, item


@_compile
def _sift_up(scores: Any, items: Any, place: Any) -> None:
    score, item = scores[place], items[place]
    while place > 0:
        above = (place - 1) // 2
        if not _worse(score, item, scores[above], items[above]):
            break
        scores[place], items[place] = scores[above], items[above]
        place = above
    scores[place], items[place] = score, item


@_compile
def _worst_of_group(scores: Any, items: Any, size: Any, groups: Any, group: Any) -> Any:
    worst = np.int64(-1)
    for place in range(size):
        if groups[items[place]] == group and (
            worst < 0 or _worse(scores[place], items[place], scores[worst], items[worst])
        ):
            worst = np.int64(place)
    return worst


@_compile
def _keep(
    scores: Any, items: Any, size: Any, score: Any, item: Any, groups: Any, caps: Any, held: Any
) -> Any:
    """Take an item in if it is among the best within the caps; return the new size.

    The best set within caps is a maximal basis of a matroid (a partition, cut off at a size), so
    that exchanging the worst of the one circuit that the item closes keeps it the best.
    """
    limit, replaced = len(scores), np.int64(-1)
    if len(caps):
        cap = caps[groups[item]]
        if cap == 0:
            return size
        if cap > 0 and held[groups[item]] == cap:
            replaced = _worst_of_group(scores, items, size, groups, groups[item])
    if replaced < 0 and size < limit:
        scores[size], items[size] = score, item
        _sift_up(scores, items, size)
        if len(caps):
            held[groups[item]] += 1
        return size + 1
    replaced = max(replaced, 0)
    if _worse(scores[replaced], items[replaced], score, item):
        if len(caps):
            held[groups[items[replaced]]] -= 1
            held[groups[item]] += 1
        scores[replaced], items[replaced] = score, item
        _sift_down(scores, items, size, replaced)
    return size


@_compile
def _may(item: Any, num_items: Any, excluded: Any, allowed: Any) -> Any:
    """Whether the filter lets an item pass; an append under way may show items beyond the end."""
    if item >= num_items or (len(allowed) and not allowed[item]):
        return False
    low, high = 0, len(excluded)
    while low < high:
        middle = (low + high) // 2
        if excluded[middle] < item:
            low = middle + 1
        else:
            high = middle
    return low == len(excluded) or excluded[low] != item


@_compile
def room(
    offers: Any, groups: Any, num_items: Any, excluded: Any, allowed: Any, caps: Any, k: Any
) -> Any:
    """Count the items that one ranking can hold within filter and caps, up to k."""
    held = np.zeros(len(caps), np.int64)
    found = np.int64(0)
    for item in range(num_items):
        if found == k:
            break
        if offers[item] == -np.inf or not _may(item, num_items, excluded, allowed):
            continue
        if len(caps):
            group = groups[item]
            if caps[group] >= 0 and held[group] >= caps[group]:
                continue
            held[group] += 1
        found += 1
    return found


# Passes over all means.


@_compile
def _lowered(threshold: Any) -> Any:
    """Return a float at most as large."""
    return np.float32(threshold - abs(threshold) * 2.0**-21)


@_compile
def _mean_score(means: Any, offers: Any, item: Any, profile: Any) -> Any:
    block, lane = item // WIDTH, item % WIDTH
    total = 0.0
    for d in range(len(profile)):
        gap = float(means[block, d, lane]) - float(profile[d])
        total += gap * gap
    return float(offers[item]) - math.sqrt(total)


@_compile
def greedy(
    means: Any,
    offers: Any,
    groups: Any,
    num_items: Any,
    profiles: Any,
    excluded: Any,
    allowed: Any,
    caps: Any,
    scores: Any,
    items: Any,
) -> None:
    """Fill scores and items [k], as a heap, with the best of all for the one profile [1, D]."""
    held = np.zeros(len(caps), np.int64)
    size, low = 0, np.float32(-np.inf)
    margin, zero = _all(np.float32(1 + MARGIN)), _all(np.float32(0))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = _squared_distances(means, block, profiles, 0, 1)
        reach = _subtract(_load(offers, at), _all(low))
        far = _multiply(_multiply(reach, reach), margin)
        found = _at_most(near, far) & _at_most(zero, reach)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and _may(item, num_items, excluded, allowed):
                score = _mean_score(means, offers, item, profiles[0])
                size = _keep(scores, items, size, score, item, groups, caps, held)
                if size == len(scores):
                    low = _lowered(scores[0])


TILE = 4
"""Profiles that share the load of a block."""


@_compile
def greedy_many(
    means: Any,
    offers: Any,
    groups: Any,
    num_items: Any,
    profiles: Any,
    excluded: Any,
    starts: Any,
    caps: Any,
    limits: Any,
    scores: Any,
    items: Any,
) -> None:
    """Fill scores and items [B, k] for profiles [B, D], B a multiple of 4, up to limits [B].

    The items excluded for profile b are excluded[starts[b] : starts[b + 1]]; caps are [B, G] or
    [B, 0].
    """
    count = len(profiles)
    allowed = np.zeros(0, np.bool_)
    held = np.zeros(caps.shape, np.int64)
    sizes = np.zeros(count, np.int64)
    lows = np.where(limits > 0, -np.inf, np.inf).astype(np.float32)
    margin, zero = _all(np.float32(1 + MARGIN)), _all(np.float32(0))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        offered = _load(offers, at)
        for first in range(0, count, TILE):
            nears = _squared_distances(means, block, profiles, first, TILE)
            for which in range(TILE):
                b = first + which
                reach = _subtract(offered, _all(lows[b]))
                far = _multiply(_multiply(reach, reach), margin)
                found = _at_most(nears[which], far) & _at_most(zero, reach)
                if found == 0:
                    continue
                forbidden = excluded[starts[b] : starts[b + 1]]
                for lane in range(WIDTH):
                    item = at + lane
                    if (found >> lane) & 1 and _may(item, num_items, forbidden, allowed):
                        score = _mean_score(means, offers, item, profiles[b])
                        best, who = scores[b, : limits[b]], items[b, : limits[b]]
                        size = _keep(best, who, sizes[b], score, item, groups, caps[b], held[b])
                        sizes[b] = size
                        if size == limits[b]:
                            lows[b] = _lowered(best[0])


@_compile
def survey(
    means: Any,
    offers: Any,
    spreads: Any,
    groups: Any,
    num_items: Any,
    centre: Any,
    wander: Any,
    excluded: Any,
    allowed: Any,
    caps: Any,
    nears: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Write the squared distances of all means to the centre [1, D], and find the pilot.

    The pilot is a heap of the items that could be best, by bias − √(m − 2√v̄); `wander` adds to
    v̄, in units of the squared distance, how far the profiles lie around the centre. Returns its
    size.
    """
    held = np.zeros(len(caps), np.int64)
    size, low = 0, np.float32(-np.inf)
    zero, around, two = _all(np.float32(0)), _all(wander), _all(np.float32(2))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = _squared_distances(means, block, centre, 0, 1)
        _store(nears, at, near)
        total = _load(spreads[0], at)
        within = _multiply(_load(spreads[1], at), _add(total, _add(near, near)))
        variance = _add(_add(within, within), _multiply(around, near))
        mean = _add(near, total)
        hope = _larger(_subtract(mean, _multiply(two, _root(variance))), zero)
        reach = _subtract(_load(offers, at), _all(low))
        found = _at_most(hope, _multiply(reach, reach)) & _at_most(zero, reach)
        if found == 0:
            continue
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and _may(item, num_items, excluded, allowed):
                squared, total = nears[item], spreads[0, item]
                variance = 2 * spreads[1, item] * (total + 2 * squared) + wander * squared
                best = squared + total - 2.0 * math.sqrt(variance)
                score = float(offers[item]) - math.sqrt(max(best, 0.0))
                size = _keep(scores, items, size, score, item, groups, caps, held)
                if size == len(scores):
                    low = np.float32(scores[0])
    return size


# Draws by thinning; docs/thompson.md proves that they are exact.


@_compile
def _tail_bound(near: Any, total: Any, widest: Any, reach: Any) -> Any:
    """Bound the probability that a drawn item comes within reach, in every lane.

    The mean lies at a squared distance x of at least `near`; s = Σσ², w = max σ², τ = reach². With
    u = (s + √(s² + 4τx)) / 2τ, or 1 if that is less, the bound is the exponential of
    ((u − 1)(τ − x/u) − s log u) / 2w. It falls as x grows.
    """
    one, zero, least = _all(np.float32(1)), _all(np.float32(0)), _all(np.float32(1e-30))
    less, more = _all(np.float32(1 - MARGIN)), _all(np.float32(1 + MARGIN))
    x, s = _multiply(near, less), _multiply(total, less)
    tau = _larger(_multiply(_multiply(reach, reach), more), least)
    twice = _add(tau, tau)
    under = _add(_multiply(s, s), _multiply(_add(twice, twice), x))
    u = _larger(_divide(_add(s, _root(under)), twice), one)
    pull = _multiply(_subtract(u, one), _subtract(tau, _divide(x, u)))
    bits = _subtract(
        _multiply(pull, _all(np.float32(math.log2(math.e)))), _multiply(s, _log_of_two(u))
    )
    width = _multiply(_add(widest, widest), more)
    # What is not a number comes of an infinite reach: then the bound is 1.
    power = _smaller(_divide(bits, _larger(width, least)), zero)
    bound = _power_of_two(_larger(power, _all(np.float32(-126))))
    return _where_positive(reach, _smaller(bound, one))


@_compile
def _drawn(
    means: Any, scales: Any, item: Any, profile: Any, tau: Any, bound: Any, state: Any
) -> Any:
    """Make an event of probability `bound` one of law p(v) 1[D < τ]; return D, or -1 if none.

    p is the law of the item's vector and D its squared distance to the profile. Tilting p by
    exp(−λD), with λ = (u − 1) / 2w as in the bound, puts the draws where they are accepted.
    """
    block, lane = item // WIDTH, item % WIDTH
    x, s, w = 0.0, 0.0, 0.0
    for d in range(len(profile)):
        gap = float(profile[d]) - float(means[block, d, lane])
        spread = float(scales[item, d]) ** 2
        x += gap * gap
        s += spread
        w = max(w, spread)
    tilt, level = 0.0, 0.0
    if x + s > tau:
        if w == 0.0:
            return -1.0
        tilt = ((s + math.sqrt(s * s + 4.0 * tau * x)) / (2.0 * tau) - 1.0) / (2.0 * w)
        level = _log_chance(means, scales, item, profile, tau, tilt)
    if _uniform(state) * bound >= math.exp(level):
        return -1.0
    distance = 0.0
    for d in range(len(profile)):
        gap = float(profile[d]) - float(means[block, d, lane])
        scale = float(scales[item, d])
        factor = 1.0 / (1.0 + 2.0 * tilt * scale * scale)
        offset = gap * factor + scale * math.sqrt(factor) * _normal(state)
        distance += offset * offset
        if distance > tau:
            return -1.0
    if tilt > 0.0 and _uniform(state) >= math.exp(tilt * (distance - tau)):
        return -1.0
    return distance


@_compile
def _log_chance(
    means: Any, scales: Any, item: Any, profile: Any, tau: Any, tilt: Any
) -> Any:
    """Return log C with C = exp(λτ) E exp(−λD): Chernoff's bound of P(D < τ) at the tilt λ."""
    block, lane = item // WIDTH, item % WIDTH
    level, product = tilt * tau, 1.0
    for d in range(len(profile)):
        gap = float(profile[d]) - float(means[block, d, lane])
        factor = 1.0 + 2.0 * tilt * float(scales[item, d]) ** 2
        level -= tilt * gap * gap / factor
        product *= factor
        if product > 1e200:
            level -= 0.5 * math.log(product)
            product = 1.0
    return level - 0.5 * math.log(product)


@_compile
def keep_known(
    offers: Any,
    groups: Any,
    num_items: Any,
    profiles: Any,
    known: Any,
    vectors: Any,
    excluded: Any,
    allowed: Any,
    caps: Any,
    held: Any,
    sizes: Any,
    scores: Any,
    items: Any,
) -> None:
    """Take items [C] into the heaps [J, k] with the vectors [J, C, D] they have in each draw."""
    for c in range(len(known)):
        item = known[c]
        if offers[item] == -np.inf or not _may(item, num_items, excluded, allowed):
            continue
        for j in range(len(profiles)):
            total = 0.0
            for d in range(profiles.shape[1]):
                gap = float(profiles[j, d]) - vectors[j, c, d]
                total += gap * gap
            score = float(offers[item]) - math.sqrt(total)
            sizes[j] = _keep(scores[j], items[j], sizes[j], score, item, groups, caps, held[j])


@_compile
def _visit(
    item: Any,
    near: Any,
    chance: Any,
    most: Any,
    means: Any,
    scales: Any,
    spreads: Any,
    offers: Any,
    groups: Any,
    profiles: Any,
    profile_blocks: Any,
    caps: Any,
    state: Any,
    row: Any,
    bounds: Any,
    lows: Any,
    held: Any,
    sizes: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Draw an item in all draws in which it gets among the best; tell whether there was one.

    An event of probability `chance` brought us here, at least the probability that any draw has
    an event when each has one of probability at most `most`. `near` is the squared distance of
    the mean to all profiles, or negative if they differ.
    """
    if near < 0:
        for d in range(row.shape[1]):
            row[0, d] = means[item // WIDTH, d, item % WIDTH]
    total, nears = np.float32(0), _all(near)
    offer, spread, widest = _all(offers[item]), _all(spreads[0, item]), _all(spreads[1, item])
    for block in range(len(profile_blocks)):
        if near < 0:
            (nears,) = _squared_distances(profile_blocks, block, row, 0, 1)
        reach = _subtract(offer, _load(lows, block * WIDTH))
        bound = _smaller(_tail_bound(nears, spread, widest, reach), _all(most))
        _store(bounds, block * WIDTH, bound)
        total += _total(bound)
    left = _uniform(state) * chance
    if left >= float(total) * (1 + 1e-5):
        return False
    changed = False
    for j in range(len(profiles)):
        bound = float(bounds[j])
        if left >= bound:
            left = (left - bound) / (1.0 - bound)
            continue
        left = _uniform(state)
        tau, full = np.inf, sizes[j] == scores.shape[1]
        if full:
            # A little wider, so that equal scores come to be compared by item number.
            tau = (float(offers[item]) - scores[j, 0]) ** 2 * (1 + 1e-9)
        distance = _drawn(means, scales, item, profiles[j], tau, bound, state)
        if distance < 0.0:
            continue
        score = float(offers[item]) - math.sqrt(distance)
        sizes[j] = _keep(scores[j], items[j], sizes[j], score, item, groups, caps, held[j])
        if sizes[j] == scores.shape[1]:
            lows[j] = _lowered(scores[j, 0])
            changed = True
    return changed


@_compile
def thin(
    means: Any,
    scales: Any,
    spreads: Any,
    offers: Any,
    groups: Any,
    num_items: Any,
    profiles: Any,
    profile_blocks: Any,
    spread: Any,
    nears: Any,
    pilot: Any,
    excluded: Any,
    allowed: Any,
    caps: Any,
    state: Any,
    keys: Any,
    held: Any,
    sizes: Any,
    scores: Any,
    items: Any,
) -> Any:
    """Fill the heaps [J, k] of all draws: first from the pilot, then from whatever beats it.

    `nears` are squared distances to a centre of which all profiles [J, D] lie within `spread`;
    `excluded` includes the pilot. Returns the visits outside the pilot.
    """
    count = len(profiles)
    row = np.empty((1, profiles.shape[1]), np.float32)
    bounds = np.empty(len(profile_blocks) * WIDTH, np.float32)
    lows = np.full(len(bounds), np.inf, np.float32)
    for j in range(count):
        lows[j] = _lowered(scores[j, 0]) if sizes[j] == scores.shape[1] else -np.inf
    one, unknown = np.float32(1), np.float32(-1)
    for place in range(len(pilot)):
        _visit(
            pilot[place], unknown, 1.0, one, means, scales, spreads, offers, groups, profiles,
            profile_blocks, caps, state, row, bounds, lows, held, sizes, scores, items,
        )  # fmt: skip
    low, visits = lows[:count].min(), 0
    shares, tops = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    around, zero = _all(spread), _all(np.float32(0))
    draws, least = _all(np.float32(count)), _all(np.float32(2.0**-24))
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        near = _larger(_subtract(_root(_load(nears, at)), around), zero)
        reach = _subtract(_load(offers, at), _all(low))
        totals, widest = _load(spreads[0], at), _load(spreads[1], at)
        top = _tail_bound(_multiply(near, near), totals, widest, reach)
        share = _larger(_multiply(top, draws), least)
        found = _below(_random_lanes(at, keys[0], keys[1]), share) & _at_most(zero, reach)
        if found == 0:
            continue
        _store(shares, 0, share)
        _store(tops, 0, top)
        for lane in range(WIDTH):
            item = at + lane
            if (found >> lane) & 1 and _may(item, num_items, excluded, allowed):
                # What 24 bits make of the share, exactly.
                chance = min(1.0, math.ceil(float(shares[lane]) * 2.0**24) * 2.0**-24)
                visits += 1
                if _visit(
                    item, nears[item] if spread == 0 else unknown, chance, tops[lane], means, scales, spreads, offers, groups, profiles,
                    profile_blocks, caps, state, row, bounds, lows, held, sizes, scores, items,
                ):  # fmt: skip
                    low = lows[:count].min()
    return visits


# Expected relevance, E exp(−√D) = Σ weight · E exp(−rate · D) over the nodes of a quadrature.


@_compile
def add_relevance_bounds(
    means: Any,
    spreads: Any,
    num_items: Any,
    profile: Any,
    rates: Any,
    weights: Any,
    nears: Any,
    upper: Any,
) -> None:
    """Write the squared distances of all means to the profile [1, D]; add to upper bounds [I].

    E exp(−rD) is at most exp(−rx/u − s log u / 2w) with u = 1 + 2rw, s = Σσ² and w = max σ².
    """
    one, least, per_two = _all(np.float32(1)), _all(np.float32(-126)), np.float32(0.5)
    for block in range((num_items + WIDTH - 1) // WIDTH):
        at = block * WIDTH
        (near,) = _squared_distances(means, block, profile, 0, 1)
        _store(nears, at, near)
        widest = _larger(_load(spreads[1], at), _all(np.float32(1e-12)))
        half = _multiply(_divide(_load(spreads[0], at), widest), _all(per_two))
        total = _load(upper, at)
        for node in range(len(rates)):
            rate = rates[node]
            u = _add(_multiply(widest, _all(2 * rate)), one)
            bits = _multiply(_divide(near, u), _all(rate * np.float32(-math.log2(math.e))))
            power = _larger(_subtract(bits, _multiply(half, _log_of_two(u))), least)
            total = _add(total, _multiply(_power_of_two(power), _all(weights[node])))
        _store(upper, at, total)


@_compile
def mean_relevance(
    means: Any, scales: Any, items: Any, profiles: Any, rates: Any, weights: Any, values: Any
) -> None:
    """Write the mean over profiles [M, D] of E exp(−‖z − v_i‖) for items [n]."""
    for place in range(len(items)):
        item = items[place]
        block, lane = item // WIDTH, item % WIDTH
        total = 0.0
        for m in range(len(profiles)):
            for node in range(len(rates)):
                rate, product, exponent = rates[node], 1.0, 0.0
                for d in range(profiles.shape[1]):
                    gap = float(profiles[m, d]) - float(means[block, d, lane])
                    u = 1.0 + 2.0 * rate * float(scales[item, d]) ** 2
                    product *= u  # infinite when the node counts for nothing
                    exponent -= gap * gap / u
                total += weights[node] * math.exp(rate * exponent) / math.sqrt(product)
        values[place] = total / len(profiles)


@_compile
def best_of(
    candidates: Any, values: Any, groups: Any, caps: Any, scores: Any, items: Any
) -> Any:
    """Fill a heap [k] with the best of the candidates [n] by their values [n]; return its size."""
    held = np.zeros(len(caps), np.int64)
    size = 0
    for place in range(len(candidates)):
        item, score = candidates[place], float(values[place])
        if size < len(scores) or score >= scores[0]:
            size = _keep(scores, items, size, score, item, groups, caps, held)
    return size
