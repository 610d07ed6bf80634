"""Whether code has no effect where it stands: every statement that would be felt cannot be reached (z3).

That is how a doubled guard is seen to be one: the iteration that a loop runs too many does nothing, the guard that was
dropped held anyway, the threads that are no longer launched had nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    While,
)  # fmt: skip
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, stmt_exprs, walk, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.formulas import increment
from tests.mutation.proofs.ending import counts_up, may_run
from tests.mutation.proofs.extents import readable


@dataclass
class Quiet:
    """What may happen unseen: ``own`` are variables and arrays that nobody outside knows; ``barriers``: of a block of
    which no thread does anything else, or of threads for which nobody waits once they are gone; ``loads``: of code that
    is left out, while code that is added may not read buffers beyond what is known to be there, touch elements of
    arrays that may not exist, nor go round for ever; ``ends``: of threads that do nothing else either, while of others
    a return is felt in all that would have followed."""

    own: set[Sym] = field(default_factory=set)
    barriers: bool = False
    loads: bool = False
    ends: bool = False


def no_effect(body: Body, context: smt.Context, quiet: Quiet) -> bool:
    """Whether nothing that ``body`` does under the facts of ``context`` is felt; ``context`` learns on the way."""
    for s in body:
        if isinstance(s, Decl | Alloc):
            quiet.own.add(s.sym)
        if not _quiet(s, context, quiet):
            return False
        context.after(s)
    return True


def _quiet(s: Stmt, context: smt.Context, quiet: Quiet) -> bool:
    felt = _felt(s, context, quiet) or not (quiet.loads or may_run(s, context))
    if felt and context.impossible():
        return True
    if felt:
        return False
    if isinstance(s, If):
        for name in ("then", "orelse"):
            inner = context.branch()
            inner.enter(s, name)
            if not no_effect(getattr(s, name), inner, quiet):
                return False
    if isinstance(s, For):
        inner = context.branch()
        inner.enter(s, "body")
        return no_effect(s.body, inner, quiet)
    return True


def _felt(s: Stmt, context: smt.Context, quiet: Quiet) -> bool:
    """Whether ``s`` itself, its bodies apart, does something that others may notice."""
    reads = [e for top in stmt_exprs(s) for e in walk_expr(top)]
    if any(isinstance(e, WarpOp) for e in reads):
        return True
    if not quiet.loads and not readable(s, context):
        return True
    if isinstance(s, Assign):
        return s.sym not in quiet.own
    if isinstance(s, Store):
        return s.buffer not in quiet.own or _shared(s.buffer)
    if isinstance(s, Barrier):
        return not (quiet.barriers and s.scope != "grid")
    if isinstance(s, Return):
        return not quiet.ends
    return not isinstance(s, Decl | Alloc | If | For)


def _shared(sym: Sym) -> bool:
    return isinstance(sym.type, Array) and sym.type.space == "shared"


ALONE = (Alloc, Assign, Atomic, Barrier, Break, Continue, Decl, For, If, Return, Store, While)
"""Statements of single threads, and barriers."""


def other_threads(a: Kernel, b: Kernel, extents: Mapping[Sym, Expr]) -> str:
    """Why ``b``, which differs from ``a`` in one extent of its launch alone, does the same with fewer or more threads:
    those that only one of them has do nothing. ``extents``: of buffers that are read alone, how many elements."""
    if a.launch is None or b.launch is None:
        return ""
    before, after = ((*k.launch.grid, *k.launch.block) for k in (a, b) if k.launch is not None)
    changed = [i for i, (x, y) in enumerate(zip(before, after)) if x != y]
    if len(changed) != 1:
        return ""
    i = changed[0]
    context = smt.Context(a)
    old, new = (_threads(context.of(e)) for e in (before[i], after[i]))
    if context.proves(old == new):
        return "z3: the same launch"
    fewer = context.proves(old >= new)
    if not fewer and not context.proves(old <= new):
        return ""
    level, axis = ("block", "xyz"[i]) if i < 3 else ("thread", "xyz"[i - 3])
    extent = HwIndex("grid_dim" if i < 3 else "block_dim", axis)
    if any(e == extent for e in all_exprs(a.body)) or (level == "thread" and not _one_by_one(a)):
        return ""
    if not fewer:
        context = smt.Context(b, extents=extents)
    context.facts.append(context.of(HwIndex(level, axis)) >= context.of((after if fewer else before)[i]))
    quiet = Quiet(barriers=fewer or level == "block", loads=fewer, ends=True)
    idle = no_effect((a if fewer else b).body, context, quiet)
    return f"z3: the threads that are {'left out' if fewer else 'added'} do nothing" if idle else ""


def _one_by_one(kernel: Kernel) -> bool:
    """Whether threads are on their own but for block-wide barriers: with others beside it a thread has another lane."""
    alone = all(isinstance(s, ALONE) and getattr(s, "scope", "block") != "warp" for s in walk(kernel.body))
    return alone and not any(isinstance(e, WarpOp) for e in all_exprs(kernel.body))


def _threads(extent: Any) -> Any:
    """How many there are along an axis of this extent: of a negative one, as many as of zero, none."""
    import z3

    return z3.If(extent > 0, extent, 0)


def other_iterations(
    s: For, t: For, context: smt.Context, names: list[str], adds_nothing: Callable[[Body, smt.Context], bool]
) -> str:
    """Why a loop with another first value, bound or step has the same effect: what it does more or less is nothing, or
    ``adds_nothing`` but zeros."""
    import z3

    if names == ["cond"] and counts_up(s, context) and counts_up(t, context):
        facts: list[Callable[[smt.Context], Any]] = [lambda c: c.truth(s.cond) != c.truth(t.cond)]
    elif names == ["step"] and counts_up(s, context) and counts_up(t, context):
        facts = [lambda c: z3.And(c.of(Var(s.var)) != c.of(s.init), c.truth(s.cond))]
    elif names == ["init"] and _by_one(s):
        facts = [lambda c: z3.And(c.of(Var(s.var)) >= c.of(s.init), c.of(Var(s.var)) < c.of(t.init), c.truth(s.cond))]
        if not context.proves(context.of(t.init) >= context.of(s.init)):
            return ""
    else:
        return ""
    said = "do nothing"
    for fact in facts:
        inner = context.branch()
        if names != ["cond"]:
            inner.facts.append(inner.of(Var(s.var)) >= inner.of(s.init))
        else:
            inner.count(s)
        inner.facts.append(fact(inner))
        if no_effect(s.body, inner.branch(), Quiet()):
            continue
        if not adds_nothing(s.body, inner):
            return ""
        said = "add zeros"
    return f"z3: the iterations in which they differ {said}"


def _by_one(s: For) -> bool:
    step = increment(s)
    return step is not None and getattr(step, "value", None) == 1
