"""Private arrays of which each round of a thread's loops, or each thread, has a part, as what it makes of its part.

before                                               after
    array v: f32[16]                                     for i in 0..4
    for i in 0..4                                          array part: f32[4]
      v[i * 4 +: 4] = x[(i * 256 + tid) * 4 +: 4]          part[0 +: 4] = x[(i * 256 + tid) * 4 +: 4]
      for j in 0..4                                        for j in 0..4
        s += v[i * 4 + j]                                    s += part[j]
    mean = total(s)                                      mean = total(s)
    for i in 0..4                                        for i in 0..4
      for j in 0..4                                        array part: f32[4]
        v[i * 4 + j] -= mean                               part[0] = x[(i * 256 + tid) * 4 + 0] ...
      y[(i * 256 + tid) * 4 +: 4] = v[i * 4 +: 4]          for j in 0..4
                                                             part[j] -= mean
                                                           y[(i * 256 + tid) * 4 +: 4] = part[0 +: 4]

What the elements are when a loop begins is computed again from what they were made of: so no array lives across an
exchange, and the loops are over a row's vectors. A guess like all of this package: memory may have changed in between,
which the exact comparison with the source finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import LinearForm, linear_form
from ktc.ir.fold import add, cast, evaluate, i32, mul, simplify
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Binary,
    Body,
    Const,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    VecMake,
    fresh,
)  # fmt: skip
from ktc.ir.purity import acts
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32, Array, Scalar, Vec, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    map_expr,
    mentions,
    substitute_expr,
    used,
    walk,
    walk_expr,
    with_bodies,
    with_list_around,
)
from ktc.passes.raising.lanes.flat_buffers import with_constants
from ktc.passes.raising.lanes.scalar_lanes import Lanes, NotLanes

from .read_vectors import Widths, of_vectors, side_by_side, widths_in

MOST_OPERATORS = 100
"""Operators of an element that is computed again."""

MOST_LANES = 64
"""Elements that a round has of an array."""

Loop = For | Par | Reduce


def with_row_rounds(body: Body) -> tuple[Body, tuple[Alloc, ...]]:
    """``body`` without such arrays, and what they were."""
    found: list[Alloc] = []
    source, body = body, with_constants(body)
    while True:
        changing = {b for b in assigned(body) if not hasattr(b.type, "space")}
        arrays = [s for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)]
        known = definitions(body)
        forms = ((s, with_list_around(body, s, partial(_apart, s, changing, known))) for s in arrays)
        made, form = next(((s, form) for s, form in forms if form is not None), (None, None))
        if made is None or form is None:
            return (body, tuple(found)) if found else (source, ())
        body = form
        found.append(made)


@dataclass(frozen=True)
class Round:
    """``loop`` with ``part`` in place of the elements of an array that an iteration touches."""

    loop: Loop
    part: Sym


def _apart(made: Alloc, changing: set[Sym], named: Mapping[Sym, Expr], before: Body, behind: Body) -> Body | None:
    """The list around ``made``, which is such an array, with a part in each round; None where it is something else.

    ``changing``: variables that do not keep their value; ``named``: what others stand for.
    """
    done = _list_apart(made.sym, changing, named, behind)
    return None if done is None else (*before, *done)


def _list_apart(array: Sym, changing: set[Sym], named: Mapping[Sym, Expr], body: Body) -> Body | None:
    """``body`` with a part of ``array`` in each round, where all of these are in one list of it."""
    at = [k for k, s in enumerate(body) if array in mentions(s)]
    if len(at) == 1 and isinstance(only := body[at[0]], For | Par | If) and not (isinstance(only, If) and only.orelse):
        inner = only.then if isinstance(only, If) else only.body
        changed = _list_apart(array, changing | ({only.var} if isinstance(only, For) else set()), named, inner)
        here = None if changed is None else with_bodies(only, lambda b: changed if b is inner else b)
        return None if here is None else (*body[: at[0]], here, *body[at[0] + 1 :])
    rounds = [
        r for k in at if isinstance(s := body[k], For | Par | Reduce) and (r := _round(s, array, named)) is not None
    ]
    if len(rounds) < max(2, len(at)) or len({r.part.type for r in rounds}) != 1:
        return None
    known: list[Expr] = []
    out, wide = list(body), widths_in(body)
    for k, r in zip(at, rounds):
        begun = () if _renews(r) else _begun(r.part, [_at(e, rounds[0].loop.var, r.loop.var) for e in known], wide)
        if r.part in assigned(r.loop.body) and r is not rounds[-1]:
            values = _values(r, begun, changing)
            if values is None:
                return None
            known = [_at(e, r.loop.var, rounds[0].loop.var) for e in values]
        own: Stmt = Alloc(r.part) if isinstance(r.part.type, Array) else Decl(r.part)
        out[k] = dataclasses.replace(r.loop, body=_in_scope(r, (own, *begun), r.loop.body))  # type: ignore[arg-type]
    return tuple(out)


def _renews(r: Round) -> bool:
    """Whether an iteration gives the part a value as a whole before it does anything else with it."""
    first = next((s for s in r.loop.body if r.part in mentions(s)), None)
    if isinstance(first, Assign):
        return r.part not in used(first.value)
    t = r.part.type
    whole = isinstance(first, Store) and isinstance(t, Array) and isinstance(t.elem, Scalar)
    return whole and first.width == _size(r.part) and r.part not in used(first.value)  # type: ignore[union-attr]


def _at(e: Expr, v: Sym, other: Sym) -> Expr:
    return e if v == other else substitute_expr(e, {v: cast(Var(other), v.type)})  # type: ignore[arg-type]


def _round(loop: Loop, array: Sym, named: Mapping[Sym, Expr]) -> Round | None:
    """What an iteration of ``loop`` does with its part of ``array``; None where it does something with the rest."""
    places = _Places(array, loop, named)
    each = places.each
    if each is None or not 1 <= each <= MOST_LANES or loop.var in assigned(loop.body):
        return None
    elem = array.type.elem  # type: ignore[attr-defined]
    part = fresh(array.name, elem if each == 1 else Array(elem, (i32(each),), "local"))
    failed = False

    def place(index: tuple[Expr, ...], width: int | Expr) -> tuple[Expr, ...]:
        """The index in the part of what is at ``index`` in the array."""
        nonlocal failed
        found = places.within(index)
        if found is None or (each == 1 and (evaluate(found, {}) != 0 or width != 1)):
            failed = True
            return index
        return (*((found,) if each > 1 else ()), *index[places.dimensions :])

    def value(e: Expr) -> Expr:
        if not isinstance(e, Load) or e.buffer != array:
            return e
        index = place(e.index, e.width)
        return dataclasses.replace(e, buffer=part, index=index) if index else Var(part)

    def statement(s: Stmt) -> Stmt:
        if not isinstance(s, Store) or s.buffer != array:
            return s
        index = place(s.index, s.width)
        whole = Assign(part, s.value, loc=s.loc, comments=s.comments)
        return dataclasses.replace(s, buffer=part, index=index) if index else whole

    own = dataclasses.replace(loop, body=map_body(loop.body, statement, value))
    if isinstance(own, Reduce):
        accs = tuple(dataclasses.replace(a, value=map_expr(a.value, value)) for a in own.accs)
        own = dataclasses.replace(own, accs=accs)
    if failed or array in mentions(own):
        return None
    return Round(own, part)


class _Places:
    """Where the elements of ``array`` are that ``loop`` touches: a multiple of its counter, and places from there on.

    ``each``: that multiple, of one element after the other; None where it is not the same for all.
    """

    def __init__(self, array: Sym, loop: Loop, named: Mapping[Sym, Expr]) -> None:
        t = array.type
        assert isinstance(t, Array)
        self.shape, self.dimensions = t.shape, len(t.shape)
        self.counter, self.named = loop.var, named
        touched: list[Load | Store] = [s for s in walk(loop.body) if isinstance(s, Store)]
        touched += [e for e in all_exprs((loop,)) if isinstance(e, Load)]
        steps = {self._step(x.index) for x in touched if x.buffer == array}
        self.each = steps.pop() if len(steps) == 1 else None

    def _form(self, index: tuple[Expr, ...]) -> LinearForm | None:
        flat = expand(index[0], self.named)
        for i, n in zip(index[1:], self.shape[1:]):
            flat = add(mul(cast(flat, I32), cast(n, I32)), cast(expand(i, self.named), I32))
        return linear_form(flat, {self.counter}) if len(index) >= self.dimensions else None

    def _step(self, index: tuple[Expr, ...]) -> int | None:
        form = self._form(index)
        step = None if form is None else evaluate(form.coeff(self.counter), {})
        return None if step is None else int(step)

    def within(self, index: tuple[Expr, ...]) -> Expr | None:
        """The place of the element at ``index`` among those of an iteration."""
        form = self._form(index)
        return None if form is None else simplify(form.rest)


def _size(array: Sym) -> int | None:
    size = 1
    for n in array.type.shape if isinstance(array.type, Array) else ():
        extent = evaluate(n, {})
        if extent is None:
            return None
        size *= int(extent)
    return size


def _begun(part: Sym, values: list[Expr], wide: Widths) -> Body:
    """``part`` given ``values``, those of its lanes one after the other; nothing where there are none."""
    t = part.type
    elem = t.elem if isinstance(t, Array) else t
    n = int(elem.n) if isinstance(elem, Vec) else 1  # type: ignore[arg-type]
    if len(values) > 1 and n == 1 and (whole := side_by_side(values, wide)) is not None:
        return (Store(part, (i32(0),), whole, len(values)),)
    read: list[Decl] = []
    if isinstance(elem, Vec):
        vectors = [values[k : k + n] for k in range(0, len(values), n)]
        values = [side_by_side(v, wide) or VecMake(elem, tuple(of_vectors(v, read, wide))) for v in vectors]
    elif len(values) > 1:
        values = of_vectors(values, read, wide)
    if isinstance(t, Array):
        return (*read, *(Store(part, (i32(k),), value) for k, value in enumerate(values)))
    return (*read, *(Assign(part, value) for value in values))


def _in_scope(r: Round, begun: Body, body: Body) -> Body:
    """``body`` with ``begun`` at the beginning of what it does with the part, under the conditions of all of that."""
    part = r.part
    at = [k for k, s in enumerate(body) if part in mentions(s)] or [len(body)]
    summed = isinstance(r.loop, Reduce) and any(part in used(a.value) for a in r.loop.accs)
    first = body[at[0]] if len(at) == 1 and not summed and at[0] < len(body) else None
    if isinstance(first, If) and part not in used(first.cond) and not first.orelse:
        return (*body[: at[0]], dataclasses.replace(first, then=_in_scope(r, begun, first.then)), *body[at[0] + 1 :])
    return (*body[: at[0]], *begun, *body[at[0] :])


def _values(r: Round, begun: Body, changing: set[Sym]) -> list[Expr] | None:
    """What the lanes of the part are at the end of a round that starts with ``begun``; None where that cannot be said
    behind it."""
    own = {*declared(r.loop.body), r.part}

    def needed(s: Stmt) -> Stmt | None:
        to = s.sym if isinstance(s, Assign) else s.buffer if isinstance(s, Store | Atomic) else None
        return s if to is None or to in own else None

    nothing = Const(0, scalar_of(r.part.type))  # where nothing is read, nobody looks
    lanes = Lanes()
    lanes.known[r.part] = [nothing] * _lanes_of(r.part) if isinstance(r.part.type, Array | Vec) else nothing
    try:
        lanes.run(_in_scope(r, begun, map_body(r.loop.body, needed)))
    except NotLanes:
        return None
    cells = lanes.known[r.part]
    named = {d.sym: d.init for d in lanes.items if isinstance(d, Decl) and d.const and d.init is not None}
    fixed = (own | {d.sym for d in lanes.items if isinstance(d, Decl)} | changing) - named.keys()
    values: list[Expr] = []
    for e in cells if isinstance(cells, list) else [cells]:
        value = None if e is None else _written_out(e, named)
        if value is None or used(value) & fixed or any(_stays(x) or _contracts(x) for x in walk_expr(value)):
            return None
        values.append(value)
    return values


def _lanes_of(part: Sym) -> int:
    t = part.type
    elem = t.elem if isinstance(t, Array) else t
    lanes = int(elem.n) if isinstance(elem, Vec) else 1  # type: ignore[arg-type]
    return lanes * (_size(part) or 1)


def _written_out(e: Expr, named: Mapping[Sym, Expr]) -> Expr | None:
    """``e`` without the names of ``named``; None where that is long."""
    sizes: dict[Sym, int] = {}

    def size(x: Expr) -> int:
        total = 0
        for y in walk_expr(x):
            if isinstance(y, Var) and y.sym in named and y.sym not in sizes:
                sizes[y.sym] = size(named[y.sym])
            total += sizes.get(y.sym, 1) if isinstance(y, Var) else 1
        return total

    return simplify(expand(e, named)) if size(e) <= MOST_OPERATORS else None


def _contracts(x: Expr) -> bool:
    """Whether ``x`` adds a product of floats, which a compiler may round once or twice, here so and there otherwise:
    what is computed again would be another number, and a sum of large ones that cancel, another by far."""
    t = x.type
    if not isinstance(x, Binary) or x.op not in ("+", "-") or not isinstance(t, Scalar) or not t.is_float:
        return False
    return any(isinstance(y, Binary) and y.op == "*" for y in (x.a, x.b))


def _stays(x: Expr) -> bool:
    """Whether ``x`` is computed where it stands alone."""
    return acts(x) or (isinstance(x, Load) and is_local_array(x.buffer))


__all__ = ["with_row_rounds"]
