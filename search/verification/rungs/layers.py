"""The rungs that need no device, in order."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, Type, scalar_of
from ktc.ir.verifier import verify as check_ir
from ktc.search.verification.job import Job, Outcome
from ktc.search.verification.verdict import Failure

from .exact import exact
from .float_rungs import floats
from .static import static


def verifier(job: Job) -> Outcome:
    """L1: the candidate is well-formed IR and takes the arguments that the original takes."""
    problems = check_ir(job.candidate)
    if not problems:
        wrong = _other_signature(job.original, job.candidate)
        return Outcome("fail", wrong, Failure("signature", wrong)) if wrong else Outcome("pass", "well-formed")
    first = problems[0]
    failure = Failure(first.code, first.message, loc=str(first.loc or ""))
    return Outcome("fail", f"{len(problems)} problems: {first}", failure)


def _other_signature(original: Kernel, candidate: Kernel) -> str:
    """Which parameter of the candidate is not one of the original's; '' if there is none."""
    known = {p.sym.name: p.sym.type for p in original.params}
    for p in candidate.params:
        if p.scratch is not None or p.init:
            continue  # the launcher's own, or a table of the source: passed by nobody
        if p.sym.name not in known:
            return f"the parameter '{p.sym.name}' is not one of the original's"
        if _passed(p.sym.type) != _passed(known[p.sym.name]):
            return f"the parameter '{p.sym.name}' is {p.sym.type}, the original's {known[p.sym.name]}"
    return ""


def _passed(t: Type) -> object:
    """What a launch passes for a parameter: a number of that type, or a buffer of such elements."""
    return (Ptr, scalar_of(t)) if isinstance(t, Ptr) else t


LAYERS: dict[str, Callable[[Job], Outcome]] = {"verifier": verifier, "static": static, "exact": exact, "float": floats}
"""The rungs by the name that ``verify(layers=...)`` uses."""
