"""ktc: a compiler-style transformation toolkit for GPU kernels.

>>> import ktc
>>> k = ktc.load("kernels/serving/silu_and_mul").apply("raise").distribute(loop="idx", map="[vec $V, thread.x $T, seq]")
>>> print(k.lower("opencl", V=4).text)

==============  ========================================================================================
load, loads     a :class:`Program` from a file, folder or library kernel; from text
Program         a kernel and how far a chain of passes got: ``apply``, ``lower``, ``facts``, ``verify``, ...
Cursor          a place in a program, found again after passes: ``program.loop("k")``
optimize, tune  find a faster, verified kernel; tune the knobs of given passes. Both give a :class:`RunResult`
profile         a program's kernels by what faster ones would give it: a ProgramProfile, with workloads as they ran
export          a run as a drop-in: a PyTorch operator, your source with its launches replaced, a library
RunResult       a run's times, script, code, and ``kernel(*arrays)``
list_passes     the catalogue of passes, by name
Workload        what a kernel is called with: the sizes, arguments and reference of a ``workload.toml``
KtcError, Loc   every error: a code, a sentence, a hint and a place; the place
==============  ========================================================================================

Each is imported on first use, so that ``import ktc`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not from typing: `python -m ktc` runs this while the current folder is still on the path
if TYPE_CHECKING:
    from typing import Any

    from ktc.ir.diagnostics import KtcError, Loc
    from ktc.ir.workload import Workload

    from .api import Program, list_passes, load, loads
    from .cursors import Cursor
    from .python.drop_ins import export
    from .python.program_profiles import ProgramProfile, profile
    from .python.search_results import RunResult
    from .python.searches import optimize, tune

__version__ = "0.1.0"

_HOMES = {
    "load": "ktc.api",
    "loads": "ktc.api",
    "list_passes": "ktc.api",
    "optimize": "ktc.python.searches",
    "tune": "ktc.python.searches",
    "RunResult": "ktc.python.search_results",
    "export": "ktc.python.drop_ins",
    "profile": "ktc.python.program_profiles",
    "ProgramProfile": "ktc.python.program_profiles",
    "Program": "ktc.api",
    "Cursor": "ktc.cursors",
    "KtcError": "ktc.ir.diagnostics",
    "Loc": "ktc.ir.diagnostics",
    "Workload": "ktc.ir.workload",
}

__all__ = [
    "Cursor", "KtcError", "Loc", "Program", "ProgramProfile", "RunResult", "Workload", "__version__", "export",
    "list_passes", "load", "loads", "optimize", "profile", "tune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ktc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
