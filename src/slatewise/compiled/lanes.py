"""Sixteen floats side by side, for loops over blocks [D, 16] of sixteen items each."""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from slatewise.compiled.compilation import CONTRACT, Kernel
from slatewise.compiled.llvm import (
    FLOAT,
    INT32,
    INT64,
    add_halves,
    ask_for,
    broadcast,
    declare,
    first_lane,
    intrinsic,
    read,
    start_of,
    write,
)

WIDTH = 16
FLOATS, INTS = ir.VectorType(FLOAT, WIDTH), ir.VectorType(INT32, WIDTH)

# numba's own signatures describe the Python functions, not what these make of them.
_loop: Any = cgutils.for_range
_local: Any = cgutils.alloca_once_value


class Lanes(types.Type):
    """Sixteen floats in registers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, FLOATS)  # type: ignore[no-untyped-call]


@intrinsic
def load(typing: Any, table: Any, at: Any) -> Any:
    """Read sixteen floats of an array, from element `at` on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start = builder.gep(start_of(context, builder, table, values[0]), [values[1]])
        return read(builder, start, FLOATS)

    return lanes(table, types.int64), generate


@intrinsic
def store(typing: Any, table: Any, at: Any, vector: Any) -> Any:
    """Write sixteen floats to an array, from element `at` on."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start = builder.gep(start_of(context, builder, table, values[0]), [values[1]])
        write(builder, start, values[2])
        return context.get_dummy_value()

    return types.void(table, types.int64, lanes), generate


@intrinsic
def prefetch(typing: Any, table: Any, at: Any) -> Any:
    """Ask for the cache line of element `at` of an array."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start = start_of(context, builder, table, values[0])
        ask_for(builder, builder.gep(start, [values[1]]), [0])
        return context.get_dummy_value()

    return types.void(table, types.int64), generate


@intrinsic
def everywhere(typing: Any, number: Any) -> Any:
    """Return a number in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return broadcast(builder, values[0], WIDTH)

    return lanes(types.float32), generate


def _lanewise(operation: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return getattr(builder, operation)(*values, flags=CONTRACT)

        return lanes(lanes, lanes), generate

    return intrinsic(typed)


add, subtract = _lanewise("fadd"), _lanewise("fsub")
multiply, divide = _lanewise("fmul"), _lanewise("fdiv")


def _chosen(comparison: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, *values), *values)

        return lanes(lanes, lanes), generate

    return intrinsic(typed)


larger, smaller = _chosen(">"), _chosen("<")
"""Where either is not a number, the second is taken."""


@intrinsic
def root(typing: Any, vector: Any) -> Any:
    """Return the square root of every lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(FLOATS, [FLOATS])
        return builder.call(declare(builder.module, kind, "llvm.sqrt.v16f32"), values)

    return lanes(lanes), generate


def _compared(comparison: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            bits = builder.bitcast(builder.fcmp_ordered(comparison, *values), ir.IntType(WIDTH))
            return builder.zext(bits, INT64)

        return types.int64(lanes, lanes), generate

    return intrinsic(typed)


below, at_most = _compared("<"), _compared("<=")
"""One bit for every lane."""


@intrinsic
def where_reached(typing: Any, reach: Any, vector: Any) -> Any:
    """Return the vector where the reach is not negative, and 0 elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = ir.Constant(FLOATS, None)
        return builder.select(builder.fcmp_ordered(">=", values[0], zeros), values[1], zeros)

    return lanes(lanes, lanes), generate


@intrinsic
def sum_of(typing: Any, vector: Any) -> Any:
    """Add up the lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        total = values[0]
        while total.type.count > 1:
            total = add_halves(builder, total, ())
        return first_lane(builder, total)

    return types.float32(lanes), generate


@intrinsic
def power_of_two(typing: Any, vector: Any) -> Any:
    """Return at least 2^x and at most 1.07 · 2^x for x in [-126, 0]: chords between integers."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: float) -> Any:
            return ir.Constant(FLOATS, [value] * WIDTH)

        # The bits of a float, read as an integer, are close to a line in its logarithm.
        shifted = builder.fmul(builder.fadd(values[0], constant(127.0)), constant(2.0**23))
        chord = builder.bitcast(builder.fptosi(shifted, INTS), FLOATS)
        return builder.fmul(chord, constant(float(np.float32(1.0001))))

    return lanes(lanes), generate


# At most log2(1 + f) for 0 <= f <= 1, by at most 0.0004.
_LOG2 = (-7.91495844e-2, 3.12211590e-1, -6.69512499e-1, 1.43609711, 2.04257e-4 - 2.1e-4)


@intrinsic
def log_of_two(typing: Any, vector: Any) -> Any:
    """Return at most log2(x), and at least that less 0.0004, for a positive x."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: int) -> Any:
            return ir.Constant(INTS, [value] * WIDTH)

        bits = builder.bitcast(values[0], INTS)
        # x = 2^exponent (1 + f): the exponent from its bits, log2(1 + f) from a polynomial.
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


@intrinsic
def random_lanes(typing: Any, first: Any, key: Any, other_key: Any) -> Any:
    """Return a float in [0, 1) with 24 bits for each number from `first` on and these keys.

    Two rounds of multiply and shift with a key before each.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def constant(value: int) -> Any:
            return ir.Constant(INTS, [value] * WIDTH)

        count = broadcast(builder, builder.trunc(values[0], INT32), WIDTH)
        x = builder.add(count, ir.Constant(INTS, list(range(WIDTH))))
        for value in values[1:]:
            x = builder.xor(x, broadcast(builder, value, WIDTH))
            for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
                x = builder.xor(x, builder.lshr(x, constant(shift)))
                x = builder.mul(x, constant(factor))
            x = builder.xor(x, builder.lshr(x, constant(15)))
        # 24 bits are all that a float in [0, 1) can hold evenly.
        bits = builder.uitofp(builder.lshr(x, constant(8)), FLOATS)
        return builder.fmul(bits, ir.Constant(FLOATS, [2.0**-24] * WIDTH))

    return lanes(types.int64, types.int32, types.int32), generate


@intrinsic
def squared_distances(typing: Any, blocks: Any, block: Any, rows: Any, row: Any, count: Any) -> Any:
    """Return the squared distances of the 16 columns of a block [D, 16] to `count` rows [D]."""
    number = count.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = context.make_array(blocks)(context, builder, values[0])
        size = builder.extract_value(array.shape, 1)
        start = builder.mul(values[1], builder.mul(size, ir.Constant(INT64, WIDTH)))
        points = start_of(context, builder, rows, values[2])
        begin = [
            builder.mul(builder.add(values[3], ir.Constant(INT64, which)), size)
            for which in range(number)
        ]
        # In local variables, which LLVM turns into registers; the rows share each column's load.
        sums = [_local(builder, ir.Constant(FLOATS, None)) for _ in range(number)]
        for total in sums:
            builder.store(ir.Constant(FLOATS, None), total)
        with _loop(builder, size) as loop:
            at = builder.add(start, builder.mul(loop.index, ir.Constant(INT64, WIDTH)))
            column = read(builder, builder.gep(array.data, [at]), FLOATS)
            for total, first in zip(sums, begin, strict=True):
                number_at = builder.gep(points, [builder.add(first, loop.index)])
                gap = builder.fsub(column, broadcast(builder, builder.load(number_at), WIDTH))
                square = builder.fmul(gap, gap, flags=CONTRACT)
                builder.store(builder.fadd(builder.load(total), square, flags=CONTRACT), total)
        results = [builder.load(total) for total in sums]
        return context.make_tuple(builder, signature.return_type, results)

    returned: Any = types.UniTuple(lanes, number)  # type: ignore[no-untyped-call]
    return returned(blocks, types.int64, rows, types.int64, count), generate
