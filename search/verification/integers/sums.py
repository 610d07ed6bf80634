"""Sums of products of integers in one order: modulo 2^w, ``+ - *`` associate, commute and distribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ktc.ir.nodes import Binary, Cast, Const, Expr, HwIndex, Sym, Var
from ktc.ir.support.frozen import values_of
from ktc.ir.types import I32, Scalar

RING = frozenset({"+", "-", "*"})

LARGEST = {("thread", "x"): 1023, ("thread", "y"): 1023, ("thread", "z"): 63, ("block_dim", "x"): 1024,
           ("block_dim", "y"): 1024, ("block_dim", "z"): 64}  # fmt: skip
"""CUDA's limits (C++ Programming Guide, table of technical specifications); the others reach 2^31 - 1."""

TERMS = 64
"""Products beyond which a sum is left as it is."""

Product = tuple[Expr, ...]


def ordered(e: Expr, place: Mapping[Sym, int]) -> Expr:
    """``e``, an integer ``+ - *``, as a sum of products in an order that depends on ``place`` alone."""
    if not (isinstance(e, Binary) and e.op in RING and _int(e.type)):
        return e
    t = e.type
    assert isinstance(t, Scalar)
    terms = _terms(e, t)
    if len(terms) > TERMS:
        return e
    keyed = sorted(
        ((tuple(sorted(_key(f, place) for f in factors)), factors, n) for factors, n in terms.items()),
        key=lambda x: (x[0] == (), x[0]),
    )
    total: Expr | None = None
    for _, factors, n in keyed:
        n = _wrapped(n, t)
        if not n:
            continue
        product: Expr | None = None
        for f in sorted(factors, key=lambda f: _key(f, place)):
            product = f if product is None else Binary("*", product, f)
        if product is None:
            product = Const(n, t)
        elif n != 1:
            product = Binary("*", product, Const(n, t))
        total = product if total is None else Binary("+", total, product)
    return Const(0, t) if total is None else total


def _int(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _terms(e: Expr, t: Scalar) -> Counter[Product]:
    if isinstance(e, Const):
        return Counter({(): int(e.value)})
    if isinstance(e, Binary) and e.op in RING and e.type == t:
        a, b = _terms(e.a, t), _terms(e.b, t)
        out: Counter[Product] = Counter()
        if e.op == "*":
            for x, n in a.items():
                for y, m in b.items():
                    out[tuple(sorted((*x, *y), key=repr))] += n * m
            return out
        sign = 1 if e.op == "+" else -1
        for x, n in a.items():
            out[x] += n
        for x, n in b.items():
            out[x] += sign * n
        return out
    return Counter({(e,): 1})


def _key(e: object, place: Mapping[Sym, int]) -> str:
    """A text of ``e`` that names symbols by their place of declaration."""
    if isinstance(e, Sym):
        return f"s{place.get(e, 9999):04d}"
    if isinstance(e, tuple):
        return "(" + ",".join(_key(x, place) for x in e) + ")"
    if isinstance(e, Expr):
        parts = [_key(v, place) for k, v in values_of(e) if k != "spelling"]
        return f"{type(e).__name__}[{','.join(parts)}]"
    return str(e)


def _wrapped(v: int, t: Scalar) -> int:
    v &= (1 << t.bits) - 1
    return v - (1 << t.bits) if t.is_signed and v >> (t.bits - 1) else v


def bounded(e: Expr, largest: Mapping[Sym, int] = MappingProxyType({})) -> int | None:
    """The largest value of an expression of block-level indices, literals and variables, all of it at least 0; None for
    others. ``largest``: of variables that are never below 0."""
    if isinstance(e, Var):
        return largest.get(e.sym)
    if isinstance(e, Const):
        return int(e.value) if not isinstance(e.value, float) and e.value >= 0 else None
    if isinstance(e, HwIndex):
        return LARGEST.get((e.level, e.axis))
    if isinstance(e, Cast) and e.style != "bit" and _int(e.to) and _int(e.x.type):
        n = bounded(e.x, largest)
        return n if n is not None and n < 1 << (e.to.bits - 1) else None  # type: ignore[attr-defined]
    if isinstance(e, Binary) and e.op == "&" and isinstance(e.b, Const):  # whatever it is of
        return int(e.b.value) if 0 <= e.b.value < 1 << 31 else None
    if isinstance(e, Binary) and e.op in _LARGEST_OF:
        a, b = bounded(e.a, largest), bounded(e.b, largest)
        n = None if a is None or b is None else _LARGEST_OF[e.op](a, b, e.b)
        return n if n is not None and n < 1 << 31 else None
    return None


_LARGEST_OF: dict[str, Callable[[int, int, Expr], int | None]] = {
    "+": lambda a, b, _: a + b,
    "*": lambda a, b, _: a * b,
    "/": lambda a, _, by: a if isinstance(by, Const) and by.value > 0 else None,
    "%": lambda a, b, by: min(a, b) if isinstance(by, Const) and by.value > 0 else None,
}


def as_signed(e: Expr) -> Expr:
    """A :func:`bounded` expression in ``i32``, where it has the same value."""
    if isinstance(e, HwIndex | Var) or (isinstance(e, Binary) and e.op == "&"):
        return e if e.type == I32 else Cast(I32, e, "c")
    if isinstance(e, Const):
        return Const(e.value, I32)
    if isinstance(e, Cast):
        return as_signed(e.x)
    assert isinstance(e, Binary)
    return Binary(e.op, as_signed(e.a), as_signed(e.b))


__all__ = ["RING", "as_signed", "bounded", "ordered"]
