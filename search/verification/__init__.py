"""The verification ladder: may a candidate kernel stand in for the original?"""

from ktc.search.verification.device.differential import differential
from ktc.search.verification.device.twin import twin
from ktc.search.verification.device.twin_device import twin_differential
from ktc.search.verification.rungs.texts import with_texts

from .defects import Defect, check_original, defects
from .ladder import verify
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
