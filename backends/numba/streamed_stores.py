"""Stores past the caches, of loops that write an array from end to end and read nothing of it.

A store that misses reads the line first, so a copy moves three times what it copies; one past the caches does not, and
leaves in them what is read. It takes whole lines, of which a loop knows nothing: so it runs in rounds of 32 elements,
from the first that begins a line on, each of which fills an array on the stack (LLVM's vector registers) that is then
stored. What comes before and behind these rounds is stored as usual::

    for i in range(lo, hi):             begin = lo + before_line(y, lo, hi - lo)
        y[i] = f(i)                     rounds = begin + (hi - begin) // LANES * LANES
                                        y_lanes = y_lanes_array()
                                        for start in range(begin, rounds, LANES):
                                            for lane in range(rolled(LANES)):
                                                i = start + lane
                                                y_lanes[lane] = f(i)
                                            i = start
                                            stream(y, i, y_lanes)
                                        for part in range(2):
                                            for i in range(rounds if part else lo, hi if part else begin):
                                                y[i] = f(i)

At the end of a task ``stores_done()`` makes them visible before what tells others that it has ended. A program asks for
them by the cache hint ``cs`` (``__stcs``; the pass ``cache-hints``): whether they pay depends on sizes. Arrays that the
kernel also loads are stored as usual, for then their lines are in a cache.
"""

from __future__ import annotations

from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import LOOPS_AND_EXITS, Alloc, Atomic, Body, Decl, Load, Store, Sym
from ktc.ir.types import U64, Array, Ptr, Scalar, Vec
from ktc.ir.walk import all_exprs, walk

HINT = "cs"
"""The cache hint of what is not read soon."""


def streamed(kernel: Kernel, var: Sym, body: Body) -> list[Store]:
    """The stores of a loop over ``var`` that go past the caches: each of an array of its own, one element after the
    other, in every iteration of an innermost loop."""
    asked = [s for s in body if isinstance(s, Store) and s.cache == HINT]
    if not asked or var.type == U64:
        return []
    inside = list(walk(body))
    if any(isinstance(s, (*LOOPS_AND_EXITS, Atomic)) or _makes_array(s) for s in inside):
        return []
    written = [s.buffer for s in inside if isinstance(s, Store)]
    loaded = {e.buffer for e in all_exprs(kernel.body) if isinstance(e, Load)}
    return [
        s for s in asked
        if written.count(s.buffer) == 1 and s.buffer not in loaded
        and _is_one_element(s) and is_unit_stride(s.index[0], var)
    ]  # fmt: skip


def _is_one_element(s: Store) -> bool:
    t = s.buffer.type
    return isinstance(t, Ptr) and isinstance(t.elem, Scalar) and isinstance(s.value.type, Scalar)


def _makes_array(s: object) -> bool:
    return isinstance(s, Alloc | Decl) and isinstance(s.sym.type, Array | Vec)


STREAMED_STORES: dict[str, tuple[tuple[str, ...], str]] = {
    "address": ((), '''
@intrinsic
def address(typingctx, array, index):
    """Where array[index] lies in memory."""

    def build(context, builder, sig, args):
        data = arrayobj.make_array(sig.args[0])(context, builder, args[0]).data
        place = builder.gep(data, [context.cast(builder, args[1], sig.args[1], types.int64)])
        return builder.ptrtoint(place, ir.IntType(64))

    return types.int64(array, index), build
'''),
    "before_line": (("address",), '''
@njit(**OPTIONS)
def before_line(array, index, n):
    """How many of n elements from array[index] on come before the first that begins a line of the caches."""
    return min(n, (-address(array, index) & 63) // array.itemsize)
'''),
    "stream": (("whole_lanes",), '''
WEAKLY_ORDERED = machine() in ("x86_64", "AMD64")  # stores past the caches, as stores_done knows them
# AVX-512 narrows floats and stores them in one instruction, which LLVM takes although it does not go past the caches:
# an instruction that is not known, and none in fact, is put between.
IN_ONE = WEAKLY_ORDERED and get_host_cpu_features().get("avx512f")


@intrinsic
def stream(typingctx, array, index, lanes):
    """array[index : index + LANES] = lanes, past the caches where that begins 32 bytes of memory."""

    def build(context, builder, sig, args):
        arrays = zip(sig.args[::2], args[::2])
        to, of = (arrayobj.make_array(t)(context, builder, value).data for t, value in arrays)
        to = builder.gep(to, [context.cast(builder, args[1], sig.args[1], types.int64)])
        vector, number = ir.VectorType(ir.IntType(64), 4), ir.IntType(64)
        places = range(LANES * context.get_abi_sizeof(to.type.pointee) // 32)
        aligned = builder.icmp_unsigned("==", builder.and_(builder.ptrtoint(to, number), number(31)), number(0))
        to, of = (builder.bitcast(p, vector.as_pointer()) for p in (to, of))
        values = [builder.load(builder.gep(of, [number(k)]), align=32) for k in places]
        if IN_ONE:
            same = ir.FunctionType(vector, [vector])
            values = [builder.asm(same, "", "=x,0", [value], False) for value in values]
        with builder.if_else(aligned) as (past, through):
            for branch, align in ((past, 32), (through, 1)):
                with branch:
                    for k, value in zip(places, values):
                        store = builder.store(value, builder.gep(to, [number(k)]), align=align)
                        if align == 32 and WEAKLY_ORDERED:
                            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.none(array, index, lanes), build
'''),
    "stores_done": (("stream",), '''
@intrinsic
def stores_done(typingctx):
    """Other threads see what was stored past the caches before what is stored from here on."""

    def build(context, builder, sig, args):
        if WEAKLY_ORDERED:
            fence = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, fence, "llvm.x86.sse.sfence"), [])
        return context.get_dummy_value()

    return types.none(), build
'''),
}  # fmt: skip
"""name: (helpers it needs, source)"""

__all__ = ["HINT", "STREAMED_STORES", "streamed"]
