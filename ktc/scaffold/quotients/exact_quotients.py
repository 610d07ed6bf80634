"""Sizes of which the launch passes a part: ``x.numel() / x.size(0)`` beside ``x.numel()``.

A part that the host computes by dividing is a whole number of elements, and the size is so many parts. Drafted the
other way round, the size would grow for itself, and the part be whatever is left over.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Sym, Var
from ktc.ir.walk import used


def with_whole_parts(k: Kernel) -> Kernel:
    """``k`` with a launch that passes ``parts * part`` for the size of which it passes the part, ``size / parts``, if
    only the host knows how many there are."""
    if k.launch is None:
        return k
    params = {p.sym for p in k.params if not p.host}
    passed = dict(k.launch.passed)
    for name, e in k.launch.passed:
        part = next((p.sym for p in k.params if p.sym.name == name), None)
        size, parts = _quotient(e)
        if part is None or size not in params or parts is None or parts in params:
            continue
        if size.name not in passed and not any(size in used(x) for n, x in passed.items() if n != name):
            del passed[name]
            passed[size.name] = Binary("*", Var(parts), Var(part))
    return k.with_(launch=replace(k.launch, passed=tuple(passed.items())))


def _quotient(e: Expr) -> tuple[Sym | None, Sym | None]:
    """The variables of ``a / b``."""
    match without_casts(e):
        case Binary("/", a, b) if isinstance(a := without_casts(a), Var) and isinstance(b := without_casts(b), Var):
            return a.sym, b.sym
    return None, None


__all__ = ["with_whole_parts"]
