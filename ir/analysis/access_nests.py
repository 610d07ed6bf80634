"""The loop nest around each access: which loops and hardware indices an address depends on, and with what strides.

Works on both forms. In SPMD form the threads and blocks of the launch are the outer axes, and a loop that starts at a
thread index (``for (i = threadIdx.x; i < d; i += blockDim.x)``) passes that dependence on to whatever ``i`` indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ktc.ir.arith.affine import LinearForm, linear_form, mentions
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import KnobValues, add, cdiv, evaluate, is_const, mul, simplify, sub
from ktc.ir.fragments import panel_of, row_of
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AsyncCopy,
    Atomic,
    Binary,
    Body,
    BulkCopy,
    Const,
    Dist,
    Expr,
    For,
    HwIndex,
    Load,
    MatrixLoad,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    TileMma,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Scalar, Type, scalar_of
from ktc.ir.walk import map_expr, stmt_exprs, substitute_expr, used, walk_expr

from .defs import definitions, expand
from .varying import varying

HW_AXES = tuple(HwIndex(level, axis) for level in ("block", "thread") for axis in "zyx")


@dataclass(frozen=True)
class Axis:
    """One dimension of the iteration space. ``kind``: par | reduce | scan | for | while | thread | block.

    ``index`` is what addresses mention, ``trip`` the iteration count (None: not a counted loop).
    """

    name: str
    kind: str
    index: Sym | HwIndex
    trip: Expr | None
    dist: Dist = ()
    stmt: Stmt | None = field(default=None, compare=False, repr=False)

    @property
    def is_parallel(self) -> bool:
        """Whether iterations of this axis may run at the same time."""
        return self.kind in ("par", "reduce", "thread", "block")


@dataclass(frozen=True)
class Access:
    """One textual access: ``strides`` in elements per axis name (None: not affine in that axis)."""

    buffer: Sym
    mode: str  # read | write | atomic
    width: int | Expr
    axes: tuple[Axis, ...]  # all enclosing axes, outermost first
    strides: Mapping[str, Expr | None]
    rest: Expr | None
    cache: str = ""
    flat: Expr | None = field(default=None, compare=False, repr=False)
    """The address in elements, by the axes' indices."""
    stmt: Stmt | None = field(default=None, compare=False, repr=False)
    scattered: frozenset[str] = frozenset()
    """Axes along which the address moves by what is read from memory."""

    @property
    def elem(self) -> Scalar:
        return scalar_of(self.buffer.type)

    @property
    def space(self) -> str:
        return getattr(self.buffer.type, "space", "local")

    def pattern(self, axis: str) -> str:
        """How the address moves along ``axis``: broadcast | unit | reverse | strided | irregular."""
        if axis not in self.strides:
            return "broadcast"
        stride = self.strides[axis]
        if stride is None:
            return "irregular"
        value = evaluate(stride, {})
        return {0: "broadcast", 1: "unit", -1: "reverse"}.get(value, "strided") if value is not None else "strided"

    def is_side_by_side(self, axis: str) -> bool:
        """Whether neighbouring iterations of ``axis`` mostly access neighbouring elements: the address moves by one
        with it, or with its lowest digit (``i % n``), and by anything with the other ones (``i / n``)."""
        if self.pattern(axis) != "irregular":
            return self.pattern(axis) == "unit"
        index = next((x.index for x in self.axes if x.name == axis), None)
        if self.flat is None or not isinstance(index, Sym):
            return False
        terms = [(f, k) for f, k in polynomial(self.flat).items() if any(index in used(x) for x in f)]
        low = [(f, k) for f, k in terms if len(f) == 1 and _is_digit(f[0], "%", index)]
        high = [f for f, _ in terms if sum(_is_digit(x, "/", index) for x in f) == 1]
        mentioned = all(sum(index in used(x) for x in f) == 1 for f, _ in terms)
        return mentioned and len(low) == 1 and low[0][1] == 1 and len(low) + len(high) == len(terms)

    def moves(self, axis: str) -> bool:
        """Whether the address moves along ``axis``."""
        return self.pattern(axis) != "broadcast"


def _is_digit(e: Expr, op: str, index: Sym) -> bool:
    """Whether ``e`` is a quotient or remainder of ``index`` itself by something else."""
    return isinstance(e, Binary) and e.op == op and without_index_casts(e.a) == Var(index) and index not in used(e.b)


@dataclass(frozen=True)
class Visit:
    """A statement with the axes around it and the substitutions that express its values in those axes."""

    stmt: Stmt
    axes: tuple[Axis, ...]
    env: Mapping[Sym, Expr]
    varies: Mapping[Sym, frozenset[Sym | HwIndex]] = field(default_factory=dict)
    """Of what has no place in ``env``: what its values vary with."""


def launch_axes(kernel: Kernel) -> tuple[Axis, ...]:
    """Thread and block axes of the launch that are not the constant 1."""
    if kernel.launch is None:
        return tuple(Axis(f"{h.level}.{h.axis}", h.level, h, None) for h in HW_AXES)
    dims = {"block": kernel.launch.grid, "thread": kernel.launch.block}
    out = []
    for h in HW_AXES:
        trip = dims[h.level]["xyz".index(h.axis)]
        if not is_const(trip, 1):
            out.append(Axis(f"{h.level}.{h.axis}", h.level, h, trip))
    return tuple(out)


def visits(kernel: Kernel) -> Iterator[Visit]:
    """Every statement of the kernel, outermost first."""
    outer = () if kernel.is_parallel else launch_axes(kernel)
    defs = definitions(kernel.body)
    env = {s: expand(e, defs) for s, e in defs.items()}
    users: dict[Sym, list[Sym]] = {}
    for sym, e in env.items():
        for mentioned in {x.sym for x in walk_expr(e) if isinstance(x, Var)}:
            users.setdefault(mentioned, []).append(sym)
    unknown = {s: v for s, v in varying(kernel.body).items() if s not in env}
    yield from _visit(kernel.body, outer, env, _Scope(users, unknown, kernel.bound_knobs))


@dataclass(frozen=True)
class _Scope:
    """``users``: the names whose definitions mention a variable; ``unknown``: what names without a definition vary
    with; ``knobs``: the values of those that have one."""

    users: Mapping[Sym, list[Sym]]
    unknown: Mapping[Sym, frozenset[Sym | HwIndex]]
    knobs: KnobValues


def _visit(body: Body, axes: tuple[Axis, ...], env: Mapping[Sym, Expr], scope: _Scope) -> Iterator[Visit]:
    for s in body:
        inner_axes, inner_env = axes, env
        if isinstance(s, Par | Reduce | Scan):
            kind = type(s).__name__.lower()
            trip = simplify(sub(substitute_expr(s.hi, env), substitute_expr(s.lo, env)))
            inner_axes = (*axes, Axis(_name(s.var, axes), kind, s.var, trip, s.dist, s))
        elif isinstance(s, For):
            axis, value = _counted(s, axes, env, scope.knobs)
            inner_axes = (*axes, axis)
            inner_env = {**env, s.var: value}
            inner_env |= {name: substitute_expr(env[name], {s.var: value}) for name in scope.users.get(s.var, ())}
        elif isinstance(s, While):
            inner_axes = (*axes, Axis(_name(None, axes), "while", fresh("while", I32), None, (), s))
        own = inner_axes if isinstance(s, Par | Reduce | Scan | For | While) else axes
        yield Visit(s, own, inner_env, scope.unknown)
        for b in bodies(s):
            yield from _visit(b, inner_axes, inner_env, scope)


def _name(var: Sym | None, axes: tuple[Axis, ...]) -> str:
    base = var.name if var is not None else "while"
    taken = {a.name for a in axes}
    name, n = base, 2
    while name in taken:
        name, n = f"{base}_{n}", n + 1
    return name


def _counted(s: For, axes: tuple[Axis, ...], env: Mapping[Sym, Expr], knobs: KnobValues) -> tuple[Axis, Expr]:
    """The axis of a counted loop and its variable in terms of it: ``init + step * iteration``."""
    name = _name(s.var, axes)
    init, step = substitute_expr(s.init, env), loop_step(s)
    if step is None:
        return Axis(name, "for", s.var, _followed(s, init, env, knobs), (), s), Var(s.var)
    step = substitute_expr(step, env)
    iteration = fresh(s.var.name, s.var.type)
    trip = None
    if isinstance(s.cond, Binary) and s.cond.a == Var(s.var) and s.cond.op in ("<", "<=", ">", ">=", "!="):
        hi = substitute_expr(s.cond.b, env)
        first = map_expr(init, lambda e: Const(0, e.type) if isinstance(e, HwIndex) and e in HW_AXES else e)
        span = sub(hi, first) if s.cond.op in ("<", "<=", "!=") else sub(first, hi)
        if s.cond.op in ("<=", ">="):
            span = add(span, Const(1, I32))
        size = step if s.cond.op in ("<", "<=", "!=") else simplify(sub(Const(0, I32), step))
        terms = polynomial(span)
        if not any(terms):  # what outer loops add to both ends cancels
            span = Const(terms.get((), 0), I32)
        trip = simplify(cdiv(span, size))
    return Axis(name, "for", iteration, trip, (), s), simplify(add(init, mul(Var(iteration), step)))


MOST_FOLLOWED = 64
"""Iterations that are followed of a loop that does not count by a fixed step: one that halves or doubles has fewer."""


def _followed(s: For, init: Expr, env: Mapping[Sym, Expr], knobs: KnobValues) -> Expr | None:
    """Iterations of a loop between constants and ``knobs``, by going through them; None where there are many or values
    are not known."""
    value = evaluate(init, knobs)
    cond, step = (substitute_expr(e, {k: v for k, v in env.items() if k != s.var}) for e in (s.cond, s.step))
    for n in range(MOST_FOLLOWED):
        if value is None:
            return None
        here: dict[Sym, Expr] = {s.var: Const(value, scalar_of(s.var.type))}
        goes_on = evaluate(substitute_expr(cond, here), knobs)
        if goes_on is None:
            return None
        if not goes_on:
            return Const(n, I32)
        value = evaluate(substitute_expr(step, here), knobs)
    return None


def accesses(kernel: Kernel) -> list[Access]:
    """Every load, store and atomic, in source order."""
    out: list[Access] = []
    for v in visits(kernel):
        for e in stmt_exprs(v.stmt):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    out.append(_access(x.buffer, x.index, "read", x.width, v, x.cache))
        s = v.stmt
        if isinstance(s, Store):
            out.append(_access(s.buffer, s.index, "write", s.width, v, s.cache))
        elif isinstance(s, Atomic):
            out.append(_access(s.buffer, s.index, "atomic", 1, v))
        elif isinstance(s, AsyncCopy):
            out.append(_access(s.dst, s.dst_index, "write", s.width, v))
            out.append(_access(s.src, s.src_index, "read", s.width, v, s.cache))
        elif isinstance(s, BulkCopy):
            at = add(mul(s.origin[0], s.pitch), s.origin[1])
            out.append(_access(s.dst, s.dst_index, "write", s.rows * panel_of(scalar_of(s.dst.type)), v))
            out.append(_access(s.src, (at,), "read", panel_of(scalar_of(s.src.type)), v))
        elif isinstance(s, MatrixLoad):
            out.append(_access(s.dst, s.dst_index, "write", s.width, v))
            out.append(_access(s.buffer, s.index, "read", row_of(scalar_of(s.buffer.type)), v))
        elif isinstance(s, TileMma):
            out.append(_access(s.a, s.a_index, "read", panel_of(scalar_of(s.a.type)), v))
            out.append(_access(s.b, s.b_index, "read", panel_of(scalar_of(s.b.type)), v))
    return out


def _access(buffer: Sym, index: tuple[Expr, ...], mode: str, width: int | Expr, v: Visit, cache: str = "") -> Access:
    flat = simplify(flat_index(buffer.type, tuple(substitute_expr(i, v.env) for i in index)))
    keys = {a.index: a.name for a in v.axes}
    moved = _moved(flat, v)
    form: LinearForm | None = linear_form(flat, tuple(keys))
    if form is not None:
        strides: dict[str, Expr | None] = {keys[k]: c for k, c in form.coeffs.items()}
        strides |= dict.fromkeys(moved)
        return Access(buffer, mode, width, v.axes, strides, None if moved else form.rest, cache, flat, v.stmt, moved)
    per_axis: dict[str, Expr | None] = {}
    for key, name in keys.items():
        if mentions(flat, (key,)):
            single = linear_form(flat, (key,))
            per_axis[name] = single.coeff(key) if single is not None else None
    per_axis |= dict.fromkeys(moved)
    return Access(buffer, mode, width, v.axes, per_axis, None, cache, flat, v.stmt, moved)


def _moved(flat: Expr, v: Visit) -> frozenset[str]:
    """The axes that variables in ``flat`` vary with, of which nobody knows how."""
    unknown = {x.sym for x in walk_expr(flat) if isinstance(x, Var) and x.sym in v.varies}
    by = {i for sym in unknown for i in v.varies[sym]}
    return frozenset(a.name for a in v.axes if (a.stmt.var if isinstance(a.stmt, For) else a.index) in by)


def flat_index(t: Type, index: tuple[Expr, ...]) -> Expr:
    """Row-major element offset of a subscript."""
    shape = getattr(t, "shape", ())
    out = index[0]
    for extent, i in zip(shape[1:], index[1:]):
        out = add(mul(out, extent), i)
    return out
