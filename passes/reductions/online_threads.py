"""One sweep in which every thread keeps a maximum and a sum of its own, combined once at the end.

    array m_own[T]; array s_own[T]
    par t in 0..T @ [thread.x T]
      var m = -inf; var s = 0.0
      for tile in ...                                     # U vectors of V elements of this thread
        x_row[u, v] = x[...], or -inf past the end
        let top = max(m, x_row...); s = s * exp(m - top) + sum of exp(x_row - top); m = top
      m_own[t] = m; s_own[t] = s
    reduce(max) m over t in 0..T; yield m_own[t]
    reduce(+) s over t in 0..T; yield s_own[t] * exp(m_own[t] - m)

Threads meet twice a row instead of twice a tile, so that loads of the next tile need not wait for anyone.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import identity
from ktc.ir.arith.counted_loops import count
from ktc.ir.fold import add, cast, i32, lt, mul, sub
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Decl,
    Expr,
    For,
    Level,
    Load,
    Par,
    Reduce,
    Select,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import refresh, substitute


def own_sums(top: Reduce, low: Sym, fn: str, lanes: Expr, threads: Expr, rows: Expr) -> tuple[Body, Sym]:
    """Statements that declare the maximum ``top`` finds and ``low``, the sum of ``fn(value - maximum)``.

    Returns them and the variable that holds the sum.
    """
    high, iv = top.accs[0], top.var.type
    t = high.sym.type
    assert isinstance(t, Scalar) and isinstance(iv, Scalar)
    nothing, zero = identity("max", t), Const(0.0, t)

    def power(e: Expr) -> Expr:
        return Call(fn, (e,), t)

    def based(e: Expr) -> Expr:
        return Select(Binary("==", e, nothing), zero, e)

    name, thread = high.sym.name, fresh("t", I32)
    m_own, s_own = (fresh(f"{n}_own", Array(t, (threads,))) for n in (name, low.name))
    m, s = fresh(f"{name}_mine", t), fresh(f"{low.name}_mine", t)
    row = fresh(f"{name}_row", Array(t, (rows, lanes)))
    tile, best, base, part = fresh(f"{top.var.name}_tile", iv), fresh("top", t), fresh("base", t), fresh("part", t)

    def each(body) -> For:
        u, v = fresh("u", I32), fresh("v", I32)
        return count(u, rows, count(v, lanes, body(Load(row, (Var(u), Var(v))), (Var(u), Var(v)))))

    def place(u: Sym, at: Sym) -> tuple[Decl, Expr]:
        """Where the thread's vector ``u`` starts, and how many of its elements there are."""
        first = add(Var(tile), cast(mul(add(mul(Var(u), threads), Var(thread)), lanes), iv))
        left = Call("min", (cast(lanes, iv), sub(cast(top.hi, iv), Var(at))), iv)
        return Decl(at, first, const=True), cast(left, I32)

    vector = (Level("vec", lanes),)
    u, v, at = fresh("u", I32), fresh("v", I32), fresh(f"{top.var.name}_at", iv)
    start, left = place(u, at)
    copy = refresh((*top.body, Decl(fresh("value", t), high.value, const=True)))
    *inner, value = substitute(copy, {top.var: add(Var(at), cast(Var(v), iv))})
    assert isinstance(value, Decl)
    loads = count(
        u, rows,
        start,
        Par(v, i32(0), left, vector, (*inner, value, Store(row, (Var(u), Var(v)), Var(value.sym))), loc=top.loc),
    )  # fmt: skip
    u2, v2, at2, sum_ = fresh("u", I32), fresh("v", I32), fresh(f"{top.var.name}_at", iv), fresh("sum", t)
    start, left = place(u2, at2)
    below = power(Binary("-", Load(row, (Var(u2), Var(v2))), Var(base)))
    sums = count(
        u2, rows,
        start,
        Reduce((Acc(sum_, "+", zero, below),), v2, i32(0), left, vector, (), loc=top.loc),
        Assign(part, Binary("+", Var(part), Var(sum_))),
    )  # fmt: skip
    steps: Body = (
        each(lambda x, at: Store(row, at, nothing)),
        loads,
        Decl(best, Var(m)),
        each(lambda x, at: Assign(best, Call("max", (Var(best), x), t))),
        Decl(base, based(Var(best)), const=True),
        Decl(part, zero),
        sums,
        Assign(s, Binary("+", Binary("*", Var(s), power(Binary("-", Var(m), Var(base)))), Var(part))),
        Assign(m, Var(best)),
    )
    stride = cast(mul(mul(lanes, threads), rows), iv)
    sweep = For(tile, Const(0, iv), lt(Var(tile), cast(top.hi, iv)), add(Var(tile), stride), steps, loc=top.loc,
                comments=top.comments)  # fmt: skip
    spread = (Level("thread", threads, "x"),)
    mine = Par(
        thread, i32(0), threads, spread,
        (Alloc(row), Decl(m, nothing), Decl(s, zero), sweep, Store(m_own, (Var(thread),), Var(m)),
         Store(s_own, (Var(thread),), Var(s))),
    )  # fmt: skip
    a, b, whole = fresh("t", I32), fresh("t", I32), fresh(f"{low.name}_all", t)
    origin = fresh("base", t)
    scaled = Binary("*", Load(s_own, (Var(b),)), power(Binary("-", Load(m_own, (Var(b),)), Var(origin))))
    body: Body = (
        Alloc(m_own), Alloc(s_own), mine,
        Reduce((Acc(high.sym, "max", nothing, Load(m_own, (Var(a),))),), a, i32(0), threads, spread, (), loc=top.loc),
        Decl(origin, based(Var(high.sym)), const=True),
        Reduce((Acc(whole, "+", zero, scaled),), b, i32(0), threads, spread, (), loc=top.loc),
    )  # fmt: skip
    return body, whole


__all__ = ["own_sums"]
