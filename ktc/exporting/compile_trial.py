"""Whether a C++ export compiles, where its compiler is installed: the user's own file is compiled before and after."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ktc.backends.runtimes.device_trial import gist
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload

from .artefact import Artefact
from .cxx_libraries import exact_architectures

COMPILERS = {"cuda": "nvcc", "hip": "hipcc"}
SECONDS = 300
"""After which a compiler is no longer waited for."""


def compile_trial(folder: Path, files: Sequence[str], a: Artefact, work: Workload) -> str:
    """What to say of the export's C++ files: '' where there are none.

    Raises:
        KtcError: E-EXPORT-COMPILE, the export does not compile, though what it was made of does.
    """
    sources = [f for f in files if Path(f).suffix in (".cu", ".hip") and "/" not in f]
    if not sources:
        return ""
    compiler = shutil.which(COMPILERS.get(a.language, ""))
    if compiler is None:
        return f"not compiled: {COMPILERS.get(a.language, a.language)} is not installed here"
    flags = _flags(a, work)
    for name in sources:
        log = _refusal([compiler, *flags, "-c", str(folder / name), "-o", os.devnull])
        if log is None:
            continue
        own = Path(work.source)
        alone = _refusal([compiler, *flags, "-c", str(own), "-o", os.devnull]) if a.language == "cuda" else None
        if alone is not None:
            return f"not compiled: {own.name} alone needs flags of your build, or does not compile: {gist(alone)}"
        raise KtcError(
            "E-EXPORT-COMPILE", f"{folder / name} does not compile: {gist(log)}",
            hint="please send the source and this message; `--no-check` writes it all the same",
        )  # fmt: skip
    return f"{', '.join(sources)}: compiled by {Path(compiler).name}"


def _flags(a: Artefact, work: Workload) -> list[str]:
    found = ["-std=c++17", f"-I{Path(work.source).parent}", *(f"-I{d}" for d in work.include_dirs)]
    found += [f"-D{k}={v}" for k, v in work.defines.items()]
    if a.language == "cuda":
        exact = exact_architectures(a) or ["90"]
        found += [f"-gencode=arch=compute_{n},code=sm_{n}" for n in exact]
    else:
        found.append("--offload-arch=gfx90a")
    return found


def _refusal(command: list[str]) -> str | None:
    """What the compiler says against it; None where it compiles."""
    try:
        env = {**os.environ, "HIP_PLATFORM": "amd"}  # hipcc beside nvcc would compile for that
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=env)
    except subprocess.TimeoutExpired:
        return f"it took more than {SECONDS} s"
    return None if done.returncode == 0 else done.stdout + done.stderr
