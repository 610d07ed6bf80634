"""The rungs that need no device, in order."""

from __future__ import annotations

from collections.abc import Callable

from ktc.ir.verifier import verify as check_ir

from .exact import exact
from .floats import floats
from .job import Job, Outcome
from .verdict import Failure


def verifier(job: Job) -> Outcome:
    """L1: the candidate is well-formed IR."""
    problems = check_ir(job.candidate)
    if not problems:
        return Outcome("pass", "well-formed")
    first = problems[0]
    failure = Failure(first.code, first.message, loc=str(first.loc or ""))
    return Outcome("fail", f"{len(problems)} problems: {first}", failure)


LAYERS: dict[str, Callable[[Job], Outcome]] = {"verifier": verifier, "exact": exact, "float": floats}
"""The rungs by the name that ``verify(layers=...)`` uses."""
