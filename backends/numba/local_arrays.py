"""Arrays of constant shape on the stack: what LLVM can keep in registers.

numpy arrays come from the heap, and what is in them goes through memory for every access. A small array whose shape is
known is memory of the function instead: where the loops over it have constant ends too, LLVM turns its elements into
(vector) registers. Shapes may contain knobs: the maker of an array is a line at the top of the module::

    acc_array = local_array((TM, 64), np.float32)          in the function:   acc = acc_array()

A larger one is on the heap, and what runs a task is given it. LLVM knows that what a function is given is apart from
what is on its stack. Of other pointers it looks for evidence in the first hundred uses of an array, and finds none
where loops are written out: then results that could stay in registers are stored in each iteration. ::

    tile_array = given_array((TK, 512), np.float32)        in the function:   tile = tile_array(tile)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ktc.ir.fold import evaluate
from ktc.ir.nodes import Binary, Const, Expr, Knob
from ktc.ir.walk import walk_expr

MOST_BYTES, ALL_BYTES = 16 * 1024, 128 * 1024
"""Of one array and of all: stacks of worker threads may be as small as half a megabyte."""

LOCAL_ARRAYS: dict[str, tuple[tuple[str, ...], str]] = {
    "array_at": ((), '''
def array_at(context, builder, array, shape, memory):
    """The LLVM value of an array of type ``array``, of this shape, at the address ``memory``."""
    item = array.dtype.bitwidth // 8
    sizes = [context.get_constant(types.intp, n) for n in shape]
    strides = [context.get_constant(types.intp, item * math.prod(shape[k + 1 :])) for k in range(len(shape))]
    made = arrayobj.make_array(array)(context, builder)
    data = builder.bitcast(memory, made.data.type)
    arrayobj.populate_array(made, data, sizes, strides, context.get_constant(types.intp, item), None)
    return made._getvalue()
'''),
    "local_array": (("array_at",), '''
def local_array(shape, dtype):
    """A function that makes arrays of this shape in the caller's stack frame: valid until that returns."""
    array = types.Array(numpy_support.from_dtype(np.dtype(dtype)), len(shape), "C")

    @intrinsic
    def make(typingctx):
        def build(context, builder, sig, args):
            with builder.goto_entry_block():  # cgutils.alloca_once would store zeros, which LLVM writes out one by one
                memory = builder.alloca(ir.ArrayType(context.get_data_type(array.dtype), math.prod(shape)))
            memory.align = 64
            return array_at(context, builder, array, shape, memory)

        return array(), build

    return make
'''),
    "given_array": (("array_at",), '''
def given_array(shape, dtype):
    """A function that makes an array of this shape, which LLVM then knows, of one that the caller keeps."""
    array = types.Array(numpy_support.from_dtype(np.dtype(dtype)), len(shape), "C")

    @intrinsic
    def make(typingctx, given):
        def build(context, builder, sig, args):
            memory = arrayobj.make_array(sig.args[0])(context, builder, args[0]).data
            return array_at(context, builder, array, shape, memory)

        return array(given), build

    return make
'''),
    "rolled": ((), '''
@intrinsic
def rolled(typingctx, n):
    """n, which LLVM gets to know when it vectorises: it would write short loops out before, one element at a time."""

    def build(context, builder, sig, args):
        pointer, bit = ir.IntType(8).as_pointer(), ir.IntType(1)
        size = ir.FunctionType(ir.IntType(64), [pointer, bit, bit, bit])
        size_of = cgutils.get_or_insert_function(builder.module, size, "llvm.objectsize.i64.p0")
        nothing = builder.call(size_of, [ir.Constant(pointer, None), bit(1), bit(1), bit(0)])  # unknown, and then 0
        return builder.add(context.cast(builder, args[0], sig.args[0], types.int64), nothing)

    return types.int64(n), build
'''),
}  # fmt: skip
"""name: (helpers it needs, source)"""

_PLAIN = (Const, Knob, Binary)


def stack_bytes(shape: tuple[int | Expr, ...], item_bytes: int, knobs: Mapping[str, int]) -> int | None:
    """What an array of ``shape`` takes of the stack, if it goes there: a constant for given ``knobs``, and small."""
    counts = [constant(n, knobs) or 0 for n in shape]
    size = prod(counts) * item_bytes
    return size if min(counts, default=1) > 0 and size <= MOST_BYTES else None


def constant(n: int | Expr, knobs: Mapping[str, int]) -> int | None:
    """The value of ``n`` where its text is plain arithmetic on numbers and knobs."""
    if isinstance(n, int):
        return n
    if not all(isinstance(e, _PLAIN) and (not isinstance(e, Binary) or e.op in "+-*") for e in walk_expr(n)):
        return None
    value = evaluate(n, knobs)
    return None if value is None else int(value)
