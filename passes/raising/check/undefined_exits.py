"""Launches in which threads leave before the others meet, and of which the source makes nothing.

``if (i >= n) return;`` in front of a tile that all threads of a block fill: where some leave, others read cells that
nobody filled. Such launches are not compared, for there is nothing to compare with; but a form that reads global memory
where the source read an unfilled cell may leave its buffers, which the source does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.run import run
from ktc.ir.interp.run_results import RunResult
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Return, Stmt
from ktc.ir.walk import walk
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op

from .buffer_extents import with_room
from .invented_arguments import Arguments, invented_arguments
from .work_budget import CHECK_FUEL

TRIED, COMPARED, SEED = 24, 4, 40031
FEW = (1, 2, 3, 5, 8, 17)
"""Sizes of launches that a block or two hold: no other block touches what its threads leave out."""

WORK = 25_000
"""Work for runs of the source and of a form of it."""


def exits_before_meetings(source: Kernel) -> bool:
    """Whether threads may leave ``source`` in front of a barrier or a warp's exchange: in some of its launches it may
    mean something all the same, as where a loop that holds the barriers makes no round."""
    gone = False
    for s in source.body:
        if gone and (has_block_barrier(s) or has_warp_op(s)):
            return True
        gone = gone or any(isinstance(x, Return) for x in walk((s,)))
    return False


def unmet_exits(never_run: list[Stmt]) -> bool:
    """Whether a thread leaves in none of the launches that were compared, though the source says when it would."""
    return any(isinstance(s, Return) for s in never_run)


def leaves_its_buffers(source: Kernel, guess: Kernel) -> str:
    """'' if ``guess`` touches nothing that ``source`` does not, in launches in which threads leave and the source reads
    what was never written; else what it touches."""
    few = _leaves_them(source, guess, invented_arguments(source, TRIED, SEED, FEW))
    return few or _leaves_them(source, guess, invented_arguments(source, TRIED, SEED))


def _leaves_them(source: Kernel, guess: Kernel, drawn: Iterable[Arguments]) -> str:
    exits = {id(s) for s in walk(source.body) if isinstance(s, Return)}
    work, compared = 0.0, 0
    for args in drawn:
        if work > WORK or compared == COMPARED:
            break
        ran = _in_room(source, args)
        if ran is None:
            work += WORK
            continue
        args, first = ran
        work += first.work
        if {f.kind for f in first.findings} != {"uninitialised"}:
            continue
        if exits <= {id(s) for s in first.unreached}:
            continue
        compared += 1
        second = _measured(guess, args)
        if second is None:
            return "the guessed form cannot be run where threads leave before the others meet"
        work += second.work
        new = next((f for f in second.findings if f.kind != "uninitialised"), None)
        if new is not None:
            return str(new)
        for name, (low, high) in second.reach.items():
            least, most = first.reach.get(name, (inf, -inf))
            if low < least or high > most:
                index = high if high > most else low
                return (
                    f"'{name}' is touched at {index} where threads leave before the others meet, by none of the source"
                )
    return ""


def _in_room(source: Kernel, args: Arguments) -> tuple[Arguments, RunResult] | None:
    """``args`` in buffers as large as ``source`` asks for, and what it does there: up to the first defect that is no
    read of what was never written, for then the launch is not compared."""
    try:
        return with_room(
            source, args, 0,
            lambda a: run(source, a, domain="int", fuel=CHECK_FUEL, measure=True, fatal=_is_other),
        )  # fmt: skip
    except (KtcError, ValueError, TypeError, IndexError):
        return None


def _is_other(found: Finding) -> bool:
    return found.kind != "uninitialised"


def _measured(kernel: Kernel, args: Arguments) -> RunResult | None:
    try:
        return run(kernel, args, domain="int", fuel=CHECK_FUEL, measure=True)
    except (KtcError, ValueError, TypeError, IndexError):
        return None


__all__ = ["exits_before_meetings", "leaves_its_buffers", "unmet_exits"]
