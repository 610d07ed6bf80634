"""What a distribution may not ask for, whichever pass wrote it: the script chose it, so the script is refused.

An axis used twice in one nest, more threads than a block has, vectors that no access moves, ranges that interleaved
iterations do not share.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.order import places
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.loop_extents import length
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import MAX_BLOCK_THREADS
from ktc.ir.nodes import Body, Decl, Expr, Knob, Par, Reduce, Scan, bodies
from ktc.ir.text import print_expr
from ktc.ir.verifier.parallel_rules import check_distribution
from ktc.ir.walk import used, walk

from .named_loops import narrowest_element
from .refusals import Refused

Nest = tuple[Par | Reduce | Scan, ...]
VECTOR_SIZES = frozenset({1, 2, 4, 8, 16})
"""Elements of one access, as far as 16 bytes hold them."""


def unsound_distribution(kernel: Kernel) -> Refused | None:
    """The first distribution of ``kernel`` that cannot be lowered as it stands, as a refusal."""
    found = (r for nest in nests(kernel.body) for r in _problems(kernel, nest))
    return next(found, None) or _unchecked(kernel)


def _unchecked(kernel: Kernel) -> Refused | None:
    """Assumptions are checked by the launcher, which knows parameters and knobs, and no index of a loop."""
    params = {p.sym for p in kernel.params}
    for a in kernel.assumptions:
        inside = used(a.expr) - params
        if inside:
            why = f"it would rest on {print_expr(a.expr)}, and '{min(s.name for s in inside)}' is unknown at launch"
            return Refused("E-DIST-UNCHECKED", why, hint="leave the last level open, or change this loop before tiling")
    return None


def nests(body: Body, outer: Nest = ()) -> Iterator[Nest]:
    """Every parallel loop with the parallel loops around it, outermost first."""
    for s in body:
        inner = (*outer, s) if isinstance(s, Par | Reduce | Scan) else outer
        if inner is not outer:
            yield inner
        for b in bodies(s):
            yield from nests(b, inner)


def _problems(kernel: Kernel, nest: Nest) -> Iterator[Refused]:
    loop = nest[-1]
    locs = places(loop)
    for _, message in check_distribution(loop, nest[:-1]):
        yield Refused("E-DIST-NEST", message, locs, "give the other loop of the nest another axis first")
    if isinstance(loop, Scan):
        return  # its own pass has looked at its levels
    widest = 16 // narrowest_element(loop)
    for level in loop.dist:
        sizes = _values(kernel, level.n) if level.kind == "vec" else set()
        bad = sorted(sizes - VECTOR_SIZES) or [v for v in [min(sizes, default=1)] if v > widest]
        if bad:
            why = f"'{loop.var.name}': no 16-byte access moves {bad[0]} of its elements"
            yield Refused("E-DIST-VEC", why, locs, f"a power of two up to {widest}")
    yield from _ragged(kernel, loop)
    threads = 1
    for level in (lv for s in nest for lv in s.dist if lv.kind in THREAD_LEVELS and lv.n is not None):
        threads *= min(_values(kernel, level.n), default=1)
    if threads > MAX_BLOCK_THREADS:
        why = f"'{loop.var.name}' needs blocks of at least {threads} threads; the limit is {MAX_BLOCK_THREADS}"
        yield Refused("E-DIST-THREADS", why, locs, "fewer threads on one of the axes")


def _ragged(kernel: Kernel, loop: Par | Reduce) -> Iterator[Refused]:
    """Interleaving iterations needs the parallel loops inside to be equally long in all of them."""
    if not any(lv.kind in ("vec", "unroll") for lv in loop.dist):
        return
    own = {loop.var}
    facts: Facts | None = None
    for s in walk(loop.body):
        if isinstance(s, Decl) and s.init is not None and used(s.init) & own:
            own.add(s.sym)
        if isinstance(s, Par | Reduce) and (used(s.lo) | used(s.hi)) & own:
            facts = facts or facts_of(kernel, REWRITES)
            if facts.symbols.steady(s.lo) and not used(length(s.lo, s.hi, facts)) & own:
                continue  # lowering counts it from 0
            why = f"the range of '{s.var.name}' depends on '{loop.var.name}', whose iterations are interleaved"
            locs = places(s)
            yield Refused("E-DIST-RAGGED", why, locs, f"no vec or unroll level on '{loop.var.name}'")


def _values(kernel: Kernel, size: Expr | None) -> set[int]:
    """What ``size`` can be, when it is a number or a knob; empty when it depends on more."""
    if isinstance(size, Knob):
        knob = next((k for k in kernel.knobs if k.name == size.name), None)
        return set() if knob is None else {knob.value} if knob.value is not None else set(knob.domain)
    value = None if size is None else evaluate(size, {})
    return set() if value is None else {int(value)}
