"""Strides in bytes that the host makes of sizes, as elements are counted in them.

    *(const float *)((const char *)x + row * pitch)     // the launch passes 4 * width for pitch

Of this an index is left that is divided by what an element has of bytes, ``row * pitch / 4``. Whoever looks for rows
and for what their length is sees ``row * width`` instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, mul
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Atomic, Binary, Const, Expr, Load, Store, Sym, Var
from ktc.ir.types import I64
from ktc.ir.walk import map_body, used


def with_strides_in_elements(k: Kernel) -> Kernel:
    """``k`` with such indices over the sizes that the launch makes strides of, which are parameters of the host."""
    named = {p.sym.name: p.sym for p in k.params}
    told = {named[n]: e for n, e in (k.launch.passed if k.launch is not None else ()) if n in named}
    if not told:
        return k
    names = definitions(k.body)
    strides = {s: e for s, e in names.items() if used(expand(e, names)) & told.keys()}
    found, sizes = set[Sym](), {s for e in told.values() for s in used(e)}

    def element(index: Expr) -> Expr:
        if isinstance(index, Binary) and index.op == "+":
            return Binary("+", element(index.a), element(index.b))
        if not isinstance(index, Binary) or index.op != "/":
            return index
        by = without_casts(index.b)
        if not isinstance(by, Const) or not isinstance(by.value, int) or by.value < 2:
            return index
        whole = _divided(expand(index.a, strides), by.value, told)
        if whole is None:
            return index
        found.update(used(whole) & sizes)
        return cast(whole, index.type)  # type: ignore[arg-type]

    def on(x: Any) -> Any:
        return replace(x, index=tuple(map(element, x.index))) if isinstance(x, Load | Store | Atomic) else x

    body = map_body(k.body, on, on)
    hosts = tuple(Param(s, host=True) for s in sorted(found, key=lambda s: s.name) if s.name not in named)
    return k.with_(body=body, params=(*k.params, *hosts))


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
