"""The kernels of a program, optimised one after the other under one budget.

In the order of what they can give: each gets the share of the budget that its part of what can still be saved is, and
what one leaves is the others'. The work ends where all that is left cannot make the program 1 % faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.profiling.kernel_sources import SourceTree

from .from_program import LEAST_GAIN, folder_name, write_workload
from .launch_records import KernelRecord, ProgramRecord

if TYPE_CHECKING:
    from ktc.agent.report import OptimizeReport

LEAST_BUDGET = 8
"""Configurations without which a kernel need not be begun."""


@dataclass(frozen=True)
class KernelRun:
    """What became of one kernel. ``faster``: how many times as fast its launches are together, as the program weighs
    them (1: the original is kept). ``why``: why it was not optimised. ``folder``: of the run's results."""

    record: KernelRecord
    faster: float = 1.0
    why: str = ""
    folder: Path | None = None
    source: str = ""
    report: OptimizeReport | None = None
    todo: tuple[str, ...] = ()

    @property
    def saved(self) -> float:
        """Seconds of the program."""
        return self.record.elapsed * (1 - 1 / self.faster)


@dataclass(frozen=True)
class WholeProgram:
    """All kernels of a program, in the order of what they could give. ``program``: its seconds (0: not known)."""

    runs: tuple[KernelRun, ...]
    program: float

    @property
    def faster(self) -> float | None:
        """How many times as fast the program should be, if nothing else changes: by Amdahl's law from the kernels'
        measurements, not measured itself."""
        saved = sum(r.saved for r in self.runs)
        return self.program / (self.program - saved) if self.program > saved else None

    def to_json(self) -> dict[str, Any]:
        return {
            "program_seconds": self.program, "faster": self.faster,
            "kernels": [{"kernel": r.record.kernel, "source": r.source, "elapsed": r.record.elapsed,
                         "faster": r.faster, "saved": r.saved, "why": r.why, "folder": str(r.folder or ""),
                         "report": r.report.to_json() if r.report is not None else None} for r in self.runs],
        }  # fmt: skip


Search = Callable[[Workload, Path, int, float], "OptimizeReport"]
"""Optimises a workload into a folder, with a budget and a limit in seconds."""


def optimize_program(
    program: ProgramRecord,
    chosen: Sequence[KernelRecord],
    tree: SourceTree,
    out: Path,
    budget: int,
    time_limit: float,
    search: Search,
    began: Callable[[KernelRecord, int, Path], None] = lambda record, budget, folder: None,
    asked_for: bool = False,
) -> WholeProgram:
    """Optimise ``chosen``, the most promising kernel first, into folders of ``out``; ``began`` is told of each.

    ``asked_for``: the user named them, so they are optimised however little the program gains. A kernel whose workload
    is there already (from an earlier run) keeps it. What goes wrong with one kernel is its
    result, and the others go on.
    """
    end = time.monotonic() + time_limit
    left, taken, runs = budget, set[str](), list[KernelRun]()
    queue = list(chosen)
    while queue:
        k = queue.pop(0)
        why = _not_worth(program, [k, *queue], left, end - time.monotonic(), asked_for)
        if why:
            runs += [KernelRun(x, why=why) for x in (k, *queue)]
            break
        share = _share(k, queue, left)
        run = _one(program, k, tree, out / folder_name(k, taken), share, end - time.monotonic(), search, began)
        left -= run.report.measured if run.report is not None else 0
        runs.append(run)
    return WholeProgram(tuple(runs), program.seconds)


def _not_worth(program: ProgramRecord, rest: Sequence[KernelRecord], left: int, seconds: float, asked_for: bool) -> str:
    """Why none of ``rest`` is begun; '' if the next one is."""
    savable = sum(k.savable for k in rest)
    if not asked_for and program.seconds and savable < program.seconds * (1 - 1 / LEAST_GAIN):
        return f"it and all after it cannot make the program {LEAST_GAIN}x as fast"
    if left < LEAST_BUDGET:
        return "the budget is spent"
    return "the time is up" if seconds <= 0 else ""


def _share(k: KernelRecord, rest: Sequence[KernelRecord], left: int) -> int:
    """The part of ``left`` that ``k`` may use: as large as its part of what can still be saved."""
    whole = k.savable + sum(x.savable for x in rest)
    part = k.savable / whole if whole else 1 / (1 + len(rest))
    return min(left, max(LEAST_BUDGET, math.ceil(left * part)))


def _one(
    program: ProgramRecord, k: KernelRecord, tree: SourceTree, folder: Path, budget: int, seconds: float,
    search: Search, began: Callable[[KernelRecord, int, Path], None],
) -> KernelRun:  # fmt: skip
    path = folder / "workload.toml"
    source, todo = "", tuple[str, ...]()
    try:
        began(k, budget, folder)
        if not path.is_file():
            made = write_workload(program, k, tree, path)
            source, todo = made.source, made.todo
        workload = Workload.load(path)
        report = search(workload, folder, budget, seconds)
    except KtcError as e:
        return KernelRun(k, why=f"{e.message.splitlines()[0]} [{e.code}]", folder=folder if path.is_file() else None)
    return KernelRun(k, weighed(workload, report), "", folder, source or str(workload.source), report, todo)


def weighed(workload: Workload, report: OptimizeReport) -> float:
    """How many times as fast a kernel's launches are together: each scenario has the part of the time that its weight
    is, and takes the ratio of its own script's kernel."""
    weights = {s.name: s.weight for s in workload.scenarios if s.tuned}
    ratios = {s.name: s.ratio[0] for s in report.scenarios if s.script and s.ratio[0] > 1}
    whole = sum(weights.values())
    after = sum(w / ratios.get(n, 1.0) for n, w in weights.items())
    return whole / after if after else 1.0


def worth(program: ProgramRecord) -> Iterator[KernelRecord]:
    """The kernels of ``program`` by which alone it can become :data:`LEAST_GAIN` times as fast; all where that is not
    known."""
    yield from (k for k in program.kernels if k.gain is None or k.gain >= LEAST_GAIN)
