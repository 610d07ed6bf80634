"""Which dimension of a buffer is the inner one: sizes that indices are multiplied by are strides of others.

An index is spelled out as a sum of products, ``b * M * N + row * N + col``: N is in two of them and M in one, so rows
are N long and the outermost size, which no index is multiplied by, comes first.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Binary, Cast, Const, Expr, If, Load, Store, Sym, Var
from ktc.ir.walk import all_exprs, assigned, walk, walk_expr

from .given_values import definitions, loaded, spelled_out

MOST = 256
"""Products that an index is spelled out as, at most."""

ORDERS = frozenset({"<", "<=", ">", ">="})

Product = frozenset[str]


def inner_first(k: Kernel) -> dict[str, Counter[str]]:
    """For each buffer, in how many products of its indices each parameter is a factor beside something else."""
    sources = moved(k)
    names = {p.sym: p.sym.name for p in k.params}
    out: dict[str, Counter[str]] = {}
    for buffer, index in accesses(k):
        counts = Counter(n for product in _products(index, names, sources) for n in product)
        known = out.setdefault(buffer, Counter())
        for n, c in counts.items():
            known[n] = max(known[n], c)
    return out


def moved(k: Kernel) -> dict[Sym, Expr]:
    """What each variable is given; of those that begin with 0 and are moved on, as pointers into a row are, how far:
    nothing, where they are moved one way or another."""
    out = {}
    either = {v for s in walk(k.body) if isinstance(s, If) for v in assigned(s.then) & assigned(s.orelse)}
    for s, found in definitions(k).items():
        moves = [e for e in found if evaluate(e, {}) != 0]
        own = [isinstance(e, Binary) and e.op == "+" and e.a == Var(s) for e in moves]
        if len(moves) == 1 or (moves and all(own) and s not in either):
            out[s] = functools.reduce(partial(Binary, "+"), moves)
    return out


def counted_in(k: Kernel, buffer: str, name: str) -> frozenset[str] | None:
    """What parameters ``buffer``'s stride ``name`` is multiplied by: ``rows`` of ``(b * rows + r) * width + i`` is
    counted in widths, ``width`` in elements: fewest are one step. None where accesses do not agree, or a number is
    among the factors."""
    sources = {s: functools.reduce(partial(Binary, "+"), found) for s, found in definitions(k).items()}
    names = {p.sym: p.sym.name for p in k.params}
    units = set[Product]()
    for b, index in accesses(k):
        if b == buffer:
            units |= {p - {name} for p in _products(index, names, sources) if name in p}
            if any(_by_a_number(e, name, names, sources) for e in _spelled(index, sources)):
                return None
    least = min(units, key=len, default=None)
    return least if least is not None and all(least <= unit for unit in units) else None


def row_of(k: Kernel, buffer: Sym) -> str:
    """The parameter that rows are long of which elements of ``buffer`` say the column, ``x[row * n + columns[i]]``; ''
    if there is none."""
    given, names = definitions(k), {p.sym: p.sym.name for p in k.params}
    sources = {s: found[0] for s, found in given.items() if len(found) == 1} | _bumped(given)
    found = set[Product]()
    for _, index in accesses(k):
        terms = [t for t in addends(index, sources) if evaluate(t, {}) != 0]
        columns = [t for t in terms if loaded(t, given, buffer)]
        rows = [p for t in terms if t not in columns for p in _products(t, names, sources)]
        least = min(rows, key=len, default=frozenset())
        if columns and len(least) == 1 and all(least <= p for p in rows):
            found.add(least)
    return "".join(*found) if len(found) == 1 else ""


def limited_by(k: Kernel, buffer: Sym) -> str:
    """The parameter that there are as many of at most as elements of ``buffer`` say, a batch of rows of which each is
    as long as it is: ``n`` of ``for (j = 0; j < lengths[b]; ++j) x[(b * n + j) * width + c]``; '' if there is none."""
    given, found = definitions(k), set[str]()
    names = {p.sym: p.sym.name for p in k.params}
    for counter in kept_below(k, buffer, given):
        sources = {s: each[0] for s, each in given.items() if len(each) == 1 and s != counter}
        for _, index in accesses(k):
            products = _products(index, {**names, counter: ""}, sources)
            steps = [p - {""} for p in products if "" in p]
            rows = [p - steps[0] for p in products if "" not in p and len(steps) == 1 and steps[0] < p]
            least = min(rows, key=len, default=frozenset[str]())
            found |= least if len(least) == 1 else set()
    return "".join(*found) if len(found) == 1 else ""


def kept_below(k: Kernel, buffer: Sym, given: Mapping[Sym, list[Expr]]) -> set[Sym]:
    """The variables that are compared for being less than an element of ``buffer``, or no less."""
    out = set[Sym]()
    for e in all_exprs(k.body):
        if isinstance(e, Binary) and e.op in ORDERS:
            v, n = (e.a, e.b) if e.op in ("<", ">=") else (e.b, e.a)
            out |= {x.sym for x in (without_casts(v),) if isinstance(x, Var) and loaded(n, given, buffer)}
    return out


def _bumped(given: Mapping[Sym, Sequence[Expr]]) -> dict[Sym, Expr]:
    """How far variables are moved that begin with 0 and are added to, as pointers are: ``out += row * n``."""
    out: dict[Sym, Expr] = {}
    for s, found in given.items():
        moves = [e for e in found if evaluate(e, {}) != 0]
        by = [e.b for e in moves if isinstance(e, Binary) and e.op == "+" and e.a == Var(s)]
        if by and len(by) == len(moves) < len(found):
            out[s] = functools.reduce(partial(Binary, "+"), by)
    return out


def addends(e: Expr, sources: Mapping[Sym, Expr]) -> Iterator[Expr]:
    """What is added up in ``e``, variables spelled out."""
    match e := without_casts(e):
        case Var(s) if s in sources:
            yield from addends(sources[s], {v: x for v, x in sources.items() if v != s})
        case Binary("+", a, b):
            yield from (*addends(a, sources), *addends(b, sources))
        case _:
            yield e


def _by_a_number(e: Expr, name: str, names: Mapping[Sym, str], sources: Mapping[Sym, Expr]) -> bool:
    """Whether ``e`` multiplies something with ``name`` by a number."""
    if not isinstance(e, Binary) or e.op not in ("*", "<<"):
        return False
    sides = ((e.a, e.b), (e.b, e.a)) if e.op == "*" else ((e.a, e.b),)
    given = {v: [x] for v, x in sources.items()}
    return any(
        isinstance(by := without_casts(n), Const)
        and any(name in p for p in _products(x, names, sources))
        and not _undoes(e.op, by, spelled_out(x, given))
        for x, n in sides
    )


def _undoes(op: str, n: Const, x: Expr) -> bool:
    """Whether ``x op n`` multiplies a whole quotient by what it was divided by: a stride in vectors, in elements."""
    if not isinstance(x, Binary) or x.op not in ("/", ">>") or not isinstance(by := without_casts(x.b), Const):
        return False
    divisor, factor = (1 << int(c.value) if o in ("<<", ">>") else int(c.value) for o, c in ((x.op, by), (op, n)))
    return divisor == factor


def _spelled(e: Expr, sources: Mapping[Sym, Expr]) -> Iterator[Expr]:
    """``e`` and everything below it, through variables."""
    left, seen = [e], set[Sym]()
    while left:
        for x in walk_expr(left.pop()):
            yield x
            if isinstance(x, Var) and x.sym in sources and x.sym not in seen:
                seen.add(x.sym)
                left.append(sources[x.sym])


def accesses(k: Kernel) -> Iterator[tuple[str, Expr]]:
    """(buffer, index) of every load, store and atomic."""
    for e in all_exprs(k.body):
        if isinstance(e, Load):
            yield e.buffer.name, e.index[0]
    for s in walk(k.body):
        if isinstance(s, Store | Atomic):
            yield s.buffer.name, s.index[0]


def _products(e: Expr, names: Mapping[Sym, str], sources: Mapping[Sym, Expr]) -> list[Product]:
    """The products of parameters in ``e``, variables spelled out; what is no sum or product counts as one factor."""
    match e:
        case Cast(_, x):
            return _products(x, names, sources)
        case Var(s) if s in names:
            return [frozenset((names[s],))]
        case Var(s) if s in sources:
            return _products(sources[s], names, {v: x for v, x in sources.items() if v != s})
        case Binary("+" | "-", a, b):
            return [*_products(a, names, sources), *_products(b, names, sources)][:MOST]
        case Binary("*", a, b):
            left, right = _products(a, names, sources), _products(b, names, sources)
            return [x | y for x in left for y in right][:MOST]
        case Binary("/" | ">>", a, _):  # groups of a row: a part of its length
            return _products(a, names, sources)
    return [frozenset()]
