"""The gate every candidate passes before it is timed: :func:`verify` without a device, :func:`differential` on one.

See :mod:`ktc.search.verification` for the rungs of the ladder and what each can and cannot see.
"""

from .verification import (
    Defect,
    Failure,
    Rung,
    Verdict,
    check_original,
    defects,
    differential,
    twin,
    twin_differential,
    verify,
    with_texts,
)

__all__ = [
    "Defect",
    "Failure",
    "Rung",
    "Verdict",
    "check_original",
    "defects",
    "differential",
    "twin",
    "twin_differential",
    "verify",
    "with_texts",
]
