"""Libraries of this package that stand in front of CUDA in a program: compiled on this machine, and preloaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktc.backends.runtimes.file_cache import cache_root, key_of
from ktc.ir.diagnostics import KtcError

FLAGS = ("-O2", "-fPIC", "-shared", "-std=c++17", f"-I{Path(__file__).parent}")

ALONE = ("-static-libstdc++", "-static-libgcc")
"""The program may bring another C++ library than this machine's: the preloaded one has its own inside, if it can."""

EXPORTS = "{ global: cu*; __cuda*; nvrtc*; dlsym; local: *; };\n"
"""What a preloaded library may put in front of the program's functions."""


STDERR = 2
"""The file that a program's output goes to where standard output is for JSON."""


def compiled(source: Path, parts: Sequence[Path]) -> Path:
    """The library of ``source``, which includes ``parts``: made by the machine's C++ compiler when first needed, then
    kept.

    Raises:
        KtcError: E-TOOL-MISSING (exit code 3) without a compiler, E-COMPILE if it refuses.
    """
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    if compiler is None:
        raise KtcError("E-TOOL-MISSING", "watching a program's launches needs a C++ compiler", hint="install g++",
                       exit_code=3)  # fmt: skip
    texts = [p.read_text("utf-8") for p in (source, *parts)]
    target = cache_root() / "interposer" / f"{key_of(*texts, compiler, *FLAGS, *ALONE, EXPORTS)[:16]}.so"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        exports = target.with_suffix(f".{os.getpid()}.map")
        exports.write_text(EXPORTS)
        command = [compiler, *FLAGS, str(source), "-o", str(part), f"-Wl,--version-script={exports}", "-ldl"]
        for extra in (ALONE, ()):
            built = subprocess.run([*command, *extra], capture_output=True, text=True)
            if not built.returncode:
                break
        exports.unlink()
        if built.returncode:
            raise KtcError("E-COMPILE", f"{compiler} refuses {source.name}:\n{built.stderr.strip()}", exit_code=3)
        os.replace(part, target)
    return target


def found_program(command: Sequence[str]) -> str:
    """The path of the program of ``command``.

    Raises:
        KtcError: E-CAPTURE (exit code 2), it is none that can be run.
    """
    program = shutil.which(command[0])
    if program is None:
        raise KtcError("E-CAPTURE", f"{command[0]} is no program that can be run", exit_code=2)
    return program


def made_empty(folder: Path) -> None:
    """Makes ``folder``.

    Raises:
        KtcError: E-CAPTURE (exit code 2), it is there and holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KtcError("E-CAPTURE", f"{folder} is not empty", hint="choose another folder with -o", exit_code=2)
    folder.mkdir(parents=True, exist_ok=True)


NO_DRIVER = (
    ": this machine has no NVIDIA driver (libcuda.so.1 cannot be loaded)",
    "run this on the machine that has the GPU; here, `ktc optimize FILE.cu` drafts sizes and measures on the CPU",
)
"""Why no launch was seen where none can be, and what to do."""


def has_driver() -> bool:
    """Whether this machine has a CUDA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def run_preloaded(
    command: Sequence[str], library: Path, variables: Mapping[str, str], timeout_s: float = 0, quiet: bool = False
) -> int | None:
    """The exit code of ``command``, run with ``library`` in front of its own; None: it, and all that it started, was
    stopped after ``timeout_s`` (0: never). ``quiet``: what it prints goes to standard error.

    Raises:
        KtcError: E-CAPTURE (exit code 2), it cannot be run.
    """
    before = os.environ.get("LD_PRELOAD", "")
    preload = f"{library}:{before}" if before else str(library)
    env = {**os.environ, **variables, "LD_PRELOAD": preload}
    program = found_program(command)
    out = STDERR if quiet else None
    try:
        running = subprocess.Popen([program, *command[1:]], env=env, stdout=out, start_new_session=timeout_s > 0)
    except OSError as e:
        raise KtcError("E-CAPTURE", f"{program} cannot be run: {e.strerror}", exit_code=2) from e
    with running:
        try:
            return running.wait(timeout_s or None)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return None
        except BaseException:
            running.kill()
            raise
