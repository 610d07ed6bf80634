"""Extents of tensors that only their strides are made of are those of what goes through them.

    dst[i10 * s1 + i11 * s2 + i00]      // the host passes ne0 for s1 and ne0 * ne1 for s2, i00 < n

The strides say that the tensor is ``ne0`` wide and ``ne1`` high; the kernel does not get these, and goes through n
columns of a row and as many rows as blocks: calls are with tensors that are as large. Each stride has one extent more
than the next smaller one: it is that of the dimension which the smaller one steps through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Continue, Expr, HwIndex, If, Return, Sym, Var
from ktc.ir.walk import all_exprs, used, walk

from ..given_values import definitions
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


def _dimensions(k: Kernel) -> Iterator[tuple[str, str]]:
    """Extents, with the range of what is multiplied by the stride of their dimension."""
    told = _strides(k)
    ranges = _Ranges(k)
    moves = {s: found[0] for s, found in definitions(k).items() if len(found) == 1 and not ranges.of(Var(s))}
    for _, index in accesses(k):
        steps = [(stride, v) for e in addends(index, moves) for stride, v in _stepped(e, told)]
        for stride, v in steps:
            larger = [s - stride for s, _ in steps if s != stride and not stride - s]
            nearest = min(larger, key=lambda more: more.total(), default=Stride())
            if nearest.total() == 1 and (through := ranges.of(v)):
                yield next(iter(nearest)), through


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
    e = without_casts(e)
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
        return text or ""

    def _end(self, e: Expr, left: int) -> Expr | None:
        """What ``e`` stays below."""
        match e := without_casts(e):
            case Var(s) if s in self.below:
                return self.below[s]
            case Var(s) if s in self.given and left:
                return self._end(self.given[s], left - 1)
            case HwIndex(level="block", axis=axis):
                return self.grid[axis]
            case Binary("%", _, by) if used(by) and used(by) <= self.sizes:
                return by
            case Binary("-", a, Binary("*", q, by)) if left and self._is_quotient(q, a, by):
                return by
            case Binary("/", a, by) if left and used(by) and used(by) <= self.sizes:
                whole = self._end(a, left - 1)
                return None if whole is None else _quotient(whole, without_casts(by))
        return None

    def _is_quotient(self, q: Expr, a: Expr, by: Expr) -> bool:
        """Whether ``q`` is ``a / by``: ``a - q * by`` is the remainder then."""
        q, left = without_casts(q), DEEPEST
        while isinstance(q, Var) and q.sym in self.given and left:
            q, left = without_casts(self.given[q.sym]), left - 1
        if not isinstance(q, Binary) or q.op != "/" or not used(by) <= self.sizes:
            return False
        return without_casts(q.a) == without_casts(a) and without_casts(q.b) == without_casts(by)


def _bounds(k: Kernel) -> Iterator[Binary]:
    """The comparisons that say what something is below: of loops and conditions, and those that end what is not."""
    yield from (e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op == "<")
    for s in walk(k.body):
        if isinstance(s, If) and not s.orelse and s.then and isinstance(s.then[-1], Return | Continue):
            yield from (e for e in _either(s.cond) if isinstance(e, Binary) and e.op == ">=")


def _either(e: Expr) -> list[Expr]:
    return [*_either(e.a), *_either(e.b)] if isinstance(e, Binary) and e.op == "||" else [e]


def _quotient(whole: Expr, by: Expr) -> Expr | None:
    """``whole / by`` where ``by`` is a factor of it."""
    factors = _factors(whole)
    if by not in factors or len(factors) != 2:
        return None
    return factors[1 - factors.index(by)]


__all__ = ["told_extents"]
