"""Everything a program can be printed as: source, template with its search space, IR, launcher, PTX, cubin."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ir.diagnostics import KtcError

if TYPE_CHECKING:
    from .api import Program

DEFAULT_ARCH = "sm_90"
COMPILE_SECONDS = 120


@dataclass(frozen=True)
class Output:
    """One printed form. ``binary`` instead of ``text`` for a cubin."""

    text: str
    target: str
    kind: str
    entry: str = ""
    knobs: Mapping[str, int] | None = None
    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    binary: bytes | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "kind": self.kind,
            "entry": self.entry,
            "knobs": dict(self.knobs or {}),
            "options": list(self.options),
            "notes": list(self.notes),
            "text": self.text if self.binary is None else None,
            "binary_hex": self.binary.hex() if self.binary is not None else None,
        }


def emit(program: Program, target: str, kind: str, values: Mapping[str, int], arch: str | None = None) -> Output:
    """``program`` printed as ``kind``: source | template | space | ir | launcher | ptx | cubin.

    Raises:
        KtcError: unknown or infeasible knobs, a construct the target lacks, no compiler for ptx and cubin.
    """
    return _KINDS[kind](program, target, dict(values), arch)


def space(program: Program) -> dict[str, Any]:
    """The open knobs as data: domains, defaults, constraints over them as text."""
    from .ir.text import print_expr

    k = program.kernel
    return {
        "kernel": k.name,
        "script": program.script,
        "knobs": [{"name": d.name, "values": list(d.domain), "default": d.default, "doc": d.doc} for d in k.knobs],
        "constraints": [print_expr(c) for c in k.constraints],
    }


def compile_check(program: Program, target: str, values: Mapping[str, int], arch: str | None) -> Any:
    """What the target's real compiler says of the program (``ktc.backends.check_compile``)."""
    from .backends import check_compile

    emitted = program.lower(target, **values)
    return check_compile(emitted, arch) if arch else check_compile(emitted)


def port_report(program: Program, target: str) -> list[dict[str, str]]:
    """What of the kernel that gets printed needs more than renaming in ``target``."""
    from .porting import report

    return report(program.kernel, target)


def _source(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _printed(program, target, "source", values)


def _template(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _printed(program, target, "template", values)


def _printed(program: Program, target: str, mode: str, values: dict[str, int]) -> Output:
    e = program.lower(target, mode, **values)
    return Output(e.text, target, mode, e.entry, e.kernel.knob_values, e.options, e.notes)


def _ir(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    p = program.bind(**values) if values else program.ok
    return Output(p.text(), "ktir", "ir", p.kernel.name, p.kernel.knob_values)


def _space(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    import json

    p = program.bind(**values) if values else program.ok
    return Output(json.dumps(space(p), indent=2), "json", "space", p.kernel.name, p.kernel.knob_values)


def _launcher(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    from .backends.launchers import launcher  # type: ignore[import-not-found]

    e = program.lower(target, **values)
    return Output(launcher(e), target, "launcher", e.entry, e.kernel.knob_values, e.options, e.notes)


def _device_code(program: Program, target: str, values: dict[str, int], arch: str | None, kind: str) -> Output:
    if target != "cuda":
        raise KtcError("E-USAGE", f"--emit {kind} goes with --backend cuda", exit_code=2)
    e = program.lower("cuda", **values)
    data = nvcc(e.text, kind, arch or DEFAULT_ARCH, e.options)
    text = data.decode("utf-8", errors="replace") if kind == "ptx" else ""
    return Output(
        text, "cuda", kind, e.entry, e.kernel.knob_values, e.options, e.notes, None if kind == "ptx" else data
    )


def _ptx(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _device_code(program, target, values, arch, "ptx")


def _cubin(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _device_code(program, target, values, arch, "cubin")


def nvcc(text: str, kind: str, arch: str, options: tuple[str, ...] = ()) -> bytes:
    """``text`` compiled by nvcc to PTX or a cubin.

    Raises:
        KtcError: E-NO-COMPILER (exit code 3) without nvcc, E-COMPILE with its log.
    """
    tool = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if tool is None:
        raise KtcError("E-NO-COMPILER", "nvcc is not installed", hint="ktc doctor says how to get it", exit_code=3)
    with tempfile.TemporaryDirectory(prefix="ktc-") as folder:
        source, out = Path(folder) / "kernel.cu", Path(folder) / f"kernel.{kind}"
        source.write_text(text, encoding="utf-8")
        command = [tool, f"-arch={arch}", f"-{kind}", *options, "-o", str(out), str(source)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=COMPILE_SECONDS, env=os.environ | {"TMPDIR": folder}
            )
        except subprocess.TimeoutExpired as e:
            raise KtcError("E-COMPILE", f"nvcc took longer than {COMPILE_SECONDS} s") from e
        if done.returncode != 0:
            raise KtcError("E-COMPILE", f"nvcc refuses the output:\n{done.stderr.strip()}")
        return out.read_bytes()


_KINDS: dict[str, Callable[[Any, str, dict[str, int], str | None], Output]] = {
    "source": _source,
    "template": _template,
    "space": _space,
    "ir": _ir,
    "launcher": _launcher,
    "ptx": _ptx,
    "cubin": _cubin,
}
