"""A reduction whose threads take a fixed number of elements each, as one over all of the elements.

before                                                  after
    reduce(+) t over tid in 0..256 @ [thread.x 256]         reduce(+) t over i in 0..2048 @ [thread.x 256, seq 8]
      acc = 0; for j in 0..8: acc += f(j * 256 + tid)         yield f(i)
      yield acc

With ``tid * 4 + j`` a thread's elements lie side by side: they are unrolled inside.
"""

from __future__ import annotations

from typing import TypeGuard

from ktc.ir.analysis.accumulators import is_identity
from ktc.ir.fold import cast, evaluate, i32, mul, simplify
from ktc.ir.nodes import Acc, Body, Decl, Expr, For, Level, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, used, used_in
from ktc.passes.shared.accumulations import accumulations

from .merge import counted_rounds, inlined, rewritten


def over_elements(s: Reduce) -> Reduce | None:
    """``s`` over the elements that its threads take round by round; None if it is no such reduction."""
    loop = s.body[-1] if s.body else None
    rounds = counted_rounds(loop) if isinstance(loop, For) else None
    split = accumulations(loop.body, joined=True) if isinstance(loop, For) else None
    if rounds is None or split is None or len(s.dist) != 1 or s.dist[0].kind != "thread" or evaluate(s.lo, {}) != 0:
        return None
    v, n, put = rounds
    inner, sums = split
    by_sym = {a.sym: a for a in sums}
    names = tuple(d for d in s.body[:-1] if is_plain_name(d) and d.sym not in by_sym)
    starts = {d.sym: d.init for d in s.body[:-1] if isinstance(d, Decl) and d not in names}
    if len(starts) + len(names) != len(s.body) - 1 or set(starts) != set(by_sym) or len(s.accs) != len(sums):
        return None
    if used_in(names) & starts.keys() or assigned(inner) & {*declared(names)}:
        return None
    accs: list[Acc] = []
    for a in s.accs:
        mine = by_sym.get(a.value.sym) if isinstance(a.value, Var) else None
        if mine is None or mine.op != a.op or a.sym.type != mine.sym.type or used(mine.value) & starts.keys():
            return None
        init, t = starts[mine.sym], a.sym.type
        assert isinstance(t, Scalar)
        if init is None or not (is_identity(init, a.op, t) or a.op in ("min", "max")) or used(init) & {s.var, *starts}:
            return None
        accs.append(Acc(a.sym, a.op, init, mine.value))
    if used_in(inner) & starts.keys():
        return None
    named = [Decl(fresh("v", a.value.type), a.value) for a in accs]
    body = put((*names, *inner, *named))
    threads = s.dist[0].n
    assert threads is not None
    for fast, slow, extent, dist in (
        (s.var, v, threads, (*s.dist, Level("seq", i32(n)))),
        (v, s.var, i32(n), (Level("unroll", i32(n)), *s.dist)),
    ):
        plain = rewritten(body, fast, slow, extent, "i")
        if (found := plain or rewritten(inlined(body, fast, slow)[0], fast, slow, extent, "i")) is not None:
            w, new = found
            return _reduce(s, accs, w, new, dist, simplify(mul(threads, i32(n))))
    return None


def is_plain_name(s: Stmt) -> TypeGuard[Decl]:
    """Whether ``s`` names what may be computed anew in each iteration of a loop behind it."""
    return isinstance(s, Decl) and s.init is not None and is_movable(s.init)


def _reduce(s: Reduce, accs: list[Acc], w: Sym, body: Body, dist: tuple[Level, ...], hi: Expr) -> Reduce | None:
    inner, tail = body[: len(body) - len(accs)], body[len(body) - len(accs) :]
    values = [d.init for d in tail if isinstance(d, Decl) and d.init is not None]
    if len(values) != len(accs) or not isinstance(w.type, Scalar):
        return None
    whole = tuple(Acc(a.sym, a.op, a.init, value) for a, value in zip(accs, values))
    tags = frozenset({f"loop:{w.name}"})
    return Reduce(
        whole, w, cast(i32(0), w.type), cast(hi, w.type), dist, inner, loc=s.loc, comments=s.comments, tags=tags
    )


__all__ = ["over_elements"]
