"""What a draft's author should look at in its scenarios: faults of blocks at their sizes (:mod:`.corners`)."""

from __future__ import annotations

from pathlib import Path

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.ir.workload.workload_facts import attach

from ..model import Draft
from .corners import Fault, faults

REMEDIES = {
    "out-of-bounds": "correct its shape, or the sizes and values that the index is made of",
    "idle": "correct the sizes and values that the guards are made of",
    "race": "give what its index is read from other contents, or know that results depend on the order of threads",
    "launch": "correct the sizes that the grid and the block are made of",
}
"""What to do about a fault, by its kind."""


def check_scenarios(d: Draft, k: Kernel, text: str, target: Path) -> dict[str, str]:
    """Doubt what is wrong at the sizes of the scenarios and has not been said of smaller ones; in short, by scenario.

    Args:
        k: the kernel as its source has it. text: the draft of a workload, which is to be written to ``target``.
    """
    marks: dict[str, str] = {}
    try:
        work = Workload.parse(text, target)
        kernel = attach(k, work)
    except KtcError:  # a draft that is to be completed: who reads it says what is missing
        return marks
    for scenario, fault in faults(work, kernel):
        if not _said(d, fault):
            marks.setdefault(scenario.name, f"{fault.kind}: {fault.what}")
            remedy = REMEDIES.get(fault.kind, "correct the sizes and values")
            d.doubts.append(f"run at {dict(scenario.sizes)}, the sizes of {scenario.name}: {fault}: {remedy}")
    return marks


def _said(d: Draft, fault: Fault) -> bool:
    """Whether the author is told so already: by a run at small sizes, of the buffer itself, or that its shape is not
    known."""
    unknown = fault.buffer in d.shapes and d.shapes[fault.buffer] is None
    same_place = bool(fault.place) and any(f"{fault.place}: {fault.kind}: " in doubt for doubt in d.doubts)
    of_it = fault.kind == "out-of-bounds" and any(doubt.startswith(f"{fault.buffer}: ") for doubt in d.doubts)
    return unknown or same_place or of_it


__all__ = ["check_scenarios"]
