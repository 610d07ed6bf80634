"""Strides in bytes that the host makes of sizes, as elements are counted in them.

    *(const float *)((const char *)x + row * pitch)     // the launch passes 4 * width for pitch

Of this an index is left that is divided by what an element has of bytes, ``row * pitch / 4``. Whoever looks for rows
and for what their length is sees ``row * width`` instead. Where the host does not say what it makes a stride of, as of
one that ``cudaMallocPitch`` chose, it is so many elements: rows of floats begin at multiples of four bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, mul
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Atomic, Binary, Const, Expr, Load, Store, Sym, Var, fresh
from ktc.ir.types import I64, Scalar, scalar_of
from ktc.ir.walk import all_exprs, map_body, used, walk


def with_strides_in_elements(k: Kernel) -> Kernel:
    """``k`` with such indices over the sizes that the launch makes strides of, which are parameters of the host."""
    k = _with_whole_elements(k)
    told = _told(k)
    if not told:
        return k
    names = definitions(k.body)
    strides = {s: e for s, e in names.items() if used(expand(e, names)) & told.keys()}
    found, sizes = set[Sym](), {s for e in told.values() for s in used(e)}

    def element(index: Expr) -> Expr:
        if isinstance(index, Binary) and index.op == "+":
            return Binary("+", element(index.a), element(index.b))
        quotient = _quotient(index)
        if quotient is None:
            return index
        whole = _divided(expand(quotient[0], strides), quotient[1], told)
        if whole is None:
            return index
        found.update(used(whole) & sizes)
        return cast(whole, index.type)  # type: ignore[arg-type]

    def on(x: Any) -> Any:
        return replace(x, index=tuple(map(element, x.index))) if isinstance(x, Load | Store | Atomic) else x

    body = map_body(k.body, on, on)
    named = {p.sym.name for p in k.params}
    hosts = tuple(Param(s, host=True) for s in sorted(found, key=lambda s: s.name) if s.name not in named)
    return k.with_(body=body, params=(*k.params, *hosts))


def _told(k: Kernel) -> dict[Sym, Expr]:
    """What the launch makes parameters of."""
    named = {p.sym.name: p.sym for p in k.params}
    return {named[n]: e for n, e in (k.launch.passed if k.launch is not None else ()) if n in named}


def _quotient(index: Expr) -> tuple[Expr, int] | None:
    """What ``index`` divides by what number, if it does."""
    by = without_casts(index.b) if isinstance(index, Binary) and index.op == "/" else None
    if not isinstance(index, Binary) or not isinstance(by, Const) or not isinstance(by.value, int) or by.value < 2:
        return None
    return index.a, by.value


def _with_whole_elements(k: Kernel) -> Kernel:
    """``k`` with each stride that nobody tells anything of as so many elements, a number of the host."""
    if k.launch is None:
        return k
    told, names = _told(k), definitions(k.body)
    free = {p.sym for p in k.params if not p.host and isinstance(p.sym.type, Scalar) and p.sym.type.is_int}
    found: dict[Sym, int] = {}
    for buffer, index in _places(k):
        for part in _terms(index):
            quotient = _quotient(part)
            if quotient is None or quotient[1] != scalar_of(buffer.type).bytes:
                continue
            for term in _terms(expand(quotient[0], names)):
                found |= dict.fromkeys(_stride(term, quotient[1], told, free - told.keys()), quotient[1])
    taken = {p.sym.name for p in k.params}
    made = {s: fresh(f"{s.name}_elements", s.type) for s in found if f"{s.name}_elements" not in taken}
    passed = tuple((s.name, mul(Const(found[s], s.type), Var(e))) for s, e in made.items())  # type: ignore[arg-type]
    launch = replace(k.launch, passed=(*k.launch.passed, *passed))
    return k.with_(launch=launch, params=(*k.params, *(Param(e, host=True) for e in made.values())))


def _places(k: Kernel) -> Iterator[tuple[Sym, Expr]]:
    """What of which buffer is accessed: a flat index."""
    found = (*walk(k.body), *all_exprs(k.body))
    return ((x.buffer, x.index[-1]) for x in found if isinstance(x, Load | Store | Atomic) and x.index)


def _terms(e: Expr) -> list[Expr]:
    """What is added up in ``e``."""
    inner = without_casts(e)
    return [*_terms(inner.a), *_terms(inner.b)] if isinstance(inner, Binary) and inner.op == "+" else [inner]


def _stride(term: Expr, n: int, told: Mapping[Sym, Expr], free: Set[Sym]) -> Iterator[Sym]:
    """The one of the parameters ``free`` that is a factor of ``term``, if no other factor is ``n`` times something."""
    factors = _factors(term, told)
    whole = any(isinstance(f, Const) and isinstance(f.value, int) and f.value % n == 0 for f in factors)
    strides = [f.sym for f in factors if isinstance(f, Var) and f.sym in free]
    return iter(strides if len(strides) == 1 and not whole else ())


def _divided(e: Expr, n: int, told: Mapping[Sym, Expr]) -> Expr | None:
    """``e / n`` in sizes, where each term of ``e`` has a factor that is ``n`` times something; else None."""
    e = without_casts(e)
    if isinstance(e, Binary) and e.op == "+":
        a, b = _divided(e.a, n, told), _divided(e.b, n, told)
        return Binary("+", a, b) if a is not None and b is not None else None
    factors = _factors(e, told)
    for i, f in enumerate(factors):
        if isinstance(f, Const) and isinstance(f.value, int) and f.value % n == 0:
            factors[i] = Const(f.value // n, I64)
            return functools.reduce(mul, (cast(x, I64) for x in factors))
    return None


def _factors(e: Expr, told: Mapping[Sym, Expr]) -> list[Expr]:
    """What ``e`` is a product of, parameters as what the host makes them of."""
    e = without_casts(e)
    if isinstance(e, Binary) and e.op == "*":
        return [*_factors(e.a, told), *_factors(e.b, told)]
    if isinstance(e, Var) and e.sym in told:
        return _factors(told[e.sym], {s: x for s, x in told.items() if s != e.sym})
    return [e]
