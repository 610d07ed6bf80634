"""cse: common subexpression elimination.

before                                          after cse
    let x: f32 = in[token * 2 * d + i]              let t: i32 = token * 2 * d + i
    let y: f32 = w[token * 2 * d + i]               let x: f32 = in[t]
                                                    let y: f32 = w[t]

Within one list of statements, an expression computed twice or more gets a name before its first use. Only what may be
computed anywhere is named (no memory, no effects), largest first; what stands under a lazy operator counts too.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Decl, Expr, Stmt, Sym, Unary, Var, fresh, has_bodies
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_stmt_exprs, used, walk_expr, with_bodies
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Result

from .kept_forms import spared

MIN_OPERATIONS = 2
"""Expressions of fewer operations are cheaper to recompute than to keep in a register."""


class Cse(Pass[NoArguments]):
    name = "cse"
    summary = "expressions computed twice get a name"

    def sites(self, kernel: Kernel) -> list[Site]:
        return (
            [Site(self.step(), "fewer index computations")]
            if self.apply(kernel, NoArguments()).kernel is not kernel
            else []
        )

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        names: list[str] = []
        body = spared(kernel.body, lambda b: _in_body(b, names))
        if not names:
            return Result(kernel, ("no expression is computed twice",))
        return Result(kernel.with_(body=body), (f"named {len(names)} expressions",))


def _in_body(body: Body, names: list[str]) -> Body:
    """``body`` with its own repeated expressions named, outermost list first, then those of nested lists."""
    while (found := _repeated(body)) is not None:
        e, first = found
        t = fresh(f"t{len(names)}" if names else "t", e.type)
        names.append(t.name)
        body = tuple(_replaced(s, e, t) if i >= first else s for i, s in enumerate(body))
        body = (*body[:first], Decl(sym=t, init=e, const=True), *body[first:])

    return tuple(with_bodies(s, lambda b: _in_body(b, names)) for s in body)


def _repeated(body: Body) -> tuple[Expr, int] | None:
    """The largest expression that ``body``'s own statements compute more than once, and its first statement.

    Its variables are neither changed in ``body`` nor declared after that statement.
    """
    changing = assigned(body)
    count: Counter[Expr] = Counter()
    first: dict[Expr, int] = {}
    for i, s in enumerate(body):
        for e in _own_exprs(s):
            for x in walk_expr(e):
                if _worth(x) and not used(x) & changing:
                    count[x] += 1
                    first.setdefault(x, i)
    late: dict[Sym, int] = {sym: i for i, s in enumerate(body) for sym in declared((s,))}
    again = [x for x, n in count.items() if n > 1 and all(late.get(v, -1) < first[x] for v in used(x))]
    return max(((x, first[x]) for x in again), key=lambda p: _size(p[0]), default=None)


def _own_exprs(s: Stmt) -> list[Expr]:
    """Expressions evaluated in the list itself; a loop's condition and step belong to its iterations. The shape of a
    declared array is part of its type, which is not rewritten."""
    return [] if has_bodies(s) else list(children(s))


def _worth(x: Expr) -> bool:
    computes = isinstance(x, Binary | Unary | Call) and isinstance(x.type, Scalar)
    return computes and _size(x) >= MIN_OPERATIONS and is_movable(x)


def _size(x: Expr) -> int:
    return sum(isinstance(y, Binary | Unary | Call) for y in walk_expr(x))


def _replaced(s: Stmt, e: Expr, t: Sym) -> Stmt:
    def on(x: Expr) -> Expr:
        return Var(t) if x == e else x

    if has_bodies(s):
        return s
    return map_stmt_exprs(s, on)
