"""Extents of tensors that only their strides are made of are those of what goes through them.

    dst[i10 * s1 + i11 * s2 + i00]      // the host passes ne0 for s1 and ne0 * ne1 for s2, i00 < n

The strides say that the tensor is ``ne0`` wide and ``ne1`` high; the kernel does not get these, and goes through n
columns of a row and as many rows as blocks: calls are with tensors that are as large. Each stride has one extent more
than the next smaller one: it is that of the dimension which the smaller one steps through.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Cast, Continue, Expr, For, HwIndex, If, Return, Select, Sym, Var
from ktc.ir.walk import all_exprs, map_expr, substitute_expr, used, walk
from ktc.ir.workload.reference import parse

from ..given_values import definitions, loaded
from ..inner_strides import accesses, addends
from ..roles import Roles
from ..windows import names_in, spelled

Stride = Counter[str]

DEEPEST = 12
"""How many variables are looked behind."""


def told_extents(k: Kernel, roles: Roles) -> dict[str, str]:
    """The sizes of the host that nothing but strides is made of, with what goes through their dimension."""
    if k.launch is None:
        return {}
    mine = {p.sym.name for p in k.params if not p.host}
    shown = {s.name for e in (*k.launch.grid, *k.launch.block) for s in used(e)}
    open_ = {n for n in roles.sizes if n not in mine | shown}
    found: dict[str, set[str]] = {}
    for extent, through in _dimensions(k) if open_ else ():
        if extent in open_:
            found.setdefault(extent, set()).add(through)
    alike = {n: next(iter(texts)) for n, texts in found.items() if len(texts) == 1}
    return {n: text for n, text in alike.items() if not {*names_in(text)} & {*alike}}


def chosen_extent(k: Kernel, buffer: str) -> str:
    """The extent of the dimension that elements of ``buffer`` choose a place in, as rows are chosen; '' if none."""
    if k.launch is None:
        return ""
    given, mine = definitions(k), next(p.sym for p in k.params if p.sym.name == buffer)
    found = {extent for extent, v in _steps(k, _Ranges(k)) if loaded(v, given, mine)}
    return found.pop() if len(found) == 1 else ""


def _dimensions(k: Kernel) -> Iterator[tuple[str, str]]:
    """Extents, with the range of what is multiplied by the stride of their dimension."""
    ranges = _Ranges(k)
    yield from ((extent, through) for extent, v in _steps(k, ranges) if (through := ranges.of(v)))


def _steps(k: Kernel, ranges: _Ranges) -> Iterator[tuple[str, Expr]]:
    """Extents, with what is multiplied by the stride of their dimension."""
    told = _strides(k)
    begun = {s: found[0] for s, found in definitions(k).items()}  # before a branch, or a loop, moves it on
    moves = {s: e for s, e in begun.items() if not ranges.of(Var(s))}
    for _, index in accesses(k):
        steps = [(stride, v) for e in addends(index, moves) for stride, v in _stepped(e, told)]
        for stride, v in steps:
            larger = [s - stride for s, _ in steps if s != stride and not stride - s]
            nearest = min(larger, key=lambda more: more.total(), default=Stride())
            if nearest.total() == 1:
                yield next(iter(nearest)), v


def _strides(k: Kernel) -> dict[Sym, Stride]:
    """The parameters that are extents or products of them, with these."""
    assert k.launch is not None
    passed = {n: names for n, e in k.launch.passed if (names := _product(e)) is not None}
    return {p.sym: Stride(passed.get(p.sym.name, [p.sym.name])) for p in k.params}


def _product(e: Expr) -> list[str] | None:
    """The variables that ``e`` is a product of; None for anything else."""
    match without_casts(e):
        case Var(s):
            return [s.name]
        case Binary("*", a, b):
            left, right = _product(a), _product(b)
            return None if left is None or right is None else left + right
    return None


def _stepped(e: Expr, told: Mapping[Sym, Stride]) -> Iterator[tuple[Stride, Expr]]:
    """The stride by which ``e`` steps, and what counts the steps; nothing if ``e`` is no such product."""
    stride, counters = Stride(), []
    for f in _factors(e):
        if isinstance(f, Var) and f.sym in told:
            stride += told[f.sym]
        else:
            counters.append(f)
    if len(counters) == 1 and isinstance(counters[0], Var | HwIndex | Binary):
        yield stride, counters[0]


def _factors(e: Expr) -> list[Expr]:
    e = _bare(e)
    return [*_factors(e.a), *_factors(e.b)] if isinstance(e, Binary) and e.op == "*" else [e]


class _Ranges:
    """How far variables and numbers of blocks go, as far as loops, comparisons and the grid say."""

    def __init__(self, k: Kernel) -> None:
        assert k.launch is not None
        self.grid = dict(zip("xyz", k.launch.grid))
        self.sizes = {p.sym for p in k.params}
        self.given = {s: found[0] for s, found in definitions(k).items() if len(found) == 1}
        self.below: dict[Sym, Expr] = {}
        for c in _bounds(k):
            if isinstance(v := without_casts(c.a), Var) and used(c.b) and used(c.b) <= self.sizes:
                self.below.setdefault(v.sym, c.b)

    def of(self, e: Expr) -> str:
        """The range of ``e`` as a workload says it; '' where it is not known."""
        found = self._end(e, DEEPEST)
        text = spelled(found, used(found)) if found is not None else None
        return ast.unparse(parse(text)) if text else ""

    def _end(self, e: Expr, left: int) -> Expr | None:
        """What ``e`` stays below."""
        match e := _bare(e):
            case Var(s) if s in self.below:
                return _bare(self.below[s])
            case Var(s) if s in self.given and left:
                return self._end(self.given[s], left - 1)
            case HwIndex(level="block", axis=axis):
                return _bare(self.grid[axis])
            case Binary("%", _, by) if self._is_size(by):
                return by
            case Binary("-", a, product) if left and (divisor := self._divided_by(product, a)) is not None:
                return divisor
            case Binary("/", a, by) if left and self._is_size(by):
                whole = self._end(a, left - 1)
                return None if whole is None else _quotient(whole, by)
        return None

    def _is_size(self, e: Expr) -> bool:
        return bool(used(e)) and used(e) <= self.sizes

    def _divided_by(self, product: Expr, a: Expr) -> Expr | None:
        """``by`` where ``product`` is ``a / by * by``, so that ``a - product`` is what is left of ``a``; else None."""
        factors = _factors(product)
        for k, q in enumerate(factors):
            rest = factors[:k] + factors[k + 1 :]
            while isinstance(q, Var) and q.sym in self.given:
                q = _bare(self.given[q.sym])
            if isinstance(q, Binary) and q.op == "/" and self._same(q.a, a) and _alike(_factors(q.b), rest):
                return q.b if self._is_size(q.b) else None
        return None

    def _same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are one, through variables that stand for others."""
        names = {s: _bare(x) for s, x in self.given.items() if isinstance(_bare(x), Var)}
        return substitute_expr(_bare(a), names) == substitute_expr(_bare(b), names)


def _bounds(k: Kernel) -> Iterator[Binary]:
    """The comparisons that say what something is below: those that end what is not, then of loops and conditions."""
    for s in walk(k.body):
        if isinstance(s, If) and not s.orelse and s.then and isinstance(s.then[-1], Return | Continue):
            yield from (e for e in _parts(s.cond, "||") if isinstance(e, Binary) and e.op == ">=")
    conditions = [s.cond for s in walk(k.body) if isinstance(s, If | For)]
    conditions += [e.cond for e in all_exprs(k.body) if isinstance(e, Select)]
    yield from (e for c in conditions for e in _parts(c, "&&") if isinstance(e, Binary) and e.op == "<")


def _parts(e: Expr, op: str) -> list[Expr]:
    return [*_parts(e.a, op), *_parts(e.b, op)] if isinstance(e, Binary) and e.op == op else [e]


def _quotient(whole: Expr, by: Expr) -> Expr | None:
    """``whole / by`` where that is a factor of it, or several are."""
    left = _factors(whole)
    for f in _factors(by):
        if f not in left:
            return None
        left.remove(f)
    return functools.reduce(lambda a, b: Binary("*", a, b), left) if left else None


def _alike(a: list[Expr], b: list[Expr]) -> bool:
    return len(a) == len(b) and all(a.count(f) == b.count(f) for f in a)


def _bare(e: Expr) -> Expr:
    """``e`` without conversions: what sizes are is no matter of how wide they are."""
    return map_expr(e, lambda x: x.x if isinstance(x, Cast) else x)


__all__ = ["chosen_extent", "told_extents"]
