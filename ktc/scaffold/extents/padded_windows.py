"""Windows that a border lets reach over the edges of what they go over, and how many there are of them.

    y = row * step - border + tap;        // tap < window, row < rows
    if (0 <= y && y < height) ..          // rows = (height + 2 * border - window) / step + 1

Whoever computes that number, as the host does of layers that convolve or pool, computes it so: with more rows, windows
lie beyond what there is, and an average of nothing is no number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Const, Expr, For, Sym, Var
from ktc.ir.walk import all_exprs, map_expr, walk, walk_expr

from ..given_values import definitions
from ..windows import summands, tap_bounds

Sources = Mapping[Sym, Sequence[Expr]]


@dataclass(frozen=True)
class Padded:
    """The windows of one direction, by the names of parameters: ``dilation`` is how far their elements are apart, ''
    where that is 1; ``row`` counts the windows, ``first`` is where one begins or, of each element, where that is."""

    window: str
    step: str
    border: str
    dilation: str
    row: Expr
    first: Expr

    @property
    def length(self) -> str:
        return f"({self.dilation} * ({self.window} - 1) + 1)" if self.dilation else self.window

    def count(self, whole: str) -> str:
        """How many windows there are in ``whole``."""
        return f"({whole} + 2 * {self.border} - {self.length}) / {self.step} + 1"


def padded_windows(k: Kernel, sources: Sources) -> Iterator[tuple[str, str]]:
    """Parameters of such windows, with what they are (:data:`~ktc.scaffold.windows.USUAL`)."""
    for w in _found(k, sources):
        yield w.window, "padded"
        yield w.step, "step"
        yield w.border, "border"
        if w.dilation:
            yield w.dilation, "step"


def window_counts(k: Kernel, sizes: Collection[str]) -> dict[str, str]:
    """Those of ``sizes`` that are numbers of such windows, as these follow from the others."""
    sources = definitions(k)
    params = {p.sym: p.sym.name for p in k.params}
    found: dict[str, set[str]] = {}
    for w in _found(k, sources):
        wholes = {params[n] for n in _above(k, w.first, sources) if n in params}
        rows = {params[n] for n in (*_above(k, w.row, sources), *_moduli(w.row, sources)) if n in params}
        if len(wholes) == len(rows) == 1 and wholes != rows:
            found.setdefault(rows.pop(), set()).add(w.count(wholes.pop()))
    return {n: next(iter(texts)) for n, texts in found.items() if len(texts) == 1 and n in sizes}


def _found(k: Kernel, sources: Sources) -> Iterator[Padded]:
    params = {p.sym for p in k.params}
    bounds = {v: name for v, (name, kind) in tap_bounds(k, params).items() if kind == "window"}
    for e in dict.fromkeys(e for e in all_exprs(k.body) if isinstance(e, Binary) and e.op in ("+", "-")):
        more, less = _terms(e, sources, {*bounds})
        borders = [n for x in less if (n := _parameter(x, params))]
        if len(less) != 1 or len(borders) != 1 or len(more) != 2:
            continue
        for first, second in (more, more[::-1]):
            tap, product = _tap(first, bounds, params), without_casts(second)
            if tap is None or not isinstance(product, Binary) or product.op != "*":
                continue
            for by, row in ((product.a, product.b), (product.b, product.a)):
                if (step := _parameter(by, params)) and not _parameter(row, params):
                    yield Padded(tap[0], step, borders[0], tap[1], _plain(row), _plain(e))
    yield from _clipped(k, sources, params)


def _clipped(k: Kernel, sources: Sources, params: set[Sym]) -> Iterator[Padded]:
    """Windows whose end is clipped, ``min(first + window, height + border)``."""
    for e in all_exprs(k.body):
        for end in map(without_casts, e.args) if isinstance(e, Call) and e.fn == "min" else ():
            for a, b in ((end.a, end.b), (end.b, end.a)) if isinstance(end, Binary) and end.op == "+" else ():
                more, less = _terms(a, sources, set())
                window, product = _parameter(b, params), without_casts(more[0]) if more else None
                if not window or len(more) != 1 or len(less) != 1 or not isinstance(product, Binary):
                    continue
                for by, row in ((product.a, product.b), (product.b, product.a)):
                    step, border = _parameter(by, params), _parameter(less[0], params)
                    if product.op == "*" and step and border and not _parameter(row, params):
                        yield Padded(window, step, border, "", _plain(row), _plain(end))


def _terms(e: Expr, sources: Sources, taps: set[Sym]) -> tuple[list[Expr], list[Expr]]:
    """What ``e`` adds and what it takes off, variables that are given one value as that."""
    more, less = summands(e)
    for terms, others in ((more, less), (less, more)):
        for x in [*terms]:
            v = without_casts(x)
            given = sources.get(v.sym, ()) if isinstance(v, Var) and v.sym not in taps else ()
            inside = without_casts(given[0]) if given else None  # before it is clipped
            if isinstance(inside, Binary) and inside.op in ("+", "-") and v not in walk_expr(inside):
                terms.remove(x)
                plus, minus = summands(inside)
                terms += plus
                others += minus
    return more, less


def _tap(e: Expr, bounds: Mapping[Sym, str], params: set[Sym]) -> tuple[str, str] | None:
    """The window that ``e`` goes through, and how far its elements are apart."""
    match without_casts(e):
        case Var(s) if s in bounds:
            return bounds[s], ""
        case Binary("*", a, b):
            for tap, by in ((without_casts(a), b), (without_casts(b), a)):
                if isinstance(tap, Var) and tap.sym in bounds and (dilation := _parameter(by, params)):
                    return bounds[tap.sym], dilation
    return None


def _above(k: Kernel, e: Expr, sources: Sources) -> Iterator[Sym]:
    """What ``e``, or a variable that is given it, stays below by a comparison, a loop or a minimum."""
    same = {e, *(Var(s) for s, given in sources.items() if len(given) == 1 and _plain(given[0]) == e)}
    for x in all_exprs(k.body):
        if isinstance(x, Binary) and x.op in ("<", ">="):
            bound = without_casts(x.b)
            if _plain(x.a) in same and isinstance(bound, Var):
                yield bound.sym
        elif isinstance(x, Call) and x.fn == "min":
            ends = [*map(_plain, x.args)]
            for other in (y for end, y in zip(ends, ends[::-1]) if end in same):
                whole = other.a if isinstance(other, Binary) and other.op == "+" else other
                yield from [whole.sym] if isinstance(whole, Var) else []
    for s in walk(k.body):
        if isinstance(s, For) and Var(s.var) == e and isinstance(c := s.cond, Binary) and c.op == "<":
            yield from [b.sym] if isinstance(b := without_casts(c.b), Var) else []


def _moduli(row: Expr, sources: Sources) -> Iterator[Sym]:
    """What ``row`` is a remainder by, as a digit of an index is."""
    given = sources.get(row.sym, ()) if isinstance(row, Var) else ()
    e = _plain(given[0]) if len(given) == 1 else row
    if isinstance(e, Binary) and e.op == "%" and isinstance(e.b, Var):
        yield e.b.sym


def _parameter(e: Expr, params: set[Sym]) -> str:
    e = without_casts(e)
    return e.sym.name if isinstance(e, Var) and e.sym in params else ""


def _plain(e: Expr) -> Expr:
    return map_expr(e, lambda x: without_casts(x) if not isinstance(x, Const) else x)


__all__ = ["Padded", "padded_windows", "window_counts"]
