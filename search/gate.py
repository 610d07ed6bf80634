"""The gate every candidate passes before it is timed: :func:`verify` without a device, :func:`differential` on one.

See :mod:`ktc.search.verification` for the rungs of the ladder and what each can and cannot see.
"""

from .verification import Failure, Rung, Verdict, differential, verify

__all__ = ["Failure", "Rung", "Verdict", "differential", "verify"]
