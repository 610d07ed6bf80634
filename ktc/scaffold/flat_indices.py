"""Numbers of elements that are whole rows: ``if (i < n) y[i] = x[i] + w[i % cols]`` goes through rows of ``cols``.

As numbers of their own, n and cols would be a row and a half, or a third of one, which no caller has. A draft gives
such a kernel rows: ``n = n_rows * cols``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import ORDERINGS, Binary, Expr, Load, Sym, Var
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, used, walk_expr

from .given_values import definitions
from .roles import Roles


def whole_rows(k: Kernel, roles: Roles) -> dict[str, str]:
    """Sizes that an index goes up to which is taken apart by other sizes, each as a product of those and of one more,
    the number of rows: its name stands first."""
    taken = {p.sym.name for p in k.params}
    free = {n for n in roles.sizes if n in taken and n not in roles.tied}
    found: dict[str, str] = {}
    apart = {i: names for i, names in _taken_apart(k, free).items() if not _chooses(k, i) and not _told(k, i, names)}
    for total, index in _counted(k, free - {*roles.divisors}):
        inner = [n for n in apart.get(index, ()) if n != total]
        name = f"{total}_rows"
        if inner and total not in found and not {*inner} & {*found} and name not in taken:
            found[total] = " * ".join((name, *reversed(inner)))
    used = {n for text in found.values() for n in text.split(" * ")}
    return {n: text for n, text in found.items() if n not in used}


def _taken_apart(k: Kernel, free: set[str]) -> dict[Sym, list[str]]:
    """For each index, the sizes whose remainder is taken of it, or of what is left of it when others are divided out,
    the innermost first."""
    sources = {s: found[0] for s, found in definitions(k).items() if len(found) == 1}
    params = {p.sym: p.sym.name for p in k.params}
    found: dict[Sym, list[str]] = {}
    for e in (x for y in all_exprs(k.body) for x in walk_expr(y)):
        if isinstance(e, Binary) and e.op == "%":
            by = without_casts(e.b)
            index = _index(e.a, sources)
            if isinstance(by, Var) and params.get(by.sym) in free and index is not None:
                names = found.setdefault(index, [])
                names += [params[by.sym]] if params[by.sym] not in names else []
    return found


def _chooses(k: Kernel, index: Sym) -> bool:
    """Whether quotients of an index choose an integer, as those of a position choose a page in a table: the last page
    need not be full."""
    sources = {s: found[0] for s, found in definitions(k).items() if len(found) == 1 and s != index}
    for e in (x for y in all_exprs(k.body) for x in walk_expr(y)):
        if isinstance(e, Load) and scalar_of(e.buffer.type).is_int:
            parts = [x for x in walk_expr(expand(e.index[0], sources)) if isinstance(x, Binary) and x.op == "/"]
            if any(_index(x, sources) == index for x in parts):
                return True
    return False


def _told(k: Kernel, index: Sym, inner: list[str]) -> bool:
    """Whether ``index`` is compared with a product of one of ``inner``, too: its own number of rows is there."""
    products = (n for i, n in _ordered(k) if i == index and isinstance(n, Binary) and n.op == "*")
    return any(s.name in inner for n in products for s in used(n))


def _index(e: Expr, sources: Mapping[Sym, Expr]) -> Sym | None:
    """The variable that ``e`` is, or is a quotient of."""
    e = without_casts(e)
    while isinstance(e, Binary) and e.op == "/":
        e = without_casts(e.a)
    if not isinstance(e, Var):
        return None
    given = without_casts(sources[e.sym]) if e.sym in sources else None
    divided = isinstance(given, Var) or (isinstance(given, Binary) and given.op == "/")
    if given is None or not divided or any(isinstance(x, Load) for x in walk_expr(given)):
        return e.sym
    return _index(given, {s: x for s, x in sources.items() if s != e.sym})


def _counted(k: Kernel, free: set[str]) -> Iterator[tuple[str, Sym]]:
    """Sizes with the indices that are compared with them: all others do nothing, or leave."""
    params = {p.sym: p.sym.name for p in k.params}
    for index, end in _ordered(k):
        if isinstance(end, Var) and params.get(end.sym) in free:
            yield params[end.sym], index


def _ordered(k: Kernel) -> Iterator[tuple[Sym, Expr]]:
    """Variables with what they are compared with for being less or more."""
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ORDERINGS:
            a, b = without_casts(e.a), without_casts(e.b)
            yield from ((x.sym, y) for x, y in ((a, b), (b, a)) if isinstance(x, Var))


__all__ = ["whole_rows"]
