"""The verification ladder: may a candidate kernel stand in for the original?"""

from .defects import Defect, check_original, defects
from .differential import differential
from .ladder import verify
from .texts import with_texts
from .twin import twin
from .twin_device import twin_differential
from .verdict import Failure, Rung, Verdict

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
