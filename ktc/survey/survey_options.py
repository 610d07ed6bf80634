"""What a survey does with each file; plain data, so that it can be sent to worker processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

BACKENDS = ("cuda", "hip", "opencl")


@dataclass(frozen=True)
class SurveyOptions:
    """``backends`` are printed, and compiled when ``compile``. ``root`` is the tree: includes are looked up in it.

    ``assume``: a kernel that needs a macro, a type or a template argument that nothing in the tree gives is tried with
    a plausible one, and its record says so. ``timeout_s`` bounds one kernel; ``memory_mb`` one worker process.
    """

    root: str
    backends: tuple[str, ...] = ("cuda",)
    compile: bool = False
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[str, ...] = ()
    dialect: str = ""
    assume: bool = True
    timeout_s: float = 60.0
    memory_mb: int = 4096

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> SurveyOptions:
        pairs = tuple((str(k), str(v)) for k, v in data["defines"])
        lists = {k: tuple(data[k]) for k in ("backends", "include_dirs")}
        return SurveyOptions(**{**data, **lists, "defines": pairs})
