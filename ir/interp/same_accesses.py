"""Whether two runs of a kernel made the same accesses.

The sanitizer asks who touches what, and when. Where floats are only values (:mod:`ktc.ir.analysis.float_values`), runs
on the same integers differ in what is moved alone: what was found in one, or that nothing was, holds for the other,
which need not be looked at. A branch that floats decide changes nothing of that as long as both runs took it one way.
"""

from __future__ import annotations

from ktc.ir.analysis.float_values import choices_by_floats, float_branches
from ktc.ir.interp.run_results import RunResult
from ktc.ir.kernel import Kernel


def may_have_same_accesses(kernel: Kernel) -> bool:
    """Whether runs on the same integers can be known to make the same accesses."""
    return float_branches(kernel) is not None


def same_accesses(kernel: Kernel, one: RunResult, other: RunResult) -> bool:
    """Whether a run that came to its end made the accesses of an ``other`` one, as far as that one went, on arguments
    that differ in floats alone."""
    branches = float_branches(kernel)
    if branches is None or not one.ended:
        return False
    entered_by_none = {id(s) for s in one.unreached} & {id(s) for s in other.unreached}
    return all(any(body and id(body[0]) in entered_by_none for body in (s.then, s.orelse)) for s in branches)


def moves_the_same(kernel: Kernel) -> bool:
    """Whether runs on the same integers move what they move from the same places to the same places: no choice between
    two values is decided by a float either."""
    return float_branches(kernel) == () and not choices_by_floats(kernel)


__all__ = ["may_have_same_accesses", "moves_the_same", "same_accesses"]
