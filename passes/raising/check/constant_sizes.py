"""Sizes that are constants of the source: ``constexpr int N = 10000; ... for (int j = 0; j < N; ++j)``.

Runs of such a kernel are as long as its constants make them, and small sizes do not shorten them. It is raised with a
parameter in place of each such constant: what is the same for small numbers of rounds and several of them is the same
as a form of the loop, and the constant is one of its sizes. Where a macro or a template argument gave the number, all
of its uses are the parameter's; what the front-end computed from it (``N - 1``, ``N * N``, the blocks that cover it) is
computed from the parameter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations_with_replacement

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import add, cast, cdiv, evaluate, is_const, mul, simplify, sub
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import COMPARISONS, Binary, Const, Expr, For, HwIndex, If, Sym, Var, While, fresh
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import all_exprs, map_body, walk, walk_expr
from ktc.passes.raising.raise_report import Region
from ktc.passes.raising.recognise.coordinates import AXES

from .huge_launches import Numbers
from .small_launches import least_statements

LONG = 300
"""Statements of a run at the smallest sizes from which on constants are looked at."""

MANY = 30_000
"""Rounds from which on a run is long even where threads share them."""

FEW_ROUNDS = 24
"""Loops of so many rounds stay as they are: warps, trees, tiles."""

SCALING = frozenset({"*", "/", "<<", ">>"})


def of_any_size(kernel: Kernel) -> tuple[Kernel, Numbers] | None:
    """``kernel`` with a parameter for each constant that makes its loops long, and these constants; None where runs are
    short at small sizes, or long for another reason."""
    found = set(rounds(kernel))
    is_long = bool(found) and (max(found) > MANY or least_statements(kernel) > LONG)
    return with_sizes(kernel, found) if is_long else None


def with_sizes(kernel: Kernel, constants: Iterable[int], derived: bool = True) -> tuple[Kernel, Numbers] | None:
    """``kernel`` with a parameter for each of its ``constants``, and these constants; None if there are none.
    ``derived``: what sources compute from such constants is computed from the parameters."""
    assert kernel.launch is not None
    sizes = {n: fresh(f"size_{n}", I32) for n in sorted(set(constants), reverse=True)}
    if not sizes:
        return None
    known = dict(_derived(sizes) if derived else ()) | {n: Var(s) for n, s in sizes.items()}
    threads = {id(e) for e in _threads_before(kernel)}

    def general(e: Expr) -> Expr:
        if isinstance(e, Const) and isinstance(t := e.type, Scalar) and t.is_int and t.bits >= 32 and e.value in known:
            return e if id(e) in threads else cast(known[int(e.value)], t)
        return e

    body = map_body(kernel.body, lambda s: s, general)
    x, y, z = (_blocks(n, b, sizes, kernel) for n, b in zip(kernel.launch.grid, kernel.launch.block))
    launch = dataclasses.replace(kernel.launch, grid=(x, y, z))
    params = tuple(Param(s, range=(1, n), host=True) for n, s in sizes.items())
    numbers = {s: Const(n, I32) for n, s in sizes.items()}
    return kernel.with_(body=body, params=(*kernel.params, *params), launch=launch), numbers


def _threads_before(kernel: Kernel) -> Iterator[Expr]:
    """What block indices are multiplied by to number threads: the extent of a block, whatever else has that number."""
    assert kernel.launch is not None
    extents = {a: evaluate(n, kernel.knob_values) or 0 for a, n in zip(AXES, kernel.launch.block)}
    for e in all_exprs(kernel.body):
        if isinstance(e, Binary) and e.op == "*":
            sides = without_index_casts(e.a), without_index_casts(e.b)
            for at, by in (sides, sides[::-1]):
                if isinstance(at, HwIndex) and at.level == "block" and is_const(by, int(extents[at.axis])):
                    yield by


def rounds(kernel: Kernel) -> Iterator[int]:
    """Constants that say how often loops go round. Those whose counter is multiplied or divided (``stride >>= 1``) go
    round few times whatever they go to."""
    named = definitions(kernel.body)
    for s in walk(kernel.body):
        if isinstance(s, For) and isinstance(s.cond, Binary) and s.cond.op in COMPARISONS and not _is_scaled(s):
            yield from _large(expand(e, named) for e in (s.cond.a, s.cond.b, s.init))
        elif isinstance(s, While):
            yield from _compared(expand(s.cond, named))


def bounds(kernel: Kernel) -> Iterator[int]:
    """Constants that say how often loops go round, and which threads have something to do."""
    named = definitions(kernel.body)
    yield from rounds(kernel)
    for s in walk(kernel.body):
        if isinstance(s, If):
            yield from _compared(expand(s.cond, named))


def _is_scaled(loop: For) -> bool:
    """Whether each round multiplies or divides the counter of ``loop``."""
    step = without_index_casts(loop.step)
    return isinstance(step, Binary) and step.op in SCALING


def _compared(cond: Expr) -> Iterator[int]:
    for e in walk_expr(cond):
        if isinstance(e, Binary) and e.op in COMPARISONS:
            yield from _large((e.a, e.b))


def _large(sides: Iterable[Expr]) -> Iterator[int]:
    for side in map(without_index_casts, sides):
        if isinstance(side, Const) and not isinstance(side.value, float) and side.value > FEW_ROUNDS:
            yield int(side.value)


MULTIPLES = (8, 6, 5, 4, 3, 2)
"""What sources multiply a size by: planes of a structure of arrays, the members of points."""

PARTS = (8, 4, 2)


def _derived(sizes: Mapping[int, Sym]) -> Iterator[tuple[int, Expr]]:
    """Numbers that sources compute from ``sizes``, and how, the likeliest last.

    A number that only happens to be one of them does no harm: at the constants of the source it is what it was.
    """
    one = Const(1, I32)
    for n, s in sizes.items():
        yield from ((n // p, Binary("/", Var(s), Const(p, I32))) for p in PARTS if n % p == 0 and n // p > FEW_ROUNDS)
        yield from ((n * k, mul(Var(s), Const(k, I32))) for k in MULTIPLES)
    for (n, s), (m, t) in combinations_with_replacement(sizes.items(), 2):
        yield n * m, mul(Var(s), Var(t))
    for n, s in sizes.items():
        yield n + 1, add(Var(s), one)
        yield n - 1, sub(Var(s), one)


def _blocks(n: Expr, block: Expr, sizes: dict[int, Sym], kernel: Kernel) -> Expr:
    """An extent of the grid, from the size that it covers or is, if there is one."""
    blocks, threads = (evaluate(e, kernel.knob_values) for e in (n, block))
    for size, s in sizes.items():
        if blocks is not None and blocks > 1 and blocks == size:
            return Var(s)
        if blocks is not None and blocks > 1 and threads is not None and blocks == -(-size // int(threads)):
            return simplify(cdiv(Var(s), block))
    return n


def said(numbers: Numbers) -> Region:
    """What was not run."""
    names = ", ".join(f"{n.value:,}" for n in numbers.values() if isinstance(n, Const))
    return Region("assumed", f"loops of {names} rounds do what shorter ones do", "the check ran shorter ones")


__all__ = ["LONG", "bounds", "of_any_size", "rounds", "said", "with_sizes"]
