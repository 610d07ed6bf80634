"""What ``unroll`` means where a kernel's loops are printed as loops: iterations that run together, written out.

before                                              after (of the two iterations of a group; then what is left)
    par i in 0..n @ [unroll 2, seq]                     par g in 0..n / 2 @ [seq]
      par j in 0..m @ [seq]                               par j in 0..m @ [seq]
        for k in 0..2 unroll 2                              var c: f32 = acc[g * 2, j]
          acc[i, j] += a[i * 2 + k] * b[k * m + j]          var c_1: f32 = acc[g * 2 + 1, j]
                                                            c += a[g * 4] * b[j]
                                                            c_1 += a[g * 4 + 2] * b[j]
                                                            c += a[g * 4 + 1] * b[m + j]
                                                            c_1 += a[g * 4 + 3] * b[m + j]
                                                            acc[g * 2, j] = c
                                                            acc[g * 2 + 1, j] = c_1
                                                        par i in n / 2 * 2..n @ [seq]
                                                          ...

A GPU's compiler does this from ``#pragma unroll`` and from what lowering to threads writes out; for a CPU the loop
inside is the one that becomes vectors, and its compiler neither unrolls a loop around it nor sees that an element of
an array is updated several times in a row. So iterations are copied where a loop is inside (unroll-and-jam; Callahan,
Carr, Kennedy 1990), serial loops of known length inside a parallel one are written out, and elements of private arrays
are held in variables from their first use to their last (scalar replacement). An ``unroll`` level of an innermost loop
says nothing here: how many vectors of it are in flight is the compiler's choice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import extent
from ktc.ir.fold import add, cast, evaluate, fold_node, i32, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    fresh,
)
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    mentions,
    rename,
    substitute,
    used,
    used_in,
    walk,
    walk_expr,
    with_bodies,
)
from ktc.passes.shared.tiles import trips

MOST = 512
"""Statements that a group of copies may have: a compiler's time grows with them, and registers do not."""

LONGEST = 16
"""Iterations of a serial loop that is written out."""

LOOPS = (For, Par, Reduce, Scan, While)


def jammed(kernel: Kernel) -> Kernel:
    """``kernel`` with ``unroll`` levels written out, at the values that its knobs have."""
    knobs = kernel.knob_values
    body = _in(kernel.body, knobs, inside=False)
    return kernel if body is kernel.body else kernel.with_(body=body)


def _in(body: Body, knobs: Mapping[str, int], inside: bool) -> Body:
    """``inside``: whether a parallel loop is around ``body``."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, lambda b, s=s: _in(b, knobs, inside or isinstance(s, Par)))  # type: ignore[misc]
        if inside and isinstance(s, For):
            out += _written_out(s, knobs)
        elif isinstance(s, Par):
            out += _together(with_bodies(s, held), knobs)
        else:
            out.append(s)
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else tuple(out)


# ------------------------------------------------------------------------------------------------------- serial loops


def _written_out(s: For, knobs: Mapping[str, int]) -> Body:
    """The iterations of a serial loop of known length one after another, where the script says how many at a time."""
    form = counting(s)
    wanted = s.unroll is not None and s.unroll != 1
    plain = not any(isinstance(x, (*LOOPS, Break, Continue, Return)) for x in walk(s.body))
    if form is None or not wanted or not plain or s.var in assigned(s.body):
        return (s,)
    reach, by = extent(form.lo, form.hi), evaluate(form.by, knobs)
    length = evaluate(reach.cap, knobs) if reach.cap is not None and not reach.clips else None
    if length is None or not by or not 0 < -(-length // by) <= LONGEST or len(s.body) * length > MOST:
        return (s,)
    t = s.var.type
    assert isinstance(t, Scalar)
    at = (simplify(add(cast(form.lo, t), cast(i32(k), t))) for k in range(0, int(length), int(by)))
    copies = [Copy.of(s.body, {s.var: value}) for value in at]
    return tuple(c.stmt(x) for c in copies for x in s.body)


# -------------------------------------------------------------------------------------------------- scalar replacement


def held(body: Body) -> Body:
    """``body``, if it is straight, with elements of private arrays that it updates more than once in variables.

    An array is left alone unless all of its accesses here are to one element.
    """
    if not all(isinstance(s, Decl | Assign | Store) for s in body):
        return body
    for array in dict.fromkeys(s.buffer for s in body if isinstance(s, Store) and is_local_array(s.buffer)):
        mine = [s for s in body if isinstance(s, Store) and s.buffer == array]
        loads = [x for e in all_exprs(body) for x in walk_expr(e) if isinstance(x, Load) and x.buffer == array]
        index, t = mine[0].index, mine[0].value.type
        moving = set(declared(body)) | assigned(body)
        alone = {(x.index, x.width) for x in mine} | {(x.index, x.width) for x in loads} == {(index, 1)}
        if len(mine) > 1 and alone and isinstance(t, Scalar) and not any(used(i) & moving for i in index):
            body = _in_a_variable(body, Load(array, index), t)
    return body


def _in_a_variable(body: Body, element: Load, t: Scalar) -> Body:
    v = fresh(element.buffer.name, t)
    first = next(s for s in body if _touches(s, element.buffer))
    begins = isinstance(first, Store) and element.buffer not in used_in((first,))

    def on(s: Stmt) -> Stmt:
        return Assign(v, s.value, loc=s.loc, comments=s.comments) if _stores(s, element.buffer) else s  # type: ignore[attr-defined]

    inner = map_body(body, on, lambda e: Var(v) if e == element else e)
    last = Store(element.buffer, element.index, Var(v))
    return (Decl(v, None if begins else element), *inner, last)


def _touches(s: Stmt, array: Sym) -> bool:
    return array in mentions(s)


def _stores(s: Stmt, array: Sym) -> bool:
    return isinstance(s, Store) and s.buffer == array


# ------------------------------------------------------------------------------------------------------ parallel loops


def _together(s: Par, knobs: Mapping[str, int]) -> Body:
    """The iterations of a parallel loop in groups of its ``unroll`` level, where a loop is inside, and what is left."""
    n = next((evaluate(lv.n, knobs) for lv in s.dist if lv.kind == "unroll" and lv.n is not None), None)
    if not n or n == 1 or n * sum(1 for _ in walk(s.body)) > MOST or not _pays(s):
        return (s,)
    n, t = int(n), s.var.type
    assert isinstance(t, Scalar)
    if any(isinstance(x, Break | Continue | Return) for x in walk(s.body)):
        return (s,)
    reach, zero, size = extent(s.lo, s.hi), cast(i32(0), t), cast(i32(n), t)
    rest = dataclasses.replace(s, dist=tuple(lv for lv in s.dist if lv.kind != "unroll") or (Level("seq"),))
    if reach.cap is not None and evaluate(reach.cap, knobs) == n:  # one group, or less where something clips it
        body = _jam(s.body, _copies(s, s.lo, n))
        return body if not reach.clips else (If(Binary("==", trips(s), size), body, (_own(rest),)),)
    group, groups = fresh(s.var.name, t), simplify(Binary("/", sub(s.hi, cast(s.lo, t)), size))
    body = _jam(s.body, _copies(s, simplify(add(s.lo, mul(Var(group), size))), n))
    whole = dataclasses.replace(rest, var=group, lo=zero, hi=groups, body=body)
    length = evaluate(reach.cap, knobs) if reach.cap is not None and not reach.clips else None
    if length is not None and length % n == 0:
        return (whole,)
    return (whole, _own(dataclasses.replace(rest, lo=simplify(add(s.lo, mul(groups, size))), comments=())))


def _pays(s: Par) -> bool:
    """Whether running iterations of ``s`` together may gain: around a loop whose steps wait for each other, or where
    they may read something alike: at a place that ``s`` does not move, or at several places of one array. Other copies
    only take the compiler's time: those of zeros in a tile, seconds."""
    inside = [x for x in walk(s.body) if isinstance(x, LOOPS)]
    loads = {x for x in all_exprs(s.body) if isinstance(x, Load)}
    alike = len({x.buffer for x in loads}) < len(loads) or any(s.var not in used(x) for x in loads)
    return bool(inside) and (alike or not all(isinstance(x, Par) for x in inside))


def _copies(s: Par, start: Expr, n: int) -> list[Copy]:
    """The ``n`` iterations of ``s`` from ``start`` on."""
    t = s.var.type
    assert isinstance(t, Scalar)
    return [Copy.of(s.body, {s.var: simplify(add(start, cast(i32(k), t)))}) for k in range(n)]


def _own(s: Par) -> Stmt:
    """``s`` with variables of its own."""
    return rename((s,), {x: fresh(x.name, x.type) for x in declared((s,))})[0]


@dataclass(frozen=True)
class Copy:
    """One of several copies of a body: its own names for what the body declares, and what stands for the iteration."""

    names: dict[Sym, Sym]
    env: Mapping[Sym, Expr]

    @staticmethod
    def of(body: Body, env: Mapping[Sym, Expr]) -> Copy:
        return Copy({s: fresh(s.name, s.type) for s in declared(body)}, env)

    def stmt(self, s: Stmt) -> Stmt:
        (out,) = map_body(substitute(rename((s,), self.names), self.env), keep, fold_node)
        return out

    def value(self, s: Decl) -> Expr | None:
        """What ``s`` declares its variable as."""
        return self.stmt(s).init  # type: ignore[attr-defined, no-any-return]

    def head(self, s: Stmt) -> Stmt:
        """``s`` without what is in it."""
        return self.stmt(with_bodies(s, lambda _: ()))


def _jam(body: Body, copies: Sequence[Copy]) -> Body:
    """``copies`` of ``body``, statement by statement; a loop that all of them run alike is one loop, and what is the
    same in all of them is declared once."""
    out: list[Stmt] = []
    moving = assigned(body)
    first = copies[0]
    for s in body:
        if isinstance(s, Par | Reduce | For):
            for c in copies[1:]:
                c.names[s.var] = first.names[s.var]
            heads = [c.head(s) for c in copies]
            if all(_range(h) == _range(heads[0]) for h in heads[1:]):
                out.append(_joined(heads, _jam(s.body, copies)))
                continue
            for c in copies[1:]:
                c.names[s.var] = fresh(s.var.name, s.var.type)
        if isinstance(s, Decl) and s.sym not in moving and len({c.value(s) for c in copies}) == 1:
            for c in copies[1:]:
                c.names[s.sym] = first.names[s.sym]
            out.append(first.stmt(s))
            continue
        out += [c.stmt(s) for c in copies]
    return tuple(out)


def _range(s: Stmt) -> tuple[object, ...]:
    return (s.init, s.cond, s.step) if isinstance(s, For) else (s.lo, s.hi, s.dist)  # type: ignore[attr-defined]


def _joined(heads: Sequence[Stmt], body: Body) -> Stmt:
    """One loop for all of ``heads``, around ``body``; a reduction has the accumulators of all."""
    first = heads[0]
    if isinstance(first, Reduce):
        return dataclasses.replace(first, accs=tuple(a for h in heads for a in h.accs), body=body)  # type: ignore[attr-defined]
    return dataclasses.replace(first, body=body)  # type: ignore[call-arg]


__all__ = ["jammed"]
