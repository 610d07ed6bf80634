"""A sequence of launches as few kernels: what was fused and what was not, and a folder for the search to go on from.

The folder holds the sequence as one text (``launches.ktir``), which is the reference and the baseline of everything
that is made of it, its workload, the script that fuses it, and the fused kernel to read.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.driver.printing import why_not_lowered
from ktc.ir.diagnostics import KtcError

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.ir.kernel import Kernel
    from ktc.ir.workload import Workload
    from ktc.passes.launches.whole_fusion import Fusion

LAUNCHES, SHEET, SCRIPT = "launches.ktir", "workload.toml", "fuse.ktp"
"""The files of the folder: the sequence, its workload, and the script that fuses it."""


@dataclass(frozen=True)
class Fused:
    """A sequence, and what became of it: ``program`` after the script of ``fusion``. ``hint``: by what more launches
    would become one."""

    program: Program
    fusion: Fusion
    hint: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the steps had to say."""
        return self.fusion.notes or self.program.notes

    def why_apart(self) -> list[str]:
        """Why launches that came one after the other still do."""
        return [f"{a} and {b} stay apart: {no.why}" + (f" ({no.hint})" if no.hint else "")
                for a, b, no in self.fusion.refused]  # fmt: skip


def fuse(program: Program, beside: bool = False) -> Fused:
    """Make as few kernels of a sequence as may be; ``beside``: also of launches that nothing else connects.

    Raises:
        KtcError: E-FUSE-ONE for a program that is one kernel; E-FUSE-NONE where all launches stay apart, with the
            reasons.
    """
    if not program.kernel.is_sequence:
        raise _one_kernel(program)
    found = _fusion(program.kernel, beside)
    fused = Fused(program.apply(str(found.script)).ok if found.fused else program, found)
    hint = _next(fused, beside) if found.refused or not found.fused else ""
    if not found.fused:
        raise KtcError("E-FUSE-NONE", "\n".join(fused.why_apart()) or "there is one launch", hint=hint)
    return replace(fused, hint=hint)


def by_script(program: Program, fused: Program) -> Fused:
    """``fused``, which a script made of the sequence ``program``."""
    from ktc.passes.core.script import Script
    from ktc.passes.launches.whole_fusion import Fusion

    if not program.kernel.is_sequence:
        raise _one_kernel(program)
    return Fused(fused, Fusion(Script(()), fused.kernel))


def _one_kernel(program: Program) -> KtcError:
    hint = "a workload with [sequence] and a [[launch]] for each kernel names one: `ktc fuse --help` shows it"
    message = f"{program.kernel.name} is one kernel, and no sequence of launches"
    return KtcError("E-FUSE-ONE", message, program.kernel.loc, hint)


def _next(fused: Fused, beside: bool) -> str:
    """What to do where launches stay apart."""
    if names := _would_fuse_apart(fused, beside):
        where = fused.program.workload.path if fused.program.workload is not None else "the workload"
        return (
            f"they are one launch where no caller passes overlapping memory, which is only guessed: take noalias of "
            f"{names} out of `guessed` in {where} if callers keep to it"
        )
    if fused.fusion.fused:
        return ""
    if not beside and _fusion(fused.program.kernel, beside=True).fused:
        return "--beside puts launches that have nothing to do with each other into one grid"
    return "`ktc facts` shows the dependences; the launches as they are can be tuned: ktc optimize WORKLOAD"


def _would_fuse_apart(fused: Fused, beside: bool) -> str:
    """The buffers of which ``noalias`` is only guessed, if more launches could be fused were it so; ''."""
    program = fused.program
    assert program.original is not None
    work = program.workload
    doubtful = [a.name for a in work.args if "noalias" in a.guessed] if work is not None else []
    if not doubtful:
        return ""
    launches = program.original
    params = tuple(replace(p, noalias=p.noalias or p.sym.name in doubtful) for p in launches.params)
    sure = _fusion(launches.with_(params=params), beside)
    more = len(sure.refused) < len(fused.fusion.refused)
    return ", ".join(doubtful) if sure.fused and more else ""


def _fusion(launches: Kernel, beside: bool) -> Fusion:
    from ktc.passes.launches.whole_fusion import whole_fusion

    return whole_fusion(launches, beside, why_not_lowered)


def write_folder(fused: Fused, folder: Path, target: str = "cuda", text: str = "") -> list[Path]:
    """Write the folder that ``ktc optimize`` goes on from; its files. ``text``: the fused kernel as it was printed.

    Raises:
        KtcError: E-NO-WORKLOAD for a sequence without one; E-WRITE (exit code 3).
    """
    from ktc.ir.text import print_kernel
    from ktc.verification import need_workload

    original = fused.program.original
    assert original is not None
    work = need_workload(fused.program, "writing a folder to optimize in")
    code = fused.program.lower(target)
    ending = {"numba": "py", "opencl": "cl"}.get(code.target, "hip" if code.target == "hip" else "cu")
    texts = {
        LAUNCHES: print_kernel(original.with_(trace=())),
        SHEET: sheet_of(work),
        SCRIPT: f"{fused.program.script}\n",
        f"fused.{ending}": text or code.text,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as e:
        raise KtcError("E-WRITE", f"cannot write {folder}: {e.strerror}", exit_code=3) from None
    return [folder / name for name in texts]


def in_one_text(program: Program, folder: Path) -> Program:
    """The sequence that ``program`` is, read from kernels in files of their own, as one that ``folder`` holds in one
    text: what a search keeps and a recipe takes along. Other programs, and such texts, come back as they are.

    Raises:
        KtcError: E-WRITE (exit code 3).
    """
    if not program.kernel.is_sequence or program.workload is None or not program.workload.launches:
        return program
    from ktc import api
    from ktc.ir.text import print_kernel

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LAUNCHES).write_text(print_kernel(program.kernel.with_(trace=())), encoding="utf-8")
        (folder / SHEET).write_text(sheet_of(program.workload), encoding="utf-8")
    except OSError as e:
        raise KtcError("E-WRITE", f"cannot write {folder}: {e.strerror}", exit_code=3) from None
    return replace(api.load(str(folder)), variant=None)


# ------------------------------------------------------------------------------------------------------- the workload


def sheet_of(work: Workload) -> str:
    """The workload of a sequence, for its one text beside it: arguments, scenarios and reference, and no launches."""
    doc = tomllib.loads(work.path.read_text("utf-8"))
    args = [a for a in doc.get("args", []) if a.get("role") != "temp"]
    named = {a["name"] for a in args}
    args += [
        {"name": a.name, "dtype": a.dtype, "role": a.role, "value": a.value} for a in work.args if a.name not in named
    ]
    for a in args:  # template parameters mean nothing to a text that has its types
        a["dtype"] = work.dtype(work.arg(a["name"]))
    doc = {k: v for k, v in doc.items() if k not in ("sequence", "kernel", "launch", "variants")}
    head = {"source": LAUNCHES, "name": work.kernel_name}
    return dumped({"kernel": head, **doc, "args": args})


def dumped(doc: Mapping[str, Any]) -> str:
    """Tables as TOML text: plain keys, then tables and lists of tables one level deep."""
    plain = {k: v for k, v in doc.items() if not _is_table(v)}
    out = [f"{k} = {_value(v)}" for k, v in plain.items()]
    for key, value in doc.items():
        if not _is_table(value):
            continue
        for t in value if isinstance(value, list) else [value]:
            head = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
            out += ["", head, *(f"{_key(k)} = {_value(v)}" for k, v in t.items())]
    return "\n".join(out).lstrip("\n") + "\n"


def _is_table(v: Any) -> bool:
    return isinstance(v, dict) or (isinstance(v, list) and bool(v) and all(isinstance(x, dict) for x in v))


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)


def _value(v: Any) -> str:
    """A value as TOML has it."""
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(x)}" for k, x in v.items()) + " }" if v else "{}"
    if isinstance(v, list):
        return f"[{', '.join(map(_value, v))}]"
    return json.dumps(v, ensure_ascii=False) if isinstance(v, str) else repr(v)


__all__ = ["Fused", "by_script", "dumped", "fuse", "in_one_text", "sheet_of", "write_folder"]
