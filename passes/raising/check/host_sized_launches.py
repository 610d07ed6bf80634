"""Launches whose block the host sizes: what their sources take for granted, and the forms at a known size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ktc.ir.arith import REWRITES, facts_of
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.arith.simplification import simplified
from ktc.ir.fold import cast, evaluate, i32, mul, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Call,
    Const,
    Expr,
    Level,
    Par,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
)
from ktc.ir.text import print_expr
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import map_body, map_expr, rename, substitute, substitute_expr, used, walk, walk_expr
from ktc.passes.raising.recognise.statement_kinds import HOST_THREADS
from ktc.passes.shared.equal_integers import same


def block_facts(kernel: Kernel, launch: Launch) -> list[tuple[Assume, str]]:
    """What sources take for granted of a block whose size the host chooses, weakest first, and how to say it.

    A shuffle over half a warp, or a tree over a number of threads that is no power of two, computes something else
    than it was written for. The launcher checks what a raise assumed.
    """
    n, size = _chosen(kernel, launch)
    if n is None:
        return []
    whole = _whole_grid(launch, n)
    if not isinstance(size, Var):  # so many groups of threads, each of a size that the source knows
        return [] if whole is None else [(Assume(whole[0], "guessed"), whole[1])]
    t = n.type
    assert isinstance(t, Scalar)
    warps = Binary("==", Binary("%", size, Const(WARP, t)), Const(0, t))
    power = Binary("==", Binary("&", size, Binary("-", size, Const(1, t))), Const(0, t))
    more = Binary(">=", size, Const(2, t))
    first = [] if whole is None else [
        (Assume(Binary("&&", warps, whole[0]), "guessed"), f"'{n.name}' is a multiple of {WARP}, and {whole[1]}")
    ]  # fmt: skip
    return [
        *first,
        (Assume(warps, "guessed"), f"'{n.name}' is a multiple of {WARP}"),
        (Assume(Binary("&&", more, power), "guessed"), f"'{n.name}' is a power of two, at least 2"),
        (Assume(Binary("&&", warps, power), "guessed"), f"'{n.name}' is a power of two and a multiple of {WARP}"),
    ]


def _chosen(kernel: Kernel, launch: Launch) -> tuple[Sym | None, Expr]:
    """The parameter that the one open extent of the block is made of, and that extent."""
    params = {p.sym for p in kernel.params}
    open_ = [e for e in map(without_index_casts, launch.block) if used(e)]
    chosen = used(open_[0]) if len(open_) == 1 else frozenset()
    return (*chosen, open_[0]) if len(chosen) == 1 and chosen <= params else (None, i32(1))  # type: ignore[return-value]


def _whole_grid(launch: Launch, n: Sym) -> tuple[Expr, str] | None:
    """That no block is missing for the last items, where the host divides items by what a block of ``n`` threads takes
    and drops the rest: ``rows / (n / 32)`` blocks, a row a warp. What is computed does not depend on ``n`` then."""
    parts = [e for e in map(without_index_casts, launch.grid)
             if isinstance(e, Binary) and e.op == "/" and n in used(e.b) and n not in used(e.a)]  # fmt: skip
    if len(parts) != 1:
        return None
    (e,) = parts
    t = e.type
    assert isinstance(t, Scalar)
    of = print_expr(without_index_casts(e.b))
    fact = Binary("==", Binary("%", e.a, e.b), Const(0, t))
    return fact, f"'{print_expr(without_index_casts(e.a))}' is a multiple of '{of}'"


def with_decided_extents(kernel: Kernel, launch: Launch) -> Launch:
    """``launch`` without choices of the host that what is known of the sizes decides: ``rows < 1 ? rows : 1``."""
    extents = (*launch.grid, *launch.block)
    if not any(isinstance(x, Select | Call) for e in extents for x in walk_expr(e)):
        return launch
    facts = facts_of(kernel, REWRITES)
    gx, gy, gz, x, y, z = (_summed(simplify(simplified(e, facts))) if used(e) else e for e in extents)
    return dataclasses.replace(launch, grid=(gx, gy, gz), block=(x, y, z))


def _summed(e: Expr) -> Expr:
    """``1 + rows - 1`` as ``rows``."""
    return from_polynomial(polynomial(e), e.type) if isinstance(e, Binary) and e.op in ("+", "-") else e  # type: ignore[arg-type]


Numbers: TypeAlias = Mapping[Sym, Expr]


def numbered(kernel: Kernel, launch: Launch) -> list[tuple[Launch, Numbers]]:
    """``launch`` with a number for the size of a block that the host chooses, if it does; and that number.

    What the threads of a block do together (shuffles, trees in shared memory) is understood at a known size. A kernel
    whose result depends on the size does not pass the check, which runs the source at several.
    """
    params = {p.sym for p in kernel.params}
    chosen = params & {s for e in launch.block for s in used(e)}
    if len(chosen) != 1:
        return _computed(launch)
    return [*(_computed(launch) if _is_computed(launch) else ()), *_at_usual_size(launch, *chosen)]


def _is_computed(launch: Launch) -> bool:
    """Whether the host chooses among numbers of threads by a size: ``min(next_pow2(n), 256)``."""
    return any(isinstance(x, Select | Call) or (isinstance(x, Binary) and x.op == "|")
               for e in launch.block if used(e) for x in walk_expr(e))  # fmt: skip


def _at_usual_size(launch: Launch, n: Sym) -> list[tuple[Launch, Numbers]]:
    """``launch`` with a usual number for ``n``, the one parameter that its block is made of, and that number."""
    to = {n: _of_usual_size(launch, n)}

    def at(e: Expr) -> Expr:
        return simplify(substitute_expr(e, to))

    x, y, z = map(at, launch.block)
    shared = None if launch.dynamic_shared is None else at(launch.dynamic_shared)
    gx, gy, gz = map(at, launch.grid)
    return [(dataclasses.replace(launch, grid=(gx, gy, gz), block=(x, y, z), dynamic_shared=shared), to)]


def _of_usual_size(launch: Launch, n: Sym) -> Expr:
    assert isinstance(n.type, Scalar)
    return Const(usual_size(launch.block, n.name, {}), n.type)


def usual_size(block: Sequence[Expr], name: str, numbers: Mapping[str, int]) -> int:
    """The number for ``name`` by which a ``block`` has as many threads as most would choose, or the largest power of
    two by which it has fewer; ``numbers``: of the other names."""
    size = HOST_THREADS
    while size > 1 and math.prod(evaluate(e, {**numbers, name: size}) or 1 for e in block) > HOST_THREADS:
        size //= 2
    return size


def _computed(launch: Launch) -> list[tuple[Launch, Numbers]]:
    """``launch`` with a number in place of the one extent of its block that the host computes: ``min(n, most)``."""
    open_ = [k for k, n in enumerate(launch.block) if used(n)]
    if len(open_) != 1:
        return []
    x, y, z = (i32(HOST_THREADS) if k in open_ else n for k, n in enumerate(launch.block))
    return [(dataclasses.replace(launch, block=(x, y, z)), {})]


def of_known_size(raised: Kernel, launch: Launch) -> Kernel:
    """``raised`` spread over a number of threads where it is spread over as many as the host chooses.

    What a loop means does not depend on how it is spread, as long as all of it is: a ``seq`` level takes what may be
    left.
    """
    for at, to in numbered(raised, launch):
        sizes = {n: m for n, m in zip(launch.block, at.block) if n != m}

        def number(n: Expr, to: Numbers = to, sizes: Mapping[Expr, Expr] = sizes) -> Expr:
            return sizes.get(n) or simplify(substitute_expr(n, to))

        def known(s: Stmt, number: Callable[[Expr], Expr] = number) -> Stmt:
            if not isinstance(s, Par | Reduce):
                return s
            levels = tuple(lv if lv.n is None else dataclasses.replace(lv, n=number(lv.n)) for lv in s.dist)
            rest = () if levels == s.dist or any(lv.n is None for lv in levels) else (Level("seq"),)
            return dataclasses.replace(s, dist=(*levels, *rest))

        return raised.with_(body=map_body(raised.body, known))
    return raised


def with_whole_ranges(kernel: Kernel, body: Body, numbers: Numbers) -> Body:
    """``body`` with ends of loops that follow from what ``kernel`` assumes, at these ``numbers``: with whole blocks,
    ``8 * (rows / 8)`` is ``rows``."""
    given = [simplify(substitute_expr(a.expr, numbers)) for a in kernel.assumptions if used(a.expr) & numbers.keys()]
    if not given:
        return body
    facts = facts_of(kernel.with_(assumptions=tuple(Assume(e, "guessed") for e in given)), REWRITES)

    def whole(e: Expr) -> Expr:
        """``n * (x / n)`` as ``x``, where ``n`` divides it."""
        if not isinstance(e, Binary) or e.op != "*":
            return e
        for part, n in ((without_index_casts(e.a), e.b), (without_index_casts(e.b), e.a)):
            if isinstance(part, Binary) and part.op == "/" and same(part.b, n) and facts.divides(part.b, part.a):
                return cast(part.a, e.type)  # type: ignore[arg-type]
        return e

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, hi=map_expr(s.hi, whole)) if isinstance(s, Par | Reduce) else s

    return map_body(body, on)


def with_launched_ranges(body: Body, launch: Launch, known: Launch) -> Body:
    """``body``, a form at the ``known`` size of the block, with loops over as many elements as the threads of
    ``launch`` take: four each of ``n / 4`` threads are ``n / 4 * 4``."""
    open_ = [k for k, n in enumerate(launch.block) if used(n)]
    threads = evaluate(known.block[open_[0]], {}) if len(open_) == 1 else None
    if threads is None:
        return body
    axis, size = "xyz"[open_[0]], launch.block[open_[0]]

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par | Reduce):
            return s
        numbers = [None if lv.n is None else evaluate(lv.n, {}) for lv in s.dist]
        at = next((k for k, lv in enumerate(s.dist) if lv.kind == "thread" and lv.axis == axis), None)
        if at is None or numbers[at] != threads or None in numbers or evaluate(s.hi, {}) != math.prod(numbers):  # type: ignore[arg-type]
            return s
        each = math.prod(n for k, n in enumerate(numbers) if k != at and n is not None)
        hi = cast(simplify(mul(size, i32(int(each)))), s.hi.type)  # type: ignore[arg-type]
        return dataclasses.replace(s, hi=hi, dist=(*s.dist[: at + 1], Level("seq")))

    return map_body(body, on)


def at_numbers(kernel: Kernel, numbers: Numbers) -> Kernel:
    """``kernel`` with ``numbers`` wherever it asks for the size of its block by the parameter that the host passes."""
    return kernel.with_(body=substitute(kernel.body, numbers)) if numbers else kernel


def with_numbers(body: Body, numbers: Numbers) -> Body:
    """``body`` with arrays whose size is one of ``numbers`` of that size."""
    arrays: dict[Sym, Sym] = {}
    for s in walk(body) if numbers else ():
        t = s.sym.type if isinstance(s, Alloc) else None
        if isinstance(t, Array) and any(used(n) & numbers.keys() for n in t.shape):
            shape = tuple(simplify(substitute_expr(n, numbers)) for n in t.shape)
            arrays[s.sym] = fresh(s.sym.name, dataclasses.replace(t, shape=shape))  # type: ignore[attr-defined]
    return rename(body, arrays) if arrays else body


__all__ = [
    "at_numbers",
    "block_facts",
    "numbered",
    "of_known_size",
    "with_launched_ranges",
    "with_numbers",
    "with_whole_ranges",
]
