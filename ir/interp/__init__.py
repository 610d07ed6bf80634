"""The reference interpreter: any kernel, in SPMD or parallel form, over numpy, in pluggable value domains.

``run`` executes and sanitizes one kernel; ``equivalent`` compares two in the exact domains.
"""

from ktc.ir.interp.sanitizer.findings import KINDS, Finding

from .equivalence import Mismatch, compare, equivalent, mismatch
from .run import FUEL, LANES, Kept, RunResult, environment, geometry_of, run

__all__ = [
    "FUEL",
    "KINDS",
    "LANES",
    "Finding",
    "Kept",
    "Mismatch",
    "RunResult",
    "compare",
    "environment",
    "equivalent",
    "geometry_of",
    "mismatch",
    "run",
]
