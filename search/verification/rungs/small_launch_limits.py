"""Branches of a launcher that no instance of bounded size takes: ``k > 65535`` blocks, split over two axes.

What raising makes of such a launch has the launcher's own conditions in the kernel. They are taken both ways in a
launch whose limit is made small: the number that stands in the launch becomes a small one, in the original and in the
candidate alike, and the two are compared on the usual instances. A candidate that only holds below the limit differs
there, and one that no longer names the limit as the launch does stays unexercised.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import simplify
from ktc.ir.interp import compare, run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import COMPARISONS, Binary, Cast, Const, Expr
from ktc.ir.text import print_expr
from ktc.ir.types import Scalar
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import all_exprs, map_body, map_expr, walk_expr
from ktc.search.verification.job import Job

LARGE = 256
"""Limits from which on no usual instance comes to them."""

SMALL = (2, 3)
"""What a limit is made: two values, for sizes on both sides of each."""

MOST_RUNS = 8
"""Instances that are compared at a small limit."""


def settled(job: Job, conditions: Sequence[Expr]) -> frozenset[int]:
    """Those of ``conditions`` in the candidate, by ``id``, that are the launcher's own and were shown both ways in a
    launch of a small limit, in which original and candidate did the same."""
    wanted = _of_the_launch(job.original, job.candidate, conditions)
    named = definitions(job.candidate.body)
    expanded = {key: [expand(e, named) for e in es] for key, es in wanted.items()}
    limits = {n for es in expanded.values() for e in es for n in _limits(e)}
    if not wanted or not limits:
        return frozenset()
    seen: dict[str, int] = defaultdict(int)
    for small in SMALL:
        numbers = {n + k: small + k for n in limits for k in (-1, 0, 1)}
        original, candidate = (_with_numbers(k, numbers) for k in (job.original, job.candidate))
        keys = {_spelled(_numbered(es[0], numbers)): key for key, es in expanded.items()}
        known = {at: keys[text] for at, text in _texts(candidate).items() if text in keys}
        for instance in sorted(job.instances, key=lambda i: sum(i.sizes.values()))[-MOST_RUNS:]:
            try:
                args = job.oracle.inputs(instance.sizes, "exact")
                want, got = (run(k, args, domain=job.domains[0]) for k in (original, candidate))
            except KtcError:
                continue
            if not want.ok or any(f.kind == "fuel" for f in got.findings):
                continue  # nothing to compare with, or too long
            if not got.ok or compare(want, got, job.domains[0], 0) is not None:
                return frozenset()
            for at, how in got.outcomes.items():
                if at in known:
                    seen[known[at]] |= how
    return frozenset(id(e) for key, es in wanted.items() if seen[key] == 3 for e in es)


def _of_the_launch(original: Kernel, candidate: Kernel, conditions: Sequence[Expr]) -> dict[str, list[Expr]]:
    """Those of ``conditions`` that stand in the original's launch as well, by how they read there."""
    theirs = {_spelled(x) for e in launch_exprs(original) for x in walk_expr(e)}
    named = definitions(candidate.body)
    out: dict[str, list[Expr]] = {}
    for e in conditions:
        if (key := _spelled(expand(e, named))) in theirs:
            out.setdefault(key, []).append(e)
    return out


def _spelled(e: Expr) -> str:
    """``e`` as text, without conversions: those of a launch are the host's."""
    return print_expr(simplify(map_expr(e, lambda x: x.x if isinstance(x, Cast) else x)))


def _limits(e: Expr) -> Iterator[int]:
    """Large numbers that ``e`` compares with."""
    for x in walk_expr(e):
        if isinstance(x, Binary) and x.op in COMPARISONS:
            for side in (x.a, x.b):
                if isinstance(side, Const) and not isinstance(side.value, float) and side.value >= LARGE:
                    yield int(side.value)


def _texts(candidate: Kernel) -> dict[int, str]:
    named = definitions(candidate.body)
    return {id(e): _spelled(expand(e, named)) for top in all_exprs(candidate.body) for e in walk_expr(top)}


def _numbered(e: Expr, numbers: dict[int, int]) -> Expr:
    def on(x: Expr) -> Expr:
        whole = isinstance(x, Const) and isinstance(x.type, Scalar) and x.type.is_int
        return Const(numbers[int(x.value)], x.type) if whole and x.value in numbers else x  # type: ignore[attr-defined, arg-type]

    return map_expr(e, on)


def _with_numbers(kernel: Kernel, numbers: dict[int, int]) -> Kernel:
    """``kernel`` with other numbers for some, in its launch and its body."""
    launch = kernel.launch
    assert launch is not None
    x, y, z = (_numbered(e, numbers) for e in launch.grid)
    bx, by, bz = (_numbered(e, numbers) for e in launch.block)
    shared = launch.dynamic_shared
    smaller = dataclasses.replace(
        launch, grid=(x, y, z), block=(bx, by, bz),
        dynamic_shared=None if shared is None else _numbered(shared, numbers),
    )  # fmt: skip
    return kernel.with_(launch=smaller, body=map_body(kernel.body, lambda s: s, lambda e: _numbered(e, numbers)))


__all__ = ["settled"]
