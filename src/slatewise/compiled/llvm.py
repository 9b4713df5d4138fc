"""What `vectors` and `lanes` emit: LLVM instructions on vectors of floats.

numba's own loops over a short row keep sums in memory, and do not see that a store to one array
leaves the others as they were: explicit vectors are two to four times as fast.
"""

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils

from slatewise.compiled.compilation import Kernel

FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()

# numba's own signatures describe the Python functions, not what these make of them.
declare: Any = cgutils.get_or_insert_function
_make_intrinsic: Any = numba.extending.intrinsic


def intrinsic(function: Kernel) -> Kernel:
    """Make a function of numba types that returns a signature and a generator of instructions."""
    result: Kernel = _make_intrinsic(prefer_literal=True)(function)
    return result


def start_of(context: Any, builder: Any, table: Any, value: Any) -> Any:
    """Return the pointer to the first element of an array."""
    return context.make_array(table)(context, builder, value).data


def read(builder: Any, start: Any, kind: Any) -> Any:
    """Read a vector of a kind; rows of floats are aligned as floats, not as vectors."""
    return builder.load(builder.bitcast(start, kind.as_pointer()), align=4)


def write(builder: Any, start: Any, vector: Any) -> None:
    """Write a vector to memory."""
    builder.store(vector, builder.bitcast(start, vector.type.as_pointer()), align=4)


def ask_for(builder: Any, start: Any, offsets: list[int]) -> None:
    """Prefetch the cache lines at an offset in bytes from a pointer."""
    first = builder.bitcast(start, _BYTES)
    kind = ir.FunctionType(ir.VoidType(), [first.type, INT32, INT32, INT32])
    prefetch = declare(builder.module, kind, "llvm.prefetch.p0")
    read_, keep, data = (ir.Constant(INT32, flag) for flag in (0, 3, 1))
    for offset in offsets:
        line = builder.gep(first, [ir.Constant(INT64, offset)])
        builder.call(prefetch, [line, read_, keep, data])


def shuffle(builder: Any, vector: Any, lanes: list[int]) -> Any:
    """Return these lanes of a vector."""
    order = ir.Constant(ir.VectorType(INT32, len(lanes)), lanes)
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), order)


def broadcast(builder: Any, number: Any, width: int) -> Any:
    """Return a number in all lanes of a vector."""
    undefined = ir.Constant(ir.VectorType(number.type, 1), ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(INT32, 0))
    return shuffle(builder, single, [0] * width)


def add_halves(builder: Any, vector: Any, flags: tuple[str, ...]) -> Any:
    """Add the upper half of a vector's lanes to the lower."""
    width = vector.type.count // 2
    low = shuffle(builder, vector, list(range(width)))
    high = shuffle(builder, vector, list(range(width, 2 * width)))
    return builder.fadd(low, high, flags=flags)


def first_lane(builder: Any, vector: Any) -> Any:
    """Return the number in the first lane."""
    return builder.extract_element(vector, ir.Constant(INT32, 0))
