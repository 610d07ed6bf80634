"""Flat indices by the coordinates that loops count: a step along each loop is part of its coordinate.

before                                          after
    let at: i32 = x + y * n                         o[x + y * n + z * (n * m)] =
    o[at + z * (n * m)] =                               a[x + (y + 1) * n + (z - 1) * (n * m)]
        a[at + (z - 1) * (n * m) + n]

Where a thread takes several iterations of these loops, compilers then see that one iteration loads what another one
does: ``y + 1`` of row 0 is ``y`` of row 1.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial, scaled
from ktc.ir.fold import add, cast, mul, plus_number, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Call, Expr, Load, Par, Select, Stmt, Store, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, map_body, walk, walk_expr
from ktc.passes.scalar.unread import without_unread

NEIGHBOURS = 3
"""Elements of one array that an iteration of a stencil looks at, at least."""


def by_coordinates(kernel: Kernel, var: Sym) -> Kernel:
    """``kernel`` with the indices in the parallel loop over ``var`` by the coordinates of it and of loops around it, if
    its iterations look at neighbours: at three elements or more of one array."""
    loop = next((s for s in walk(kernel.body) if isinstance(s, Par) and s.var == var), None)
    if loop is None:
        return kernel
    places = {(x.buffer, x.index) for x in all_exprs(loop.body) if isinstance(x, Load)}
    if max(Counter(b for b, _ in places).values(), default=0) < NEIGHBOURS:
        return kernel
    names = definitions(kernel.body)

    def within(s: Par, around: tuple[Sym, ...]) -> Par:
        counted = (*around, s.var)
        if s.var != var:
            inner = (within(x, counted) if isinstance(x, Par) else x for x in s.body)
            return dataclasses.replace(s, body=tuple(inner))

        def index(found: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (_by_coordinates(found[0], counted, names),) if len(found) == 1 else found

        def value(e: Expr) -> Expr:
            return dataclasses.replace(e, index=index(e.index)) if isinstance(e, Load) else e

        def statement(x: Stmt) -> Stmt:
            return dataclasses.replace(x, index=index(x.index)) if isinstance(x, Store) else x

        return dataclasses.replace(s, body=map_body(s.body, statement, value))

    body = tuple(within(s, ()) if isinstance(s, Par) else s for s in kernel.body)
    return kernel.with_(body=without_unread(body))


def _by_coordinates(index: Expr, counted: Sequence[Sym], names: Mapping[Sym, Expr]) -> Expr:
    """``index`` as a sum of coordinates times strides; as it is where it is none."""
    if isinstance(index, Select):
        a, b = (_by_coordinates(e, counted, names) for e in (index.a, index.b))
        return dataclasses.replace(index, a=a, b=b)
    t, whole = index.type, simplify(expand(index, names))
    form = linear_form(whole, counted)
    if form is None or not isinstance(t, Scalar) or any(isinstance(x, Load | Select | Call) for x in walk_expr(whole)):
        return index
    strides = {v: polynomial(form.coeff(v)) for v in counted}
    rest, terms = polynomial(form.rest), []
    for v in sorted((v for v in counted if strides[v]), key=lambda v: -max(map(len, strides[v]))):
        by, rest = steps(rest, strides[v])
        terms.append(mul(moved(v, by, t), simplify(form.coeff(v))))
    if not terms:
        return index
    out, offset = reduce(add, reversed(terms)), rest.get((), 0)
    others = {f: n for f, n in rest.items() if f}
    out = add(out, from_polynomial(others, t)) if others else out
    return plus_number(out, offset)


def steps(rest: Polynomial, stride: Polynomial) -> tuple[int, Polynomial]:
    """How many of ``stride`` are in ``rest``, and what is left: of ``2 * n + 9`` two of ``n + 4``, and 1."""
    lead = max(stride, key=lambda f: (len(f), repr(f)))
    by, left = divmod(rest.get(lead, 0), stride[lead])
    if left or not lead:
        return 0, rest
    return by, minus(rest, scaled(stride, by))


def moved(v: Sym, by: int, t: Scalar) -> Expr:
    """``by`` iterations after ``v``."""
    return plus_number(cast(Var(v), t), by)


__all__ = ["by_coordinates", "moved", "steps"]
