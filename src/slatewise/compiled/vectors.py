"""Rows of D floats held in registers, for kernels that are compiled once for each D.

A kernel takes about two seconds to compile, then it is on disk. A loop over `range(D)` would be
four times slower: its trip count is too short for the unrolled vector body.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import models, register_model

from slatewise.compiled.compilation import REORDER, Kernel
from slatewise.compiled.llvm import (
    FLOAT,
    INT64,
    add_halves,
    ask_for,
    broadcast,
    first_lane,
    intrinsic,
    read,
    write,
)

AHEAD = 16
"""Rows by which memory is asked for early: worth a factor of two on tables beyond the cache."""
_LINE = 64
"""Bytes of a cache line."""


class Vector(types.Type):
    """D floats in registers, as LLVM vectors of 16 lanes and then of smaller powers of two.

    LLVM would take one vector of 25 lanes too, but breaks it into scalars wherever it lives
    beyond a branch.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        rest = [size for size in (8, 4, 2, 1) if lanes % 16 & size]
        self.sizes = [16] * (lanes // 16) + rest
        self.starts = [sum(self.sizes[:piece]) for piece in range(len(self.sizes))]
        self.llvm = ir.LiteralStructType([ir.VectorType(FLOAT, size) for size in self.sizes])
        super().__init__(name=f"Vector({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)  # type: ignore[no-untyped-call]


def _row(context: Any, builder: Any, table: Any, value: Any, row: Any) -> Any:
    """Return the pointer to a row of a matrix; it may be longer than the lanes that are read."""
    array = context.make_array(table)(context, builder, value)
    return builder.gep(array.data, [builder.mul(row, builder.extract_value(array.shape, 1))])


def _pieces(builder: Any, value: Any) -> list[Any]:
    return [builder.extract_value(value, piece) for piece in range(len(value.type.elements))]


def _joined(builder: Any, vector: Vector, pieces: list[Any]) -> Any:
    joined = ir.Constant(vector.llvm, ir.Undefined)
    for index, piece in enumerate(pieces):
        joined = builder.insert_value(joined, piece, index)
    return joined


def _loading(vector: Vector, table: Any) -> Kernel:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        row = _row(context, builder, table, values[0], values[1])
        pieces = [
            read(builder, builder.gep(row, [ir.Constant(INT64, start)]), kind)
            for start, kind in zip(vector.starts, vector.llvm.elements, strict=True)
        ]
        return _joined(builder, vector, pieces)

    return generate


@intrinsic
def load(typing: Any, table: Any, row: Any, lanes: Any) -> Any:
    """Read the first lanes of a row of a matrix; their number is known to the compiler."""
    vector = Vector(lanes.literal_value)
    return vector(table, types.int64, lanes), _loading(vector, table)


@intrinsic
def load_like(typing: Any, table: Any, row: Any, vector: Any) -> Any:
    """Read as many lanes of a row as a vector has."""
    return vector(table, types.int64, vector), _loading(vector, table)


@intrinsic
def store(typing: Any, table: Any, row: Any, vector: Any) -> Any:
    """Write a vector to the beginning of a row of a matrix."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        begin = _row(context, builder, table, values[0], values[1])
        for start, piece in zip(vector.starts, _pieces(builder, values[2]), strict=True):
            write(builder, builder.gep(begin, [ir.Constant(INT64, start)]), piece)
        return context.get_dummy_value()

    return types.void(table, types.int64, vector), generate


@intrinsic
def prefetch(typing: Any, table: Any, row: Any, lanes: Any) -> Any:
    """Ask for all cache lines of a row, which will be read soon; the row need not exist."""
    size = 4 * lanes.literal_value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # Rows do not begin with a cache line: the last byte may lie in one more.
        offsets = sorted({*range(0, size, _LINE), size - 1})
        ask_for(builder, _row(context, builder, table, values[0], values[1]), offsets)
        return context.get_dummy_value()

    return types.void(table, types.int64, lanes), generate


def _lanewise(operation: str) -> Kernel:
    def typed(typing: Any, left: Any, right: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pairs = zip(*(_pieces(builder, value) for value in values), strict=True)
            operate = getattr(builder, operation)
            return _joined(builder, left, [operate(*pair, flags=REORDER) for pair in pairs])

        return left(left, right), generate

    return intrinsic(typed)


add, subtract, multiply = _lanewise("fadd"), _lanewise("fsub"), _lanewise("fmul")


@intrinsic
def times(typing: Any, vector: Any, factor: Any) -> Any:
    """Multiply a vector by a number."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        products = [
            builder.fmul(piece, broadcast(builder, values[1], size), flags=REORDER)
            for size, piece in zip(vector.sizes, _pieces(builder, values[0]), strict=True)
        ]
        return _joined(builder, vector, products)

    return vector(vector, types.float32), generate


def _sum_of_products(builder: Any, left: Any, right: Any) -> Any:
    pairs = zip(_pieces(builder, left), _pieces(builder, right), strict=True)
    total, *rest = (builder.fmul(*pair, flags=REORDER) for pair in pairs)
    # Pieces come from wide to narrow: fold the total down to the width of each, and add it.
    for piece in rest:
        while total.type.count > piece.type.count:
            total = add_halves(builder, total, REORDER)
        total = builder.fadd(total, piece, flags=REORDER)
    while total.type.count > 1:
        total = add_halves(builder, total, REORDER)
    return first_lane(builder, total)


@intrinsic
def squared_norm(typing: Any, vector: Any) -> Any:
    """Return the sum of squares of a vector."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _sum_of_products(builder, values[0], values[0])

    return types.float32(vector), generate


@intrinsic
def dot(typing: Any, left: Any, right: Any) -> Any:
    """Return the inner product of two vectors."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _sum_of_products(builder, *values)

    return types.float32(left, right), generate


@intrinsic
def zeros(typing: Any, lanes: Any) -> Any:
    """Return a vector of zeros."""
    vector = Vector(lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(vector.llvm, None)

    return vector(lanes), generate


@intrinsic
def zeros_like(typing: Any, vector: Any) -> Any:
    """Return as many zeros as a vector has lanes."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(vector.llvm, None)

    return vector(vector), generate
