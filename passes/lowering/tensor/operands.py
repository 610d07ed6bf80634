"""The operands of a tensor-core product: recognising the two factors, and filling a lane's registers with them."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.arith.affine import cancelled
from ktc.ir.fold import add, both, cast, lt, mul, zero
from ktc.ir.fragments import Fragment, Layout, takes
from ktc.ir.nodes import (
    Acc,
    Alloc,
    Binary,
    Body,
    Cast,
    Decl,
    Expr,
    Load,
    Reduce,
    Select,
    Store,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import substitute_expr, used
from ktc.passes.lowering.distribution.scope import Guard, Scope, nest
from ktc.passes.lowering.lowering_state import State

from .sides import HINT, Side, part, refusal


@dataclass(frozen=True)
class Operand:
    """One factor: its load, layout, and the loop variables that are its rows and columns."""

    load: Load
    layout: Layout
    row: Sym
    col: Sym
    side: Side
    elem: Scalar  # as the instruction takes it


def operands(s: Reduce, acc: Acc, f: Fragment, rows: Side, cols: Side, st: State) -> tuple[Operand, Operand]:
    """The factors as operands in registers."""
    a, b = factors_of(s, acc, f, rows, cols, st)
    assert f.a is not None and f.b is not None
    first, second = f.operands
    return Operand(a, f.a, rows.var, s.var, rows, first), Operand(b, f.b, s.var, cols.var, cols, second)


def factors_of(s: Reduce, acc: Acc, f: Fragment, rows: Side, cols: Side, st: State) -> tuple[Load, Load]:
    """The two loads of ``f32(a) * f32(b)``, the one that moves with the rows first."""
    env: dict[Sym, Expr] = {}
    for d in s.body:
        if not isinstance(d, Decl) or d.init is None:
            raise refusal(s, "the reduction does more than multiply two elements")
        env[d.sym] = substitute_expr(d.init, env)
    value = st.resolve(substitute_expr(acc.value, env))
    factors = (value.a, value.b) if isinstance(value, Binary) and value.op == "*" else ()
    loads = [x.x for x in factors if isinstance(x, Cast) and isinstance(x.x, Load)]
    if len(loads) == 2 and _mentions(loads[1], rows.var):
        loads.reverse()
    if len(loads) != 2 or not takes(f, *(x.type for x in loads)):
        what = " and ".join(map(str, dict.fromkeys(f.operands)))
        why = f"what is summed is not a product of two elements of {what} in {f.accumulator}"
        raise refusal(s, why, "offset-sums, where an offset is added to one" if f.accumulator == I32 else HINT)
    loads = [Load(x.buffer, tuple(st.resolve(i) for i in x.index), cache=x.cache) for x in loads]
    for load, own, other in ((loads[0], rows, cols), (loads[1], cols, rows)):
        if is_private(load.buffer):
            raise refusal(s, f"'{load.buffer.name}' is private to a thread: operands come from memory")
        if not _mentions(load, own.var) or _mentions(load, other.var):
            raise refusal(s, f"'{load.buffer.name}' is not indexed by one of the two loops and '{s.var.name}'")
        if st.variation.of(load) - st.variation.of(Var(own.var)):
            raise refusal(s, f"the index of '{load.buffer.name}' varies with a loop that is no side of the product")
    return loads[0], loads[1]


def _mentions(load: Load, var: Sym) -> bool:
    return any(var in used(i) for i in load.index)


@dataclass(frozen=True)
class Bounds:
    """When an element of an operand exists: limits of its own index and of k, and conditions of loops further out."""

    side: Expr | None
    k: Expr | None
    others: tuple[Guard, ...]

    @property
    def always(self) -> bool:
        return self.side is None and self.k is None and not self.others


def bounds_of(s: Reduce, x: Operand, sides: set[Sym], scope: Scope, k: Expr | None) -> Bounds:
    others = tuple(g for g in scope.guards if not used(g.cond) & sides)
    if any(g.jams for g in others):
        raise refusal(s, "a guard around the product depends on a loop that is no side of it")
    return Bounds(None if x.side.loop.covered else x.side.loop.hi, k, others)


def fill(name: str, f: Fragment, x: Operand, k: tuple[Sym, Expr], bounds: Bounds, st: State) -> tuple[Body, Expr]:
    """(statements that fill the registers of one operand, the operand of one ``mma``)."""
    from .matrices import matrix_loads

    found = matrix_loads(name, f, x, k, st) if bounds.always else None
    if found is not None:
        return found
    registers = fresh(name, Array(x.elem, (*(j.extent for j, _ in x.side.outer), i32(x.layout.slots))))
    at = tuple(Var(j.var) for j, _ in x.side.outer)
    inner = [
        Store(registers, (*at, i32(slot)), _element(f, x, k, bounds, st, slot), loc=None)
        for slot in range(x.layout.slots)
    ]
    code = (Alloc(registers, align=16), *nest(tuple(j for j, _ in x.side.outer), (), tuple(inner)))
    return code, Load(registers, (*at, i32(0)), width=x.layout.slots)


def _element(f: Fragment, x: Operand, k: tuple[Sym, Expr], bounds: Bounds, st: State, slot: int) -> Expr:
    """The element that this lane keeps in ``slot``, zero where it does not exist."""
    row, col = (i32(v) for v in x.layout.element(0, slot))
    index = {x.row: add(_lane_offset(x.layout, rows=True), row), x.col: add(_lane_offset(x.layout, rows=False), col)}
    values = {x.side.var: add(x.side.origin, index[x.side.var]), k[0]: add(k[1], index[k[0]])}
    element: Expr = at_indices(x.load, values, st)
    if element.type != x.elem:
        element = Cast(x.elem, element)
    cond: Expr | None = None
    for g in bounds.others:
        cond = both(cond, st.expr(g.cond))
    if bounds.side is not None:
        cond = both(cond, lt(values[x.side.var], bounds.side))
    if bounds.k is not None:
        cond = both(cond, lt(values[k[0]], bounds.k))
    return element if cond is None else Select(cond, element, zero(x.elem))


def _lane_offset(layout: Layout, rows: bool) -> Expr:
    out: Expr = i32(0)
    for i, d in enumerate(layout.lane):
        step = d.row if rows else d.col
        if step:
            out = add(out, mul(part(i), i32(step)))
    return out


def at_indices(load: Load, values: dict[Sym, Expr], st: State) -> Load:
    """``load`` with loop variables replaced by ``values`` (already in lowered terms) and the rest lowered."""
    held = {v: fresh(v.name, v.type) for v in values}
    index = [st.expr(substitute_expr(i, {v: Var(h) for v, h in held.items()})) for i in load.index]
    back = {h: _typed(values[v], v) for v, h in held.items()}
    return Load(load.buffer, tuple(cancelled(substitute_expr(i, back)) for i in index), cache=load.cache)


def _typed(e: Expr, v: Sym) -> Expr:
    assert isinstance(v.type, Scalar)
    return cast(e, v.type)
