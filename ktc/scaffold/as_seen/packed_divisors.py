"""Divisions by multiplication, ``(mulhi(n, m) + n) >> s``, as the divisions that they are, where drafts look for sizes.

The launch passes a divisor d, and a multiplier and a shift that it makes of d. Whoever looks for extents sees ``n / d``
and ``n % d``, of which it is known how large they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Expr, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, used

DIVISORS = (1, 2, 3, 5, 7, 8, 64, 96, 1000, 4096, 65535)
DIVIDENDS = (0, 1, 2, 6, 7, 95, 96, 4095, 4096, 123_456_789, (1 << 31) - 1)
"""Numbers that a multiplier and a shift are tried with."""

Pairs = Mapping[tuple[Sym, Sym], Sym]
"""The divisors that parameters for a multiplier and a shift are made of."""


def with_plain_divisions(k: Kernel) -> Kernel:
    """``k`` with such divisions as divisions by the parameter that the multiplier and the shift are made of."""
    divisors = _divisors(k)
    if not divisors:
        return k
    names = definitions(k.body)

    def plain(e: Expr) -> Expr:
        if (found := _quotient(e, divisors, names)) is not None:
            n, d = found
            return Binary("/", n, cast(Var(d), n.type))  # type: ignore[arg-type]
        if isinstance(e, Binary) and e.op == "-" and (by := _taken_off(e, divisors, names)) is not None:
            return Binary("%", e.a, cast(Var(by), e.a.type))  # type: ignore[arg-type]
        return e

    return k.with_(body=map_body(k.body, keep, plain))


def _divisors(k: Kernel) -> dict[tuple[Sym, Sym], Sym]:
    named = {p.sym.name: p.sym for p in k.params}
    passed = {named[n]: e for n, e in (k.launch.passed if k.launch is not None else ()) if n in named}
    out = {}
    for m, s in _shifts(k):
        of = used(passed[m]) | used(passed[s]) if m in passed and s in passed else set[Sym]()
        if len(of) == 1 and _divide(passed[m], passed[s], d := next(iter(of))):
            out[m, s] = d
    return out


def _shifts(k: Kernel) -> set[tuple[Sym, Sym]]:
    """The multipliers and shifts of all that looks like a division."""
    found, names = set[tuple[Sym, Sym]](), definitions(k.body)

    def look(e: Expr) -> Expr:
        if (parts := _parts(e, names)) is not None:
            found.add(parts[1:])
        return e

    map_body(k.body, keep, look)
    return found


def _parts(e: Expr, names: Mapping[Sym, Expr]) -> tuple[Expr, Sym, Sym] | None:
    """n, m and s of ``(mulhi(n, m) + n) >> s``; None of anything else."""
    if not isinstance(e, Binary) or e.op != ">>" or not isinstance(s := without_casts(e.b), Var):
        return None
    whole = without_casts(e.a)
    if not isinstance(whole, Binary) or whole.op != "+":
        return None
    for high, n in ((whole.a, whole.b), (whole.b, whole.a)):
        call = _behind(high, names)
        m = without_casts(call.args[1]) if isinstance(call, Call) and call.fn == "mulhi" else None
        if isinstance(call, Call) and isinstance(m, Var) and _same(call.args[0], n, names):
            return n, m.sym, s.sym
    return None


def _behind(e: Expr, names: Mapping[Sym, Expr]) -> Expr:
    """What ``e`` is, or what the variable stands for that it is."""
    e = without_casts(e)
    return without_casts(names[e.sym]) if isinstance(e, Var) and e.sym in names else e


def _same(a: Expr, b: Expr, names: Mapping[Sym, Expr]) -> bool:
    return expand(without_casts(a), names) == expand(without_casts(b), names)


def _quotient(e: Expr, divisors: Pairs, names: Mapping[Sym, Expr]) -> tuple[Expr, Sym] | None:
    parts = _parts(e, names)
    by = divisors.get(parts[1:]) if parts is not None else None
    return (parts[0], by) if parts is not None and by is not None else None


def _taken_off(e: Binary, divisors: Pairs, names: Mapping[Sym, Expr]) -> Sym | None:
    """d of ``n - n / d * d``, the quotient through variables; None of anything else."""
    whole = without_casts(e.b)
    if not isinstance(whole, Binary) or whole.op != "*":
        return None
    for x, d in ((whole.a, whole.b), (whole.b, whole.a)):
        found, by = _divided(_behind(x, names), divisors, names), without_casts(d)
        if found is not None and by == Var(found[1]) and _same(found[0], e.a, names):
            return found[1]
    return None


def _divided(e: Expr, divisors: Pairs, names: Mapping[Sym, Expr]) -> tuple[Expr, Sym] | None:
    """n and d of ``n / d``, which may be written as a division by now, or not yet."""
    by = without_casts(e.b) if isinstance(e, Binary) and e.op == "/" else None
    if isinstance(e, Binary) and isinstance(by, Var) and by.sym in divisors.values():
        return e.a, by.sym
    return _quotient(e, divisors, names)


def _divide(multiplier: Expr, shift: Expr, d: Sym) -> bool:
    """Whether a multiplier and a shift that are made of ``d`` divide by it."""
    width = multiplier.type.bits if isinstance(multiplier.type, Scalar) else 0
    for by in DIVISORS:
        m, s = (evaluate(e, {d.name: by}) for e in (multiplier, shift))
        if m is None or s is None or any(((n * m >> width) + n) >> s != n // by for n in DIVIDENDS):
            return False
    return True


__all__ = ["with_plain_divisions"]
