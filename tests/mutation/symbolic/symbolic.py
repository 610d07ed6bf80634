"""Running two bodies for all threads of one block on symbols instead of numbers, to prove that they do the same.

What they find (variables, memory) is opaque, the same for both. Integers that are known are computed; everything
else becomes a term (:mod:`.terms`). Threads run in lockstep, a statement at a time (:mod:`.lockstep`): that every
schedule gives the same is what the sanitizer of the ladder says, so barriers must come in the same sequence in both.

Two bodies are the same where they leave the same terms in every variable and array that lives on, and in memory, and
the second touches nothing that the first does not: what is read and never used may not be there.
NaNs are left aside, as everywhere in the exact rungs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, Sym, WarpOp
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import all_exprs, assigned, declared, used_in, walk
from tests.mutation.maxima.progressions import period
from tests.mutation.zeros.formats import formats

from .effort import Effort, Lost
from .lockstep import Run
from .symbolic_values import WARP, Threads
from .terms import Term, Terms

MOST_THREADS = 1024

SAME = "{}: the same terms are left behind"
"""The proof, of who agrees."""


def same_effect(
    a: Body,
    b: Body,
    kernel: Kernel,
    after: Body | None,
    effort: Effort,
    *,
    part: bool = False,
    everyone: bool = True,
    ending: Collection[Sym] = (),
) -> str:
    """Why ``a`` and ``b`` do the same wherever they stand in ``kernel``; '' if that is not shown.

    ``after``: what runs behind them, as far as it is known; None where they are followed by anything at all.
    ``part``: of a body, whose rest sees what they declare. ``everyone``: all threads of a block are known to come
    there; else each of several threads comes under a condition of its own that nothing is known of. ``ending``: what
    was declared before them and is known no longer behind them.
    """
    outer = outliving(a, b, part) - set(ending)
    if after is not None:
        reads = used_in(after)
        outer = {s for s in outer if isinstance(s.type, Ptr) or s in reads}
    for threads, one, other in runs(a, b, kernel, everyone, effort):
        if one.summary(outer) == other.summary(outer) and other.touches_no_more_than(one):
            return SAME.format(threads)
    return ""


def outliving(a: Body, b: Body, part: bool) -> set[Sym]:
    """What has a value behind both bodies."""
    outer = {s for body in (a, b) for s in assigned(body)} - {*declared(a), *declared(b)}
    return outer | ({s.sym for body in (a, b) for s in body if isinstance(s, Decl | Alloc)} if part else set())


def runs(a: Body, b: Body, kernel: Kernel, everyone: bool, effort: Effort) -> Iterator[tuple[Threads, Run, Run]]:
    """Both bodies run on one table of terms, by as few threads and by as many as their work takes."""
    if _extents(a) != _extents(b):
        return  # subscripts are not held against extents here
    known = formats(kernel, b)
    together = (*a, *b)
    groups = (*blocks(kernel, together), *rows(kernel, together), *warps(kernel, together))
    for threads in sorted(groups, key=lambda found: found.count):
        terms, left = Terms("reassociates" in kernel.flags, effort), list[Run]()
        every = period(kernel, (a, b), threads)
        certain = everyone or threads.extents is None
        try:
            for body in (a, b):
                run = Run(terms, kernel, known, threads, every)
                run.body(body, {k: _present(terms, k, certain) for k in range(threads.count)})
                left.append(run)
        except Lost:
            continue
        yield threads, left[0], left[1]


def _present(terms: Terms, thread: int, certain: bool) -> Term:
    return terms.const(True, "bool") if certain else terms.make("present", thread)


def _extents(body: Body) -> list[Any]:
    """Element types and extents of the arrays that a body declares."""
    arrays = [s.sym.type for s in walk(body) if isinstance(s, Decl | Alloc) and isinstance(s.sym.type, Array)]
    return [(t.elem, t.shape) for t in arrays]


def blocks(kernel: Kernel, body: Body) -> list[Threads]:
    """Any one thread, where threads do not act together; all threads of a block, where its size is known."""
    together = any(isinstance(e, WarpOp) for e in all_exprs(body)) or _shares(body)
    found = [] if together else [Threads(1, None)]
    extents = known_extents(kernel)
    if len(extents) == 3 and math.prod(extents) <= MOST_THREADS:
        found.append(Threads(math.prod(extents), extents))
    return found


def rows(kernel: Kernel, body: Body) -> list[Threads]:
    """All threads of any one row of a block, or of a plane, where only lanes of it act together in ``body``."""
    extents = () if _shares(body) else known_extents(kernel)
    sizes = {axes: math.prod(extents[:axes]) for axes in (1, 2) if axes <= len(extents)}
    return [
        Threads(n, extents[:axes])
        for axes, n in sizes.items()
        if n <= MOST_THREADS and (n % WARP == 0 or (n > 0 and WARP % n == 0))
    ]


def warps(kernel: Kernel, body: Body) -> list[Threads]:
    """The lanes of any one warp, where a block has whole ones and nothing but lanes acts together in ``body``."""
    extents = known_extents(kernel)
    whole = len(extents) == 3 and math.prod(extents) % WARP == 0 and math.prod(extents) > WARP
    alone = any(isinstance(e, WarpOp) for e in all_exprs(body)) and not _shares(body)
    return [Threads(WARP, ())] if whole and alone else []


def known_extents(kernel: Kernel) -> tuple[int, ...]:
    """The extents of a block, as far as they are known, from x on."""
    launch = kernel.launch
    found = [evaluate(e, kernel.knob_values) for e in launch.block] if launch is not None else []
    return tuple(int(e) for e in itertools.takewhile(lambda e: e is not None, found) if e is not None)


def _shares(body: Body) -> bool:
    """Whether ``body`` has to do with memory that the threads of a block share."""
    return any(isinstance(s.type, Array) and s.type.space == "shared" for s in {*used_in(body), *assigned(body)})


__all__ = ["SAME", "blocks", "known_extents", "outliving", "runs", "same_effect"]
