"""simplify: constant folding, integer identities, constant variables, what ranges decide, dead code.

before                                  after simplify
    let n: i32 = 4 * 8                      for k in 0..32
    if 1 < 2                                  out[k] = 0.0
      for k in 0..n + 0
        if k < 40
          out[k % 32] = 0.0
    else
      out[0] = x
    var unused: f32 = in[3]

No floating-point algebra. Memory is never written less; a load whose value nobody uses goes. Ranges are those of loops,
guards and parameters (:mod:`ktc.passes.shared.known_ranges`).
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith import REWRITES
from ktc.ir.fold import fold_node, is_const, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    Par,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    While,
)  # fmt: skip
from ktc.ir.null_pointers import known_nulls, with_decided
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, map_expr, substitute, walk, with_bodies
from ktc.passes.core.base import NoArguments, Pass, Site
from ktc.passes.core.refusals import Result
from ktc.passes.scalar.unread import without_unread
from ktc.passes.shared.known_ranges import decided


class Simplify(Pass[NoArguments]):
    name = "simplify"
    summary = "fold constants and integer identities, drop what ranges decide and dead code"

    def sites(self, kernel: Kernel) -> list[Site]:
        return [Site(self.step(), "shorter code")] if _simpler(kernel) != kernel.body else []

    def apply(self, kernel: Kernel, args: NoArguments) -> Result:
        body = _simpler(kernel)
        if body == kernel.body:
            return Result(kernel, ("nothing to simplify",))
        return Result(kernel.with_(body=body))


def _simpler(kernel: Kernel) -> Body:
    """The body of ``kernel``, simplified by what it assumes of pointers."""
    return simplified(kernel.with_(body=with_decided(kernel.body, known_nulls(kernel))))


def simplified(kernel: Kernel) -> Body:
    """The body of ``kernel`` simplified until nothing changes; the same object if nothing does."""
    body = kernel.body
    while True:
        folded = _folded(body)
        body = decided(kernel.with_(body=folded), REWRITES)
        if body == folded:
            return folded


def _folded(body: Body) -> Body:
    """``body`` without what its text alone decides, until nothing changes."""
    while True:
        after = map_body(body, _simplify_stmt, fold_node)
        after = _propagate_constants(after)
        after = without_unread(after)
        after = _cut_after_jumps(after)
        if after == body:
            return body
        body = after


def _simplify_stmt(s: Stmt) -> Stmt | Body | None:
    """One statement whose parts are simplified already."""
    match s:
        case If():
            return _simplify_if(s)
        case While() if is_const(s.cond) and not s.cond.value and not s.post:  # type: ignore[attr-defined]
            return None
        case For():
            first = simplify(map_expr(s.cond, lambda x: s.init if x == Var(s.var) else x))
            never = is_const(first) and not first.value  # type: ignore[attr-defined]
            return None if never and is_removable(s.init) else s
        case Par() if not s.body and all(map(is_removable, (s.lo, s.hi))):
            return None
        case Eval() if is_removable(s.value):
            return None
    return s


def _simplify_if(s: If) -> Stmt | Body | None:
    if is_const(s.cond):
        return s.then if s.cond.value else s.orelse  # type: ignore[attr-defined]
    if not s.then and not s.orelse:
        return None if is_removable(s.cond) else Eval(value=s.cond, loc=s.loc)
    if not s.then:
        return dataclasses.replace(s, cond=fold_node(Unary("!", s.cond)), then=s.orelse, orelse=())
    return s


def _propagate_constants(body: Body) -> Body:
    """Variables that hold one literal for good are replaced by it."""
    changed = assigned(body)
    env: dict[Sym, Expr] = {
        s.sym: s.init
        for s in walk(body)
        if isinstance(s, Decl) and isinstance(s.init, Const) and isinstance(s.sym.type, Scalar) and s.sym not in changed
    }
    return substitute(body, env) if env else body


def _cut_after_jumps(body: Body) -> Body:
    """Statements after a return, break or continue of the same list cannot run."""

    def cut(b: Body) -> Body:
        end = next((i for i, s in enumerate(b) if isinstance(s, Return | Break | Continue)), len(b))
        return b if end + 1 >= len(b) else b[: end + 1]

    return cut(map_body(body, lambda s: with_bodies(s, cut)))
