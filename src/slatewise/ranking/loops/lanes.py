"""Sixteen floats side by side, as explicit vector code.

numba's own loops over a block `[D, 16]` keep the sums in memory and take twice as long.
"""

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

# numba's own signatures describe the Python functions, not what these decorators make of them.
_make_intrinsic: Any = numba.extending.intrinsic
_declare: Any = cgutils.get_or_insert_function
_loop: Any = cgutils.for_range
_local: Any = cgutils.alloca_once_value


def _intrinsic(function: Kernel) -> Kernel:
    result: Kernel = _make_intrinsic(prefer_literal=True)(function)
    return result


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
def load(typing: Any, table: Any, at: Any) -> Any:
    """Read sixteen floats of an array, from element `at` on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _read(builder, _data(context, builder, table, values[0]), values[1])

    return lanes(table, types.int64), generate


@_intrinsic
def store(typing: Any, table: Any, at: Any, vector: Any) -> Any:
    """Write sixteen floats to an array, from element `at` on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.gep(_data(context, builder, table, values[0]), [values[1]])
        builder.store(values[2], builder.bitcast(place, FLOATS.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(table, types.int64, lanes), generate


@_intrinsic
def prefetch(typing: Any, table: Any, at: Any) -> Any:
    """Ask for the cache line of element `at` of an array."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.gep(_data(context, builder, table, values[0]), [values[1]])
        start = builder.bitcast(place, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [start.type, INT32, INT32, INT32])
        flags = [ir.Constant(INT32, flag) for flag in (0, 3, 1)]  # to read, to keep, data
        builder.call(_declare(builder.module, kind, "llvm.prefetch.p0"), [start, *flags])
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


@_intrinsic
def everywhere(typing: Any, number: Any) -> Any:
    """Return a number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _broadcast(builder, values[0])

    return lanes(types.float32), generate


def _lanewise(operation: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return getattr(builder, operation)(*values, flags=CONTRACT)

        return lanes(lanes, lanes), generate

    return _intrinsic(typed)


add, subtract = _lanewise("fadd"), _lanewise("fsub")
multiply, divide = _lanewise("fmul"), _lanewise("fdiv")


def _chosen(comparison: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *values), *values)

        return lanes(lanes, lanes), generate

    return _intrinsic(typed)


larger, smaller = _chosen(">"), _chosen("<")
"""Where either is not a number, the second is taken."""


@_intrinsic
def root(typing: Any, vector: Any) -> Any:
    """Return the square root of every lane."""

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


below, at_most = _compared("<"), _compared("<=")
"""One bit for every lane."""


@_intrinsic
def where_reached(typing: Any, reach: Any, vector: Any) -> Any:
    """Return the vector where the reach is not negative, and 0 elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = ir.Constant(FLOATS, None)
        return builder.select(builder.fcmp_ordered(">=", values[0], zeros), values[1], zeros)

    return lanes(lanes, lanes), generate


@_intrinsic
def sum_of(typing: Any, vector: Any) -> Any:
    """Add up the lanes."""

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
def power_of_two(typing: Any, vector: Any) -> Any:
    """Return at least 2^x and at most 1.07 · 2^x for x in [-126, 0]: chords between integers."""

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
def log_of_two(typing: Any, vector: Any) -> Any:
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
def random_lanes(typing: Any, first: Any, key: Any, other_key: Any) -> Any:
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
def squared_distances(typing: Any, blocks: Any, block: Any, rows: Any, row: Any, count: Any) -> Any:
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

    returned: Any = types.UniTuple(lanes, number)  # type: ignore[no-untyped-call]
    return returned(blocks, types.int64, rows, types.int64, count), generate
