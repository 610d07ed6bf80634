"""Whether a device takes the launch of a candidate for all arguments that are promised.

A grid has at most 65,535 blocks along y and z, and what computes an extent may leave its type, at sizes that no
instance has: the launch fails, or has blocks for a part of the work. What the original risks, its rewrite may; and
how many blocks and threads there are the launcher of a rewrite tests (:mod:`ktc.backends.launchers.launch_geometry`).
Intervals say so of most launches; where a guard of the launcher is needed to see it, z3 is asked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.launch_limits import limits
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Var
from ktc.ir.null_pointers import decided, known_nulls
from ktc.ir.sequences import launch_kernels
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_expr
from ktc.ir.types import I64
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import map_expr, substitute_expr, used, walk_expr
from ktc.search.verification.verdict import Failure

from . import smt
from .intervals import Interval, Scope, is_whole

WRAPS = "wraps"


@by_identity(8, subjects=2)
def with_launch(kernel: Kernel, original: Kernel) -> Kernel:
    """``kernel`` with what every launch of ``original`` keeps to as assumptions: at other arguments there is nothing
    that it has to do. A grid has 65,535 blocks at most along y: where each row has one, there are no more rows."""
    own = {p.sym.name: p.sym for p in kernel.params}
    facts = []
    for launch in launch_kernels(original):
        for _, extents, most in limits(launch):
            asked = {s for e in extents for s in used(e)}
            if asked and all(s.name in own for s in asked):
                mine = {s: Var(own[s.name]) for s in asked}
                product = reduce(lambda a, b: Binary("*", a, b), (_wide(substitute_expr(e, mine)) for e in extents))
                facts.append(Assume(Binary("<=", product, Const(most, I64))))
    return kernel.with_(assumptions=(*kernel.assumptions, *facts)) if facts else kernel


def _wide(e: Expr) -> Expr:
    """``e`` in 64 bits, which hold what it means."""

    def on(x: Expr) -> Expr:
        if not is_whole(x.type):
            return x
        if isinstance(x, Const):
            return Const(x.value, I64)
        if isinstance(x, Cast) and is_whole(x.x.type):
            return x.x
        return replace(x, ty=I64) if isinstance(x, Call) else Cast(I64, x) if isinstance(x, Var | Cast) else x

    return map_expr(e, on)


def impossible(original: Kernel, candidate: Kernel, names: Mapping[str, Interval]) -> Failure | str:
    """A launch that fails for arguments in these ranges where the original's does not, or what may be one; '' if there
    is none."""
    said = (_impossible(original, k, names) for k in launch_kernels(candidate))
    return next((x for x in said if x), "")


def _impossible(original: Kernel, candidate: Kernel, names: Mapping[str, Interval]) -> Failure | str:
    """That of one launch of a candidate."""
    found = _exceeded(candidate, names)
    theirs = {what for k in launch_kernels(original) for what in _exceeded(k, names)} if found else set()
    for what, (e, args) in found.items():
        if what in theirs or _is_tested(candidate, what, names):
            continue
        if args is not None:
            message = f"{what} of the launch, {print_expr(e)}: {_said(candidate, what)}"
            return Failure("launch", message, args)
        return f"it is not known whether {what} of the launch, {print_expr(e)}, is one that a device takes"
    return ""


def _is_tested(kernel: Kernel, what: str, names: Mapping[str, Interval]) -> bool:
    """Whether the launcher tests that limit and runs the original beyond it: of a launch that passes have made, where
    more than one size is meant. At the sizes of a scenario the kernel itself has to run."""
    extents = next((extents for name, extents, _ in limits(kernel) if name == what), ())
    asked = {s for e in extents for s in used(e)}
    several = any(low != high for low, high in (names[s.name] for s in asked if s.name in names))
    return bool(kernel.trace and extents) and several and asked <= {p.sym for p in kernel.params}


def _said(kernel: Kernel, what: str) -> str:
    most = next((n for name, _, n in limits(kernel) if name == what), 0)
    return f"more than {most}" if most else "it leaves its type"


def _exceeded(kernel: Kernel, names: Mapping[str, Interval]) -> dict[str, tuple[Expr, dict[str, int] | None]]:
    """Limits that may be exceeded, as far as anything is known: by which expression, and arguments at the ends of their
    ranges that show it, where there are such. Only where there are none a proof is looked for, which may take long."""
    found = {what: (e, _exceeding(kernel, what, names)) for what, e in _out_of_range(kernel, names).items()}
    if all(low == high for low, high in names.values()):
        return found
    return {what: (e, a) for what, (e, a) in found.items() if a is not None or not _proved(kernel, names, what, e)}


def _out_of_range(kernel: Kernel, names: Mapping[str, Interval]) -> dict[str, Expr]:
    """Limits that intervals do not show to be kept."""
    scope = Scope(kernel, {}, dict(names))
    found: dict[str, Expr] = {}
    for e in launch_exprs(kernel):
        scope.of(e)
        if scope.wraps:
            found.setdefault(WRAPS, e)
            scope.wraps.clear()
    for what, extents, most in limits(kernel):
        ranges = [scope.of(e) for e in extents]
        if all(ranges) and math.prod(r[1] for r in ranges if r) > most:
            found[what] = extents[0]
    return found


def _exceeding(kernel: Kernel, what: str, names: Mapping[str, Interval]) -> dict[str, int] | None:
    """Arguments at the ends of their ranges for which the kernel itself runs, and that limit is exceeded."""
    for args in _corners(kernel, names):
        if _guards_hold(kernel, args) and what in _out_of_range(kernel, {n: (v, v) for n, v in args.items()}):
            return dict(args)
    return None


def _proved(kernel: Kernel, names: Mapping[str, Interval], what: str, e: Expr) -> bool:
    """Whether that limit is kept under what the launcher checks."""
    context = smt.Context(kernel)
    context.learn_ranges(names)
    if what == WRAPS:
        parts = [x for x in walk_expr(e) if isinstance(x, Binary) and is_whole(x.type)]
        return all(context.fits(x, x.type) for x in parts)
    extents, most = next((extents, most) for name, extents, most in limits(kernel) if name == what)
    return context.proves(math.prod(context.of(e) for e in extents) <= most)


def _corners(kernel: Kernel, names: Mapping[str, Interval]) -> Iterator[dict[str, int]]:
    """Arguments at the ends of their ranges, the largest first."""
    used = [p.sym.name for p in kernel.params if p.sym.name in names]
    ends = itertools.product(*((names[n][1], names[n][0]) for n in used))
    yield from (dict(zip(used, values)) for values in itertools.islice(ends, 64))


def _guards_hold(kernel: Kernel, args: Mapping[str, int]) -> bool:
    env = kernel.environment(dict(args))
    nulls = known_nulls(kernel)
    return all(evaluate(decided(a.expr, nulls), env) not in (False, 0, None) for a in kernel.assumptions)


__all__ = ["impossible"]
