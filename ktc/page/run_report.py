"""The report of one run, and of several side by side."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktc.ir.support.quantities import clock, count, duration, times
from ktc.runs import FINISHED, KILLED, RUNNING, Run

from .blocks import Commands, Figure, Page, Paragraph, Section, Table
from .figures.bound_bars import Bar, Group, bound_bars
from .kernel_sections import kernel_sections, verification_section
from .result_section import result_section, roofline_section, share_text
from .search_section import search_section


def report_of(runs: Sequence[Run]) -> Page:
    """A page about one run; about several, a comparison and then each of them."""
    if len(runs) == 1:
        return Page(title_of(runs[0]), facts_of_run(runs[0]), _sections(runs[0]))
    sections = [comparison_section(runs)]
    for run, name in zip(runs, names_of(runs)):
        for n, s in enumerate(_sections(run)):
            sections.append(Section(f"{name}: {s.title.lower()}", s.blocks, listed=n == 0))
    names = ", ".join(dict.fromkeys(r.data["kernel"] for r in runs))
    return Page(f"{names}: {len(runs)} runs", [f"{r.folder}: {facts_of_run(r)[0]}" for r in runs], sections)


def _sections(run: Run) -> list[Section]:
    return [
        result_section(run), roofline_section(run), search_section(run), *kernel_sections(run),
        verification_section(run), reproduce_section(run), _notes(run),
    ]  # fmt: skip


def names_of(runs: Sequence[Run]) -> list[str]:
    """Names of runs: those of their folders, or whole paths where these are alike."""
    short = [r.folder.resolve().name for r in runs]
    return short if len(set(short)) == len(short) else [str(r.folder) for r in runs]


def title_of(run: Run) -> str:
    """The kernel, and what became of it."""
    d = run.data
    if run.state != FINISHED:
        return f"{d['kernel']}: {run.state}"
    gain = d.get("speedup", 1.0)
    won = f"{gain:.2f}x as fast as the original" if d.get("best_script") else "the original is kept"
    return f"{d['kernel']}: {won}"


def facts_of_run(run: Run) -> list[str]:
    """Device, planner, counts; of a run that has not ended, how far it has come."""
    d = run.data
    device = d["device"]
    where = f"On {device.get('name', '?')} ({device.get('backend', '?')}), planner {d.get('planner', '?')}"
    counts = f"{count(d.get('measured', 0), 'configuration')} measured"
    if run.state == FINISHED:
        counts += (
            f", {d.get('recalled', 0)} recalled from the ledger, {d.get('failed', 0)} failed, "
            f"{len(d.get('rejected', ()))} rejected, {d.get('seconds', 0.0):.0f} s"
        )
    else:
        counts += f" of {d.get('budget', '?')} at most, {clock(d.get('seconds', 0.0))}"
    began = [time.strftime("Begun on %Y-%m-%d at %H:%M.", time.localtime(run.about.began))] if run.about else []
    going = {
        RUNNING: ["The run goes on: what stands now, each kernel timed alone."],
        KILLED: [
            "The run was stopped before its end: the same command continues it. Times are of the search, each alone."
        ],
    }
    return [f"{where}.", f"{counts}.", *began, *going.get(run.state, [])]


def comparison_section(runs: Sequence[Run]) -> Section:
    """The runs by kernel and scenario: times, speed-ups, shares of the bound, and the scripts."""
    found: dict[tuple[str, str], list[tuple[str, Run, Mapping[str, Any]]]] = {}
    for run, name in zip(runs, names_of(runs)):
        for s in run.data["scenarios"]:
            found.setdefault((run.data["kernel"], s["name"]), []).append((name, run, s))
    several = len({kernel for kernel, _ in found}) > 1
    rows, groups = [], []
    for (kernel, scenario), shown in found.items():
        where = f"{kernel} {scenario}" if several else scenario
        bars = []
        for name, run, s in shown:
            ratio = times(*s["ratio"]) if run.state == FINISHED else times(s["ratio"][0])
            said = (duration(s["before"]["median"]), duration(s["after"]["median"]), ratio, share_text(s))
            rows.append((where, name, *said, s["script"] or "the original"))
            if s.get("bound"):
                taken = s["after"]["median"]
                bars.append(Bar(name, taken, s["bound"] / taken, "after" if s["script"] else "before"))
        if bars:
            groups.append(Group(where, duration(shown[-1][2]["bound"]), bars))
    heads = ("scenario", "run", "before", "after", "speed-up", "of bound", "script")
    figures = [Figure("Speed of light.", lambda width: bound_bars(groups, width))] if groups else []
    return Section("Side by side", [Table("By scenario", heads, rows, code=(6,)), *figures])


def reproduce_section(run: Run) -> Section:
    """What to type to have it again."""
    d, folder = run.data, shlex.quote(str(run.folder))
    device = shlex.quote(str(d["device"].get("backend", "")))
    source = str(d.get("workload") or d.get("source", ""))
    kernel = shlex.quote(str(Path(source).parent) if source.endswith("workload.toml") else source)
    variant = f" --variant {shlex.quote(d['variant'])}" if d.get("variant") else ""
    lines = []
    if run.state == FINISHED:
        recipe = f"{folder}/recipe.json"
        lines += [
            (f"ktc replay {recipe}", "print the kernel again from the recipe alone, verify it, time it"),
            (f"ktc lower {recipe}", "print it; --backend hip, opencl or numba for another language"),
            (f"ktc export {folder}", "write it as a drop-in for PyTorch, CuPy, numpy or PyOpenCL"),
        ]
    again = f"ktc optimize {kernel}{variant} --device {device} --budget {d.get('budget') or 100} --out {folder}"
    lines.append((again, "run again; what was measured is not measured again"))
    if d.get("best_script"):
        sets = "".join(f" --set {k}={v}" for k, v in d.get("best_knobs", {}).items())
        script = shlex.quote(d["best_script"])
        lines.append((f"ktc verify {kernel}{variant} -p {script}{sets}", "verify the winner against the source"))
    lines.append((f"ktc report {folder}", "write this page again"))
    return Section("Reproduce", [Commands(lines)])


def _notes(run: Run) -> Section:
    return Section("Notes", [Paragraph(n, "note") for n in run.data.get("notes", ())])


__all__ = ["comparison_section", "report_of", "reproduce_section"]
