"""What sizes are whole multiples of: numbers that a kernel or its launch divides them by.

``C / G`` with 32 groups is nothing below 32 channels, ``scales[k / 128 * N + n]`` has one row of scales below 128, and
``launch(x, d / 4)`` leaves a rest of no use. Probes at other sizes do not see what the kernel is for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Call, Const, Expr, For, If, Select, Sym, Var, While
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, used, walk, walk_expr

from .bounding import values
from .given_values import spelled_out, symbols_behind

MOST = 1024
"""A larger divisor is a number of its own, no group of elements."""

SEEN_ANYWAY = 32
"""Groups of so few elements are passed by the sizes of any probe."""


def grains(k: Kernel, fixed: Mapping[str, int], sources: Mapping[Sym, Sequence[Expr]]) -> dict[str, int]:
    """The sizes, of the kernel or its host code, that are divided by a number themselves, with that number (the least
    common multiple of several). ``fixed``: parameters that have one value; ``sources``: what variables are given."""
    out: dict[str, int] = {}
    fixed = _constants(sources) | {**fixed}
    host = [*(e for _, e in k.launch.passed), *k.launch.grid, *k.launch.block] if k.launch is not None else []
    divisions = [*_divisions(all_exprs(k.body), fixed, sources), *_divisions(host, fixed, {}, packed=False)]
    for e, by in (*divisions, *_covered(k, divisions, sources)):
        whole = spelled_out(e, sources)
        if isinstance(whole, Var) and whole.sym not in sources and whole.sym.name not in fixed:
            both = math.lcm(out.get(whole.sym.name, 1), by)
            out[whole.sym.name] = both if both <= MOST else by
    return out


def _covered(
    k: Kernel, divisions: Sequence[tuple[Expr, int]], sources: Mapping[Sym, Sequence[Expr]]
) -> Iterator[tuple[Expr, int]]:
    """(size, number) of the sizes that tiles or blocks of so many elements cover, ``(n + 127) / 128``, and that nothing
    is compared with: no element of the last tile is left out."""
    rounded = {e: by for e, by in divisions if _rounds_up(e, by)}
    compared = set[Sym]()
    for side, _ in bounds(k):
        inside = {s for e in walk_expr(side) if e in rounded for s in used(e)}
        compared |= symbols_behind([side], sources) - inside
    for e in all_exprs(k.body):
        if isinstance(e, Select) or (isinstance(e, Call) and e.fn in ("min", "max")):
            compared |= symbols_behind([e.cond] if isinstance(e, Select) else e.args, sources)
    for e, by in rounded.items():
        (size,) = used(e)
        if not symbols_behind([Var(size)], sources) & compared:
            yield Var(size), by


def _rounds_up(e: Expr, by: int) -> bool:
    """Whether ``e`` is a variable and ``by - 1``."""
    if len(used(e)) != 1 or isinstance(e, Var):
        return False
    (name,) = (s.name for s in used(e))
    return [evaluate(e, {name: n}) for n in (0, 1, 64)] == [by - 1, by, by + 63]


def groups(k: Kernel, fixed: Mapping[str, int], sources: Mapping[Sym, Sequence[Expr]]) -> dict[str, int]:
    """The parameters that bound what is divided by a large number, with the largest: only sizes of several groups show
    more than one, unless the bound is that many of such groups. Digits of what is loaded are no groups of elements."""
    params = {p.sym for p in k.params}
    sides = list(bounds(k))
    fixed = _constants(sources) | {**fixed}
    out: dict[str, int] = {}
    for e, by in _divisions(all_exprs(k.body), fixed, sources):
        variables = values(e, sources) - params
        if by <= SEEN_ANYWAY:
            continue
        for index, bound in sides:
            if symbols_behind([index], sources) & variables:
                for s in symbols_behind([bound], sources) & params:
                    if not _passes(spelled_out(bound, sources), s, params, by):
                        out[s.name] = max(out.get(s.name, 1), by)
    return out


def _constants(sources: Mapping[Sym, Sequence[Expr]]) -> dict[str, int]:
    """The variables of the kernel that are a number: ``const int group_size = 128;``."""
    numbers = ((s.name, without_casts(given[0])) for s, given in sources.items() if len(given) == 1)
    return {n: int(e.value) for n, e in numbers if isinstance(e, Const) and isinstance(e.value, int)}


def _passes(bound: Expr, s: Sym, params: set[Sym], by: int) -> bool:
    """Whether ``bound`` is more than one group of ``by`` elements at small sizes as well: ``n * 676`` at ``n`` of 2."""
    n = evaluate(bound, {p.name: 2 if p == s else 1 for p in params})
    return n is not None and n > by


def _divisions(
    exprs: Iterable[Expr], fixed: Mapping[str, int], sources: Mapping[Sym, Sequence[Expr]], packed: bool = True
) -> Iterator[tuple[Expr, int]]:
    """(dividend, divisor) of the integer divisions by a number above 1; of ``n / 4 / 128`` also ``n`` by 512, and where
    quotients are ``packed``, of ``(n / 4 + 127) / 128``: blocks are rounded up too, and leave out what there is not."""
    for e in (x for y in exprs for x in walk_expr(y)):
        whole, n = e, 1
        while (by := _divisor(whole, fixed)) is not None and 1 < n * by <= MOST:
            assert isinstance(whole, Binary)
            whole, n = without_casts(whole.a), n * by
            yield whole, n
            whole = spelled_out(_rounded_up(whole, by) if packed else whole, sources)


def _rounded_up(e: Expr, by: int) -> Expr:
    """``x`` of ``x + (by - 1)``, which is divided by ``by``, however that is added up; ``e`` itself if it is none."""
    x, added = e, 0
    while isinstance(x, Binary) and x.op in "+-" and isinstance(n := without_casts(x.b), Const):
        added += int(n.value) if x.op == "+" else -int(n.value)
        x = without_casts(x.a)
    return x if added == by - 1 else e


def _divisor(e: Expr, fixed: Mapping[str, int]) -> int | None:
    """The number above 1 that an integer division divides by."""
    if not isinstance(e, Binary) or e.op not in ("/", ">>") or not isinstance(e.type, Scalar) or not e.type.is_int:
        return None
    by = without_casts(e.b)
    n = by.value if isinstance(by, Const) else fixed.get(by.sym.name) if isinstance(by, Var) else None
    n = 1 << n if e.op == ">>" and isinstance(n, int) and 0 <= n < 11 else n
    return n if isinstance(n, int) and n > 1 else None


def bounds(k: Kernel) -> Iterator[tuple[Expr, Expr]]:
    """Both sides of each comparison that decides what runs, either way round."""
    for s in walk(k.body):
        if isinstance(s, If | For | While):
            for e in walk_expr(s.cond):
                if isinstance(e, Binary) and e.op in COMPARISONS:
                    yield from ((e.a, e.b), (e.b, e.a))
