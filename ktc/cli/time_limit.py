"""``--time-limit``: counted from where the command begins, with what reading a source and drafting a workload take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support import time_limits

from .command_parser import Option
from .options import with_workload

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.search.workers.head_start import HeadStart

MOST_SPENT = 0.25
"""The share of a time limit that reading a source and drafting its workload may use up: a search needs the rest."""

DRAFTING = 2.0
"""How many times the limit drafting may take, and :data:`LEAST_DRAFTING_S` in any case: an answer that comes late is
better than none."""

LEAST_DRAFTING_S = 30.0

TimeLimit = Annotated[
    float,
    Option(
        "--time-limit",
        metavar="SECONDS",
        help="Begin nothing new after so many seconds, of which reading and drafting count as a quarter at most; "
        "raising ends after half of them. Verdicts on what is faster than the best may take a fifth as long again, as "
        "long again while none is accepted.",
        unset="no limit",
    ),
]


@dataclass(frozen=True)
class Begun:
    """``at``: when the command began, of :func:`time.monotonic`; ``ahead``: a process that opens the device while the
    kernel is read and the search is loaded, where one is needed."""

    at: float
    ahead: HeadStart | None = None

    def drafted_by(self, limit: float) -> float:
        """When a draft ends, of :func:`time.monotonic`."""
        return self.at + max(DRAFTING * limit, LEAST_DRAFTING_S)

    def spent(self, limit: float) -> float:
        """Seconds of ``limit`` that are over, of those that a search does not need."""
        return min(time.monotonic() - self.at, MOST_SPENT * limit)


@contextmanager
def opening(options: Mapping[str, Any]) -> Iterator[Begun]:
    """A command that begins now, on a device whose package there is."""
    began = time.monotonic()
    if options.get("replay"):
        yield Begun(began)
        return
    from ktc.backends.runtimes import require_package

    require_package(options["device"])
    from ktc.search.workers.head_start import head_start

    with head_start(options["device"]) as ahead:
        yield Begun(began, ahead)


@contextmanager
def in_time(limit: AbstractContextManager[None], what: str, hint: str) -> Iterator[None]:
    """Work within ``limit``.

    Raises:
        KtcError: E-DRAFT-TIME: that takes longer; the message says that ``what`` had not been done.
    """
    try:
        with limit:
            yield
    except time_limits.OutOfTime:
        message = f"the time limit was over before {what}"
        raise KtcError("E-DRAFT-TIME", message, hint=hint, exit_code=2) from None


DRAFTED = "a workload was drafted: the kernel's runs at small sizes take long"


def with_workload_in_time(program: Program, folder: Path, moment: float) -> Program:
    """``program`` with a workload, drafted until then (of :func:`time.monotonic`) where it has none.

    Raises:
        KtcError: E-DRAFT-TIME: that takes longer.
    """
    hint = "draft a workload by `ktc init --time-limit SECONDS`, and name it by --workload"
    with in_time(time_limits.until(moment), DRAFTED, hint):
        return with_workload(program, folder)
