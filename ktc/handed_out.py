"""Code that is handed out has a verdict of the ladder on it, or says on its first line that it has none.

A pass checks what it does as far as it goes: ``raise`` runs its guess against the source at small sizes only. The
whole ladder (:mod:`ktc.search.verification`) is asked before the text of a rewritten kernel leaves ktc. What it rejects
is not handed out; what it has no answer on, in the time that there is, is, with a line that says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support import time_limits

if TYPE_CHECKING:
    from pathlib import Path

    from ktc.api import Program
    from ktc.search.verification import Verdict

NOT_ASKED = "nobody asked (--no-verify)"

SAYING = frozenset({"exact", "float", "identity"})
"""Rungs whose findings say how far a verdict goes."""


@dataclass(frozen=True)
class Standing:
    """What is known of a rewritten kernel: the ``verdict``, where there is one, and why it is not known to be right
    (``missing``; '' where it is). Of a kernel that no pass touched there is nothing to say."""

    verdict: Verdict | None = None
    missing: str = ""
    drafted: str = ""

    @property
    def said(self) -> str:
        """A line for whoever gets the code; '' where there is nothing to say."""
        if self.missing:
            return f"NOT VERIFIED: {self.missing}"
        return f"{self.verdict.status}: {self.shown}" if self.verdict is not None else ""

    @property
    def shown(self) -> str:
        """How far a verdict goes."""
        rungs = self.verdict.rungs if self.verdict is not None else ()
        found = "; ".join(r.detail for r in rungs if r.name in SAYING and r.status == "pass")
        return found + (f" (called as {self.drafted} says, a draft)" if self.drafted else "")

    def on(self, text: str, comment: str) -> str:
        """``text``, which begins with what is missing. ``comment``: how a comment begins in its language; '' where
        there are none."""
        return f"{comment} {' '.join(self.said.split())}\n{text}" if self.missing and comment else text

    def to_json(self) -> dict[str, Any]:
        return {"verdict": self.verdict.to_json() if self.verdict else None, "not_verified": self.missing or None}


def is_rewritten(program: Program) -> bool:
    """Whether passes have changed ``program`` since it was loaded: what a text that was loaded says of steps before it
    is its own word."""
    return program.original is not None and program.trace != program.original.trace


def standing(
    program: Program,
    values: Mapping[str, int],
    with_workload: Callable[[Program], Program],
    seconds: float,
) -> Standing:
    """What the ladder says of ``program`` with its knobs at ``values``, within ``seconds``.

    Args:
        with_workload: gives the kernel as it was loaded a workload, if it has none.

    Raises:
        KtcError: E-VERIFY-FAILED: it is not what the kernel was that it comes from.
    """
    if not is_rewritten(program):
        return Standing()
    try:
        with time_limits.until(monotonic() + seconds):
            program, drafted = _drafted(program, with_workload)
            verdict = _verdict(program, values)
    except time_limits.OutOfTime:
        return Standing(missing=f"there was no verdict after {seconds:g} s (--time-limit)")
    except KtcError as e:
        if e.exit_code not in (1, 2):
            raise
        return Standing(missing=f"{e.message} [{e.code}]")
    said = f"{verdict.layer}: {verdict.reason}"
    if verdict.status == "REJECTED" and verdict.layer != "original":
        open_ = verdict.failure is not None and verdict.failure.undefined
        at_fault = "the source, as it is called here, or the passes are" if open_ else "the passes are"
        hint = f"{at_fault} at fault: {program.script}; --no-verify prints it all the same"
        hint += f"; it was called as {drafted} says, which is a draft" if drafted else ""
        raise KtcError("E-VERIFY-FAILED", f"not the kernel that it was made of: {said}", hint=hint)
    return Standing(verdict, "" if verdict.ok else said, drafted)


def _drafted(program: Program, with_workload: Callable[[Program], Program]) -> tuple[Program, str]:
    """``program`` with a workload, and the file of one that was drafted: of the kernel as it was, for that is what it
    is compared with."""
    if program.workload is not None:
        return program, ""
    loaded = dataclasses.replace(program, kernel=program.original or program.kernel, notes=(), preset=None)
    work = with_workload(loaded).workload
    assert work is not None
    return dataclasses.replace(program, workload=work), str(work.path)


def _verdict(program: Program, values: Mapping[str, int]) -> Verdict:
    """The verdict without a device, as it was found before, or now."""
    from ktc.search.verification import verdict_cache

    from .verification import NO_DEVICE

    folder = _folder()
    key = _key(program, values)
    if folder is not None and (known := verdict_cache.recall(folder, key)) is not None:
        return known
    verdict = program.verify(values=values, device=NO_DEVICE)
    if folder is not None and not time_limits.is_over():
        verdict_cache.remember(folder, key, verdict)
    return verdict


def _folder() -> Path | None:
    from ktc.ir.support.cache_folders import private_folder

    return private_folder("verdicts")


def _key(program: Program, values: Mapping[str, int]) -> str:
    import ktc.backends
    import ktc.driver
    import ktc.ir
    import ktc.passes
    import ktc.search
    from ktc.ir.support.package_hash import package_hash
    from ktc.ir.text import print_kernel
    from ktc.search.verification import verdict_cache

    assert program.original is not None
    code = package_hash(ktc.ir, ktc.passes, ktc.backends, ktc.search, ktc.driver)
    kernels = (print_kernel(k) for k in (program.original, program.bind(**values).kernel))
    return verdict_cache.key_of(code, *kernels, repr(program.workload), str(program.variant))


__all__ = ["NOT_ASKED", "Standing", "is_rewritten", "standing"]
