"""Variables that start from a number and are used in one branch alone, declared there.

before                                 after
    var m: f32 = -1e+30                    if row < rows
    if row < rows                            var m: f32 = -1e+30
      for i in tid..n step 256               for i in tid..n step 256
        m = max(m, x[i])                       m = max(m, x[i])

An early return leaves such code: what follows it is a branch, and its sums started before.

What threads go on with in a branch of theirs, and nothing uses after it, is a value of that branch:

    if threadIdx.x == 0                    if threadIdx.x == 0
      m = m / n                              let m_1: f32 = m / n
      mean[0] = m                            mean[0] = m_1
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fold import simplify
from ktc.ir.nodes import Body, Cast, Const, Decl, Expr, For, If, Stmt, Sym, Unary, Var, While, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, mentions, rename, substitute, used, used_in
from ktc.passes.raising.normalise.straight import versioned
from ktc.passes.raising.recognise.statement_kinds import threads_in


def with_branch_locals(body: Body) -> Body:
    """``body`` with these variables in their branches."""
    out = list(body)
    for d in body:
        if not isinstance(d, Decl) or not isinstance(d.sym.type, Scalar) or d.init is None or not _is_number(d.init):
            continue
        at = next(k for k, s in enumerate(out) if s is d)
        found = [k for k in range(at + 1, len(out)) if d.sym in mentions(out[k])]
        if len(found) != 1 or not isinstance(branch := out[found[0]], If) or d.sym in used(branch.cond):
            continue
        then, orelse = (d.sym in used_in(b) | assigned(b) for b in (branch.then, branch.orelse))
        if then != orelse:
            side = {"then": (d, *branch.then)} if then else {"orelse": (d, *branch.orelse)}
            out[found[0]] = dataclasses.replace(branch, **side)  # type: ignore[arg-type]
            del out[at]
    named = definitions(body)
    return tuple(_inside(_going_on(s, out[:k], out[k + 1 :], named)) for k, s in enumerate(out))


def _going_on(s: Stmt, before: list[Stmt], after: list[Stmt], named: Mapping[Sym, Expr]) -> Stmt:
    """``s``, if it is a branch of some threads, with variables of its list that are used up in it as its own."""
    if not isinstance(s, If) or not threads_in(expand(s.cond, named)):
        return s
    declared = {d.sym for d in before if isinstance(d, Decl) and isinstance(d.sym.type, Scalar)}
    changed = assigned((s,)) & declared - used_in(tuple(after)) - assigned(tuple(after))
    if not changed:
        return s
    own = {v: fresh(v.name, v.type) for v in sorted(changed, key=lambda v: v.id)}

    def side(body: Body) -> Body:
        mine = {v: new for v, new in own.items() if v in assigned(body)}
        body = versioned((*(Decl(new, Var(v)) for v, new in mine.items()), *rename(body, mine)))
        same = {new: Var(v) for v, new in mine.items() if new not in assigned(body)}
        return substitute(tuple(x for x in body if not (isinstance(x, Decl) and x.sym in same)), same)

    return dataclasses.replace(s, then=side(s.then), orelse=side(s.orelse))


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=with_branch_locals(s.then), orelse=with_branch_locals(s.orelse))
    if isinstance(s, For | While):
        return dataclasses.replace(s, body=with_branch_locals(s.body))
    return s


def _is_number(e: Expr) -> bool:
    e = simplify(e)
    if isinstance(e, Unary) or (isinstance(e, Cast) and e.style != "bit"):
        return _is_number(e.x)
    return isinstance(e, Const)


__all__ = ["with_branch_locals"]
