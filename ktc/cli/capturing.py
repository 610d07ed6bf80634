"""``ktc capture`` and ``ktc rerun``: launches of a real program, recorded, and run again by the kernels ktc prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Argument, Option
from .options import OUTPUT, Define, Include, Json, Passes, Sets, knob_values, script_text, usage
from .output import ended, note, print_json, progress, styled, table

if TYPE_CHECKING:
    from ktc.capture import Capture, Outcome

Only = Annotated[
    list[str], Option("--kernel", metavar="NAME", help="Only kernels with NAME in their names (repeatable).")
]
COLOURS = {"identical": "green", "within": "green", "differs": "red", "failed": "red"}


def capture(
    command: Annotated[list[str], Argument("COMMAND", "The program and its arguments, after --.")],
    output: Annotated[str, Option(*OUTPUT, metavar="DIR", help="Folder of the capture.")] = "ktc-capture",
    launches: Annotated[
        str, Option("--launches", metavar="N,N", help="Which launches of each kernel, counted from 1.")
    ] = "1,2,10",
    kernel: Only = [],  # noqa: B006
    launch_mib: Annotated[
        int, Option("--launch-mib", least=1, metavar="MIB", help="Skip launches that reach more memory than this.")
    ] = 256,
    total_mib: Annotated[
        int, Option("--total-mib", least=1, metavar="MIB", help="Stop when so much is written.")
    ] = 2048,
    twice: Annotated[
        bool,
        Option(
            "--twice/--once", help="Run each captured launch again from the same state: is the original repeatable?"
        ),
    ] = True,
    timeout: Annotated[
        int, Option("--timeout", metavar="SECONDS", least=0, help="Stop the program then; 0: never.")
    ] = 0,
    json_: Json = False,
) -> None:
    """Run a CUDA program and record what its kernel launches were given and what they left in memory.

    The program's CUDA runtime must be a shared library (nvcc -cudart shared). For each chosen launch the folder holds
    the geometry, the arguments, and the whole content of every allocation and variable that the kernel can reach,
    before and after. `ktc rerun` then runs the kernels that ktc prints on it.

    Examples:
      nvcc -cudart shared -arch=sm_90 gemm.cu -o gemm && ktc capture -o gemm.cap -- ./gemm
      ktc capture --kernel reduce --launches 1,100 -o r.cap -- ./solver --size 4096
    """
    from ktc.capture import Settings, record

    try:
        ordinals = tuple(int(n) for n in launches.split(","))
    except ValueError:
        raise usage(f"--launches takes numbers, as in 1,2,10, not '{launches}'") from None
    settings = Settings(ordinals, tuple(kernel), launch_mib, total_mib, twice, timeout, json_)
    found = record(command, Path(output), settings)
    if json_:
        c = found.capture
        rows = [
            {"kernel": x.kernel, "ordinal": x.ordinal, "bytes": x.bytes, "unstable": x.unstable} for x in c.launches
        ]
        skipped = [{"kernel": x.kernel, "ordinal": x.ordinal, "reason": x.reason} for x in c.skipped]
        return print_json({"capture": output, "status": found.status, "launches": rows, "skipped": skipped})
    _show_capture(found.capture)
    if found.status != 0:
        how = "was stopped at the time limit" if found.status is None else f"ended with code {found.status}"
        note(f"note: the program {how}; what it launched before is captured")
    print(output)


def _show_capture(c: Capture) -> None:
    rows = [
        (x.kernel, x.ordinal, "x".join(map(str, x.grid)), "x".join(map(str, x.block)), x.bytes,
         "repeatable" if x.rerun == "done" and not x.unstable else f"{x.unstable} bytes differ between {x.runs} runs"
         if x.rerun == "done" else f"second run: {x.rerun}")
        for x in c.launches
    ]  # fmt: skip
    if rows:
        print(table(["kernel", "launch", "grid", "block", "bytes", "original"], rows, right=(1, 4)))
    for s in c.skipped:
        note(f"not captured: launch {s.ordinal} of {s.kernel}: {s.reason}")


def rerun(
    capture: Annotated[str, Argument("CAPTURE", "The folder that `ktc capture` wrote.")],
    source: Annotated[list[str], Argument("FILE.cu", "The program's sources that have the kernels.")],
    backend: Annotated[
        list[str], Option("--backend", "-b", metavar="B", help="cuda, hip, opencl or numba (repeatable).", unset="cuda")
    ] = [],  # noqa: B006
    device: Annotated[str, Option("--device", metavar="NAME", help="The runtime to use: opencl:NVIDIA, cuda:1.")] = "",
    kernel: Only = [],  # noqa: B006
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    json_: Json = False,
) -> None:
    """Run captured launches again with the kernels as ktc prints them, and compare the memory they leave.

    Bit for bit; where only floats differ, within what another rounding explains: 4 units of round-off of the element
    and 64 of the accumulation, relative to its value and the root mean square of its buffer. Where runs of the original
    differ themselves, their spread is the yardstick. HIP text runs on an NVIDIA GPU through a thin header.

    Examples:
      ktc rerun gemm.cap gemm.cu
      ktc rerun gemm.cap gemm.cu -b cuda -b hip -b opencl --device opencl:NVIDIA
      ktc rerun gemm.cap gemm.cu --kernel gemm_kernel -p raise
    """
    from ktc.capture import Capture, rerun
    from ktc.capture.rerun import BACKENDS, Sources

    chosen = [b for text in backend for b in text.split(",")] or ["cuda"]
    for b in chosen:
        if b not in BACKENDS:
            raise usage(f"--backend takes one of {', '.join(BACKENDS)}, not '{b}'")
    defines = {k: v for k, _, v in (d.partition("=") for d in define)}
    sources = Sources(tuple(source), defines, tuple(include), script_text(passes), knob_values(sets))
    devices = {b: device for b in chosen if device and device.startswith({"hip": "cuda"}.get(b, b))}
    outcomes = []
    with progress("running again", quiet=json_) as bar:
        loaded = Capture.load(Path(capture))
        for o in rerun(loaded, sources, chosen, lambda x: not kernel or any(k in x.kernel for k in kernel), devices):
            outcomes.append(o)
            bar.update(len(outcomes), len(loaded.launches) * len(chosen), o.launch.kernel)
    if json_:
        print_json({"capture": capture, "outcomes": [o.to_json() for o in outcomes]})
    else:
        _show_outcomes(outcomes)
    wrong = [o for o in outcomes if o.status in ("differs", "failed")]
    if wrong:
        first = wrong[0]
        where = f"launch {first.launch.ordinal} of {first.launch.kernel} on {first.backend}"
        said = f"{len(wrong)} of {len(outcomes)} reruns went wrong, the first: {where}: {first.detail}"
        raise ended(KtcError("E-RERUN", said), json_)


def _show_outcomes(outcomes: Sequence[Outcome]) -> None:
    rows = []
    for o in outcomes:
        verdict = styled(o.status, COLOURS.get(o.status, "yellow"))
        unstable = f" [the original's own runs differ in {o.launch.unstable} bytes]" if o.launch.unstable else ""
        rows.append((o.launch.kernel, o.launch.ordinal, o.launch.bytes, o.backend, verdict, o.detail + unstable))
    print(table(["kernel", "launch", "bytes", "backend", "verdict", "detail"], rows, right=(1, 2)))
    counts = Counter(o.status for o in outcomes)
    note(", ".join(f"{n} {status}" for status, n in counts.most_common()) or "nothing was captured of these kernels")
