"""Buffers of which each element is the stride of one dimension, ``s[0] * n + s[1] * c + s[2] * y + s[3] * x``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Load, Sym, Var
from ktc.ir.types import Ptr, scalar_of

from ..given_values import definitions, spelled_out
from .kept_below import bounds, loads, products

MOST = 6
"""How many dimensions tensors have at most."""


def spelled_strides(k: Kernel) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Buffers of which each element is the stride of one dimension, ``s[0] * n + s[1] * c + s[2] * y + s[3] * x``, as
    formulas: those of elements that lie one after the other, where the kernel says how long all dimensions are."""
    params, given = {p.sym for p in k.params}, definitions(k)
    below = dict(reversed(list(bounds(k, params, given))))  # the first that is said of each
    indices: dict[str, dict[int, set[Sym]]] = {}
    spoilt = set[str]()
    by = {id(x): e for e in products(k) for x in (without_casts(e.a), without_casts(e.b)) if isinstance(x, Load)}
    for x in (x for x in loads(k) if x.buffer in params):
        at, e = evaluate(x.index[0], {}), by.get(id(x))
        other = None if e is None else without_casts(e.b if without_casts(e.a) is x else e.a)
        if at is None or not isinstance(other, Var) or not 0 <= at < MOST or not _is_whole(x.buffer):
            spoilt.add(x.buffer.name)
        else:
            indices.setdefault(x.buffer.name, {}).setdefault(int(at), set()).add(other.sym)
    for buffer, by_place in indices.items():
        places = [by_place.get(n, set()) for n in range(max(by_place) + 1)]
        extents = [_extent(next(iter(mine)), below, given) if len(mine) == 1 else "" for mine in places]
        if buffer not in spoilt and len(places) > 1 and all(extents[1:]):
            yield buffer, tuple(" * ".join(extents[d + 1 :]) or "1" for d in range(len(places)))


def _extent(v: Sym, below: Mapping[Sym, str], given: Mapping[Sym, list[Expr]]) -> str:
    """The parameter that ``v`` stays below, as a guard or a remainder says; '' if none does."""
    if v in below:
        return below[v]
    rest = spelled_out(Var(v), given)
    by = spelled_out(rest.b, given) if isinstance(rest, Binary) and rest.op == "%" else None
    return by.sym.name if isinstance(by, Var) else ""


def _is_whole(buffer: Sym) -> bool:
    return isinstance(buffer.type, Ptr) and scalar_of(buffer.type).is_int


__all__ = ["spelled_strides"]
