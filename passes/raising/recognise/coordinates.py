"""Which variables are work coordinates: ``i = blockIdx.x * blockDim.x + threadIdx.x``, ``tid``, ``token = blockIdx.x``.

Before anything is guessed, launch sizes replace ``blockDim`` and ``gridDim``, early returns become guards, and integer
constants that depend on the thread are substituted into their uses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.fold import cast, fold_node, i32, is_const, simplify
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Return,
    Stmt,
    Sym,
    Var,
    WarpOp,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.types import BOOL, U32, Scalar
from ktc.ir.walk import assigned, keep, map_body, stmt_exprs, substitute, walk, walk_expr, without
from ktc.passes.raising.normalise.flags import flags_in_place
from ktc.passes.raising.normalise.straight import versioned
from ktc.passes.raising.normalise.vectors import kept_as_arrays
from ktc.passes.shared.conjuncts import negate
from ktc.passes.shared.equal_integers import same

from .loop_exits import breaks_to_continues, returns_to_continues
from .loop_returns import returns_to_breaks

AXES = ("x", "y", "z")


@dataclasses.dataclass(frozen=True)
class Coordinate:
    """``sym = threadIdx.a + size * blockIdx.a + offset``: the global index of a thread along one axis."""

    sym: Sym
    axis: str
    offset: Expr


def prepare(kernel: Kernel, launch: Launch) -> Body:
    """The body with launch sizes put in, early returns turned into guards, axes of one thread or block dropped."""

    def sizes(e: Expr) -> Expr:
        if isinstance(e, HwIndex):
            k = AXES.index(e.axis)
            if e.level == "block_dim":
                return cast(launch.block[k], U32)
            if e.level == "grid_dim":
                return cast(launch.grid[k], U32)
            size = (launch.block if e.level == "thread" else launch.grid)[k]
            if simplify(size) == i32(1):
                return cast(i32(0), U32)
        return fold_node(e)

    body = breaks_to_continues(returns_to_breaks(returns_to_continues(kernel.body)))
    body = continues_to_guards(map_body(_sizes_in_place(kept_as_arrays(body)), _decided, sizes))
    return returns_to_guards(_tested_in_place(versioned(body)))


def _decided(s: Stmt) -> Stmt | Body:
    """What a condition on launch sizes alone leaves."""
    if isinstance(s, If) and isinstance(decided := simplify(s.cond), Const):
        return s.then if decided.value else s.orelse
    return s


def _sizes_in_place(body: Body) -> Body:
    """``int stride = blockDim.x; .. i += stride`` -> ``i += blockDim.x``: launch sizes where they are used."""

    def leaves(e: Expr) -> list[Expr]:
        return [x for x in walk_expr(e) if isinstance(x, Var | HwIndex | Load | Call | WarpOp)]

    def of_launch(e: Expr) -> bool:
        found = leaves(e)
        return bool(found) and all(isinstance(x, HwIndex) and x.level in ("block_dim", "grid_dim") for x in found)

    named = {
        s: e for s, e in definitions(body).items() if isinstance(s.type, Scalar) and s.type.is_int and of_launch(e)
    }
    if not named:
        return body
    return substitute(map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in named else s), named)


def _tested_in_place(body: Body) -> Body:
    """``const bool ok = i < n; if (ok) ..`` -> ``if (i < n) ..``: what bounds a loop is seen where it is tested, in
    whatever type it was kept."""
    body = flags_in_place(body)
    named = {s: e for s, e in definitions(body).items() if s.type == BOOL}
    if not named:
        return body
    body = map_body(body, keep, lambda e: expand(e, named) if isinstance(e, Var) else e)
    return map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in named else s)


def returns_to_guards(body: Body) -> Body:
    """``if (c) return; rest`` -> ``if (!c) { rest }``; ``if (c) { A; return; } rest`` -> ``if (c) A; else rest``.

    Returns stay in loops, and where what follows a condition comes after both of its ways.
    """
    return _to_guards(body, Return)


def continues_to_guards(body: Body) -> Body:
    """The same of ``continue`` in the bodies of loops; where it stands in one way of several, a flag says whether the
    rest is reached: ``if (c) { A; if (d) continue; } rest`` -> ``if (c) { A; if (d) on = false; } if (on) { rest }``.
    """

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, body=_to_guards(s.body, Continue)) if isinstance(s, For | While) else s

    return map_body(body, on)


def _to_guards(body: Body, leave: type[Stmt]) -> Body:
    for k, s in enumerate(body):
        if isinstance(s, leave):
            return body[:k]
        if not (isinstance(s, If) and _leaves((s,), leave)):
            continue
        rest = body[k + 1 :]
        if _ends(s.then, leave):
            ways = s.then, (*s.orelse, *rest)
        elif _ends(s.orelse, leave):
            ways = (*s.then, *rest), s.orelse
        elif not rest:
            ways = s.then, s.orelse
        elif leave is Continue:
            return (*body[:k], *_flagged(s, rest))
        else:
            continue
        then, orelse = (_to_guards(way, leave) for way in ways)
        if then:
            return (*body[:k], dataclasses.replace(s, then=then, orelse=orelse))
        return (*body[:k], If(negate(s.cond), orelse, loc=s.loc, comments=s.comments)) if orelse else body[:k]
    return body


def _flagged(s: If, rest: Body) -> Body:
    """``s``, some ways through which continue with the loop, and ``rest`` where they do not."""
    on = fresh("on", BOOL)

    def off(x: Stmt) -> Stmt | Body:
        return (Assign(on, Const(False, BOOL), loc=x.loc), x) if isinstance(x, Continue) else x

    then, orelse = (_to_guards(_outside_loops(way, off), Continue) for way in (s.then, s.orelse))
    guarded = If(Var(on), _to_guards(rest, Continue), loc=s.loc)
    return Decl(on, Const(True, BOOL), loc=s.loc), dataclasses.replace(s, then=then, orelse=orelse), guarded


def _outside_loops(body: Body, change: Callable[[Stmt], Stmt | Body]) -> Body:
    """``body`` with ``change`` made to its statements, but for those of loops in it."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, If):
            s = dataclasses.replace(s, then=_outside_loops(s.then, change), orelse=_outside_loops(s.orelse, change))
        made = change(s)
        out += made if isinstance(made, tuple) else (made,)
    return tuple(out)


def _leaves(body: Body, leave: type[Stmt]) -> bool:
    """Whether some statement of ``body`` is a ``leave``; those of loops in it leave these alone, but for returns."""
    for s in body:
        if isinstance(s, leave) or (isinstance(s, If) and (_leaves(s.then, leave) or _leaves(s.orelse, leave))):
            return True
        if leave is Return and any(isinstance(x, Return) for x in walk((s,))):
            return True
    return False


def _ends(body: Body, leave: type[Stmt]) -> bool:
    """Whether nothing after ``body`` is reached."""
    last = body[-1] if body else None
    return isinstance(last, leave) or (isinstance(last, If) and _ends(last.then, leave) and _ends(last.orelse, leave))


def inline_thread_values(body: Body, launch: Launch) -> tuple[Body, dict[str, Coordinate]]:
    """Substitute thread-dependent integer constants into their uses; keep one global coordinate an axis.

    Returns the new body and the coordinates by axis.
    """
    written = assigned(body)
    found: dict[str, Coordinate] = {}
    while True:
        target = next((s for s in walk(body) if _inlinable(s, written, found)), None)
        if target is None:
            return body, found
        assert isinstance(target, Decl) and target.init is not None
        c = _coordinate(target, launch)
        if c is not None and c.axis not in found and is_const(simplify(c.offset), 0):
            found[c.axis] = c
            body = without(body, target)
            continue
        body = substitute(without(body, target), {target.sym: target.init})


def _inlinable(s: Stmt, written: set[Sym], found: dict[str, Coordinate]) -> bool:
    if not (isinstance(s, Decl) and s.init is not None and s.sym not in written):
        return False
    t = s.sym.type
    if not (isinstance(t, Scalar) and (t.is_int or t.kind == "bool")):
        return False
    return depends_on_thread(s.init) and not any(isinstance(x, Load) for x in walk_expr(s.init))


def depends_on_thread(e: Expr) -> bool:
    return any(isinstance(x, HwIndex) and x.level == "thread" for x in walk_expr(e))


def _coordinate(s: Decl, launch: Launch) -> Coordinate | None:
    assert s.init is not None
    for k, axis in enumerate(AXES):
        thread, block = HwIndex("thread", axis), HwIndex("block", axis)
        form = linear_form(s.init, {thread, block})
        if form is None or set(form.coeffs) != {thread, block}:
            continue
        global_index = same(form.coeffs[thread], i32(1)) and same(form.coeffs[block], launch.block[k])
        if global_index and not any(isinstance(x, HwIndex) for x in walk_expr(form.rest)):
            return Coordinate(s.sym, axis, form.rest)
    return None


def hw_indices(body: Body) -> set[HwIndex]:
    """Thread and block indices mentioned anywhere in ``body``."""
    out: set[HwIndex] = set()
    for s in walk(body):
        for e in stmt_exprs(s):
            out |= {x for x in walk_expr(e) if isinstance(x, HwIndex) and x.level in ("thread", "block")}
    return out


def conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "&&":
        return conjuncts(e.a) + conjuncts(e.b)
    return [e]
