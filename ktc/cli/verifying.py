"""``ktc verify``: the verification ladder on one script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Argument, Option
from .options import (
    Device,
    Json,
    Passes,
    Scenarios,
    Seed,
    Sets,
    Twin,
    apply_script,
    knob_values,
    load_program,
    preprocessing,
    usage,
    with_program,
    with_workload,
)
from .output import ended, note, print_json, progress, styled, table

if TYPE_CHECKING:
    from ktc.api import Program


def _second(program: Program, path: str, kernel: str) -> Program:
    """The kernel of a second source, read with the options of the first: of several, the one of the same name."""
    from ktc.ir.frontend import list_kernels
    from ktc.ir.frontend.host.kernel_names import spelled

    spec = program.source
    defines = [f"{k}={v}" for k, v in spec.defines.items()] if spec else []
    include = [str(d) for d in spec.include_dirs] if spec else []
    if not kernel and path.endswith((".cu", ".cuh", ".hip", ".cl", ".cpp")) and Path(path).is_file():
        names = [spelled(k.name).name for k in list_kernels(path, **preprocessing(defines, include))]
        own = spec.name if spec and spec.name else program.kernel.name
        kernel = own if spelled(own).name in names and len(names) > 1 else ""
    template = [",".join(f"{k}={v}" for k, v in spec.template.items())] if spec and spec.template else []
    return load_program(path, kernel, template, "", defines, include, "", beside=False, instantiate=True)


@with_program
def verify(
    program: Program,
    other: Annotated[
        str, Argument("OTHER", "A second source: its kernel, written by hand, is checked against KERNEL's.")
    ] = "",
    other_kernel: Annotated[
        str, Option("--other-kernel", metavar="NAME", help="Which function of OTHER [default: of KERNEL's name].")
    ] = "",
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    device: Device = "",
    scenario: Scenarios = [],  # noqa: B006
    seed: Seed = 0,
    twin: Twin = False,
    json_: Json = False,
) -> None:
    """Check a script, or a kernel written by hand, against the original: interpreter, exact arithmetic, sanitizers,
    the device.

    With a second source both kernels must take the same arguments; with -p too, the passes are applied to the second.
    Without either, the kernel itself is checked: races, accesses out of bounds, barriers that not all threads reach.

    Examples:
      ktc verify kernels/serving/silu_and_mul -p raise
      ktc verify k.cu -p @best.ktp --set V=8 --device opencl
      ktc verify naive.cu mine.cu
      ktc verify naive.cu mine.cu --kernel sum_rows --other-kernel sum_rows_v2 --device none
      ktc verify kernels/dense/sgemm -p raise --twin --scenario large-4096
    """
    program = with_workload(program)
    if other:
        program = program.rewritten_as(_second(program, other, other_kernel))
    elif other_kernel:
        raise usage("--other-kernel names a function of a second source", hint="ktc verify KERNEL OTHER ...")
    program = apply_script(program, passes)
    values = knob_values(sets, program)
    with progress("verifying", quiet=json_) as bar:
        verdict = program.verify(
            values=values, device=device or None, scenarios=tuple(scenario), seed=seed, twin=twin, say=bar.say
        )
    notes = program.notes if other else ()
    if json_:
        print_json(verdict.to_json() | ({"notes": list(notes)} if other else {}))
    else:
        rows = [
            (r.name, styled(r.status, {"pass": "green", "fail": "red"}.get(r.status, "yellow")), r.detail)
            for r in verdict.rungs
        ]
        print(table(["rung", "verdict", "detail"], rows))
    for line in notes:
        note(f"note: of the rewrite, {line}")
    if not verdict.ok:
        first = next((r for r in verdict.rungs if r.status == "fail"), None)
        why = f"{first.name}: {first.detail}" if first else f"{verdict.status}: {verdict.reason}"
        raise ended(KtcError("E-VERIFY-FAILED", why), json_)
