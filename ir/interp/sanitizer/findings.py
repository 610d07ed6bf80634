"""What the sanitizer reports: one :class:`Finding` per (kind, statement, buffer), with a first witness and a count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ktc.ir.diagnostics import Loc
from ktc.ir.nodes import Stmt

KINDS = {
    "out-of-bounds": "an access outside the buffer, or outside one dimension of an array",
    "race": "two threads touch one element between barriers, at least one writes, not both atomically",
    "redundant-store": "one value is stored to one place twice: by two threads between barriers, or by one, unread",
    "dependent-iterations": "two iterations of one par loop touch one element, at least one writes",
    "barrier-divergence": "a barrier that some live threads of the block do not reach together",
    "unwaited-copy": "an asynchronous copy by the block that nobody waits for before the kernel ends",
    "invalid-event": "an event that no asynchronous copy of the block gave",
    "warp-divergence": "a warp operation whose mask names lanes that are elsewhere, or misses one that is here",
    "division-by-zero": "an integer division or remainder by zero",
    "shuffle-width": "a shuffle over a segment that is not a power of two up to 32",
    "uninitialised": "the kernel's results depend on memory or variables that were never written",
    "misaligned": "a wide access whose address is not a multiple of its size",
    "shared-overflow": "dynamic shared arrays larger than the launch provides",
    "null-pointer": "an access through a null pointer",
    "trap": "the kernel stops itself with a trap",
    "fuel": "the kernel did not end within its budget of statements",
}
"""Every kind a run can report, with its meaning."""


@dataclass(frozen=True)
class Finding:
    """One defect. ``index``: flat element touched; ``thread``, ``block``: linear ids of the first witness.

    ``certain``: no larger budget would change it, as one may for a kernel that did not end within its own.
    """

    kind: str
    message: str
    loc: Loc | None = None
    buffer: str = ""
    index: int | None = None
    thread: int | None = None
    block: int | None = None
    count: int = 1
    statement: Stmt | None = field(default=None, compare=False, repr=False)
    certain: bool = True

    def __str__(self) -> str:
        place = f"{self.loc}: " if self.loc else ""
        who = f" (block {self.block}, thread {self.thread})" if self.thread is not None else ""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{place}{self.kind}: {self.message}{who}{times}"


class Decided(Exception):
    """A finding that nothing after it can make up for."""


class Findings:
    """Collects findings, merging repeats of one (kind, statement, buffer); the first that is ``fatal`` ends the run."""

    def __init__(self, fatal: Callable[[Finding], bool] | None = None) -> None:
        self._found: dict[tuple[str, int, str], Finding] = {}
        self._fatal = fatal

    @property
    def may_end_the_run(self) -> bool:
        """Whether there are findings that end the run at once."""
        return self._fatal is not None

    def add(
        self,
        kind: str,
        message: str,
        stmt: Stmt | None,
        *,
        buffer: str = "",
        index: int | None = None,
        thread: int | None = None,
        block: int | None = None,
        count: int = 1,
        certain: bool = True,
    ) -> None:
        key = (kind, id(stmt), buffer)
        old = self._found.get(key)
        if old is None:
            loc = stmt.loc if stmt is not None else None
            found = self._found[key] = Finding(kind, message, loc, buffer, index, thread, block, count, stmt, certain)
            if self._fatal is not None and self._fatal(found):
                raise Decided
        else:
            self._found[key] = Finding(**{**old.__dict__, "count": old.count + count})

    def list(self) -> list[Finding]:
        """In order of first appearance."""
        return list(self._found.values())
