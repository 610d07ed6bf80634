"""``ktc kernels`` and ``ktc init``: what there is to work on, and a first workload file for a new kernel."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.support.kept_results import results_kept
from ktc.ir.support.time_limits import of_processor

from .command_parser import Argument, Option
from .options import OUTPUT, Define, Include, Json, Template, preprocessing, usage
from .output import drafting, ended, note, print_json, table, waiting, write_file


def kernels(
    file: Annotated[str, Argument(metavar="FILE", help="A source file; without one, the library.")] = "",
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    json_: Json = False,
) -> None:
    """List the kernels of the library, or those of a source file with their template parameters and launches.

    Examples:
      ktc kernels
      ktc kernels my_kernels.cu
      ktc kernels binding.cu -I include
    """
    rows = _of_file(file, **preprocessing(define, include)) if file else _of_library()
    if json_:
        return print_json(rows)
    keys = list(rows[0]) if rows else []
    print(table(keys, [[_cell(k, r[k]) for k in keys] for r in rows]))


def _cell(key: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        return str(value)
    shown = 1 if key == "launched" else _fitting(value) if key == "parameters" else len(value)
    more = f" and {len(value) - shown} more" if len(value) > shown else ""
    return ", ".join(map(str, value[:shown])) + more


PARAMETERS = 40
"""Characters of a kernel's parameters that a table has room for; `--json` has all."""


def _fitting(names: Sequence[object]) -> int:
    """How many of ``names`` are shown: all, or as many as fit beside how many there are."""
    ends = list(itertools.accumulate(len(str(n)) + 2 for n in names))
    return len(names) if not ends or ends[-1] <= PARAMETERS else max(1, sum(e <= PARAMETERS - 10 for e in ends))


def _place(loc: Loc) -> str:
    """``loc`` as seen from here, where its file lies below."""
    file = Path(loc.file)
    inside = file.is_absolute() and file.is_relative_to(Path.cwd())
    return str(Loc(str(file.relative_to(Path.cwd())), loc.line, loc.col)) if inside else str(loc)


def _of_library() -> list[dict]:
    from ktc.ir.workload import Workload
    from ktc.sources import library_kernels

    rows = []
    for key, folder in library_kernels().items():
        w = Workload.load(folder)
        tuned = [s.name for s in w.scenarios if s.tuned]
        rows.append({"kernel": key, "function": w.kernel_name, "variants": list(w.variants), "scenarios": tuned})
    return rows


def _of_file(file: str, **how: Any) -> list[dict]:
    from ktc.ir.frontend import load
    from ktc.project.as_built import kernels_as_built

    if not Path(file).is_file():
        raise KtcError("E-FILE", f"no such file: '{file}'", exit_code=2)
    rows = []
    with results_kept():
        found, notes = kernels_as_built(file, **how)
    for text in notes:
        note(text)
    for k in found:
        template = [f"{t.kind} {t.name}" for t in k.template]
        place = _place(k.loc) if k.loc else ""
        rows.append(
            {"kernel": k.name, "template": template, "parameters": k.params, "place": place, "launched": k.launches}
        )
    if not rows:
        load(file, **how)  # says why there is none
    return rows


@results_kept()
def init(
    file: Annotated[
        str, Argument(metavar="FILE", help="A CUDA source; with --from, the one that has the kernels.")
    ] = "",
    from_: Annotated[
        str,
        Option(
            "--from",
            metavar="DIR",
            help="A folder of `ktc profile` or `ktc capture`: sizes, contents and launches are those that ran.",
        ),
    ] = "",
    source: Annotated[
        list[str], Option("--source", metavar="DIR", help="With --from: where the program's sources are (repeatable).")
    ] = [],  # noqa: B006
    kernel: Annotated[
        str, Option("--kernel", metavar="NAME", help="Which __global__ function: step, ns::step, 'step(int*, int)'.")
    ] = "",
    function: Annotated[
        str,
        Option(
            "--function",
            metavar="NAME",
            help="Which host function's launches, one after the other, become the workload of a sequence.",
        ),
    ] = "",
    launches: Annotated[
        str,
        Option("--launches", metavar="A..B", help="Which of its launches, counted from 1.", unset="the longest run"),
    ] = "",
    template: Template = [],  # noqa: B006
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    output: Annotated[
        str,
        Option(
            *OUTPUT,
            metavar="FILE",
            help="Where to write: a file, or the folder of a workload.toml.",
            unset="workload.toml beside FILE; NAME.toml with --function",
        ),
    ] = "",
    force: Annotated[bool, Option("--force", help="Overwrite an existing file.")] = False,
    time_limit: Annotated[
        float,
        Option(
            "--time-limit",
            metavar="SECONDS",
            help="Of the processor, for reading the source and for runs of the kernel; what was not tried by then is "
            "said. Not with --from or --function.",
        ),
    ] = 20.0,
    json_: Json = False,
) -> None:
    """Write a first workload.toml: sizes, shapes, contents and scenarios, found by running the kernel on a few threads.

    With --from, they are those of a program that ran: shapes become scenarios, weighted by the time that they took, and
    what was seen is marked as observed. Without --kernel, each kernel that can give the program 1 % gets a file.

    A file whose host function launches several kernels one after the other gives the workload of that sequence, for
    `ktc fuse` and `ktc optimize`: which buffers are inputs, outputs and temporaries follows from the host code, and
    what cannot be seen is kept as an output. --kernel asks for one kernel instead.

    What could not be found out is listed as something to do, and so is what goes wrong at the sizes of a scenario,
    where some blocks of the launch are run: accesses beyond a buffer, or nothing written.

    Examples:
      ktc init my_kernel.cu
      ktc init my_layers.cu --function forward -o forward.toml
      ktc init my_kernel.cu --kernel scale --template T=half -o scale.toml
      ktc profile -- ./solver && ktc init --from ktc-profile --source src
      ktc init --from gemm.cap gemm.cu --kernel gemm_kernel -o gemm.toml
    """
    if from_ and (function or launches):
        hint = (
            f"`ktc profile --source DIR -- PROGRAM` names such functions: ktc init {file or 'FILE.cu'} --function NAME"
        )
        raise usage("--function is of a source, --from of what a program ran", hint=hint)
    if from_:
        return _from_program(from_, [*([file] if file else []), *source], kernel, define, include, output, force, json_)
    if not file:
        raise usage("init needs a FILE, or --from DIR with what a program ran")
    from ktc.scaffold import workload_text
    from ktc.scaffold.sequences import functions_with_sequences

    from .drafting_sequences import init_sequence

    if not Path(file).is_file():
        raise KtcError("E-FILE", f"no such file: '{file}'", exit_code=2)
    if launches and not function:
        raise usage("--launches are those of a host function", hint="--function NAME")
    if function:
        if kernel:
            raise usage("--kernel is one kernel, --function a sequence of launches", hint="leave one of them out")
        init_sequence(file, function, launches, template, define, include, output, force, json_)
        return
    target = _workload_file(output) if output else Path(file).with_name("workload.toml")
    if target.exists() and not force:
        hint = "--force overwrites it; -o FILE writes another one, as each kernel of a source has its own"
        raise KtcError("E-WRITE", f"{target} exists", hint=hint, exit_code=2)
    from .options import load_program
    from .time_limit import DRAFTED, in_time

    began, more = time.process_time(), "--time-limit SECONDS gives it more time"
    try:
        with in_time(of_processor(time_limit), "the kernel was read", more):
            program = load_program(file, kernel, template, "", define, include, "", beside=False, instantiate=True)
    except KtcError as e:
        if e.code != "E-KERNEL-SEVERAL" or kernel:
            raise
        several = functions_with_sequences(file, **preprocessing(define, include))
        if len(several) == 1:
            init_sequence(file, several[0], "", template, define, include, output, force, json_)
            return
        from ktc.ir.frontend import list_kernels

        names = dict.fromkeys(k.name for k in list_kernels(file, **preprocessing(define, include)))
        each = "; ".join(f"ktc init {file} --kernel {n} -o {n}.toml" for n in names)
        hint = f"each has a workload file of its own: {each}"
        if several:
            each = "; ".join(f"ktc init {file} --function {n}" for n in several)
            hint += f"; launched one after the other, they are a sequence: {each}"
        raise KtcError(e.code, e.message, e.loc, hint, exit_code=2) from e
    assert program.source is not None
    left = of_processor(time_limit - (time.process_time() - began))
    with waiting(drafting(program.kernel.name), quiet=json_), in_time(left, DRAFTED, more):
        text, todo = workload_text(program.kernel, program.source, target)
    write_file(target, text)
    if json_:
        return print_json({"workload": str(target), "todo": todo})
    note(f"wrote {target}")
    for line in todo:
        note(f"to do: {line}")


def _workload_file(output: str) -> Path:
    """The file that -o names; what does not end in .toml is a folder, and gets a workload.toml."""
    path = Path(output)
    return path if path.suffix == ".toml" else path / "workload.toml"


def _from_program(
    folder: str, sources: list[str], kernel: str, define: list[str], include: list[str], output: str, force: bool,
    json_: bool,
) -> None:  # fmt: skip
    """``ktc init --from``: a workload file for each kernel that is asked for, or worth it."""
    from ktc.observed.from_program import LEAST_GAIN, Written, folder_name, matching, write_workload
    from ktc.observed.launch_records import loaded
    from ktc.profiling.kernel_sources import SourceTree
    from ktc.profiling.program_limits import listed, short_name

    program = loaded(Path(folder))
    sources += program.sources
    if not sources:
        hint = f"ktc init --from {folder} --source DIR"
        raise KtcError("E-USAGE", "where are the program's sources?", hint=hint, exit_code=2)
    tree = SourceTree(tuple(sources), preprocessing(define, include)["defines"] or {}, tuple(include))
    chosen = matching(program, [kernel] if kernel else [])
    if output and len(chosen) > 1:
        names = listed([k.kernel for k in chosen])
        raise usage(f"-o names one file, and {len(chosen)} kernels ran: {names}", hint="--kernel NAME chooses one")
    taken, small = set[str](), list[str]()
    made: list[Written] = []
    failed: list[tuple[str, KtcError]] = []
    for k in chosen:
        if not kernel and k.gain is not None and k.gain < LEAST_GAIN:
            small.append(short_name(k.kernel))
            continue
        target = _workload_file(output) if output else Path("ktc-out") / folder_name(k, taken) / "workload.toml"
        if target.exists() and not force:
            raise KtcError("E-WRITE", f"{target} exists", hint="--force overwrites it", exit_code=2)
        try:
            with waiting(drafting(short_name(k.kernel)), quiet=json_):
                made.append(write_workload(program, k, tree, target))
        except KtcError as e:
            failed.append((k.kernel, e))
    if json_:
        rows = [{"kernel": w.record.kernel, "source": w.source, "workload": str(w.path), "todo": w.todo} for w in made]
        print_json({"workloads": rows, "failed": [{"kernel": k, "why": e.to_json()} for k, e in failed]})
    if small:
        shown = ", ".join(small[:3]) + (f" and {len(small) - 3} more" if len(small) > 3 else "")
        note(f"left out: {len(small)} kernels that cannot make the program {LEAST_GAIN}x as fast: {shown}")
    for w in made if not json_ else ():
        note(f"wrote {w.path}: {w.record.kernel}, {w.source}")
        for line in w.todo:
            note(f"to do: {line}")
    for name, why in failed:
        note(f"no workload: {name}: {why.message} [{why.code}]")
    if not made:
        hint = "--kernel NAME asks for one all the same"
        none = KtcError("E-PROFILE", "no kernel is worth a workload: the program would be hardly faster", hint=hint)
        raise ended(failed[0][1] if failed else none, json_)
    note(f"next: ktc optimize {made[0].path.parent if made[0].path.name == 'workload.toml' else made[0].path}")
