"""The verification ladder: may a candidate kernel stand in for the original?"""

from .differential import differential
from .ladder import verify
from .verdict import Failure, Rung, Verdict

__all__ = ["Failure", "Rung", "Verdict", "differential", "verify"]
