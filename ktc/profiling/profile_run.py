"""Running a program with the profiler in front of the CUDA driver."""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktc.backends.runtimes.file_cache import write_atomic
from ktc.capture.preloaded import NO_DRIVER, compiled, found_program, has_driver, made_empty, run_preloaded
from ktc.ir.diagnostics import KtcError

from .profile_format import PROFILE, Profile

SOURCE = Path(__file__).parent / "profiler.cpp"
PARTS = (
    *(
        SOURCE.with_name(name)
        for name in (
            "driver.h",
            "device_clock.h",
            "launch_table.h",
            "contents.h",
            "profile_state.h",
            "swap_memory.h",
            "swaps.h",
            "hooks.h",
        )
    ),
    Path(__file__).parent.parent / "capture" / "json_text.h",
)

CLOCKS = ("auto", "cupti", "events")


@dataclass(frozen=True)
class ProfileSettings:
    """``clock``: what takes the times; ``auto``: CUPTI, and events where it is not there. ``timeout_s``: 0 for none.
    ``quiet``: what the program prints goes to standard error. ``contents_mib``: of what buffers hold before the first
    launch of each kernel, so much is kept."""

    clock: str = "auto"
    timeout_s: float = 0
    quiet: bool = False
    contents_mib: int = 0


def profile(command: Sequence[str], folder: Path, settings: ProfileSettings = ProfileSettings()) -> Profile:
    """Run ``command`` and leave the profile of its launches in ``folder``, which is made and must hold nothing but an
    earlier profile, which goes.

    Raises:
        KtcError: E-CAPTURE, the folder is not empty or the program cannot be run; E-TOOL-MISSING without a compiler,
            or without CUPTI where it was asked for; E-PROFILE-NOTHING (exit code 3), it launched no kernel.
    """
    program = found_program(command)
    library = compiled(SOURCE, PARTS)
    cupti = [] if settings.clock == "events" else cupti_libraries(program)
    if settings.clock == "cupti" and not cupti:
        raise KtcError("E-TOOL-MISSING", "CUPTI was not found", hint=CUPTI_HINT, exit_code=3)
    _remove_earlier(folder)
    made_empty(folder)
    variables = {"KTC_PROFILE_DIR": str(folder.resolve()), "KTC_PROFILE_CUPTI": ":".join(map(str, cupti))}
    variables["KTC_PROFILE_CONTENTS"] = str(settings.contents_mib << 20)
    begun = time.monotonic()
    status = run_preloaded(command, library, variables, settings.timeout_s, settings.quiet)
    seconds = time.monotonic() - begun
    head = {"format": 1, "command": list(command), "status": status, "seconds": seconds, "cwd": os.getcwd()}
    write_atomic(folder / PROFILE, json.dumps(head).encode())
    found = Profile.load(folder)
    if not found.processes:
        ended = "was stopped at the time limit" if status is None else f"ended with code {status}"
        why, hint = ("", NOTHING_HINT) if has_driver() else NO_DRIVER
        said = f"{Path(program).name} {ended}, and launched no kernel that was seen{why}"
        raise KtcError("E-PROFILE-NOTHING", said, hint=hint, exit_code=3)
    return found


def _remove_earlier(folder: Path) -> None:
    """Takes the files of an earlier profile out of ``folder``."""
    if (folder / PROFILE).is_file():
        for kept in ("sources", "contents"):
            shutil.rmtree(folder / kept, ignore_errors=True)
        for path in folder.glob("profile*.json"):
            path.unlink()


CUPTI_HINT = "pip install nvidia-cuda-cupti, or set CUDA_HOME to a CUDA toolkit; --clock events needs none"

NOTHING_HINT = (
    "run it without ktc: does it reach its kernels? `ktc doctor` shows which devices work. Not seen: programs that are "
    "linked statically as a whole, or set-user-ID (the loader preloads nothing into them)"
)


def cupti_libraries(program: str) -> list[Path]:
    """The copies of CUPTI of this machine, the newest first: of Python packages (of this Python, and of the program's
    if it is one), and of CUDA toolkits."""
    found = {p.resolve() for folder in _cupti_folders(program) for p in folder.glob("libcupti.so*") if p.is_file()}
    return sorted(found, key=_version, reverse=True)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.name)))


def _cupti_folders(program: str) -> Iterator[Path]:
    prefixes = {Path(sys.prefix), Path(program).parent.parent, Path(program).resolve().parent.parent}
    packages = [Path(p) for p in (*site.getsitepackages(), site.getusersitepackages(), *sys.path)]
    for prefix in prefixes:
        packages += [*prefix.glob("lib/python3*/site-packages"), *prefix.glob("lib/python3*/dist-packages"),
                     *prefix.glob("local/lib/python3*/dist-packages")]  # fmt: skip
    for folder in packages:
        yield from (folder / "nvidia").glob("cu*/lib")
        yield folder / "nvidia" / "cuda_cupti" / "lib"
    nvcc = shutil.which("nvcc")
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda", "/opt/cuda"]
    homes += [str(Path(nvcc).resolve().parent.parent)] if nvcc else []
    for home in filter(None, homes):
        yield from (Path(home) / part for part in ("lib64", "extras/CUPTI/lib64", "lib"))
        yield from Path(home).glob("targets/*/lib")
    yield from Path("/usr/lib").glob("*-linux-gnu")


__all__ = ["CLOCKS", "ProfileSettings", "cupti_libraries", "profile"]
