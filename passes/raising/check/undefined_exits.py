"""Launches in which threads leave before the others meet, and of which the source makes nothing.

``if (i >= n) return;`` in front of a tile that all threads of a block fill: where some leave, others read cells that
nobody filled. Such launches are not compared, for there is nothing to compare with; but a form that reads global memory
where the source read an unfilled cell may leave its buffers, which the source does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from ktc.ir.diagnostics import KtcError
from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.interp.run import run
from ktc.ir.interp.run_results import RunResult
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Return, Stmt
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import walk
from ktc.passes.raising.recognise.statement_kinds import has_block_barrier, has_warp_op

from .buffer_extents import with_room
from .invented_arguments import SIZES, Arguments, Sizes, invented_sizes
from .run_length import statements
from .work_budget import CHECK_FUEL

TRIED, COMPARED, SEED = 24, 4, 40031
FEW = (1, 2, 3, 5, 8, 17)
"""Sizes of launches that a block or two hold: no other block touches what its threads leave out."""

WORK, LOOKING = 20_000, 10_000
"""Work for runs of a form, and after which no more launches are looked for."""


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
    return next((wrong for found in _unmeant(source) if (wrong := _leaves_them(found, guess))), "")


@by_identity(4)
def _unmeant(source: Kernel) -> tuple[_Launches, _Launches]:
    """The launches to compare forms of ``source`` in, drawn once for all: of a block or two, and larger ones."""
    return tuple(_Launches(source, list(invented_sizes(source, TRIED, SEED, s))) for s in (FEW, SIZES))  # type: ignore[return-value]


class _Launches:
    """Launches of a source in which threads leave and it reads what was never written: the cheapest of those drawn,
    found when they are asked for.

    Whether that happens is a matter of what is left over of blocks and tiles, not of how many there are.
    """

    def __init__(self, source: Kernel, drawn: list[Sizes]) -> None:
        self.source, self.work = source, 0.0
        self.exits = {id(s) for s in walk(source.body) if isinstance(s, Return)}
        self.start = _before_meetings(source)
        self.drawn = sorted(drawn, key=lambda d: statements(source, d.scalars) * work_of(d.threads))
        self.found: list[tuple[Arguments, RunResult]] = []

    def __iter__(self) -> Iterator[tuple[Arguments, RunResult]]:
        for k in range(COMPARED):
            while len(self.found) <= k and self.drawn and self.work <= LOOKING:
                self._look(self.drawn.pop(0).arguments(self.source))
            if len(self.found) <= k:
                return
            yield self.found[k]

    def _look(self, args: Arguments) -> None:
        """Add the launch with ``args``, if it is such a one."""
        if self.start is not None:
            begun = _in_room(self.start, args)
            if begun is None:
                return
            args, first = begun
            self.work += first.work
            if self._stay(first):
                return
        ran = _in_room(self.source, args)
        if ran is None:
            self.work += WORK
            return
        args, first = ran
        self.work += first.work
        if {f.kind for f in first.findings} == {"uninitialised"} and not self._stay(first):
            self.found.append((args, first))

    def _stay(self, result: RunResult) -> bool:
        """Whether no thread left."""
        return self.exits <= {id(s) for s in result.unreached}


def _before_meetings(source: Kernel) -> Kernel | None:
    """``source`` up to where threads first meet, if none leaves later."""
    for k, s in enumerate(source.body):
        if has_block_barrier(s) or has_warp_op(s):
            later = any(isinstance(x, Return) for x in walk(source.body[k:]))
            return None if later else source.with_(body=source.body[:k])
    return None


def _leaves_them(launches: Iterable[tuple[Arguments, RunResult]], guess: Kernel) -> str:
    work = 0.0
    for args, first in launches:
        if work > WORK:
            break
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
