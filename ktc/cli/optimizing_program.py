"""``ktc optimize`` of a profile or a capture: all kernels of a program that are worth it, under one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.support.quantities import duration

from .options import preprocessing, usage
from .output import note, print_json, styled, table

if TYPE_CHECKING:
    from ktc.observed.launch_records import KernelRecord
    from ktc.observed.whole_program import KernelRun, WholeProgram

UNFIT = ("template", "variant", "workload", "scenario")
"""Options that concern one kernel."""


def is_program(kernel: str) -> bool:
    """Whether ``kernel`` is a folder of `ktc profile` or `ktc capture`."""
    folder = Path(kernel)
    return any((folder / head).is_file() for head in ("profile.json", "capture.json"))


def optimize_program(source: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Optimise the kernels of the program whose profile or capture ``source`` names, and show one table.

    Args:
        source: the options that name a kernel. options: those of `ktc optimize`.
    """
    from ktc.observed.from_program import matching
    from ktc.observed.launch_records import loaded
    from ktc.observed.whole_program import optimize_program as run
    from ktc.observed.whole_program import worth
    from ktc.profiling.kernel_sources import SourceTree

    folder = source["kernel"]
    for name in UNFIT:
        if source.get(name) or options.get(name):
            raise usage(f"--{name} concerns one kernel, and {folder} holds a program")
    program = loaded(Path(folder))
    folders = (*options["source"], *program.sources)
    if not folders:
        raise usage("where are the program's sources?", hint=f"ktc optimize {folder} --source DIR")
    how = preprocessing(source["define"], source["include"])
    tree = SourceTree(folders, how["defines"] or {}, how["include_dirs"])
    chosen = matching(program, [source["name"]] if source["name"] else [])
    if not source["name"]:
        chosen = list(worth(program))
    for line in program.advice:
        note(f"note: {line}")
    for kernel, why in program.unusable:
        note(f"left out: {kernel}: {why}")

    def began(k: KernelRecord, budget: int, out: Path) -> None:
        if not options["json_"]:
            note(f"\n{k.kernel}: up to {budget} configurations, results in {out}")

    out = Path(options["out"] or "ktc-out")
    named = bool(source["name"])
    done = run(program, chosen, tree, out, options["budget"], options["time_limit"], _searching(options), began, named)
    print_json(done.to_json()) if options["json_"] else show(done, folder)


def _searching(options: Mapping[str, Any]) -> Any:
    """The search of one kernel, as the options ask for it."""
    from ktc.agent.memory import Memory
    from ktc.agent.optimize import optimize as search
    from ktc.live.showing import showing

    def of(workload: Any, folder: Path, budget: int, seconds: float) -> Any:
        with showing(quiet=options["json_"] or options["quiet"]) as shown:
            return search(
                workload,
                device=options["device"] or None,
                planner=options["planner"],
                intent=options["intent"],
                counters=options["profile"],
                llm_limits=options["llm_limits"],
                budget=budget,
                time_limit=seconds,
                out_dir=folder,
                progress=shown,
                seed=options["seed"],
                resume=not options["fresh"],
                memory=Memory() if options["memory"] else None,
            )

    return of


def show(done: WholeProgram, folder: str) -> None:
    """One table: each kernel's part in the program, how much faster it is, and what that gives the program."""
    if not done.runs:
        note(f"no kernel can make the program much faster: `ktc profile` shows where its time goes, `ktc optimize "
             f"{folder} --kernel NAME` takes a kernel all the same")  # fmt: skip
        return
    print()
    print(table(["kernel", "of the program", "faster", "saves", "result"], [_row(r, done) for r in done.runs],
                right=(1, 2, 3)))  # fmt: skip
    if done.faster is not None:
        saved = sum(r.saved for r in done.runs)
        after = f"{duration(done.program)} -> {duration(done.program - saved)}, {done.faster:.2f}x"
        print(styled(f"the program: {after}", "bold") + ", by Amdahl's law from these measurements")
    for r in done.runs:
        for line in r.todo:
            note(f"to check: {r.record.kernel}: {line}")
    if not any(r.report is not None for r in done.runs):
        note(f"nothing was optimised; `ktc profile` of the program shows where its time goes, `ktc optimize {folder} "
             "--kernel NAME` takes a kernel all the same")  # fmt: skip


def _row(r: KernelRun, done: WholeProgram) -> Sequence[str]:
    from ktc.profiling.program_limits import short_name

    part = f"{r.record.elapsed / done.program:.1%}" if done.program else duration(r.record.elapsed)
    if r.report is None:
        return short_name(r.record.kernel), part, "", "", r.why
    result = str(r.folder) if r.faster > 1 else f"the original is kept ({r.folder})"
    return short_name(r.record.kernel), part, f"{r.faster:.2f}x", duration(r.saved) if r.saved else "0", result
