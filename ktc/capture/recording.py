"""Running a program with the interposer in front of the CUDA runtime."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.runtimes.file_cache import cache_root, key_of, write_atomic
from ktc.ir.diagnostics import KtcError

from .capture_format import HEAD, Capture

SOURCE = Path(__file__).parent / "interposer.cpp"
PARTS = ("interposer.cpp", "recorder.h", "state.h")
FLAGS = ("-O2", "-fPIC", "-shared", "-std=c++17")
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
    """The compiled interposer: made by the machine's C++ compiler when first needed, then kept.

    Raises:
        KtcError: E-TOOL-MISSING (exit code 3) without a compiler, E-COMPILE if it refuses.
    """
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    if compiler is None:
        raise KtcError("E-TOOL-MISSING", "capturing needs a C++ compiler", hint="install g++", exit_code=3)
    texts = [SOURCE.with_name(part).read_text("utf-8") for part in PARTS]
    target = cache_root() / "interposer" / f"{key_of(*texts, compiler, *FLAGS)[:16]}.so"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        built = subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(part), "-ldl"], capture_output=True, text=True)
        if built.returncode:
            raise KtcError("E-COMPILE", f"{compiler} refuses the interposer:\n{built.stderr.strip()}", exit_code=3)
        os.replace(part, target)
    return target


def record(command: Sequence[str], folder: Path, settings: Settings = Settings()) -> Recorded:
    """Run ``command`` and leave its launches in ``folder``, which is made and must hold nothing yet.

    Raises:
        KtcError: E-CAPTURE, the folder is not empty or the program cannot be run or captured; see :func:`interposer`.
    """
    if folder.exists() and any(folder.iterdir()):
        raise KtcError("E-CAPTURE", f"{folder} is not empty", hint="choose another folder with -o", exit_code=2)
    program = shutil.which(command[0])
    if program is None:
        raise KtcError("E-CAPTURE", f"{command[0]} is no program that can be run", exit_code=2)
    library = interposer()
    folder.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("LD_PRELOAD", "")
    env = {
        **os.environ,
        **_variables(folder, settings),
        "LD_PRELOAD": f"{library}:{before}" if before else str(library),
    }
    try:
        status = _run([program, *command[1:]], env, settings)
    except OSError as e:
        raise KtcError("E-CAPTURE", f"{program} cannot be run: {e.strerror}", exit_code=2) from e
    write_atomic(folder / HEAD, json.dumps({"format": 1, "command": list(command), "status": status}).encode())
    found = Capture.load(folder)
    if not found.launches and not found.skipped:
        raise KtcError("E-CAPTURE-NOTHING", _why_nothing(Path(program), status), hint=_HOW, exit_code=3)
    return Recorded(found, status)


def _run(command: list[str], env: dict[str, str], settings: Settings) -> int | None:
    """The exit code of ``command``; None: it, and all that it started, was stopped at the time limit."""
    out = sys.stderr if settings.quiet else None
    with subprocess.Popen(command, env=env, stdout=out, start_new_session=settings.timeout_s > 0) as running:
        try:
            return running.wait(settings.timeout_s or None)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return None
        except BaseException:
            running.kill()
            raise


_HOW = "link it with `nvcc -cudart shared` (CMake: CUDA_RUNTIME_LIBRARY Shared); launches through the driver API, " \
       "NVRTC or a CUDA graph are not seen"  # fmt: skip


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


def _why_nothing(program: Path, status: int | None) -> str:
    """What is probably the reason that no launch was seen."""
    ended = "was stopped at the time limit" if status is None else f"ended with code {status}"
    try:
        shared = b"libcudart.so" in program.read_bytes()
    except OSError:
        shared = True
    why = "" if shared else ": the CUDA runtime is linked into it statically"
    return f"{program.name} {ended}, and no kernel launch was seen{why}"
