"""L1 for printed text, as rungs on top of a passed ladder: what each language's text says is what was verified."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.workload import Workload
from ktc.search.verification.ladder import verify
from ktc.search.verification.verdict import Rung, Verdict

from .parse_back import READABLE, parse_back, read_back


def with_texts(
    verdict: Verdict,
    original: Kernel,
    candidate: Kernel,
    workload: Workload,
    *,
    targets: Sequence[str] = READABLE,
    variant: str | None = None,
    seed: int = 0,
) -> Verdict:
    """``verdict`` with a rung for the text of ``candidate`` (lowered, knobs bound) in each language.

    A text in normal form equal to the candidate's denotes it. One that is not takes the ladder itself, as it was read:
    it is rejected where it computes something else.
    """
    began, rungs = time.perf_counter(), list(verdict.rungs)
    for target in targets:
        start = time.perf_counter()
        found = parse_back(candidate, target)
        status, detail, failure = found.status, found.detail, found.failure
        if status == "fail":
            judged = _read(original, candidate, workload, target, variant, seed)
            if judged is not None and judged.ok:
                status, detail, failure = (
                    "pass",
                    f"the {target} text, read back, passes the ladder: {judged.reason}",
                    None,
                )
            elif judged is not None:
                failure, detail = judged.failure, f"the {target} text: {judged.reason}"
        rungs.append(Rung(f"text: {target}", status, detail, time.perf_counter() - start))
        if status == "fail":
            seconds = verdict.seconds + time.perf_counter() - began
            return Verdict("REJECTED", rungs[-1].name, detail, tuple(rungs), seconds, failure)
    return replace(verdict, rungs=tuple(rungs), seconds=verdict.seconds + time.perf_counter() - began)


def _read(
    original: Kernel, candidate: Kernel, workload: Workload, target: str, variant: str | None, seed: int
) -> Verdict | None:
    try:
        return verify(original, read_back(emit(candidate, target)), workload, variant=variant, seed=seed)
    except KtcError:
        return None
