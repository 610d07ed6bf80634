"""Code that no instance has entered: dead, or untouched, or a reason not to accept a candidate.

Dead is what no promised argument can reach, by intervals (:mod:`ktc.search.verification.integers.ranges`) or, with z3,
by everything that is known on the way there (:mod:`ktc.search.verification.integers.smt`). Untouched is a branch or
loop that the original has word for word and has not entered either: whatever is wrong with it was so before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ktc.ir.fold import simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Const, If, Stmt
from ktc.ir.null_pointers import decided, known_nulls
from ktc.ir.support.memo import by_identity
from ktc.ir.text import print_stmt
from ktc.ir.walk import walk
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.ranges import dead
from ktc.search.verification.integers.statement_context import BRANCHES

from .coverage import Coverage, promised

KEPT = 256
"""Answers kept: what is dead is asked before sizes are looked for, and once more where none was found."""


def unexplained(coverage: Coverage, original: Coverage) -> list[Stmt]:
    """First statements of the bodies that were never entered and are neither dead nor untouched."""
    missed = coverage.unreached or {}
    if not missed:
        return []
    kernel, gone = coverage.candidate, _never_entered(coverage)
    known = set(_texts(original.candidate, original.unreached or {}))
    found = []
    for parent, branch, first in _bodies(kernel.body):
        if id(first) not in missed or _inside(first, gone, kernel) or _text(parent, branch) in known:
            continue
        if _is_never_reached(kernel, first):
            gone.add(id(first))
            continue
        found.append(first)
    return found


def leave_out_dead(coverage: Coverage) -> None:
    """No sizes are looked for that enter what no promised argument can reach."""
    missed, kernel = coverage.unreached or {}, coverage.candidate
    if not missed:
        return
    gone = _never_entered(coverage)
    for parent, branch, first in _bodies(kernel.body):
        if id(first) in missed and (id(first) in gone or _is_never_reached(kernel, first)):
            coverage.leave_out(getattr(parent, branch))


def _never_entered(coverage: Coverage) -> set[int]:
    """The first statements of branches that no promised argument enters, by intervals and by what is known of pointers,
    by ``id``."""
    kernel = coverage.candidate
    return {id(s) for s in dead(kernel, promised(coverage.workload))} | set(_excluded(kernel))


def _excluded(kernel: Kernel) -> Iterator[int]:
    """The first statements of branches for pointers that are null where the kernel assumes that they are not, or the
    other way round, by ``id``."""
    known = known_nulls(kernel)
    for s in walk(kernel.body) if known else ():
        cond = simplify(decided(s.cond, known)) if isinstance(s, If) else None
        if isinstance(s, If) and isinstance(cond, Const):
            yield from (id(first) for first in (s.orelse if cond.value else s.then)[:1])


def _bodies(body: Body) -> Iterator[tuple[Stmt, str, Stmt]]:
    """Every nested body: the statement it belongs to, which of its bodies it is, and its first statement."""
    for s in walk(body):
        for name in BRANCHES:
            inner = getattr(s, name, ())
            if inner:
                yield s, name, inner[0]


def _texts(kernel: Kernel, missed: Iterable[int]) -> Iterator[str]:
    ids = set(missed)
    return (_text(parent, branch) for parent, branch, first in _bodies(kernel.body) if id(first) in ids)


def _text(parent: Stmt, branch: str) -> str:
    """A branch as it reads, but for the numbers that make names unique."""
    return branch + re.sub(r"_\d+\b", "", print_stmt(parent))


def _inside(first: Stmt, gone: set[int], kernel: Kernel) -> bool:
    """Whether a body is one of those in ``gone``, or nested in one."""
    if id(first) in gone:
        return True
    for _, name, start in _bodies(kernel.body):
        if id(start) in gone:
            owner = next(s for s, n, f in _bodies(kernel.body) if f is start and n == name)
            if any(s is first for s in walk(getattr(owner, name))):
                return True
    return False


@by_identity(KEPT, subjects=2)
def _is_never_reached(kernel: Kernel, first: Stmt) -> bool:
    return _never(kernel.body, first, smt.Context(kernel))


def _never(body: Body, target: Stmt, context: smt.Context) -> bool:
    """Whether nothing satisfies the facts on the way to ``target``, the first statement of a body."""
    for s in body:
        for name in BRANCHES:
            inner: Body = getattr(s, name, ())
            if not any(x is target for x in walk(inner)):
                continue
            inside = context.branch()
            inside.enter(s, name)
            return inside.impossible() or (inner[0] is not target and _never(inner, target, inside))
        context.after(s)
    return False


__all__ = ["leave_out_dead", "promised", "unexplained"]
