"""Small kernels built by hand, for the emitter tests."""

from __future__ import annotations

from ktc.ir.fold import add, binary, cast, cdiv, lt, mul
from ktc.ir.kernel import Kernel, KnobDecl, Launch, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Call,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Knob,
    Load,
    Return,
    Store,
    Unary,
    Var,
    WarpOp,
    fresh,
    i32,
)
from ktc.ir.types import F16, F32, I32, U32, Array, Ptr, Scalar, Vec

TID, BID, BDIM = (HwIndex(level, "x") for level in ("thread", "block", "block_dim"))


def f32(x: float) -> Const:
    return Const(x, F32)


def inc(v) -> Expr:
    return Binary("+", Var(v), i32(1))


def saxpy() -> Kernel:
    n, a = fresh("n", I32), fresh("a", F32)
    x, y, i = fresh("x", Ptr(F32, const=True, restrict=True)), fresh("y", Ptr(F32, restrict=True)), fresh("i", I32)
    body = (
        Decl(i, cast(Binary("+", Binary("*", BID, BDIM), TID), I32), const=True),
        If(Binary(">=", Var(i), Var(n)), (Return(),)),
        Store(
            y,
            (Var(i),),
            Binary("+", Binary("*", Var(a), Load(x, (Var(i),))), Load(y, (Var(i),))),
            comments=("y = a x + y",),
        ),
    )
    launch = Launch((cdiv(Var(n), i32(256)), i32(1), i32(1)), (i32(256), i32(1), i32(1)))
    return Kernel("saxpy", tuple(Param(s) for s in (n, a, x, y)), launch, body)


def silu_vec(elem: Scalar = F16) -> Kernel:
    """One token a block, V elements an access, T threads: the shape of lowered code."""
    d = fresh("d", I32)
    out, inp = fresh("out", Ptr(elem, restrict=True)), fresh("in", Ptr(elem, const=True, restrict=True))
    v, t = Knob("V"), Knob("T")
    vec = Vec(elem, v)
    token, i, j = fresh("token", I32), fresh("i", I32), fresh("j", I32)
    x, g, y, xf, gf = fresh("x", vec), fresh("gate", vec), fresh("y", vec), fresh("xf", F32), fresh("gf", F32)
    two_d = mul(i32(2), Var(d))
    row = mul(Var(token), two_d)
    silu = Binary("/", Var(xf), Binary("+", f32(1.0), Call("exp", (Unary("-", Var(xf)),), F32)))
    body = (
        Decl(token, cast(BID, I32), const=True),
        For(
            i, mul(cast(TID, I32), v), lt(Var(i), Var(d)), add(Var(i), mul(t, v)),
            (
                Decl(x, Load(inp, (add(row, Var(i)),), v), const=True),
                Decl(g, Load(inp, (add(add(row, Var(d)), Var(i)),), v, "cs"), const=True),
                Decl(y),
                For(
                    j, i32(0), lt(Var(j), v), inc(j),
                    (
                        Decl(xf, cast(Load(x, (Var(j),)), F32), const=True),
                        Decl(gf, cast(Load(g, (Var(j),)), F32), const=True),
                        Store(y, (Var(j),), cast(Binary("*", silu, Var(gf)), elem)),
                    ),
                    unroll=0,
                ),
                Store(out, (add(mul(Var(token), Var(d)), Var(i)),), Var(y), v),
            ),
        ),
    )  # fmt: skip
    knobs = (
        KnobDecl("V", (1, 2, 4, 8), 8, "elements a vector access moves"),
        KnobDecl("T", (64, 128, 256), 128, "threads of a block"),
    )
    tokens = fresh("num_tokens", I32)
    launch = Launch((Var(tokens), i32(1), i32(1)), (t, i32(1), i32(1)))
    params = (Param(out, align=16), Param(inp, align=16), Param(d, divisible_by=8), Param(tokens, host=True))
    return Kernel("silu_and_mul_kernel", params, launch, body, knobs, (Binary("==", binary("%", Var(d), v), i32(0)),))


def block_sum() -> Kernel:
    """Row sum: partial sums, shared-memory tree, one result a block."""
    n = fresh("n", I32)
    x, out = fresh("x", Ptr(F32, const=True)), fresh("out", Ptr(F32))
    s = fresh("partial", Array(F32, (i32(256),), "shared"))
    half = cast(Binary("/", BDIM, Const(2, U32)), I32)
    tid, i, acc, step = fresh("tid", I32), fresh("i", I32), fresh("acc", F32), fresh("step", I32)
    body = (
        Alloc(s),
        Decl(tid, cast(TID, I32), const=True),
        Decl(acc, f32(0.0)),
        For(i, Var(tid), lt(Var(i), Var(n)), Binary("+", Var(i), cast(BDIM, I32)), (
            Assign(acc, Binary("+", Var(acc), Load(x, (add(mul(cast(BID, I32), Var(n)), Var(i)),)))),
        )),
        Store(s, (Var(tid),), Var(acc)),
        Barrier(),
        For(step, half, Binary(">", Var(step), i32(0)), Binary(">>", Var(step), i32(1)), (
            If(lt(Var(tid), Var(step)), (
                Store(s, (Var(tid),), Binary("+", Load(s, (Var(tid),)), Load(s, (add(Var(tid), Var(step)),)))),
            )),
            Barrier(),
        )),
        If(Binary("==", Var(tid), i32(0)), (Store(out, (cast(BID, I32),), Load(s, (i32(0),))),)),
    )  # fmt: skip
    launch = Launch((Var(fresh("rows", I32)), i32(1), i32(1)), (i32(256), i32(1), i32(1)))
    return Kernel("block_sum", (Param(x), Param(out), Param(n)), launch, body)


def warp_sum() -> Kernel:
    """One warp, one sum by shuffles."""
    x, out = fresh("x", Ptr(F32, const=True)), fresh("out", Ptr(F32))
    v, o = fresh("v", F32), fresh("offset", I32)
    full = Const(0xFFFFFFFF, U32)
    body = (
        Decl(v, Load(x, (Binary("+", Binary("*", BID, Const(32, U32)), TID),))),
        For(o, i32(16), Binary(">", Var(o), i32(0)), Binary("/", Var(o), i32(2)), (
            Assign(v, Binary("+", Var(v), WarpOp("shfl_xor", Var(v), Var(o), i32(32), full))),
        ), unroll=0),
        If(Binary("==", TID, Const(0, U32)), (Store(out, (BID,), Var(v)),)),
    )  # fmt: skip
    one = (i32(1), i32(1))
    return Kernel("warp_sum", (Param(x), Param(out)), Launch((Var(fresh("rows", I32)), *one), (i32(32), *one)), body)
