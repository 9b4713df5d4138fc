"""The loops that numba compiles; imported only where numba is installed.

A row of D floats is held in LLVM vectors, so every kernel is compiled once for each D (about two
seconds, then cached on disk). Loops over `range(D)` are four times slower: their trip count is too
short for the unrolled vector body, and stores to one array hide from LLVM that the others did not
change. Everything stays in this file because numba's cache looks only at the file of the
outermost function: a loop elsewhere that calls these closes over `SOURCE`, or it goes stale.
"""

import functools
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

Kernel = Callable[..., Any]

SOURCE = int.from_bytes(hashlib.sha256(Path(__file__).read_bytes()).digest()[:6], "big")
"""Stands for this file where kernels elsewhere build upon it. numba's cache looks at the file of a
kernel and at the variables it closes over: by this one it notices a change here."""

# Without nnan and ninf: -inf is a legitimate utility and a NaN must stay one.
REORDER = ("reassoc", "contract", "nsz", "arcp")
AHEAD = 16
"""Cells by which memory is asked for early: worth a factor of two on tables beyond the cache."""


# numba's own signatures describe the Python functions, not what these decorators make of them.
_njit: Any = numba.njit
_make_intrinsic: Any = numba.extending.intrinsic
_declare: Any = cgutils.get_or_insert_function


def _compile(*flags: str) -> Callable[[Kernel], Kernel]:
    options = {"fastmath": set(flags), "error_model": "numpy", "nogil": True}

    def compile_(function: Kernel) -> Kernel:
        try:
            kernel: Kernel = _njit(cache=True, **options)(function)
        except RuntimeError:  # no directory to keep the cache in
            kernel = _njit(**options)(function)
        return kernel

    return compile_


def _intrinsic(function: Kernel) -> Kernel:
    result: Kernel = _make_intrinsic(prefer_literal=True)(function)
    return result


# Vectors of D floats.

FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    """D floats in registers, as LLVM vectors of 16 lanes and then of smaller powers of two.

    LLVM would take one vector of 25 lanes too, but breaks it into scalars wherever it lives
    beyond a branch.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        rest = [size for size in (8, 4, 2, 1) if lanes % 16 & size]
        self.sizes = [16] * (lanes // 16) + rest
        self.starts = [sum(self.sizes[:place]) for place in range(len(self.sizes))]
        self.llvm = ir.LiteralStructType([ir.VectorType(FLOAT, size) for size in self.sizes])
        super().__init__(name=f"Vector({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, table: Any, value: Any, row: Any) -> Any:
    """Return where a row of a matrix begins; it may be longer than the lanes that are read."""
    array = context.make_array(table)(context, builder, value)
    return builder.gep(array.data, [builder.mul(row, builder.extract_value(array.shape, 1))])


def _pieces(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, place) for place in range(len(value.type.elements))]


def _whole(builder: Any, vector: Vector, pieces: list[Any]) -> Any:
    whole = ir.Constant(vector.llvm, ir.Undefined)
    for place, piece in enumerate(pieces):
        whole = builder.insert_value(whole, piece, place)
    return whole


def _shuffle(builder: Any, piece: Any, lanes: list[int]) -> Any:
    order = ir.Constant(ir.VectorType(INT32, len(lanes)), lanes)
    return builder.shuffle_vector(piece, ir.Constant(piece.type, ir.Undefined), order)


def _loading(vector: Vector, table: Any) -> Kernel:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row_at = _place(context, builder, table, values[0], values[1])
        pieces = []
        for start, kind in zip(vector.starts, vector.llvm.elements, strict=True):
            place = builder.gep(row_at, [ir.Constant(INT64, start)])
            pieces.append(builder.load(builder.bitcast(place, kind.as_pointer()), align=4))
        return _whole(builder, vector, pieces)

    return generate


@_intrinsic
def _load(typing: Any, table: Any, row: Any, lanes: Any) -> Any:
    vector = Vector(lanes.literal_value)
    return vector(table, types.int64, lanes), _loading(vector, table)


@_intrinsic
def _load_like(typing: Any, table: Any, row: Any, vector: Any) -> Any:
    return vector(table, types.int64, vector), _loading(vector, table)


@_intrinsic
def _store(typing: Any, table: Any, row: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row_at = _place(context, builder, table, values[0], values[1])
        for start, piece in zip(vector.starts, _pieces(builder, values[2]), strict=True):
            place = builder.gep(row_at, [ir.Constant(INT64, start)])
            builder.store(piece, builder.bitcast(place, piece.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(table, types.int64, vector), generate


@_intrinsic
def _prefetch(typing: Any, table: Any, row: Any, lanes: Any) -> Any:
    size = 4 * lanes.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row_at = _place(context, builder, table, values[0], values[1])
        start = builder.bitcast(row_at, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [start.type, INT32, INT32, INT32])
        prefetch = _declare(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(INT32, flag) for flag in (0, 3, 1))
        for byte in sorted({*range(0, size, 64), size - 1}):
            place = builder.gep(start, [ir.Constant(INT64, byte)])
            builder.call(prefetch, [place, read, keep, data])
        return context.get_dummy_value()

    return types.void(table, types.int64, lanes), generate


def _lanewise(operation: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pairs = zip(*(_pieces(builder, value) for value in values), strict=True)
            operate = getattr(builder, operation)
            return _whole(builder, left, [operate(*pair, flags=REORDER) for pair in pairs])

        return left(left, right), generate

    return _intrinsic(typed)


_add, _subtract, _multiply = _lanewise("fadd"), _lanewise("fsub"), _lanewise("fmul")


@_intrinsic
def _times(typing: Any, vector: Any, factor: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(FLOAT, 1), ir.Undefined)
        single = builder.insert_element(undefined, values[1], ir.Constant(INT32, 0))
        products = [
            builder.fmul(piece, _shuffle(builder, single, [0] * size), flags=REORDER)
            for size, piece in zip(vector.sizes, _pieces(builder, values[0]), strict=True)
        ]
        return _whole(builder, vector, products)

    return vector(vector, types.float32), generate


def _sum_of_products(builder: Any, left: Any, right: Any) -> Any:
    def half(total: Any) -> Any:
        width = total.type.count // 2
        low = _shuffle(builder, total, list(range(width)))
        high = _shuffle(builder, total, list(range(width, 2 * width)))
        return builder.fadd(low, high, flags=REORDER)

    pairs = zip(_pieces(builder, left), _pieces(builder, right), strict=True)
    total, *rest = (builder.fmul(*pair, flags=REORDER) for pair in pairs)
    for piece in rest:
        while total.type.count > piece.type.count:
            total = half(total)
        total = builder.fadd(total, piece, flags=REORDER)
    while total.type.count > 1:
        total = half(total)
    return builder.extract_element(total, ir.Constant(INT32, 0))


@_intrinsic
def _squared_norm(typing: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _sum_of_products(builder, values[0], values[0])

    return types.float32(vector), generate


@_intrinsic
def _dot(typing: Any, left: Any, right: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _sum_of_products(builder, *values)

    return types.float32(left, right), generate


@_intrinsic
def _zeros(typing: Any, lanes: Any) -> Any:
    vector = Vector(lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(vector.llvm, None)

    return vector(lanes), generate


@_intrinsic
def _zeros_like(typing: Any, vector: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(vector.llvm, None)

    return vector(vector), generate


# The exponential of a number that is not positive.


@_intrinsic
def _bits(typing: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], INT32)

    return types.int32(types.float32), generate


@_intrinsic
def _float_of_bits(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], FLOAT)

    return types.float32(types.int32), generate


_ZERO, _ONE, _LOWEST = np.float32(0), np.float32(1), np.float32(-80)
_PER_LN2, _ROUND = np.float32(math.log2(math.e)), np.float32(1.5 * 2**23)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_P0, _P1, _P2 = (
    np.float32(1.9875691500e-4),
    np.float32(1.3981999507e-3),
    np.float32(8.3334519073e-3),
)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(0.50000001201)


@_compile("contract")
def exponential(x: Any) -> Any:
    """Compute exp(x) for x <= 0 as Cephes does, to 1e-7; exactly 0 below -80, NaN for NaN.

    Results below -80 would soon be denormal numbers, on which arithmetic is many times slower.
    """
    y = _LOWEST if x < _LOWEST else x
    shifted = y * _PER_LN2 + _ROUND  # the low bits of this float are the nearest integer
    power = shifted - _ROUND
    y = y - power * _LN2_HIGH
    y = y - power * _LN2_LOW
    polynomial = ((((_P0 * y + _P1) * y + _P2) * y + _P3) * y + _P4) * y + _P5
    mantissa = polynomial * y * y + y + _ONE
    exponent = np.int32((_bits(shifted) + np.int32(127)) << np.int32(23))
    return _ZERO if x < _LOWEST else mantissa * _float_of_bits(exponent)


# The kernels.


@_compile()
def _longest_slate(offsets: Any, num_cells: Any) -> Any:
    """Return the greatest slate length, -1 where the offsets do not partition the cells."""
    longest = np.int64(0)
    if offsets[0] < 0 or offsets[-1] > num_cells:
        return np.int64(-1)
    for n in range(len(offsets) - 1):
        length = offsets[n + 1] - offsets[n]
        if length < 0:
            return np.int64(-1)
        longest = max(longest, length)
    return longest


@functools.cache
def slate_kernel(dims: int, terms: bool, num_features: int) -> Kernel:  # noqa: PLR0915
    """Return the fused pass for vectors of so many dimensions; see `slate.slate_terms`.

    With `terms`, a row of items one longer than that ends with the item's bias, and positions and
    so many features count; without, the loop is compiled as if they did not exist. It returns the
    total and -1, or the first interaction with an index out of range. Gradients are added to the
    arrays given; those of inputs that need none are empty.
    """
    has_features, lanes = num_features > 0, max(1, num_features)

    @_compile(*REORDER)
    def kernel(  # noqa: PLR0912, PLR0915 - one loop is the point
        states: Any,
        items: Any,
        no_click: Any,
        feature_weights: Any,
        positions: Any,
        features: Any,
        state_of: Any,
        cells: Any,
        offsets: Any,
        clicks: Any,
        weights: Any,
        exposure_weights: Any,
        sharpness: Any,
        include_no_click: Any,
        include_bias: Any,
        log_likelihood: Any,
        exposed: Any,
        want_gradients: Any,
        states_gradient: Any,
        items_gradient: Any,
        no_click_gradient: Any,
        weights_gradient: Any,
        positions_gradient: Any,
    ) -> Any:
        total = 0.0
        has_bias, has_exposure = terms and items.shape[1] > dims, len(exposure_weights) > 0
        last_position = len(positions) - 1 if terms else -1
        to_states, to_items = len(states_gradient) > 0, len(items_gradient) > 0
        to_no_click = len(no_click_gradient) > 0
        to_weights = has_features and len(weights_gradient) > 0
        to_positions = terms and len(positions_gradient) > 0
        longest = _longest_slate(offsets, len(cells))
        if longest < 0:
            return total, np.int64(0)
        distances = np.empty(longest, np.float32)
        utilities = np.empty(longest, np.float32)
        exposing = np.empty(longest, np.float32) if terms else utilities
        parts = np.empty(longest, np.float32)
        # All cells add to these few numbers: too many for float32.
        weights_slope, of_slate = np.zeros(lanes, np.float64), np.empty((1, lanes), np.float32)
        positions_slope = np.zeros(last_position + 1, np.float64)
        for n in range(len(offsets) - 1):
            start, length = offsets[n], offsets[n + 1] - offsets[n]
            click = clicks[n]
            at = state_of[n]
            if click < -1 or click >= length or at < 0 or at >= len(states):
                return total, np.int64(n)
            state = _load(states, at, dims)

            best_item: Any = np.float32(-np.inf)
            best_exposing: Any = np.float32(-np.inf)
            for j in range(length):
                if start + j + AHEAD < len(cells):
                    soon = np.int64(cells[start + j + AHEAD])
                    _prefetch(items, soon, dims)
                    if to_items:
                        _prefetch(items_gradient, soon, dims)
                row = np.int64(cells[start + j])
                if row < 0 or row >= len(items):
                    return total, np.int64(n)
                difference = _subtract(state, _load(items, row, dims))
                distance = math.sqrt(_squared_norm(difference))
                distances[j] = distance
                utility = -distance
                if has_bias:
                    utility += items[row, dims]
                in_exposure = utility if include_bias else -distance
                exposing[j] = in_exposure
                best_exposing = in_exposure if in_exposure > best_exposing else best_exposing
                if has_features:
                    described = _load(features, start + j, lanes)
                    utility += _dot(described, _load(feature_weights, np.int64(0), lanes))
                if last_position >= 0:
                    utility += positions[min(j, last_position)]
                utilities[j] = utility
                best_item = utility if utility > best_item else best_item

            nothing = no_click[n]
            best = nothing if nothing > best_item else best_item
            part_of_nothing = exponential(nothing - best)
            parts_sum = part_of_nothing
            for j in range(length):
                part = exponential(utilities[j] - best)
                parts[j] = part
                parts_sum += part
            chosen = utilities[click] if click >= 0 else nothing
            value = (chosen - best) - math.log(parts_sum)
            log_likelihood[n] = value

            exposed_nothing, exposed_sum, exposure = _ZERO, _ZERO, _ZERO
            if has_exposure:
                exposure = exposure_weights[n]
                best = best_exposing
                if include_no_click and nothing > best:
                    best = nothing
                exposed[n] = best
                if best > -np.inf:
                    if include_no_click:
                        exposed_nothing = exponential(sharpness * (nothing - best))
                    exposed_sum = exposed_nothing
                    for j in range(length):
                        part = exponential(sharpness * (exposing[j] - best))
                        exposing[j] = part
                        exposed_sum += part
                    exposed[n] = sharpness * best + math.log(exposed_sum)
                if exposure != 0:
                    value += exposure * exposed[n]
            weight = weights[n]
            if weight != 0:
                total += np.float64(weight) * np.float64(value)
            if not want_gradients:
                continue

            # The slope of the choice made is weight * (1 - its part): take 1 off the part here.
            if click >= 0:
                parts[click] -= parts_sum
            else:
                part_of_nothing -= parts_sum
            scale = -weight / parts_sum
            exposed_scale = _ZERO
            if exposure != 0 and exposed_sum > 0:
                exposed_scale = weight * exposure * sharpness / exposed_sum
            if to_no_click:
                no_click_gradient[n] = scale * part_of_nothing + exposed_scale * exposed_nothing
            state_slope, feature_slope = _zeros(dims), _zeros(lanes)
            for j in range(length):
                slope = scale * parts[j]
                if has_features:
                    described = _load(features, start + j, lanes)
                    feature_slope = _add(feature_slope, _times(described, slope))
                if to_positions:
                    positions_slope[min(j, last_position)] += slope
                bias_slope = slope
                if exposed_scale != 0:
                    slope += exposed_scale * exposing[j]
                row = np.int64(cells[start + j])
                if has_bias and to_items:
                    items_gradient[row, dims] += slope if include_bias else bias_slope
                # A distance has no slope at 0; any value between -1 and 1 will do, so take 0.
                slope /= np.float32(np.inf) if distances[j] == 0 else distances[j]
                step = _times(_subtract(state, _load(items, row, dims)), slope)
                state_slope = _subtract(state_slope, step)
                if to_items:
                    _store(items_gradient, row, _add(_load(items_gradient, row, dims), step))
            if to_weights:
                _store(of_slate, np.int64(0), feature_slope)
                for p in range(lanes):
                    weights_slope[p] += np.float64(of_slate[0, p])
            if to_states:
                _store(states_gradient, at, _add(_load(states_gradient, at, dims), state_slope))
        if to_weights:
            weights_gradient[:] = weights_slope
        if to_positions:
            positions_gradient[:] = positions_slope
        return total, np.int64(-1)

    return kernel


BLOCK = 64
"""Item rows whose scales are worked out in one loop: enough to fill vectors, few enough to stay in
the first cache until they are used."""


@_compile(*REORDER)
def _shares_and_logs(raw: Any, shares: Any, logs: Any) -> None:
    """Fill in p = sigmoid(raw) and log p, entry by entry."""
    for k in range(len(raw)):
        x = raw[k]
        small = exponential(-abs(x))
        total = _ONE + small
        shares[k] = (_ONE if x >= 0 else small) / total
        # log(1 + e) = 2 artanh(e / (2 + e)), of which eight terms of the series are exact enough.
        y = small / (_ONE + total)
        z = y * y
        series = _ZERO
        for divisor in (15, 13, 11, 9, 7, 5, 3, 1):
            series = series * z + np.float32(1 / divisor)
        logs[k] = (_ZERO if x >= 0 else x) - (y + y) * series


@functools.cache
def draw_kernel(dims: int, has_offsets: bool) -> Kernel:
    """Return the draw of items of so many dimensions; see `items.draw_items`.

    Without `has_offsets` there need not be any. It returns the sum of weighted log scales and -1,
    or the first row with a group out of range. `squares` and `mass` are added to.
    """

    @_compile(*REORDER)
    def kernel(
        mean: Any,
        raw: Any,
        noise: Any,
        groups: Any,
        weights: Any,
        centres: Any,
        offsets: Any,
        sigma_max: Any,
        vectors: Any,
        shares: Any,
        squares: Any,
        mass: Any,
    ) -> Any:
        total, log_max = 0.0, dims * math.log(sigma_max)
        logs, lane_sums = np.empty((BLOCK, dims), np.float32), np.empty((1, dims), np.float32)
        flat_raw, flat_shares, flat_logs = raw.ravel(), shares.ravel(), logs.ravel()
        for first in range(0, len(mean), BLOCK):
            last = min(first + BLOCK, len(mean))
            entries = slice(first * dims, last * dims)
            _shares_and_logs(flat_raw[entries], flat_shares[entries], flat_logs)
            sums = _zeros(dims)
            for r in range(first, last):
                group = groups[r]
                if group < 0 or group >= len(centres):
                    return total, np.int64(r)
                weight = weights[r]
                middle = _load(mean, r, dims)
                scale = _times(_load(shares, r, dims), sigma_max)
                _store(vectors, r, _add(middle, _multiply(scale, _load(noise, r, dims))))
                offset = _subtract(middle, _load(centres, group, dims))
                if has_offsets:
                    offset = _subtract(offset, _load(offsets, r, dims))
                square = _add(_multiply(scale, scale), _multiply(offset, offset))
                _store(squares, group, _add(_load(squares, group, dims), _times(square, weight)))
                mass[group] += weight
                sums = _add(sums, _times(_load(logs, r - first, dims), weight))
                total += np.float64(weight) * log_max
            _store(lane_sums, np.int64(0), sums)
            for d in range(dims):
                total += np.float64(lane_sums[0, d])
        return total, np.int64(-1)

    return kernel


@functools.cache
def draw_gradient_kernel(dims: int, has_offsets: bool) -> Kernel:
    """Return the gradient of `draw_kernel`; fills in the gradients that come last.

    With s = sigma_max * p, p = sigmoid(raw): ds/draw = s (1 - p), and d log s / draw = 1 - p. The
    gradient of raw begins as p, the `shares` of `draw_kernel`, and is written over it.
    """

    @_compile(*REORDER)
    def kernel(
        mean: Any,
        noise: Any,
        groups: Any,
        weights: Any,
        centres: Any,
        offsets: Any,
        sigma_max: Any,
        vectors_slope: Any,
        squares_slope: Any,
        log_slope: Any,
        mean_gradient: Any,
        raw_gradient: Any,
        centres_gradient: Any,
        offsets_gradient: Any,
    ) -> None:
        ones = _load(np.ones((1, dims), np.float32), np.int64(0), dims)
        for r in range(len(mean)):
            group, weight = groups[r], weights[r]
            twice = _times(_load(squares_slope, group, dims), weight + weight)
            slope = _load(vectors_slope, r, dims)
            offset = _subtract(_load(mean, r, dims), _load(centres, group, dims))
            if has_offsets:
                offset = _subtract(offset, _load(offsets, r, dims))
            pull = _multiply(offset, twice)
            if has_offsets:
                _store(offsets_gradient, r, _subtract(_zeros(dims), pull))
            _store(mean_gradient, r, _add(slope, pull))
            left = _subtract(_load(centres_gradient, group, dims), pull)
            _store(centres_gradient, group, left)
            share = _load(raw_gradient, r, dims)
            scale = _times(share, sigma_max)
            steep = _add(_multiply(slope, _load(noise, r, dims)), _multiply(scale, twice))
            steep = _add(_multiply(steep, scale), _times(ones, weight * log_slope))
            _store(raw_gradient, r, _multiply(steep, _subtract(ones, share)))

    return kernel


@_compile()
def first_appearances(cells: Any, scratch: Any, rows: Any, local: Any, counts: Any) -> Any:
    """Fill in the distinct cells; return how many, or -1 if one is out of range."""
    found = np.int64(0)
    valid = True
    for j in range(len(cells)):
        cell = np.int64(cells[j])
        if cell < 0 or cell >= len(scratch):
            valid = False
            break
        place = scratch[cell]
        if place < 0:
            place = np.int32(found)
            scratch[cell] = place
            rows[found] = cell
            counts[found] = 0
            found += 1
        local[j] = place
        counts[place] += 1
    for r in range(found):
        scratch[rows[r]] = -1
    return found if valid else np.int64(-1)


@functools.cache
def adam_kernel(dims: int) -> Kernel:
    """Return the update of rows of so many dimensions; see `rows.RowAdam`.

    It returns False, with nothing changed, where a row is out of range.
    """

    @_compile(*REORDER)
    def kernel(
        table: Any,
        momentum: Any,
        second: Any,
        steps: Any,
        rows: Any,
        gradient: Any,
        lr: Any,
        keep: Any,
        take: Any,
        keep_second: Any,
        take_second: Any,
        eps: Any,
        corrections: Any,
    ) -> Any:
        for r in range(len(rows)):
            if rows[r] < 0 or rows[r] >= len(table):
                return False
        for r in range(len(rows)):
            if r + AHEAD < len(rows):
                _prefetch(table, rows[r + AHEAD], dims)
                _prefetch(momentum, rows[r + AHEAD], dims)
            row = rows[r]
            slope = _load(gradient, r, dims)
            count = steps[row] + 1
            steps[row] = count
            mean_square = _squared_norm(slope) / np.float32(dims)
            spread = keep_second * second[row] + take_second * mean_square
            second[row] = spread
            average = _add(_times(_load(momentum, row, dims), keep), _times(slope, take))
            _store(momentum, row, average)
            size = lr * corrections[count, 0] / (math.sqrt(spread) * corrections[count, 1] + eps)
            _store(table, row, _subtract(_load(table, row, dims), _times(average, size)))
        return True

    return kernel
