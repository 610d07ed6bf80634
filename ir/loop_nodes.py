"""Statements with independent or accumulating iterations, and how those are distributed (parallel form)."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ktc.ir.support.frozen import frozen

from .device_nodes import Produce
from .expr_nodes import Expr
from .stmt_nodes import Barrier, Body, For, If, Stmt, While
from .symbols import Sym

LEVELS = ("vec", "unroll", "seq", "lane", "warp", "thread", "block", "cluster")


@frozen
class Level:
    """One level of a distribution. ``n is None`` (last level only): this level takes the rest of the range.

    ``cut`` (an ``unroll`` level): where all of its iterations are in range they run without guards of their own.
    """

    kind: str
    n: Expr | None = None
    axis: str = ""
    cut: bool = False


Dist = tuple[Level, ...]
"""An ordered factorisation of an iteration space, fastest-varying level first."""


@frozen
class Par(Stmt):
    """Independent iterations ``var in lo..hi``; the next statement starts when all are done (parallel form)."""

    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body


@frozen
class Acc:
    """One accumulator of a :class:`Reduce`: after it, ``sym = init op v(lo) op v(lo+1) ...`` in any association.

    ``at`` goes with the extreme before it and is where that was found, see ``analysis.accumulators``.
    """

    sym: Sym
    op: str  # + * min max & | ^ at
    init: Expr
    value: Expr


@frozen
class Reduce(Stmt):
    """A ``par`` loop with accumulators: ``body`` runs per iteration, then each ``acc.value`` is accumulated.

    Declares each ``acc.sym`` in the enclosing scope. ``strategy``: auto | serial | shuffle | shared, or
    the name of a tensor-core fragment.
    """

    accs: tuple[Acc, ...]
    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body
    strategy: str = "auto"


@frozen
class Scan(Stmt):
    """A loop whose running result is used in every iteration (a prefix sum).

    In order of ``var``: ``body`` runs, ``acc.value`` is accumulated into ``acc.sym`` (in any association), then
    ``then`` runs, which sees it as the inclusive prefix; if ``exclusive``, as it was before this iteration's value.
    Nothing that ``then`` writes may be read by another iteration. Declares ``acc.sym`` in the enclosing scope: after
    it, the total. ``strategy``: auto (lanes exchange values) | shared (threads do, through shared memory).
    """

    acc: Acc
    var: Sym
    lo: Expr
    hi: Expr
    dist: Dist
    body: Body
    then: Body
    exclusive: bool = False
    strategy: str = "auto"


@frozen
class Launched(Stmt):
    """One launch of a sequence: ``body`` runs for every thread of ``grid`` x ``block`` (or, once raised, as the loops
    that these are); the next statement starts when all are done, as in one stream.

    ``kernel`` is the name that its source has. What the launch passes for the source's parameters has been put in:
    ``body`` is about buffers and scalars of the whole sequence. ``dynamic_shared`` in bytes. ``restrict``: buffers that
    overlap no other one *of this launch*, as its source promises; of those of other launches that says nothing.
    """

    kernel: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    body: Body
    dynamic_shared: Expr | None = None
    max_threads: Expr | None = None
    min_blocks: Expr | None = None
    restrict: tuple[Sym, ...] = ()


def is_cooperative(body: Body) -> bool:
    """Whether blocks wait for each other: all of them must be resident, so the launch must be a cooperative one."""
    return any(
        (isinstance(s, Barrier) and s.scope == "grid") or any(is_cooperative(inner) for inner in bodies(s))
        for s in body
    )


def has_bodies(s: Stmt) -> bool:
    """Whether there are statement lists inside ``s``, be they empty."""
    return bool(bodies(s))


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The statement lists directly inside ``s``."""
    read = _BODIES.get(type(s))
    return () if read is None else read(s)


BODY_FIELDS: dict[type, tuple[str, ...]] = {
    If: ("then", "orelse"),
    **dict.fromkeys((For, While, Par, Reduce, Produce, Launched), ("body",)),
    Scan: ("body", "then"),
}
"""The fields that hold statement lists, by the class of the statement, in the order in which they run."""

_BODIES: dict[type, Callable[[Any], tuple[Body, ...]]] = {
    cls: attrgetter(*names) if len(names) > 1 else lambda s: (s.body,) for cls, names in BODY_FIELDS.items()
}
