"""``ktc lower`` and ``ktc port``: source to source."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Option
from .handing_out import DEFAULT_SECONDS, VerdictLimit, Verify, vouched
from .options import Json, OutPath, Passes, Sets, apply_script, knob_values, usage, with_program
from .output import note, print_json, put, table

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.backends import CompileReport

EXIT_ENVIRONMENT = 3


class Backend(StrEnum):
    cuda = "cuda"
    hip = "hip"
    opencl = "opencl"
    numba = "numba"


class Target(StrEnum):
    """A language, or OpenCL C for the cores of a processor: loops that its compiler makes vectors of."""

    cuda = "cuda"
    hip = "hip"
    opencl = "opencl"
    opencl_cpu = "opencl-cpu"
    numba = "numba"


class Emit(StrEnum):
    source = "source"
    template = "template"
    space = "space"
    ir = "ir"
    ptx = "ptx"
    cubin = "cubin"
    launcher = "launcher"
    launcher_cupy = "launcher-cupy"
    launcher_torch = "launcher-torch"


@with_program
def lower(
    program: Program,
    backend: Annotated[Target, Option("--backend", "-b", help="Language to print.")] = Target.cuda,
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006  nobody mutates the default
    emit: Annotated[Emit, Option("--emit", metavar="WHAT", help=f"What to print: {', '.join(Emit)}.")] = Emit.source,
    check: Annotated[bool, Option("--check", help="Compile the result with the real compiler.")] = False,
    arch: Annotated[
        str,
        Option("--arch", metavar="NAME", help="Target architecture of --check, ptx, cubin and HIP: sm_90, gfx942, ..."),
    ] = "",
    output: OutPath = "",
    json_: Json = False,
    explain: Annotated[
        bool, Option("--explain", help="Say what each pass found: raised as what, checked how, or left and why.")
    ] = False,
    verify: Verify = True,
    time_limit: VerdictLimit = DEFAULT_SECONDS,
) -> None:
    """Lower a kernel to CUDA, HIP, OpenCL or Python source.

    What passes have changed is verified against the kernel as it was, called as its workload says (drafted where there
    is none); what is wrong is not printed. With open knobs (template, space) that is at their defaults.

    Examples:
      ktc lower kernels/serving/silu_and_mul --backend hip --arch gfx942
      ktc lower k.cu -p 'raise | vectorize{loop=i width=$V:2,4,8}' --set V=8 -o k.out.cu
      ktc lower k.cu -p @best.ktp --emit template -o k.cuh     (and k.cuh.space.json beside it)
      cat k.cu | ktc lower - --backend opencl
    """
    from ktc import emission

    program = apply_script(program, passes)
    values = knob_values(sets, program)
    target = f"hip-{arch}" if backend is Target.hip and arch.startswith("gfx") else backend.value
    result = emission.emit(program, target, emit.value, values, arch or None)
    if check:
        _say(emission.compile_check(program, target, values, arch or None))
    found = vouched(program, values, verify, time_limit, quiet=json_)
    text = found.on(result.text, emission.comment_in(target, emit.value))
    if json_:
        return print_json(result.to_json() | {"text": text if result.binary is None else None} | found.to_json())
    if result.binary is not None:
        _put_binary(result.binary, output)
    else:
        put(text, output)
    if emit is Emit.template and output:
        put(json.dumps(emission.space(program), indent=2), f"{output}.space.json")
    attention = [f"{r['place']}: {r['construct']}; {r['becomes']}" for r in emission.port_report(program, "cuda")]
    said = [found.said] if found.said else []
    for line in (*attention, *(program.notes if explain else ()), *result.notes, *said):
        note(f"note: {line}")


def _say(report: CompileReport) -> None:
    used = ", ".join(f"{v} {k}" for k, v in report.resources.items())
    note(f"compiles with {report.tool} for {report.arch}" + (f": {used}" if used else ""))


def _put_binary(data: bytes, output: str) -> None:
    if not output:
        raise usage("a cubin needs -o FILE")
    try:
        Path(output).write_bytes(data)
    except OSError as e:
        raise KtcError("E-WRITE", f"cannot write {output}: {e.strerror}", exit_code=3) from e
    note(f"wrote {output}")


@with_program
def port(
    program: Program,
    to: Annotated[Backend, Option("--to", help="Language to port to.")] = Backend.hip,
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    check: Annotated[
        bool, Option("--check/--no-check", help="Compile the result where a compiler is installed.")
    ] = True,
    arch: Annotated[
        str, Option("--arch", metavar="NAME", help="Architecture to compile for: gfx90a, gfx1100, sm_90, ...")
    ] = "",
    output: OutPath = "",
    launcher: Annotated[str, Option("--launcher", metavar="FILE", help="Write host code that launches it there.")] = "",
    json_: Json = False,
    verify: Verify = True,
    time_limit: VerdictLimit = DEFAULT_SECONDS,
) -> None:
    """Port a kernel to another language, with a report of what needed more than renaming.

    What passes have changed is verified against the kernel as it was; what is wrong is not printed.

    Examples:
      ktc port kernels/serving/fused_add_rmsnorm --to hip -o fused_add_rmsnorm.hip
      ktc port k.cu --to opencl --json
      ktc port k.cl --to hip -o k.hip --launcher k_launch.cpp
    """
    from ktc import emission
    from ktc.scaffold.drafted_launches import with_launch

    program, guess = with_launch(apply_script(program, passes)) if launcher else (apply_script(program, passes), "")
    values = knob_values(sets, program)
    profile = emission.plainest_profile(program, to.value, values)
    result = emission.emit(program, profile, "source", values, arch or None)
    rows = emission.port_report(program, to.value)
    compiled = _try_compile(program, profile, values, arch) if check and to is not Backend.numba else None
    found = vouched(program, values, verify, time_limit, quiet=json_)
    comment = emission.comment_in(profile, "source")
    code = found.on(result.text, comment)
    if json_:
        more = {"text": code, "profile": profile, "constructs": rows, "compiles": compiled}
        return print_json({**result.to_json(), **more, **found.to_json()})
    host = emission.emit(program, profile, "launcher", values, arch or None).text if launcher else ""
    put(code, output)
    if launcher:
        put(found.on(host, comment), launcher)
    text = table(["construct", "place", "in the port"], [(r["construct"], r["place"], r["becomes"]) for r in rows])
    note(text if rows else "every construct carries over under its own name")
    plainest = emission.PORT_PROFILES.get(to.value, (profile,))[0]
    guesses = [f"the source launches nothing; the launcher's {guess} is a guess"] if guess else []
    capable = [f"for devices of the profile {profile}"] if profile != plainest else []
    for line in (*guesses, *result.notes, *capable, *([found.said] if found.said else [])):
        note(f"note: {line}")
    if compiled:
        note(str(compiled["says"]))


def _try_compile(program: Program, target: str, values: dict[str, int], arch: str) -> dict[str, object]:
    """What the compiler says of a port; not having one is no error here, a refusal is."""
    from ktc import emission

    try:
        report = emission.compile_check(program, target, values, arch or None)
    except KtcError as e:
        if e.exit_code != EXIT_ENVIRONMENT:
            raise
        return {"ok": None, "says": f"not compiled: {e.message}; {e.hint}"}
    return {"ok": True, "says": f"compiles with {report.tool} for {report.arch}", "resources": dict(report.resources)}
