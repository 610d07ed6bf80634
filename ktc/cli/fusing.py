"""``ktc fuse``: a sequence of launches as few kernels."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Option
from .drafting_sequences import drafted_for
from .handing_out import DEFAULT_SECONDS, VerdictLimit, Verify, vouched
from .lowering import Backend
from .options import OUTPUT, Json, Passes, apply_script, with_program
from .output import note, print_json, put

if TYPE_CHECKING:
    from ktc.api import Program


@functools.partial(with_program, instead=drafted_for)
def fuse(
    program: Program,
    backend: Annotated[Backend, Option("--backend", "-b", help="Language to print.")] = Backend.cuda,
    passes: Passes = "",
    function: Annotated[
        str,
        Option("--function", metavar="NAME", help="KERNEL is a CUDA source: the launches of this host function of it."),
    ] = "",
    beside: Annotated[
        bool, Option("--beside", help="Also put launches that have nothing to do with each other into one grid.")
    ] = False,
    output: Annotated[
        str, Option(*OUTPUT, metavar="DIR", help="Write a folder that `ktc optimize` goes on from.")
    ] = "",
    verify: Verify = True,
    time_limit: VerdictLimit = DEFAULT_SECONDS,
    json_: Json = False,
) -> None:
    """Make one kernel, or as few as dependences allow, of kernels that a program launches one after the other.

    KERNEL is a workload of a sequence: its buffers, and the launches in order, with what is passed for each parameter.
    `ktc init FILE.cu --function NAME` drafts one from a host function, and so does --function here, into NAME.toml.
    A buffer whose role is temp is what one launch leaves for another; it is gone where its values can stay in
    registers or shared memory. The result is verified against the launches as they are. -p gives the script itself
    (`fuse-launches`, `side-by-side`, `contract`) instead of what is found.

    A workload of a sequence:
      [sequence]
      name = "norm_then_quantise"
      source = "kernels.cu"
      [[args]]            # as for a kernel; noalias = true where no caller passes overlapping memory
      name = "y"
      dtype = "f16"
      shape = ["rows", "d"]
      role = "temp"
      [[launch]]
      kernel = "add_rms_norm"
      args = { out = "y", eps = 1e-6 }     # those left out get the argument of their own name
      grid = ["rows"]
      block = ["256"]

    Examples:
      ktc fuse norm_then_quantise.toml
      ktc fuse my_layers.cu --function forward
      ktc fuse kernels/fusion/gate_then_fp8 --backend opencl
      ktc fuse pair.toml -o fused && ktc optimize fused
      ktc fuse pair.toml -p 'raise | fuse-launches{how=recompute}'
    """
    from ktc import fused_sequences
    from ktc.emission import comment_in

    if passes:
        found = fused_sequences.by_script(program, apply_script(program, passes))
    else:
        found = fused_sequences.fuse(program, beside)
    code = found.program.lower(backend.value)
    stands = vouched(found.program, {}, verify, time_limit, quiet=json_)
    if verify and stands.missing:
        raise KtcError("E-VERIFY-FAILED", stands.missing, hint="--no-verify prints it all the same")
    text = stands.on(code.text, comment_in(backend.value, "source"))
    files = fused_sequences.write_folder(found, Path(output), backend.value, text) if output else []
    if json_:
        print_json({
            "kernel": found.program.kernel.name, "script": found.program.script, "text": text,
            "notes": list(found.notes), "apart": found.why_apart(), "hint": found.hint,
            "files": list(map(str, files)), **stands.to_json(),
        })  # fmt: skip
        return
    put(text, "")
    for line in (*found.notes, *found.why_apart()):
        note(f"note: {line}")
    if found.hint:
        note(f"note: {found.hint}")
    note(f"script: {found.program.script}")
    if stands.verdict is not None:
        note(f"{stands.verdict.status} against the launches as they are: {stands.shown}")
    else:
        note(f"note: {stands.said}")
    for f in files:
        note(f"wrote {f}")
    if files:
        note(f"next: ktc optimize {shlex.quote(output)}")
