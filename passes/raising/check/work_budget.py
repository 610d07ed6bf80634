"""What a check may cost, counted in work of the interpreter, not in seconds: all machines raise the same."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, field

from ktc.ir.interp import run
from ktc.ir.interp.execution.run_state import work_of
from ktc.ir.interp.run import RunResult
from ktc.ir.kernel import Kernel

from .invented_arguments import Arguments

CHECK_FUEL = 20_000
"""Statements of one run, at most."""

CHOOSING_WORK, CHECK_WORK = 30_000, 400_000
"""Work (``RunResult.work``) for choosing sets, and for a whole check: 10,000 are a fifth of a second where few threads
run, half of one where thousands do."""

BACKSTOP_SECONDS = 300.0

UNCHECKED = "not checked"
"""How every reason begins that says nothing against a guess: it could not be compared with the source."""


@dataclass
class Budget:
    """What a check has used up, of ``CHECK_WORK`` or of ``most``."""

    most: float | None = None
    work: float = 0.0
    began: float = field(default_factory=time.process_time)

    @property
    def limit(self) -> float:
        return CHECK_WORK if self.most is None else self.most

    @property
    def spent(self) -> bool:
        """The seconds only stop what the work does not measure: far beyond what it takes anywhere."""
        return self.work > self.limit or time.process_time() - self.began > BACKSTOP_SECONDS

    def run(
        self,
        kernel: Kernel,
        args: Arguments,
        domain: str,
        fuel: int,
        known: Container[str] | None = None,
        before: RunResult | None = None,
        backwards: bool = False,
    ) -> RunResult:
        """A run at the cost of this budget, up to the first defect of a kind that is not ``known`` (None: all are).

        ``before``: the like in another domain. ``backwards``: with atomics in the opposite order.
        """
        fatal = None if known is None else lambda f: f.kind not in known
        result = run(kernel, args, domain=domain, fuel=fuel, fatal=fatal, before=before, backwards=backwards)
        self.work += result.work
        return result


def unchecked(why: str) -> str:
    return f"{UNCHECKED}: {why}"


def is_unchecked(why: str) -> bool:
    """Whether ``why`` is for want of something to compare, or of the budget to do it."""
    return why.startswith(UNCHECKED)


def too_long() -> str:
    return f"{UNCHECKED} within {CHECK_WORK:,} statements of the interpreter, though on small sizes"


def endless() -> str:
    what = f"{CHOOSING_WORK:,} statements of the interpreter"
    return f"{UNCHECKED} within {what}: on its smallest sizes the source takes more"


def fuel_of(statements: float, threads: int) -> int:
    """The statements that a run of so many threads may take, where it may take so many: no run takes more work than
    there is for choosing sets."""
    return max(1, int(min(statements, CHECK_FUEL, CHOOSING_WORK / work_of(threads))))


__all__ = [
    "CHECK_FUEL", "CHECK_WORK", "CHOOSING_WORK", "Budget", "endless", "fuel_of", "is_unchecked", "too_long",
    "unchecked",
]  # fmt: skip
