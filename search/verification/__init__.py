"""The verification ladder: may a candidate kernel stand in for the original?"""

from ktc.search.verification.device.differential import differential
from ktc.search.verification.device.twin import twin
from ktc.search.verification.device.twin_device import twin_differential
from ktc.search.verification.rungs.texts import with_texts

from .defects import Defect, check_original, defects
from .ladder import assistant, verdict_key, verify
from .original_reference import check_reference
from .sharing.shared_runs import SharedRuns
from .verdict import Failure, Rung, Verdict

__all__ = [
    "Defect",
    "Failure",
    "Rung",
    "SharedRuns",
    "Verdict",
    "assistant",
    "check_original",
    "check_reference",
    "defects",
    "differential",
    "twin",
    "twin_differential",
    "verdict_key",
    "verify",
    "with_texts",
]
