"""Running a program with the interposer in front of the CUDA runtime."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.runtimes.file_cache import write_atomic
from ktc.ir.diagnostics import KtcError

from .capture_format import HEAD, Capture
from .preloaded import NO_DRIVER, compiled, found_program, has_driver, made_empty, run_preloaded

SOURCE = Path(__file__).parent / "interposer.cpp"
PARTS = tuple(SOURCE.with_name(part) for part in ("recorder.h", "state.h", "json_text.h"))
MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What to capture: the ``ordinals``-th launches of each kernel whose name has one of ``only`` in it (none: all), of
    at most ``launch_mib`` of memory each, until ``total_mib`` are written. ``rerun``: run each again from the same
    state, to see whether the original gives the same bits: a few times, and ``runs`` times in all where it does not.
    ``timeout_s``: 0 for none. ``quiet``: what the program prints goes to standard error."""

    ordinals: tuple[int, ...] = (1, 2, 10)
    only: tuple[str, ...] = ()
    launch_mib: int = 256
    total_mib: int = 2048
    rerun: bool = True
    timeout_s: float = 0
    quiet: bool = False
    runs: int = 8


@dataclass(frozen=True)
class Recorded:
    """``status``: the program's exit code, None where it was stopped at the time limit."""

    capture: Capture
    status: int | None


def interposer() -> Path:
    """The compiled interposer.

    Raises:
        KtcError: see :func:`.preloaded.compiled`.
    """
    return compiled(SOURCE, PARTS)


def record(command: Sequence[str], folder: Path, settings: Settings = Settings()) -> Recorded:
    """Run ``command`` and leave its launches in ``folder``, which is made and must hold nothing yet.

    Raises:
        KtcError: E-CAPTURE, the folder is not empty or the program cannot be run or captured; see :func:`interposer`.
    """
    program, library = found_program(command), interposer()
    made_empty(folder)
    status = run_preloaded(command, library, _variables(folder, settings), settings.timeout_s, settings.quiet)
    write_atomic(folder / HEAD, json.dumps({"format": 1, "command": list(command), "status": status}).encode())
    found = Capture.load(folder)
    if not found.launches and not found.skipped:
        (folder / HEAD).unlink()  # the next try finds an empty folder
        raise _nothing(Path(program), status)
    return Recorded(found, status)


_HOW = (
    "link it with `nvcc -cudart shared` (CMake: CUDA_RUNTIME_LIBRARY Shared); launches through the driver API, NVRTC "
    "or a CUDA graph are not captured. `ktc profile --contents MIB` sees all of these, and keeps what buffers held"
)


def _variables(folder: Path, s: Settings) -> dict[str, str]:
    values = {
        "DIR": str(folder.resolve()),
        "LAUNCHES": ",".join(map(str, s.ordinals)),
        "ONLY": ",".join(s.only),
        "LAUNCH_BYTES": str(s.launch_mib * MIB),
        "TOTAL_BYTES": str(s.total_mib * MIB),
        "RERUN": str(int(s.rerun)),
        "RUNS": str(s.runs),
    }
    return {f"KTC_CAPTURE_{k}": v for k, v in values.items()}


def _nothing(program: Path, status: int | None) -> KtcError:
    """No launch was seen, and what is probably the reason."""
    ended = "was stopped at the time limit" if status is None else f"ended with code {status}"
    try:
        held = program.read_bytes()
    except OSError:
        held = b""
    static = b".nv_fatbin" in held and b"libcudart.so" not in held  # kernels, and no shared runtime
    why, hint = ": the CUDA runtime is linked into it statically" if static else "", _HOW
    if not static and not has_driver():
        why, hint = NO_DRIVER
    return KtcError(
        "E-CAPTURE-NOTHING", f"{program.name} {ended}, and no kernel launch was seen{why}", hint=hint, exit_code=3
    )
