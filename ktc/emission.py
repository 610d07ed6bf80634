"""Everything a program can be printed as: source, template with its search space, IR, launcher, PTX, cubin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import unvouched, without

if TYPE_CHECKING:
    from ktc.backends import CompileReport
    from ktc.backends.base import Emitted
    from ktc.ir.kernel import Kernel

    from .api import Program
    from .driver.reliance import Resting


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


Printer = Callable[["Program", str, dict[str, int], "str | None"], Output]
"""Program, target, knob values, architecture."""


def emit(program: Program, target: str, kind: str, values: Mapping[str, int], arch: str | None = None) -> Output:
    """``program`` printed as ``kind``: source | template | space | ir | launcher | launcher-cupy |
    launcher-torch | ptx | cubin.

    Raises:
        KtcError: unknown or infeasible knobs, a construct the target lacks, no compiler for ptx and cubin.
    """
    output = _KINDS[kind](program, target, dict(values), arch)
    if kind not in _RUN or not program.trace:
        return output
    return dataclasses.replace(output, notes=(*output.notes, *fallbacks(program, values)))


def fallbacks(program: Program, values: Mapping[str, int]) -> tuple[str, ...]:
    """For which scenarios of the workload a launcher runs the source's kernel in place of ``program``, a sentence for
    each thing that ``program`` takes for granted and that is not so there."""
    from ktc.ir.workload.scenario_facts import unmet

    if program.workload is None or program.original is None:
        return ()
    kernel, missing = program.bind(**values).kernel, dict[str, list[str]]()
    for s in program.workload.scenarios:
        if (why := unmet(kernel, program.workload, s.sizes)) and not unmet(program.original, program.workload, s.sizes):
            missing.setdefault(why, []).append(s.name)
    several = len(program.workload.scenarios)
    return tuple(
        f"the launcher runs the source's kernel for {_scenarios(names, several)}: '{why}' does not hold"
        for why, names in missing.items()
    )


def _scenarios(names: list[str], several: int) -> str:
    if len(names) == several:
        return "every scenario of the workload"
    return f"the scenario{'s' if len(names) > 1 else ''} {', '.join(names)}"


def resting(program: Program, target: str, values: Mapping[str, int]) -> Resting:
    """``program`` printed for ``target``, and what of a draft its text rests on."""
    from ktc.search.verification.fewer_promises import alike_with_less

    from .driver.reliance import Resting, least_assuming

    e, work = program.lower(target, **values), program.workload
    if program.original is None:
        return Resting(e, ())

    def alike(original: Kernel, candidate: Kernel) -> bool:
        return work is not None and alike_with_less(original, candidate, work, program.variant)

    return least_assuming(program.original, program.script, e, target, alike)


def space(program: Program) -> dict[str, Any]:
    """The open knobs as data: domains, defaults, constraints, and the launch over them."""
    from ktc.backends import search_space

    return search_space(program.lowered())


def compile_check(program: Program, target: str, values: Mapping[str, int], arch: str | None) -> CompileReport:
    """What the target's real compiler says of the program.

    Raises:
        KtcError: E-COMPILE when it refuses (a bug in ktc or an option it lacks), E-TOOL-MISSING without a compiler.
    """
    return _compiled(program.lower(target, **values), arch, "cubin")


def _compiled(emitted: Emitted, arch: str | None, output: str) -> CompileReport:
    from ktc.backends import check_compile
    from ktc.backends.base import CompileFailure

    try:
        return check_compile(emitted, arch, output)
    except CompileFailure as e:
        raise KtcError("E-COMPILE", f"the {emitted.target} compiler refuses the output:\n{e.log.strip()}") from e


def comment_in(target: str, kind: str) -> str:
    """How a comment begins in what :func:`emit` gives; '' where there are none."""
    if kind in ("space", "cubin"):
        return ""
    return "#" if target.startswith("numba") or kind in ("ir", "launcher-cupy", "launcher-torch") else "//"


PORT_PROFILES = {"opencl": ("opencl-cl12", "opencl-cl30-subgroups")}
"""The profiles of a language that a kernel is tried with, the plainest first."""


def plainest_profile(program: Program, target: str, values: Mapping[str, int]) -> str:
    """The plainest profile of ``target`` that has all that ``program`` needs: sub-groups for its warps, for example.

    Raises:
        KtcError: what the most capable one lacks, when all of them lack something.
    """
    lacks: KtcError | None = None
    for profile in PORT_PROFILES.get(target, (target,)):
        try:
            program.lower(profile, **values)
            return profile
        except KtcError as e:
            lacks = e
            if not e.code.startswith("E-BACKEND-"):
                break
    assert lacks is not None
    raise lacks


def port_report(program: Program, target: str) -> list[dict[str, str]]:
    """What of the kernel that gets printed needs more than renaming in ``target``."""
    from .porting import report

    return report(program.kernel, target)


def _source(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    if not program.trace or not unvouched(program.original or program.kernel):
        return _printed(program, target, "source", values)
    found = resting(program, target, values)
    asked = "; ".join(found.conditions)
    most = "" if found.least else "no more than this of "
    note = f"rests on {most}what a draft guessed: {asked}: its launcher (--emit launcher) tests that"
    return _output(found.emitted, "source", (note,) if asked else ())


def _template(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _printed(program, target, "template", values)


def _printed(program: Program, target: str, mode: str, values: dict[str, int]) -> Output:
    return _output(program.lower(target, mode, **values), mode)


def _output(e: Emitted, kind: str, notes: tuple[str, ...] = ()) -> Output:
    return Output(e.text, e.target, kind, e.entry, e.kernel.knob_values, e.options, (*e.notes, *notes))


def _ir(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    p = program.bind(**values) if values else program.ok
    return Output(p.text(), "ktir", "ir", p.kernel.name, p.kernel.knob_values)


def _space(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    import json

    p = program.bind(**values) if values else program.ok
    return Output(json.dumps(space(p), indent=2), "json", "space", p.kernel.name, p.kernel.knob_values)


def _launcher(kind: str | None) -> Printer:
    """One text: the kernel, the original if something is to be tested, and host code in the target's own style, or for
    CuPy or PyTorch, that tests it."""

    def printer(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
        from ktc.backends import emit_program
        from ktc.backends.launchers.launch_geometry import is_guarded

        e = resting(program, target, values).emitted
        original = _original(program, target) if program.trace and is_guarded(e.kernel) else None
        text = emit_program(e, kind, original)
        return Output(text, target, "launcher", e.entry, e.kernel.knob_values, e.options, e.notes)

    return printer


ORIGINAL = "_original"
"""What the names of original kernels end in, beside a tuned one."""


def _original(program: Program, target: str) -> Emitted | None:
    """The kernel before any pass, renamed so that both fit into one file. It runs where a guess is wrong, and knows
    none of them."""
    from ktc.backends.sequence_text import renamed

    if program.original is None:
        return None
    original = without(program.original, unvouched(program.original))
    apart = renamed(original, ORIGINAL) if original.is_sequence else original.with_(name=f"{original.name}{ORIGINAL}")
    return dataclasses.replace(program, kernel=apart, refused=None).lower(target)


def _device_code(program: Program, target: str, values: dict[str, int], arch: str | None, kind: str) -> Output:
    if target != "cuda":
        raise KtcError("E-USAGE", f"--emit {kind} goes with --backend cuda", exit_code=2)
    e = program.lower("cuda", **values)
    data = _compiled(e, arch, kind).artifact
    binary = None if kind == "ptx" else data
    text = data.decode("utf-8", errors="replace") if kind == "ptx" else ""
    return Output(text, "cuda", kind, e.entry, e.kernel.knob_values, e.options, e.notes, binary)


def _ptx(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _device_code(program, target, values, arch, "ptx")


def _cubin(program: Program, target: str, values: dict[str, int], arch: str | None) -> Output:
    return _device_code(program, target, values, arch, "cubin")


_RUN = frozenset({"source", "launcher", "launcher-cupy", "launcher-torch", "ptx", "cubin"})
"""Forms with bound knobs, to be launched."""

_KINDS: dict[str, Printer] = {
    "source": _source,
    "template": _template,
    "space": _space,
    "ir": _ir,
    "launcher": _launcher(None),
    "launcher-cupy": _launcher("cupy"),
    "launcher-torch": _launcher("torch"),
    "ptx": _ptx,
    "cubin": _cubin,
}
