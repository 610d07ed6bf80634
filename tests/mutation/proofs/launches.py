"""Sequences of launches that differ inside launches alone: each launch is a kernel, and is compared as one.

A launch starts when all before it are done, and sees nothing of them but what they left in buffers. So a sequence in
which a launch is replaced by one that does the same to every buffer does the same. To a launch taken by itself the
temporaries of the sequence are buffers like any other: what is left in them counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Launched, Store, Sym, has_bodies
from ktc.ir.sequences import alone, launches
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned, stmt_exprs, used, used_in, walk

BOUND = "a launch within the bounds that are promised of it, which change no value"
AGAIN = "a launch that reads nothing it writes may run again"
EITHER = "neither of two launches touches what the other one writes"

Proof = Callable[[Kernel, Kernel], str]
"""Why two kernels are the same function; '' if that is not proved."""


def same_launches(a: Kernel, b: Kernel, proof: Proof) -> str:
    """Why the sequences ``a`` and ``b``, of the same assumptions, do the same, launch by launch; '' if that is not
    proved."""
    mine, theirs = launches(a), launches(b)
    if len(theirs) == len(mine) + 1:
        return AGAIN if a.params == b.params and _run_again(a, mine, theirs) else ""
    if len(mine) != len(theirs) or a.params != b.params:
        return ""
    if _exchanged(a, mine, theirs):
        return EITHER
    found: list[str] = []
    for s, t in zip(mine, theirs):
        if s == t or _bounded_otherwise(a, s, t):
            found += [BOUND] * (s != t)
            continue
        if (s.kernel, s.restrict) != (t.kernel, t.restrict):
            return ""
        why = proof(alone(a, s), alone(b, t))
        if not why:
            return ""
        found.append(why)
    return "; ".join(dict.fromkeys(found))


def _bounded_otherwise(kernel: Kernel, s: Launched, t: Launched) -> bool:
    """Whether ``t`` is ``s`` with another promise of how many threads a block has at most, which it keeps."""
    if t != replace(s, max_threads=t.max_threads) or t.max_threads is None:
        return False
    threads = [evaluate(e, kernel.knob_values) for e in (*t.block, t.max_threads)]
    return None not in threads and math.prod(int(n or 0) for n in threads[:3]) <= int(threads[3] or 0)


def _run_again(kernel: Kernel, mine: tuple[Launched, ...], theirs: tuple[Launched, ...]) -> bool:
    """Whether ``theirs`` are ``mine`` with one launch run twice in a row, to no effect."""
    for k, s in enumerate(mine):
        if theirs == (*mine[: k + 1], s, *mine[k + 1 :]):
            atomics = any(isinstance(x, Atomic) for x in walk(s.body))
            return not atomics and _apart(kernel, _written(s), _read(s))
    return False


def _exchanged(kernel: Kernel, mine: tuple[Launched, ...], theirs: tuple[Launched, ...]) -> bool:
    """Whether ``theirs`` are ``mine`` with two neighbours in the other order, to no effect."""
    for k, (s, t) in enumerate(pairwise(mine)):
        if s != t and theirs == (*mine[:k], t, s, *mine[k + 2 :]):
            one, other = _written(s), _written(t)
            return _apart(kernel, one, other | _read(t)) and _apart(kernel, other, _read(s))
    return False


def _written(s: Launched) -> set[Sym]:
    return {b for b in assigned(s.body) if isinstance(b.type, Ptr)}


def _read(s: Launched) -> set[Sym]:
    """Buffers that a launch reads; of statements that may do both, those that they write, too."""
    found = set[Sym]()
    for x in walk(s.body):
        found = found.union(*map(used, stmt_exprs(x)))
        if not isinstance(x, Store) and not has_bodies(x):
            found |= used_in((x,))
    return {b for b in found if isinstance(b.type, Ptr)}


def _apart(kernel: Kernel, some: set[Sym], others: set[Sym]) -> bool:
    known = noalias(kernel)
    return not any(may_alias(a, b, known) for a in some for b in others)


__all__ = ["same_launches"]
