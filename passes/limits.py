"""What a distribution may not ask for, whichever pass wrote it: the script chose it, so the script is refused.

An axis used twice in one nest, more threads than a block has, vectors that no access moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Expr, Knob, Par, Reduce, bodies
from ktc.ir.uniformity import THREAD_LEVELS
from ktc.ir.verifier import MAX_BLOCK_THREADS
from ktc.ir.verify_parallel import check_distribution

from .base import Refused

Nest = tuple[Par | Reduce, ...]
VECTOR_SIZES = frozenset({1, 2, 4, 8, 16})
"""Elements of one access: powers of two, 16 bytes of the narrowest type at most."""


def unsound_distribution(kernel: Kernel) -> Refused | None:
    """The first distribution of ``kernel`` that cannot be lowered as it stands, as a refusal."""
    return next((r for nest in nests(kernel.body) for r in _problems(kernel, nest)), None)


def nests(body: Body, outer: Nest = ()) -> Iterator[Nest]:
    """Every parallel loop with the parallel loops around it, outermost first."""
    for s in body:
        inner = (*outer, s) if isinstance(s, Par | Reduce) else outer
        if inner is not outer:
            yield inner
        for b in bodies(s):
            yield from nests(b, inner)


def _problems(kernel: Kernel, nest: Nest) -> Iterator[Refused]:
    loop = nest[-1]
    locs = (loop.loc,) if loop.loc else ()
    for _, message in check_distribution(loop, nest[:-1]):
        yield Refused("E-DIST-NEST", message, locs, "give the other loop of the nest another axis first")
    for level in loop.dist:
        bad = sorted(_values(kernel, level.n) - VECTOR_SIZES) if level.kind == "vec" and level.n is not None else []
        if bad:
            yield Refused(
                "E-DIST-VEC", f"'{loop.var.name}': no access moves {bad[0]} elements", locs, "1, 2, 4, 8 or 16"
            )
    threads = 1
    for level in (lv for s in nest for lv in s.dist if lv.kind in THREAD_LEVELS and lv.n is not None):
        threads *= min(_values(kernel, level.n), default=1)
    if threads > MAX_BLOCK_THREADS:
        why = f"'{loop.var.name}' needs blocks of at least {threads} threads; the limit is {MAX_BLOCK_THREADS}"
        yield Refused("E-DIST-THREADS", why, locs, "fewer threads on one of the axes")


def _values(kernel: Kernel, size: Expr | None) -> set[int]:
    """What ``size`` can be, when it is a number or a knob; empty when it depends on more."""
    if isinstance(size, Knob):
        knob = next((k for k in kernel.knobs if k.name == size.name), None)
        return set() if knob is None else {knob.value} if knob.value is not None else set(knob.domain)
    value = None if size is None else evaluate(size, {})
    return set() if value is None else {int(value)}
