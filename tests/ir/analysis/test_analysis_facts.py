"""Facts of kernels built by hand: a streaming row kernel in both forms, and a stencil."""

import pytest

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.fold import add, cast, cdiv, lt, mul, sub
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Barrier,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Store,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import F16, F32, I32, I64, Array, Ptr

OUT, IN, D, N = fresh("out", Ptr(F16)), fresh("in", Ptr(F16, const=True)), fresh("d", I32), fresh("n", I32)
d = Var(D)
ROW_PARAMS = (Param(OUT), Param(IN), Param(D, divisible_by=8), Param(N, host=True))
ROW_LAUNCH = Launch((Var(N), i32(1), i32(1)), (i32(256), i32(1), i32(1)))


def gate_body(row, col):
    """out[row*d + col] = exp(in[row*2*d + col]) * in[row*2*d + d + col]"""
    base = mul(mul(row, Const(2, I64)), cast(d, I64))
    x = Cast(F32, Load(IN, (add(base, col),)))
    y = Cast(F32, Load(IN, (add(add(base, cast(d, I64)), col),)))
    value = Binary("*", Call("exp", (x,), F32), y)
    return (Store(OUT, (add(mul(row, cast(d, I64)), col),), Cast(F16, value)),)


@pytest.fixture
def spmd_rows():
    token, idx = fresh("token", I64), fresh("idx", I64)
    tx, bx, bdx = (HwIndex(level, "x") for level in ("thread", "block", "block_dim"))
    loop = For(
        var=idx, init=Cast(I64, tx), cond=lt(Var(idx), d), step=add(Var(idx), Cast(I64, bdx)),
        body=gate_body(Var(token), Var(idx)),
    )  # fmt: skip
    return Kernel("k", ROW_PARAMS, ROW_LAUNCH, (Decl(token, Cast(I64, bx), const=True), loop))


@pytest.fixture
def parallel_rows():
    token, i = fresh("token", I64), fresh("i", I64)
    inner = Par(
        i, Const(0, I64), cast(d, I64), (Level("thread", i32(256), "x"), Level("seq")), gate_body(Var(token), Var(i))
    )
    outer = Par(token, Const(0, I64), cast(Var(N), I64), (Level("block", None, "x"),), (inner,))
    return Kernel("k", ROW_PARAMS, ROW_LAUNCH, (outer,))


def test_strides_pass_through_a_block_stride_loop(spmd_rows):
    for a in accesses(spmd_rows):
        assert a.pattern("thread.x") == "unit"
        assert a.pattern("block.x") == "strided"
        assert a.pattern("idx") == "strided"


@pytest.mark.parametrize("form", ["spmd_rows", "parallel_rows"])
def test_traffic_of_a_streaming_kernel_is_what_it_touches(form, request):
    f = facts(request.getfixturevalue(form), {"d": 1024, "n": 10})
    assert f.form == form.split("_")[0]
    assert {b.name: b.footprint for b in f.buffers} == {"in": 10 * 2048, "out": 10 * 1024}
    assert f.bytes == f.moved_bytes == 10 * 3072 * 2
    assert f.reuse == 1
    assert f.flops == 10 * 1024 and f.special == 10 * 1024
    assert f.elem == "f16" and not f.unknown


def test_loops_of_the_parallel_form(parallel_rows):
    f = facts(parallel_rows, {"d": 1024, "n": 10})
    row, col = f.loops
    assert (row.name, row.trip, row.levels, row.innermost, row.strided) == ("token", 10, ("block.x",), False, 3)
    assert (col.name, col.trip, col.parent, col.unit, col.divisor) == ("i", 1024, "token", 3, 8)
    assert col.levels == ("thread.x", "seq")


def test_unknown_sizes_are_listed_not_guessed(parallel_rows):
    f = facts(parallel_rows)
    assert f.unknown == ("i", "token") and f.loop("i").trip is None


def test_stencil_taps_share_their_footprint():
    a, b, nx, ny = fresh("a", Ptr(F32)), fresh("b", Ptr(F32)), fresh("nx", I32), fresh("ny", I32)
    x, y = fresh("x", I32), fresh("y", I32)

    def at(dy, dx):
        return Load(a, (add(mul(add(Var(y), i32(dy)), Var(nx)), add(Var(x), i32(dx))),))

    total = at(0, 0)
    for tap in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        total = Binary("+", total, at(*tap))
    store = Store(b, (add(mul(Var(y), Var(nx)), Var(x)),), total)
    inner = Par(x, i32(1), sub(Var(nx), i32(1)), (Level("thread", i32(32), "x"), Level("block", None, "x")), (store,))
    outer = Par(y, i32(1), sub(Var(ny), i32(1)), (Level("thread", i32(8), "y"), Level("block", None, "y")), (inner,))
    k = Kernel("j", (Param(a), Param(b), Param(nx), Param(ny)), None, (outer,))
    f = facts(k, {"nx": 102, "ny": 52})
    assert {b.name: (b.footprint, b.moved) for b in f.buffers} == {"a": (5000, 25000), "b": (5000, 5000)}
    assert f.reuse == 3


def test_reductions_barriers_shared_memory_and_broadcasts(parallel_rows):
    w, s, i, smem = (
        fresh("w", Ptr(F32)),
        fresh("s", F32),
        fresh("i", I32),
        fresh("smem", Array(F32, (i32(64),), "shared")),
    )
    reduce = Reduce(
        (Acc(s, "+", Const(0.0, F32), Load(w, (Var(i),))),),
        i,
        i32(0),
        d,
        (Level("thread", i32(64), "x"), Level("seq")),
        (),
    )
    row = fresh("row", I32)
    k = Kernel(
        "r", (Param(w), Param(D), Param(N)), None,
        (Par(row, i32(0), Var(N), (Level("block", None, "x"),), (Alloc(smem), reduce, Barrier())),),
    )  # fmt: skip
    f = facts(k, {"d": 128, "n": 4})
    assert (f.reductions, f.barriers, f.shared_bytes) == (1, 1, 256)
    assert f.loop("i").ops == ("+",) and f.loop("row").broadcast == 1
    assert f.reuse == 4


def test_indirect_accesses_are_irregular():
    idx, x, i = fresh("idx", Ptr(I32)), fresh("x", Ptr(F32)), fresh("i", I32)
    body = (Store(x, (Load(idx, (Var(i),)),), Const(0.0, F32)),)
    k = Kernel(
        "g", (Param(idx), Param(x), Param(N)), None, (Par(i, i32(0), Var(N), (Level("block", None, "x"),), body),)
    )
    assert facts(k, {"n": 5}).loop("i").irregular == 1


def test_guarded_one_element_kernel_counts_its_threads():
    y, i = fresh("y", Ptr(F32)), fresh("i", I32)
    tid = add(mul(HwIndex("block", "x"), HwIndex("block_dim", "x")), HwIndex("thread", "x"))
    body = (Decl(i, Cast(I32, tid)), If(lt(Var(i), Var(N)), (Store(y, (Var(i),), Load(y, (Var(i),))),)))
    launch = Launch((cdiv(Var(N), i32(256)), i32(1), i32(1)), (i32(256), i32(1), i32(1)))
    f = facts(Kernel("s", (Param(y), Param(N)), launch, body), {"n": 1024})
    assert (f.threads, f.blocks, f.bytes) == (256, 4, 2 * 4096)
