"""``ktc profile`` and ``ktc tryout``: a program's kernels by what faster ones would give it, and with faster ones."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ktc.ir.support.quantities import duration

from .command_parser import Argument, Option
from .options import OUTPUT, Define, Include, Json, usage
from .output import ended, note, print_json, progress, styled, table

if TYPE_CHECKING:
    from ktc.observed.tryout import Run, Tryout
    from ktc.profiling import Profile, Ranked, Verdict
    from ktc.profiling.fusion_candidates import Candidate

BAR = 10
"""Letters of a bar of 100 %."""

REST, BESIDE_SOURCE = 78, 36
"""Columns that the table needs beside the kernels' names, and more with their sources."""

WITHOUT_TERMINAL = 150
"""Columns where there is no terminal."""


MOST_PAIRS = 5
"""Pairs of kernels in a row that are named: those that could give most."""

MOST_SHAPES = 5
"""Shapes of a kernel that are listed: those that take longest."""


def profile(
    command: Annotated[list[str], Argument("COMMAND", "The program and its arguments, after --.")],
    output: Annotated[str, Option(*OUTPUT, metavar="DIR", help="Folder of the profile.")] = "ktc-profile",
    source: Annotated[
        list[str],
        Option(
            "--source",
            metavar="DIR",
            help="Folder or file with the program's sources (repeatable): kernels are "
            "found in it by name, and their distance to the bound computed.",
        ),
    ] = [],  # noqa: B006
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    clock: Annotated[
        str, Option("--clock", metavar="CLOCK", help="cupti, events, or auto: CUPTI, and events where it is missing.")
    ] = "auto",
    top: Annotated[int, Option("--top", least=1, help="Kernels in the table.")] = 15,
    shapes: Annotated[bool, Option("--shapes", help="List each kernel's geometries and arguments.")] = False,
    contents: Annotated[
        int,
        Option(
            "--contents",
            metavar="MIB",
            least=0,
            help="Keep what buffers hold before the first launch of each kernel, so much of it: `ktc init --from` and "
            "`ktc optimize` fill them alike, with indices that stay below what the program's did.",
        ),
    ] = 0,
    timeout: Annotated[
        int, Option("--timeout", metavar="SECONDS", least=0, help="Stop the program then; 0: never.")
    ] = 0,
    json_: Json = False,
) -> None:
    """Run a program and rank its kernels by what a faster one would give the whole program.

    Any program whose kernels go through the CUDA driver: the runtime linked as a shared library or statically, CuPy,
    PyTorch, Triton. No memory is recorded without --contents. Times are CUPTI's, stamped on the device; where CUPTI is
    not installed, those of events around each launch. What a kernel can give at most is its time, or what it lies above
    its bound.
    Kernels that are launched right after each other on the same memory are named where one kernel of them could make
    the program faster; with --source, with the command that drafts their sequence from the host code.

    Examples:
      ktc profile -- ./solver --size 4096
      ktc profile --source src -o solver.prof -- ./solver
      ktc profile --shapes -- python train.py
      ktc profile --contents 512 --source src -- ./spmv matrix.mtx
    """
    from ktc.profiling import ProfileSettings
    from ktc.profiling import profile as run
    from ktc.profiling.profile_run import CLOCKS

    if clock not in CLOCKS:
        raise usage(f"--clock takes one of {', '.join(CLOCKS)}, not '{clock}'")
    found = run(command, Path(output), ProfileSettings(clock, timeout, json_, contents))
    show(found, source, define, include, top, shapes, json_)
    if not json_:
        print(output)


def show(
    found: Profile, source: Sequence[str], define: Sequence[str], include: Sequence[str], top: int, shapes: bool,
    json_: bool,
) -> None:  # fmt: skip
    """The table of a profile, what bounds the program, what was not seen, and what to do next."""
    from ktc.profiling import ranked, unseen, verdict
    from ktc.profiling.fusion_candidates import candidates

    rows, pairs = ranked(found), candidates(found)[:MOST_PAIRS]
    compiled = [str(found.sources)] if found.sources is not None else []
    if source or compiled:
        rows, pairs = _with_sources(rows, pairs, found, [*source, *compiled], define, include, json_)
    said, missing = verdict(found, rows), unseen(found, rows, bool(source))
    if json_:
        return print_json(as_json(found, rows, said, missing) | {"pairs": [_pair_json(c) for c in pairs]})
    print(_table(rows[:top], bool(source or compiled)))
    if len(rows) > top:
        rest = sum(r.of_device for r in rows[top:])
        note(f"{len(rows) - top} more kernels with {rest:.1%} of the device time: --top {len(rows)} shows them")
    if shapes:
        _show_shapes(rows[:top])
    for line in said.facts:
        print(line)
    for line in said.advice:
        print(styled(line, "yellow"))
    _show_pairs(pairs, bool(source or compiled))
    for line in missing:
        note(f"note: {line}")
    if found.status != 0:
        how = "was stopped at the time limit" if found.status is None else f"ended with code {found.status}"
        note(f"note: the program {how}")
    if not source:
        note(f"note: with --source DIR, kernels are looked up in your sources; next: ktc init --from {found.folder} "
             "--source DIR")  # fmt: skip


def _with_sources(
    rows: Sequence[Ranked], pairs: Sequence[Candidate], found: Profile, source: Sequence[str],
    define: Sequence[str], include: Sequence[str], json_: bool,
) -> tuple[list[Ranked], list[Candidate]]:  # fmt: skip
    from ktc.profiling.fusion_candidates import with_commands
    from ktc.profiling.kernel_bounds import bounded
    from ktc.profiling.kernel_sources import SourceTree
    from ktc.profiling.ranking import in_order

    defines = {k: v for k, _, v in (d.partition("=") for d in define)}
    tree = SourceTree(tuple(source), defines, tuple(include))
    device = next((p.device for p in found.processes if p.device), "")
    out = []
    with progress("reading sources", quiet=json_) as bar:
        for i, row in enumerate(rows):
            bar.update(i, len(rows), row.kernel[:60])
            out.append(bounded(row, tree, device))
    return in_order(out), with_commands(pairs, tree)


def _show_pairs(pairs: Sequence[Candidate], sources: bool) -> None:
    """Kernels that are launched in a row on the same memory, and how to go on with each."""
    from ktc.profiling.argument_text import in_bytes
    from ktc.profiling.program_limits import short_name

    for c in pairs:
        names = f"{short_name(c.first)}, then {short_name(c.second)}"
        said = f"{c.times} times in a row, sharing up to {in_bytes(c.shared)}"
        print(f"{names}: {said}: as one kernel they could make the program {_times(c.gain)} as fast at most")
        if c.command:
            print(styled(f"  next: {c.command}", "yellow"))
        elif sources:
            note("  note: no host code of the sources was found that launches them so, with nothing in between")


def _pair_json(c: Candidate) -> dict[str, Any]:
    return {**dataclasses.asdict(c), "gain_at_most": c.gain}


def _table(rows: Sequence[Ranked], sources: bool) -> str:
    columns = shutil.get_terminal_size((WITHOUT_TERMINAL, 24)).columns
    width = max(20, min(60, columns - REST - (BESIDE_SOURCE if sources else 0)))
    cells = [_cells(r, width) for r in rows]
    shown = [c for c in COLUMNS if sources or c not in ("of bound", "source")]
    right = [i for i, c in enumerate(shown) if c not in ("", "kernel", "of bound", "source")]
    return table(shown, [[row[c] for c in shown] for row in cells], right=right)


COLUMNS = ("", "device", "program", "2x gives", "at most", "kernel", "launches", "shapes", "median", "total",
           "of bound", "source")  # fmt: skip


def _cells(r: Ranked, width: int) -> dict[str, object]:
    """A kernel's row, by column."""
    from ktc.profiling.program_limits import short_name

    return {
        "": _bar(r.of_device), "device": f"{r.of_device:.1%}", "program": f"{r.of_program:.1%}",
        "2x gives": _times(r.gain(2)), "at most": _times(r.most), "kernel": short_name(r.kernel, width),
        "launches": r.launches + r.in_graphs + r.unseen, "shapes": len(r.shapes), "median": duration(r.median),
        "total": duration(r.seconds), "of bound": "" if r.of_bound is None else f"{r.of_bound:.0%} ({r.limiter})",
        "source": Path(r.source).name,
    }  # fmt: skip


def _times(factor: float) -> str:
    return f"{factor:.2f}x" if factor < 1000 else ">999x"


def _bar(share: float) -> str:
    """``share`` of :data:`BAR` letters, in eighths of one."""
    eighths = round(share * BAR * 8)
    return "█" * (eighths // 8) + ("" if eighths % 8 == 0 else " ▏▎▍▌▋▊▉"[eighths % 8])


def _show_shapes(rows: Sequence[Ranked]) -> None:
    from ktc.profiling.argument_text import arguments_text
    from ktc.profiling.program_limits import short_name

    cells: list[tuple[object, ...]] = []
    for r in rows:
        parameters = r.launched[0].parameters if r.launched else ()
        for s in r.shapes[:MOST_SHAPES]:
            by = "x".join(map(str, s.geometry.grid)), "x".join(map(str, s.geometry.block))
            own = arguments_text(r.kernel, parameters, s)
            cells.append((short_name(r.kernel), s.times.count or s.launches, duration(s.times.total), *by, own))
        if len(r.shapes) > MOST_SHAPES:
            cells.append((short_name(r.kernel), f"{len(r.shapes) - MOST_SHAPES} more", "", "", "", ""))
    print(table(["kernel", "launches", "total", "grid", "block", "arguments"], cells, right=(1, 2)))


def as_json(found: Profile, rows: Sequence[Ranked], said: Verdict, missing: Sequence[str]) -> dict[str, Any]:
    """The profile as plain data; times in seconds."""
    return {
        "profile": str(found.folder), "command": found.command, "status": found.status, "seconds": found.seconds,
        "clock": sorted({p.clock for p in found.processes}), "device": sorted({p.device for p in found.processes}),
        "span": sum(p.span for p in found.processes), "busy": sum(p.busy for p in found.processes),
        "bound_by": said.kind, "facts": said.facts, "advice": said.advice, "not_seen": list(missing),
        "kernels": [_row_json(r) for r in rows],
    }  # fmt: skip


def _row_json(r: Ranked) -> dict[str, Any]:
    from ktc.profiling.argument_text import arguments_text

    parameters = r.launched[0].parameters if r.launched else ()
    shapes = [
        {"grid": s.geometry.grid, "block": s.geometry.block, "shared": s.geometry.shared,
         "cluster": s.geometry.cluster, "cooperative": s.geometry.cooperative, "launches": s.launches,
         "timed": s.times.count, "seconds": s.times.total, "least": s.times.least, "most": s.times.most,
         "arguments": arguments_text(r.kernel, parameters, s)}
        for s in r.shapes
    ]  # fmt: skip
    return {
        "kernel": r.kernel, "symbol": r.symbol, "source": r.source, "launches": r.launches, "in_graphs": r.in_graphs,
        "unseen": r.unseen, "geometries": r.geometries, "seconds": r.seconds, "median": r.median,
        "of_device": r.of_device, "of_program": r.of_program, "gain_of_twice": r.gain(2), "gain_at_most": r.most,
        "bound": r.least, "of_bound": r.of_bound, "bound_by": r.limiter,
        "images": sorted({f.image for f in r.launched}), "shapes": shapes,
    }  # fmt: skip


def tryout(
    profile: Annotated[
        str, Argument("PROFILE", "The folder that `ktc profile` wrote: it knows the program's command.")
    ],
    source: Annotated[
        list[str], Option("--source", metavar="DIR", help="Where the program's sources are (repeatable).")
    ] = [],  # noqa: B006
    define: Define = [],  # noqa: B006
    include: Include = [],  # noqa: B006
    tuned: Annotated[
        str, Option("--tuned", metavar="DIR", help="Folder of the runs of `ktc optimize`, or a run's own.")
    ] = "ktc-out",
    runs: Annotated[int, Option("--runs", least=1, help="Runs of the program each way, in turns.")] = 5,
    compare: Annotated[
        list[str],
        Option("--compare", metavar="FILE[:DTYPE]", help="A file that the program writes, to be compared too "
               "(repeatable); of an array with its dtype (f32, f64, i32, i64, u8)."),
    ] = [],  # noqa: B006
    tolerance: Annotated[
        float, Option("--tolerance", metavar="REL", help="By how much numbers of outputs may differ, relatively.")
    ] = 0.0,
    json_: Json = False,
) -> None:  # fmt: skip
    """Run a program with the tuned kernels in place of its own, without building it anew, and compare.

    The program's launches of a kernel with a recipe are swapped where its workload gives their geometry for their
    sizes and what the tuned kernel assumes holds; all others stay. Times are of the whole program, as it is and
    swapped, in turns. Outputs (standard output, and each --compare) are compared: bytes, and of texts each line that
    the program as it is prints alike in all runs; times and rates are left out.

    Examples:
      ktc profile -o p -- ./solver && ktc optimize p --source src && ktc tryout p --source src
      ktc tryout p --source src --runs 9 --compare result.bin:f32 --tolerance 1e-6
    """
    from ktc.ir.diagnostics import KtcError
    from ktc.observed.tryout import tryout as run
    from ktc.profiling import Profile
    from ktc.profiling.kernel_sources import SourceTree

    found = Profile.load(Path(profile))
    folders = [*source, *([str(found.sources)] if found.sources is not None else [])]
    if not folders:
        raise usage("where are the program's sources?", hint=f"ktc tryout {profile} --source DIR")
    defines = {k: v for k, _, v in (d.partition("=") for d in define)}
    with progress("running the program", quiet=json_) as bar:
        tree = SourceTree(tuple(folders), defines, tuple(include))
        done = run(
            found, tree, Path(tuned), runs, compare, tolerance, lambda n: bar.update(n, 2 * runs, "running the program")
        )
    print_json(tryout_json(done)) if json_ else _show_tryout(done)
    if done.failed or done.different:
        what = ", ".join(c.name for c in done.different) or f"the exit code is {done.after[0].status}"
        hint = "`ktc capture` and `ktc rerun` show which launch differs, and whether rounding explains it; "
        hint += "--tolerance REL allows for numbers of sums that are taken in another order"
        said = f"with the tuned kernels the program's results differ: {what}"
        raise ended(KtcError("E-TRYOUT-DIFFERS", said, hint=hint), json_)


def _show_tryout(done: Tryout) -> None:
    from ktc.observed.tryout import Tryout as Of

    rows = [("as it is", *_run_cells(done.before)), ("with the tuned kernels", *_run_cells(done.after))]
    print(table(["the program", "median", "fastest", "slowest"], rows, right=(1, 2, 3)))
    last = done.after[-1]
    print(styled(f"{done.ratio:.2f}x as fast", "bold") + f" ({duration(Of.median(done.before))} -> "
          f"{duration(Of.median(done.after))}, {len(done.after)} runs each, in turns)")  # fmt: skip
    print(f"{last.swapped} of {last.launches} launches were swapped: {', '.join(done.kernels)}")
    if last.refused:
        note(f"note: {last.refused} launches ran the original: pointers are not aligned, or overlap")
    for u in done.left:
        note(f"note: {u.launches} launches of {u.kernel} stay as they are: {u.why}")
    for c in done.compared:
        print(c.text) if c.status in ("same", "close") else note(f"note: {c.text}")


def _run_cells(runs: Sequence[Run]) -> tuple[str, str, str]:
    from ktc.observed.tryout import Tryout as Of

    seconds = [r.seconds for r in runs]
    return duration(Of.median(runs)), duration(min(seconds)), duration(max(seconds))


def tryout_json(done: Tryout) -> dict[str, Any]:
    """The tryout as plain data; times in seconds."""
    last = done.after[-1]
    return {
        "ratio": done.ratio, "before": [r.seconds for r in done.before], "after": [r.seconds for r in done.after],
        "kernels": done.kernels, "launches": last.launches, "swapped": last.swapped, "refused": last.refused,
        "left": [{"kernel": u.kernel, "launches": u.launches, "why": u.why} for u in done.left],
        "outputs": [dataclasses.asdict(c) for c in done.compared], "failed": done.failed,
        "different": [c.name for c in done.different],
    }  # fmt: skip
