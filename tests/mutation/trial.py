"""One mutant before the ladder: killed, and by which rung; equivalent, and why; or accepted, which is a hole."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from typing import Any

from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import KINDS
from ktc.ir.kernel import Kernel
from ktc.ir.text import canonical, print_kernel
from ktc.search.verification import Verdict, verify
from ktc.search.verification.rungs.parse_back import difference, read_back
from tests.mutation.proofs.proofs import equivalent

from .subjects import Subject


@dataclass(frozen=True)
class Trial:
    """``status``: killed | accepted | equivalent | unknown (not accepted either). ``layer`` decided it.

    ``level`` is what was mutated: ``program`` or a language. ``detail`` is the failure, or the proof. ``key``
    identifies the mutant, so that one that two scripts lead to counts once.
    """

    subject: int
    kernel: str
    variant: str | None
    script: str
    level: str
    operator: str
    place: int
    status: str
    layer: str
    detail: str
    seconds: float
    key: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


FEW = 4
"""Instances on which nearly all wrong programs show already."""

CHEAP = ("verifier", "static", "exact")
"""Rungs that take little on these."""


def judge(subject: Subject, mutant: Kernel) -> tuple[str, str, str]:
    """(status, layer, detail) of a program that should not be accepted in the place of the subject's candidate.

    What a few instances reject, the whole ladder does. What means the same takes the whole ladder longest, and a proof
    holds whatever that would say, so it comes before it.
    """
    try:
        verdict = verify(subject.original, mutant, subject.workload, variant=subject.variant, layers=CHEAP, count=FEW)
        if verdict.status != "REJECTED":
            proof = equivalent(subject.candidate, mutant, subject.original, subject.workload)
            if proof:
                return "equivalent", "proof", proof
            verdict = verify(subject.original, mutant, subject.workload, variant=subject.variant)
    except KtcError as e:
        return "killed", "error", f"{e.code}: {e.message}"
    if not verdict.ok:
        return ("killed" if verdict.status == "REJECTED" else "unknown"), layer_of(verdict), str(verdict.reason)[:300]
    return "accepted", verdict.layer, verdict.reason[:300]


def layer_of(verdict: Verdict) -> str:
    """The rung that rejected, with the exact rung told apart into what it consists of."""
    failure = verdict.failure
    if verdict.layer != "exact" or failure is None:
        return verdict.layer
    return f"sanitizer: {failure.kind}" if failure.kind in KINDS else f"exact: {failure.domain}"


def judge_text(subject: Subject, code: Emitted) -> tuple[str, str, str]:
    """(status, layer, detail) of a printed text that does not say what ``code.kernel`` is."""
    try:
        read = read_back(code)
    except KtcError as e:
        return "killed", "front-end", f"{e.code}: {e.message}"
    other = difference(code.kernel, read)
    return ("killed", "parse-back", other[:300]) if other else ("equivalent", "normal form", "the same program")


def key_of(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def program_key(subject: Subject, mutant: Kernel) -> str:
    return key_of(subject.kernel, str(subject.variant), print_kernel(canonical(mutant).with_(trace=())))


def timed(start: float) -> float:
    return round(time.perf_counter() - start, 4)
