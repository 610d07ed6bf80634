"""The launches of a sequence as kernels with workloads of their own: what they take when each is tuned by itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload.workloads import TEMPORARY

from .fused_sequences import dumped

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.ir.kernel import Kernel, Param
    from ktc.ir.workload import Workload


def launch_folders(program: Program, folder: Path) -> list[tuple[str, Path]]:
    """Write a folder for each launch of a sequence: its kernel's name and the folder, in order.

    A buffer is an input of a launch that reads it, an output of one that writes it, with the data that the sequence's
    workload describes; of temporaries that are read it describes none, and they hold numbers like any other input.

    Raises:
        KtcError: E-NO-WORKLOAD; E-WRITE (exit code 3).
    """
    from ktc.backends.sequence_text import printable
    from ktc.ir.text import print_kernel
    from ktc.verification import need_workload

    work = need_workload(program, "tuning launches apart")
    original = program.original or program.kernel
    doc = tomllib.loads(work.path.read_text("utf-8"))
    made, variant = [], program.variant
    for k, kernel in enumerate(printable(original), 1):
        own = folder / f"launch-{k}-{kernel.name}"
        try:
            own.mkdir(parents=True, exist_ok=True)
            (own / "kernel.ktir").write_text(print_kernel(kernel.with_(trace=())), encoding="utf-8")
            (own / "workload.toml").write_text(dumped(_sheet(doc, work, original, kernel, variant)), encoding="utf-8")
        except OSError as e:
            raise KtcError("E-WRITE", f"cannot write {own}: {e.strerror}", exit_code=3) from None
        made.append((kernel.name, own))
    return made


def _sheet(
    doc: dict[str, Any], work: Workload, sequence: Kernel, kernel: Kernel, variant: str | None
) -> dict[str, Any]:
    """The workload of one launch, as TOML has it."""
    from ktc.ir.nodes import Load
    from ktc.ir.sequences import temporaries
    from ktc.ir.types import Ptr
    from ktc.ir.walk import all_exprs, assigned

    written = assigned(kernel.body)
    read = {e.buffer for e in all_exprs(kernel.body) if isinstance(e, Load)}
    known = {a["name"]: dict(a) for a in doc.get("args", []) if a["role"] != TEMPORARY}
    known |= {p.sym.name: _temporary(p, work) for p in temporaries(sequence)}
    known |= {a.name: {"name": a.name, "role": "scalar", "value": a.value} for a in work.args if a.name not in known}
    args = []
    for p in kernel.params:
        name = p.sym.name
        if name not in known:
            continue
        given = known[name]
        given.setdefault("dtype", "")
        if not p.temporary and any(a.name == name for a in work.args):
            given["dtype"] = work.dtype(work.arg(name), variant)
        if isinstance(p.sym.type, Ptr):
            given["role"] = "in" if p.sym not in written else "inout" if p.sym in read else "out"
            given["noalias"] = p.noalias
            if p.align:
                given["align"] = p.align
            if given["role"] == "out":
                given = {k: v for k, v in given.items() if k not in ("init", "range", "mark")}
        args.append(given)
    head: dict[str, Any] = {"source": "kernel.ktir", "name": kernel.name}
    kept: dict[str, Any] = {k: doc[k] for k in ("check", "scenario") if k in doc}
    return {"kernel": head, "args": args, **kept}


def _temporary(p: Param, work: Workload) -> dict[str, Any]:
    """A temporary as an argument, as long as it is in the sequence."""
    from ktc.backends.launchers.cupy_launcher import python_text
    from ktc.ir.types import scalar_of

    assert p.scratch is not None
    text = python_text(p.scratch)
    for a in work.args:
        if a.role == "scalar" and a.value is not None:
            text = re.sub(rf"\b{re.escape(a.name)}\b", f"({a.value})", text)
    return {"name": p.sym.name, "dtype": scalar_of(p.sym.type).name, "shape": [text]}


__all__ = ["launch_folders"]
