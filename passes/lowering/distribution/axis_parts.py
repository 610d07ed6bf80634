"""Thread axes in parts: ``thread.x0 4`` and ``thread.x1 8`` are the fast and the slow part of ``threadIdx.x``.

Lanes of a warp that hold a matrix fragment are addressed by the digits of the lane number, so one loop runs over some
digits and another over the rest. Loops that take the axis whole may stand beside them: they are rewritten to run over
all parts, and in the code that comes out a sum of all parts is the axis again.

    tx0 = threadIdx.x % 4,  tx1 = threadIdx.x / 4 % 8,  ...       tx0 + tx1 * 4 + ... = threadIdx.x
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.fold import add, cast, fold_node, i32, mul, product, simplify
from ktc.ir.nodes import Binary, Body, Cast, Decl, Dist, Expr, HwIndex, Level, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import all_exprs, keep, map_body, walk
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.errors import LoweringError

Sizes = Mapping[str, Expr]
"""Size of each thread axis (``y``) and part of one (``x0``) in use."""


def parts_of(axis: str, sizes: Sizes) -> list[str]:
    """The parts of ``axis``, fastest first; empty for one that is used whole.

    Raises:
        LoweringError: E-LOWER-SHAPE when a part is missing.
    """
    parts = sorted(a for a in sizes if len(a) > 1 and a[0] == axis)
    if parts != [f"{axis}{k}" for k in range(len(parts))]:
        message = f"no loop runs over part {axis}0 of threadIdx.{axis}, or a part in between"
        raise LoweringError("E-LOWER-SHAPE", message, hint="number the parts from 0, fastest first")
    return parts


def split_axes(body: Body, decide: Decider) -> Body:
    """``body`` with levels over a whole axis, where some loop takes it in parts, spread over all parts.

    Raises:
        LoweringError: E-LOWER-SHAPE when the sizes differ.
    """
    sizes: dict[str, Expr] = {}
    for s in walk(body):
        for lv in s.dist if isinstance(s, Par | Reduce) else ():
            if len(lv.axis) > 1 and lv.n is not None:
                sizes.setdefault(lv.axis, lv.n)
    if not sizes:
        return body
    whole = {axis: parts_of(axis, sizes) for axis in "xyz"}

    def levels(s: Par | Reduce) -> Dist:
        out: list[Level] = []
        for lv in s.dist:
            parts = whole.get({"lane": "x", "warp": "y"}.get(lv.kind, lv.axis), []) if lv.kind != "block" else []
            if not parts:
                out.append(lv)
                continue
            total = product([sizes[p] for p in parts])
            if lv.n is None or not decide.equal(simplify(total), lv.n):
                message = f"'{s.var.name}' and a loop over parts of threadIdx.{parts[0][0]} want different sizes of it"
                raise LoweringError("E-LOWER-SHAPE", message, s.loc, hint="as many threads as the parts have together")
            out += [Level("thread", sizes[p], p) for p in parts]
        return tuple(out)

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, dist=levels(s)) if isinstance(s, Par | Reduce) else s

    return map_body(body, on)


def resolve_parts(body: Body, sizes: Sizes) -> Body:
    """``body`` with parts of thread axes named at the top: ``tx1 = threadIdx.x / size(x0) % size(x1)``."""
    for axis in "xyz":
        parts = parts_of(axis, sizes)
        if parts:
            body = _resolve_axis(body, axis, parts, sizes)
    return body


def _resolve_axis(body: Body, axis: str, parts: list[str], sizes: Sizes) -> Body:
    names = {p: fresh(f"t{p}", I32) for p in parts}
    whole: Expr = cast(HwIndex("thread", axis), I32)
    steps: dict[Sym, Expr] = {}
    values: dict[Sym, Expr] = {}
    step: Expr = i32(1)
    for k, p in enumerate(parts):
        value = fold_node(Binary("/", whole, step))
        steps[names[p]] = step
        values[names[p]] = value if k + 1 == len(parts) else fold_node(Binary("%", value, cast(sizes[p], I32)))
        step = simplify(mul(step, cast(sizes[p], I32)))

    def on(e: Expr) -> Expr:
        if isinstance(e, Cast) and isinstance(e.x, HwIndex) and e.x.axis in names and e.x.level == "thread":
            return Var(names[e.x.axis])
        return _joined(e, steps, whole) if isinstance(e, Binary) and e.op == "+" else e

    body = map_body(body, keep, on)
    mentioned = {x.sym for x in all_exprs(body) if isinstance(x, Var)}
    return (*(Decl(s, v, const=True) for s, v in values.items() if s in mentioned), *body)


def _joined(e: Binary, steps: Mapping[Sym, Expr], whole: Expr) -> Expr:
    """A sum in which every part appears with its own step (times one factor): the whole axis instead."""
    terms = _terms(e)
    factors = {v: f for t in terms for v, f in [_factor(t)] if v in steps}
    if set(factors) != set(steps):
        return e
    first = factors[next(iter(steps))]
    if any(simplify(mul(first, steps[v])) != simplify(f) for v, f in factors.items() if v is not None):
        return e
    out: Expr = mul(whole, first)
    for t in terms:
        if _factor(t)[0] not in steps:
            out = add(out, t)
    return out


def _terms(e: Expr) -> list[Expr]:
    return [*_terms(e.a), *_terms(e.b)] if isinstance(e, Binary) and e.op == "+" and e.type == I32 else [e]


def _factor(e: Expr) -> tuple[Sym | None, Expr]:
    """``v * f`` as (v, f)."""
    if isinstance(e, Var):
        return e.sym, i32(1)
    if isinstance(e, Binary) and e.op == "*" and isinstance(e.a, Var):
        return e.a.sym, e.b
    return None, e
