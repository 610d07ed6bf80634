"""``ktc export``: a run, or a kernel with a script, as something that other programs use."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ktc.ir.diagnostics import KtcError

from .command_parser import Argument, Option
from .handing_out import DEFAULT_SECONDS, VerdictLimit, Verify, vouched
from .options import (
    OUTPUT,
    Define,
    Device,
    Dialect,
    Include,
    Json,
    Passes,
    Seed,
    Sets,
    Template,
    knob_values,
    load_program,
    script_text,
    usage,
)
from .output import note, print_json, progress

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.exporting.writing import Written
    from ktc.recipes import OpenedRecipe


class To(StrEnum):
    auto = "auto"
    torch = "torch"
    cupy = "cupy"
    numpy = "numpy"
    pyopencl = "pyopencl"
    source = "source"
    cmake = "cmake"
    hip = "hip"


def export(
    runs: Annotated[
        list[str],
        Argument(metavar="RUN", help="Folders of runs, or recipes, one a dtype; or a KERNEL, with or without -p."),
    ],
    to: Annotated[
        To, Option("--to", help="What to write; auto: what calls kernels of the run's own language (torch for CUDA).")
    ] = To.auto,
    output: Annotated[
        str, Option(*OUTPUT, metavar="DIR", help="Folder to write.", unset="ktc-export/KERNEL-TARGET")
    ] = "",
    passes: Passes = "",
    sets: Sets = [],  # noqa: B006
    profile: Annotated[
        str,
        Option("--for", metavar="NAME", help="Device to print for: cuda-sm80, opencl-nvidia, ...",
               unset="the run's, else the language's plainest"),
    ] = "",
    measure: Annotated[
        int,
        Option("--measure", metavar="N", least=0, help="Measure N sizes between those of the run on its device first; "
               "where a tuned kernel is no faster, the original runs. The recipe keeps them."),
    ] = 0,
    device: Device = "",
    seed: Seed = 0,
    check: Annotated[
        bool, Option("--check/--no-check", help="Compile C++ files where their compiler is installed.")
    ] = True,
    elsewhere: Annotated[
        bool, Option("--measured-elsewhere", help="Export for GPUs what was measured on a CPU.")
    ] = False,
    deterministic: Annotated[
        bool, Option("--deterministic", help="Leave kernels out whose sums depend on timing (atomics on floats): the "
                     "same bits for the same call.")
    ] = False,
    name: Annotated[str, Option("--kernel", metavar="NAME", help="Which __global__ function of a KERNEL.")] = "",
    template: Template = [],  # noqa: B006
    variant: Annotated[
        list[str], Option("--variant", metavar="NAME", help="An instantiation of a KERNEL's workload (repeatable).")
    ] = [],  # noqa: B006
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    workload: Annotated[str, Option("--workload", metavar="FILE", help="Workload file of a KERNEL.")] = "",
    verify: Verify = True,
    time_limit: VerdictLimit = DEFAULT_SECONDS,
    json_: Json = False,
) -> None:  # fmt: skip
    """Write a run's kernels as a drop-in: tuned ones where they were measured to be faster, the original elsewhere.

    Examples:
      ktc export ktc-out/silu_and_mul --to torch
      ktc export runs/f16 runs/bf16 --to torch -o silu_and_mul_ops
      ktc export silu_and_mul --to numpy -p 'raise | distribute{loop=idx map=[vec $V, thread.x $T, seq]}' --set V=8
      ktc export my_kernel.cu --to cupy
      ktc export ktc-out/my_kernel --to source
      ktc export ktc-out --to source
    """
    from ktc.exporting.writing import export as write
    from ktc.exporting.writing import own_target
    from ktc.recipes import is_recipe, open_recipe
    from ktc.sources import unfinished

    runs = [each for run in runs for each in _runs_in(run)]
    paths = [Path(r) for r in runs]
    if not passes and (error := next(filter(None, map(unfinished, paths)), None)):
        raise error
    recipes = [open_recipe(p) for p in paths if _is_run(p) and not passes]
    for opened in recipes:
        for line in opened.notes:
            note(f"note: {line}")
    if measure:
        recipes = [_measured(opened, measure, device, seed, json_) for opened in recipes]
    programs: list[Program] = []
    said: list[str] = []
    if not recipes:
        if len(runs) > 1:
            other = next(r for r in runs if not is_recipe(Path(r)))
            raise usage(f"'{other}' is no run", hint="several can be exported together if each is a run's folder")
        values = knob_values(sets)
        for v in variant or [""]:
            program = load_program(runs[0], name, template, v, define, include, workload, Dialect.auto)
            scripted = _scripted(_with_workload(program), script_text(passes).strip(), values)
            said += _vouched_for(scripted, verify, time_limit, json_)
            programs.append(scripted)
        if measure:
            raise usage(
                "--measure adds to the measurements of a run", hint="ktc optimize KERNEL, then export its folder"
            )
    elif len(recipes) < len(runs):
        other = next(r for r, p in zip(runs, paths) if not _is_run(p))
        raise usage(f"'{other}' is no run", hint="several can be exported together if each is a run's folder")
    elif sets or name or template or variant or define or include or workload:
        raise usage("a run says itself which kernel it is of and how that is read", hint="leave the options out")
    kernel = recipes[0].recipe.kernel if recipes else programs[0].kernel.name
    target = own_target(recipes) if to is To.auto else to.value
    several = len({r.recipe.kernel for r in recipes}) > 1
    folder = Path(output) if output else Path("ktc-export") / (target if several else f"{kernel}-{target}")
    written = write(recipes, programs, target, folder, profile, check, elsewhere, deterministic)
    if json_:
        return print_json(
            {"folder": str(written.folder), "files": list(written.files), "notes": [*written.notes, *said],
             "artefact": written.artefact.to_json()}
        )  # fmt: skip
    _show(written)
    for line in said:
        note(f"note: {line}")


def _measured(opened: OpenedRecipe, count: int, device: str, seed: int, quiet: bool) -> OpenedRecipe:
    """``opened`` with measurements between those that it has; they are written into its file."""
    from ktc.exporting.probing import probed

    with progress("measuring", quiet=quiet) as bar:
        found = probed(opened, count, device or None, seed, bar.say)
    if found.recipe.sources:
        found.recipe.save(found.path)
    return found


def _runs_in(run: str) -> list[str]:
    """``run``, or the runs in a folder of runs, as `ktc optimize` of a program leaves it; of a sequence that of all its
    launches together."""
    from ktc.sources import unfinished

    path = Path(run)
    if not _is_run(path) and (path / "sequence").is_dir() and _is_run(path / "fused"):
        note(f"note: the run of the launches together, {path / 'fused'}; those of single launches lie beside it")
        return [str(path / "fused")]
    inside = sorted(path.glob("*/recipe.json")) if path.is_dir() and not _is_run(path) else []
    for begun in sorted(path.glob("*/run.json")) if inside else []:
        if (error := unfinished(begun.parent)) is not None:
            note(f"note: left out: {error.message}")
    return [str(p.parent) for p in inside] or [run]


def _is_run(path: Path) -> bool:
    from ktc.recipes import is_recipe

    return is_recipe(path) or (path.is_dir() and (path / "recipe.json").is_file())


def _with_workload(program: Program) -> Program:
    from .options import with_workload

    return with_workload(program)


def _scripted(program: Program, script: str, values: dict[str, int]) -> Program:
    """``program`` with its script still to be applied, which is known to apply.

    Raises:
        KtcError: the refusal.
    """
    import dataclasses

    if not script:
        if values:
            raise usage("--set binds the knobs of a script", hint="-p SCRIPT")
        return program
    program.apply(script).ok.bind(**values)
    return dataclasses.replace(program, preset=(script, values))


def _vouched_for(program: Program, verify: bool, seconds: float, quiet: bool) -> list[str]:
    """What the ladder says of a script that no run has verified.

    Raises:
        KtcError: E-VERIFY-FAILED: there is no verdict, or it is wrong; a package has nowhere to say so.
    """
    if program.preset is None or not program.preset[0]:
        return []
    script, values = program.preset
    found = vouched(program.apply(script).ok, values, verify, seconds, quiet)
    if verify and found.missing:
        raise KtcError("E-VERIFY-FAILED", f"{script}: {found.missing}", hint="--no-verify exports it all the same")
    return [f"{script}: {found.said}"]


def _show(written: Written) -> None:
    from ktc.exporting.python_packages import what_runs

    for a in written.artefacts:
        print(f"{a.name}: {len(written.files)} files in {written.folder}")
        in_one_file = not any(f.endswith(a.instances[0].original.file) for f in written.files)
        for line in what_runs(a, in_one_file):
            print(f"  {line}")
    for line in written.notes:
        note(f"note: {line}")
    tests = [f for f in written.files if f == "selftest.py"]
    print(f"next: see {written.folder / 'README.md'}" + (f", and run {written.folder / tests[0]}" if tests else ""))
