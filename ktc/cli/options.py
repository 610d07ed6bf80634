"""Options that several commands share, and the decorator that gives a command the kernel it works on."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.support.kept_results import results_kept

from .command_parser import Argument, Option, parameters
from .output import drafting, note, waiting

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.sources import SourceSpec

Json = Annotated[bool, Option("--json", help="Machine-readable output: one JSON document on standard output.")]
Twin = Annotated[
    bool,
    Option("--twin", help="Compare in exact modular arithmetic on the device too, at the scenarios' full sizes."),
]
Passes = Annotated[
    str,
    Option(
        "-p", "--passes", metavar="SCRIPT", help="Pass script, as text or @FILE: 'raise | unroll{loop=k factor=4}'."
    ),
]
Sets = Annotated[list[str], Option("--set", metavar="KNOB=V", help="Bind a knob (repeatable).")]
OUTPUT = ("-o", "--output", "--out")
"""Names of the option that says where to write."""

OutPath = Annotated[str, Option(*OUTPUT, metavar="FILE", help="Write there instead of standard output.")]
Device = Annotated[
    str,
    Option(
        "--device",
        metavar="NAME",
        help="cuda[:N], opencl[:N or :NAME] or numba; ktc doctor lists them.",
        unset="the best there is",
    ),
]
Scenarios = Annotated[
    list[str], Option("--scenario", metavar="NAME", help="Only this scenario of the workload (repeatable).")
]
Seed = Annotated[int, Option("--seed", help="Seed of planners, samplers and inputs.")]


class Dialect(StrEnum):
    auto = "auto"
    cuda = "cuda"
    hip = "hip"
    opencl = "opencl"


_Kernel = Annotated[
    str,
    Argument(
        metavar="KERNEL",
        help="A .cu, .cl or .ktir file, a folder with a workload.toml, a library kernel's name, a recipe.json, or - "
        "(standard input).",
    ),
]
_Name = Annotated[
    str, Option("--kernel", metavar="NAME", help="Which __global__ function: step, ns::step, 'step(int*, int)'.")
]
Template = Annotated[
    list[str], Option("--template", metavar="T=V", help="Template arguments: T=half,N=8 (repeatable).")
]
_Variant = Annotated[str, Option("--variant", metavar="NAME", help="An instantiation the workload names: f32.")]
Define = Annotated[list[str], Option("-D", metavar="NAME[=V]", help="Define a macro (repeatable).")]
Include = Annotated[list[str], Option("-I", metavar="DIR", help="Search DIR for local includes (repeatable).")]
_Workload = Annotated[
    str, Option("--workload", metavar="FILE", help="Workload file, when it is not beside the source.")
]

_Dialect = Annotated[Dialect, Option("--dialect", help="Language of the source, when its name and text do not say.")]

_SOURCE_PARAMS: dict[str, tuple[Any, Any]] = {
    "kernel": (_Kernel, inspect.Parameter.empty),
    "name": (_Name, ""),
    "template": (Template, []),
    "variant": (_Variant, ""),
    "define": (Define, []),
    "include": (Include, []),
    "workload": (_Workload, ""),
    "dialect": (_Dialect, Dialect.auto),
}
"""What names a kernel on the command line: parameter -> (type with its option, default)."""


def with_program(
    command: Callable[..., None],
    *,
    optional: bool = False,
    instantiate: bool = False,
    ahead: Callable[[Mapping[str, Any]], AbstractContextManager[Any]] | None = None,
    instead: Callable[[dict[str, Any], Mapping[str, Any]], bool] = lambda source, options: False,
) -> Callable[..., None]:
    """Give ``command`` the options that name a kernel; it receives the loaded one as ``program``.

    ``optional``: the kernel may be left out, and ``program`` is None then. ``instantiate``: see
    :func:`load_program`. ``ahead``: what is entered before the kernel is loaded, by the command's options; the command
    receives what it gives as ``ahead``. ``instead``: is given the options that name a kernel and the command's own
    first, and says whether it has done the work: a program's folder names many kernels. It may name another kernel.
    """
    own = [p for p in parameters(command) if p.name not in ("program", "ahead")]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _SOURCE_PARAMS.items()
    ]

    @functools.wraps(command)
    def run(**kwargs: Any) -> None:
        source = {name: kwargs.pop(name) for name in _SOURCE_PARAMS}
        if instead(source, kwargs):
            return
        with ahead(kwargs) if ahead is not None else nullcontext() as begun:
            program = load_program(**source, instantiate=instantiate) if source["kernel"] or not optional else None
            command(program=program, **kwargs, **({"ahead": begun} if ahead is not None else {}))

    if optional:
        shared[0] = shared[0].replace(default="")
    both = [shared[0], *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own), *shared[1:]]
    run.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def preprocessing(define: list[str], include: list[str]) -> dict[str, Any]:
    """``-D`` and ``-I`` as the front-end takes them."""
    return {
        "defines": {k: v for k, _, v in (d.partition("=") for d in define)} or None,
        "include_dirs": tuple(include),
    }


@results_kept()
def load_program(
    kernel: str,
    name: str,
    template: list[str],
    variant: str,
    define: list[str],
    include: list[str],
    workload: str,
    dialect: Dialect = Dialect.auto,
    beside: bool = True,
    instantiate: bool = False,
) -> Program:
    """The program that the shared options name; without ``beside``, no workload file next to the source is read.

    ``instantiate``: a template kernel that nobody gave arguments for gets the first that lead to a kernel, and says so.
    """
    from ktc import api

    how: dict[str, Any] = {
        **preprocessing(define, include),
        "dialect": None if dialect is Dialect.auto else dialect.value,
    }
    given = pairs(",".join(template), "--template") if template else None
    more = {"variant": variant or None, "workload": workload or None, "beside": beside, **how}
    try:
        return _noted(api.load(kernel, name=name or None, template=given, **more))
    except KtcError as e:
        if not instantiate or kernel == "-":
            raise
        why = e
    if why.code == "E-KERNEL-SEVERAL" and name:
        usual = _usual_overload(kernel, name, how, why)
        return load_program(kernel, usual, template, variant, define, include, workload, dialect, beside, instantiate)
    if why.code != "E-TEMPLATE-MISSING" or given:
        raise why
    found = _instance(kernel, name, how, why)
    spelled = ",".join(f"{k}={v}" for k, v in found.items())
    note(f"no template arguments given: taking --template '{spelled}' ({why.message})")
    return _noted(api.load(kernel, name=name or None, template=found, **more))


def _usual_overload(kernel: str, name: str, how: Mapping[str, Any], several: KtcError) -> str:
    """What asks for the one of the kernels called ``name`` that is for ``float``, which is said.

    Raises:
        KtcError: ``several``, where they are not one kernel for several types of elements.
    """
    from ktc.ir.frontend.usual_overloads import usual_overload

    spec, asked = _as_built(kernel, name, how)
    found = usual_overload(spec.kernel, name, **{n: v for n, v in asked.items() if n != "kernel"})
    if found is None or found[0] == name:
        raise several
    taken, others = found
    note(f"several kernels are called {name}: taking --kernel '{taken}'; there is also {', '.join(map(repr, others))}")
    return taken


def _as_built(kernel: str, name: str, how: Mapping[str, Any]) -> tuple[SourceSpec, dict[str, Any]]:
    """The source as its project builds it, and how the front-end is asked for it."""
    from ktc.project.as_built import as_built
    from ktc.sources import SourceSpec

    defines = how["defines"] or {}
    spec = as_built(SourceSpec(kernel, name or None, {}, None, defines, how["include_dirs"], dialect=how["dialect"]))
    return spec, {**how, "kernel": spec.name, "defines": spec.defines, "include_dirs": tuple(spec.include_dirs)}


def _instance(kernel: str, name: str, how: Mapping[str, Any], missing: KtcError) -> dict[str, str]:
    """The first template arguments that lead to a kernel.

    Raises:
        KtcError: why the first instance that the source launches leads to none, or none at all can; else ``missing``.
    """
    from ktc.ir.frontend.entry_points import template_arguments, why_no_instance
    from ktc.project.runtime_names import named_at_run_time

    spec, asked = _as_built(kernel, name, how)
    found = _launched_elsewhere(spec, asked) or next(template_arguments(spec.kernel, **asked), None)
    if found is None:
        if name and (told := named_at_run_time(kernel, name)) is not None:
            note(told)
        raise why_no_instance(spec.kernel, **asked) or missing from None
    return found


def _launched_elsewhere(spec: SourceSpec, asked: Mapping[str, Any]) -> dict[str, str] | None:
    """The template arguments with which another unit of the project launches the kernel, where its own does not: of an
    instance that the kernel's file has, if that says which."""
    from ktc.ir.frontend.entry_points import template_arguments
    from ktc.project.launching_units import launching_units

    for joined in launching_units(spec):
        also = {**asked, "include_dirs": joined.include_dirs, "defines": joined.defines, "guesses": False}
        try:
            own = list(template_arguments(spec.kernel, **{**asked, "guesses": False}))
            launched = (found for found in template_arguments(joined.text, **also) if found in own or not own)
            if (first := next(launched, None)) is not None:
                return first
        except KtcError:
            continue
    return None


def _noted(program: Program) -> Program:
    """``program``, with what is to be said of how its source is read said."""
    for text in program.source.notes if program.source is not None else ():
        note(text)
    return program


def with_workload(program: Program, folder: Path | None = None) -> Program:
    """``program`` with a workload; where it has none, one is drafted into ``folder`` [``ktc-out/KERNEL``], and said."""
    if program.workload is not None:
        return program
    from ktc.scaffold import with_draft

    folder = folder or Path("ktc-out") / program.kernel.name
    with waiting(drafting(program.kernel.name)):
        drafted, todo = with_draft(program, folder)
    how = "drafted" if todo else "found"
    note(f"no workload beside the source: {how} {folder / 'workload.toml'}" + (", edit it as you like" if todo else ""))
    for line in todo:
        note(f"to check: {line}")
    return drafted


def pairs(text: str, option: str) -> dict[str, str]:
    """``A=x,B=y`` as a dict; commas inside ``<>`` or ``()`` belong to the value."""
    found: dict[str, str] = {}
    depth, part = 0, ""
    for c in text + ",":
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth <= 0:
            key, eq, value = part.partition("=")
            if not eq or not key.strip():
                raise usage(f"{option} takes NAME=VALUE, not '{part}'")
            found[key.strip()] = value.strip()
            part = ""
        else:
            part += c
    return found


def knob_values(sets: list[str], program: Program | None = None) -> dict[str, int]:
    """``--set V=8 --set T=256`` as numbers, over those of the recipe that ``program`` is of."""
    values = dict(program.preset[1]) if program is not None and program.preset else {}
    for name, text in pairs(",".join(sets), "--set").items() if sets else ():
        try:
            values[name] = int(text, 0)
        except ValueError:
            raise usage(f"knob {name} takes an integer, not '{text}'") from None
    return values


def script_text(passes: str) -> str:
    """The pass script of ``-p``: its text, or the file after ``@``."""
    if not passes.startswith("@"):
        return passes
    try:
        with open(passes[1:], encoding="utf-8", errors="replace") as f:
            return f.read(1 << 20)
    except OSError as e:
        raise usage(f"cannot read the script {passes[1:]}: {e.strerror}") from e


def apply_script(program: Program, passes: str) -> Program:
    """``program`` after the script of ``-p`` (none: that of its recipe, or unchanged); a refusal is an error of exit
    code 1."""
    text = script_text(passes)
    if text.strip():
        program = dataclasses.replace(program, preset=None)
    elif program.preset:
        text = program.preset[0]
    return program.apply(text).ok if text.strip() else program


def usage(message: str, hint: str = "") -> KtcError:
    """An error in how ktc was called (exit code 2)."""
    return KtcError("E-USAGE", message, hint=hint, exit_code=2)
