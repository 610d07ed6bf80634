"""Elements of records that lie side by side, loaded by lanes: whole vectors of all lanes' records.

before (lanes v: 4)                             after
    r = x[3 * (i + v)]                            vec<T, 4> x_records[3]
    g = x[3 * (i + v) + 1]                        for n in 0..3: x_records[n] = load x[3 * i + 4 * n]
    b = x[3 * (i + v) + 2]                        for v: r_vec[v] = x_records[3 * v / 4][3 * v % 4]; ..

Each lane loads a whole record, in some order: what lies between the first lane's first element and the last lane's last
one is read by the source, and nothing else is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.arith.polynomial import minus, polynomial
from ktc.ir.fold import binary, i32
from ktc.ir.nodes import Alloc, Binary, Body, Decl, Expr, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, Ptr, Scalar, Vec, scalar_of
from ktc.passes.lowering.lowering_state import State

from .levels import Jam
from .scope import Scope, nest

LONGEST = 8
"""Elements of a record, at most."""


@dataclass(frozen=True)
class Records:
    """Loads ``parts`` of the elements of a record, in their order in memory, by each lane of ``jam``."""

    jam: Jam
    parts: tuple[Decl, ...]

    @property
    def first(self) -> Load:
        load = self.parts[0].init
        assert isinstance(load, Load)
        return load


def records_of(run: Sequence[Stmt], scope: Scope, st: State) -> Iterator[Records]:
    """The records that lanes of ``scope`` load in ``run``, with nothing between the loads of one but declarations."""
    for j in (j for j in scope.jams if j.kind == "vec" and st.lanes_exact(j)):
        found: dict[tuple[Sym, int], list[tuple[int, Decl, Expr]]] = {}
        for k, s in enumerate(run):
            step = _step(s, j, st)
            if step is not None and isinstance(s, Decl) and isinstance(s.init, Load):
                found.setdefault((s.init.buffer, step[0]), []).append((k, s, step[1]))
        for (buffer, n), loads in found.items():
            yield from _whole(run, loads, buffer, n, j, st)


def _step(s: Stmt, j: Jam, st: State) -> tuple[int, Expr] | None:
    """From lane to lane of ``j``, how many elements ``s`` goes on in the memory that it loads from, and the first
    lane's place; None if it is no such load."""
    if not isinstance(s, Decl) or not isinstance(s.init, Load) or s.init.width != 1:
        return None
    t, index = s.init.buffer.type, s.init.index
    if not isinstance(t, Ptr) or not isinstance(t.elem, Scalar) or len(index) != 1:
        return None
    step = st.steps(index[0], j)
    return step if step is not None and 2 <= step[0] <= LONGEST else None


def _whole(
    run: Sequence[Stmt], loads: Sequence[tuple[int, Decl, Expr]], buffer: Sym, n: int, j: Jam, st: State
) -> Iterator[Records]:
    """Those of ``loads`` that are all elements of one record of ``n`` each, which begins where a vector does."""
    left = list(loads)
    while left:
        base = polynomial(left[0][2])
        apart = [(_constant(minus(polynomial(at), base)), k, s, at) for k, s, at in left]
        near = sorted((x for x in apart if x[0] is not None), key=lambda x: x[0])  # type: ignore[arg-type, return-value]
        left = [(k, s, at) for c, k, s, at in apart if c is None]
        places = [c for c, _, _, _ in near]
        if places != [*range(places[0], places[0] + n)] or not st.begins_vector(buffer, near[0][3], j):  # type: ignore[arg-type, operator]
            continue
        between = run[min(k for _, k, _, _ in near) : max(k for _, k, _, _ in near)]
        if all(isinstance(s, Decl) for s in between):
            yield Records(j, tuple(s for _, _, s, _ in near))


def _constant(p: dict[tuple[Expr, ...], int]) -> int | None:
    """The number that ``p`` is; None if it is none."""
    return p.get((), 0) if set(p) <= {()} else None


def emit_records(r: Records, dims: tuple[Jam, ...], scope: Scope, st: State) -> Body:
    """The vectors that ``r`` is in, loaded in one nest over ``dims``, and from them one of each part by lane."""
    load, n, lanes = r.first, len(r.parts), r.jam.extent
    elem = scalar_of(r.parts[0].sym.type)
    at = tuple(Var(d.var) for d in dims)
    extents = tuple(d.extent for d in dims)
    vectors = fresh(f"{load.buffer.name}_records", Array(Vec(elem, lanes), (*extents, i32(n))))
    (index,) = (st.expr(x, zero=r.jam) for x in load.index)
    front: list[Stmt] = [Alloc(vectors)]
    inner: list[Stmt] = []
    for m in range(n):
        place = binary("+", index, binary("*", lanes, i32(m)))
        whole = dataclasses.replace(load, index=(place,), width=lanes)
        inner.append(Store(vectors, (*at, i32(m)), whole, loc=r.parts[m].loc, comments=r.parts[m].comments))
    taken: list[Stmt] = []
    for c, part in enumerate(r.parts):
        t = Vec(elem, lanes)
        own = fresh(f"{part.sym.name.removesuffix('_i')}_vec", Array(t, extents) if dims else t)
        front.append(Alloc(own) if dims else Decl(own, None, loc=part.loc))
        flat = binary("+", binary("*", Var(r.jam.var), i32(n)), i32(c))
        cell = Load(vectors, (*at, Binary("/", flat, lanes), Binary("%", flat, lanes)))
        taken.append(Store(own, (*at, Var(r.jam.var)), cell))
        st.storage[part.sym] = (own, (*(d.var for d in dims), r.jam.var))
    inner += nest((r.jam,), (), tuple(taken))
    return (*front, *nest(dims, scope.guards, tuple(inner)))


__all__ = ["Records", "emit_records", "records_of"]
