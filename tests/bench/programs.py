"""Public programs from source to a faster program: profile, optimise, try out, export, rebuild, run.

    python -m tests.bench.programs --work FOLDER --builds FILE --log rows.jsonl [--only NAME...] [--steps STEP...]
    python -m tests.bench.programs --log rows.jsonl --table

``programs.toml`` lists the programs. FOLDER/NAME holds a copy of the parts of NAME's repository that it needs, with the
repository's layout; it must lie outside of this repository, as the programs' code and how it is built do. FILE says the
latter, a table for each program: ``build`` and ``run``, shell commands for the program's folder (``{root}`` stands for
FOLDER/NAME or the copy that is rebuilt; the list's arguments are added to ``run``), and ``input``, which makes what the
program reads.

A step is a row of the log: its command, seconds, exit status and figures. Steps that are in the log are not done again;
those of a program end at the first that fails. What is measured needs a GPU; ``--steps build`` does not.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktc.ir.support.child_python import python_environment, python_module
from ktc.observed.outputs import Compared, compared
from tests.bench.programs_table import table
from tests.bench.row_logs import append, logged
from tests.paths import ROOT

LIST = Path(__file__).with_suffix(".toml")

SUMS = "1e-5"
"""By how much numbers of the outputs may differ, relatively: tuned kernels add up in another order."""

SHARE, MOST_KERNELS = 0.5, 3
"""Kernels are optimised until they have this part of the program's GPU time, and at most so many."""


@dataclass(frozen=True)
class Settings:
    """Configurations and seconds for a kernel; runs each way; seconds for a command."""

    budget: int
    time_limit: int
    runs: int
    timeout: float


@dataclass(frozen=True)
class Program:
    """An entry of the list with how it is built. ``work``: the folder with its copy and all results."""

    entry: Mapping[str, Any]
    how: Mapping[str, str]
    work: Path

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def root(self) -> Path:
        return self.work / self.name

    @property
    def rebuilt(self) -> Path:
        return self.work / f"{self.name}.rebuilt"

    def place(self, what: str) -> str:
        """The path of a result."""
        return str(self.work / f"{self.name}.{what}")

    def shell(self, what: str, root: Path) -> str:
        """The command ``what`` of FILE for a copy of the program."""
        command = self.how.get(what, "").replace("{root}", str(root))
        return " ".join([command, *map(shlex.quote, self.entry.get("arguments", []))]) if what == "run" else command

    def files(self) -> list[str]:
        return list(self.entry.get("output", []))


@dataclass(frozen=True)
class Done:
    """A step: its command, exit status (124: it took too long), figures, and what it said where it failed."""

    command: str
    status: int
    figures: Mapping[str, Any]
    said: str = ""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--log", type=Path, required=True)
    p.add_argument("--table", action="store_true", help="print the log as a table, and do nothing")
    p.add_argument("--work", type=Path, help="the folder of the programs' copies; results go there too")
    p.add_argument("--builds", type=Path, help="how each is built and run")
    p.add_argument("--only", nargs="*", default=[], help="programs; all by default")
    p.add_argument("--steps", nargs="*", default=list(STEPS), choices=list(STEPS))
    p.add_argument("--budget", type=int, default=40, help="configurations of a kernel")
    p.add_argument("--time-limit", type=int, default=60, help="seconds for a kernel's search")
    p.add_argument("--runs", type=int, default=5, help="runs of the program each way")
    p.add_argument("--timeout", type=float, default=600.0, help="seconds for one command")
    a = p.parse_args()
    rows = logged(a.log)
    entries = tomllib.loads(LIST.read_text())["program"]
    if a.table:
        print(table(rows, [e["name"] for e in entries]))
        return
    if not a.work or not a.builds:
        p.error("--work and --builds say where the programs are, and how they are built")
    if a.work.resolve().is_relative_to(ROOT):
        p.error("--work: the programs' code stays out of this repository")
    builds = tomllib.loads(a.builds.read_text())
    settings = Settings(a.budget, a.time_limit, a.runs, a.timeout)
    for e in entries:
        if e["name"] in builds and (not a.only or e["name"] in a.only):
            steps(Program(e, builds[e["name"]], a.work.resolve()), a.steps, rows, settings, a.log)


def steps(program: Program, wanted: Sequence[str], rows: list[dict[str, Any]], settings: Settings, log: Path) -> None:
    """The ``wanted`` steps of a program that the log does not have, in order; each is added to it."""
    known = {r["step"]: r for r in rows if r["program"] == program.name}
    for step in (s for s in STEPS if s in wanted):
        if step in known and known[step]["status"] == 0:
            continue
        begun = time.monotonic()
        try:
            done = STEPS[step](program, known, settings)
        except subprocess.TimeoutExpired as e:
            done = Done(str(e.cmd), 124, {})
        row = {"program": program.name, "step": step, "command": done.command, "status": done.status,
               "seconds": round(time.monotonic() - begun, 2), **done.figures, "said": done.said[-600:]}  # fmt: skip
        known[step] = row
        append(log, row)
        print(f"{program.name} {step}: exit {done.status}, {row['seconds']} s {done.said[-200:]}", flush=True)
        if done.status != 0 and step not in GOES_ON:
            return


# ---------------------------------------------------------------------------------------------------------------- steps

Known = Mapping[str, Mapping[str, Any]]


def build(program: Program, known: Known, settings: Settings) -> Done:
    return _shell(program, [program.shell("input", program.root), program.shell("build", program.root)],
                  program.root, settings)  # fmt: skip


def profile(program: Program, known: Known, settings: Settings) -> Done:
    run = ["sh", "-c", f"exec {program.shell('run', program.root)}"]
    options = ["--source", str(program.root), *_headers(program), "--json", "--timeout", str(int(settings.timeout))]
    return _ktc(program, ["profile", "-o", program.place("profile"), *options, "--", *run], settings, _profiled)


def optimize(program: Program, known: Known, settings: Settings) -> Done:
    """A search for each kernel of the profile's choice; the last that fails is the step's status."""
    commands, figures, status, said = list[str](), list[Any](), 0, ""
    for kernel in known["profile"]["chosen"]:
        options = ["--kernel", kernel, "--source", str(program.root), *_headers(program), "--no-memory", "--json",
                   "--out", program.place("runs"), "--budget", str(settings.budget),
                   "--time-limit", str(settings.time_limit)]  # fmt: skip
        done = _ktc(program, ["optimize", program.place("profile"), *options], settings, _optimized)
        commands.append(done.command)
        figures += done.figures.get("kernels", [])
        status, said = done.status or status, done.said or said
    return Done(" && ".join(commands), status, {"kernels": figures}, said)


def tryout(program: Program, known: Known, settings: Settings) -> Done:
    outputs = [x for name in program.files() for x in ("--compare", name)]
    options = ["--source", str(program.root), *_headers(program), "--tuned", program.place("runs"), "--json",
               "--runs", str(settings.runs), "--tolerance", SUMS, *outputs]  # fmt: skip
    return _ktc(program, ["tryout", program.place("profile"), *options], settings, _tried)


def export(program: Program, known: Known, settings: Settings) -> Done:
    options = ["--to", "source", "-o", program.place("export"), "--no-check", "--json"]
    return _ktc(program, ["export", program.place("runs"), *options], settings, lambda out: {"files": out["files"]})


def rebuild(program: Program, known: Known, settings: Settings) -> Done:
    """A copy of the program, with the exported files beside or in place of those of the same name, built as before."""
    shutil.rmtree(program.rebuilt, ignore_errors=True)
    shutil.copytree(program.root, program.rebuilt)
    exported = [f for f in Path(program.place("export")).iterdir() if f.suffix in (".cu", ".cuh", ".h", ".cpp")]
    replaced = [old for f in exported for old in program.rebuilt.rglob(f.name)]
    for old in replaced:
        for f in exported:
            shutil.copy(f, old.parent / f.name)
    return _shell(program, [program.shell("build", program.rebuilt)], program.rebuilt, settings)


def run(program: Program, known: Known, settings: Settings) -> Done:
    """The program as it was built first and as it was rebuilt, in turns."""
    roots = {"before": program.root, "after": program.rebuilt}
    seconds: dict[str, list[float]] = {which: [] for which in roots}
    left: dict[str, list[dict[str, bytes | None]]] = {which: [] for which in roots}
    ends: dict[str, set[int]] = {which: set() for which in roots}
    for _ in range(settings.runs):
        for which, root in roots.items():
            begun = time.monotonic()
            where = root / program.entry["folder"]
            done = subprocess.run(program.shell("run", root), shell=True, cwd=where, capture_output=True,
                                  timeout=settings.timeout)  # fmt: skip
            seconds[which].append(time.monotonic() - begun)
            ends[which].add(done.returncode)
            files = {n.rpartition(":")[0] or n: n for n in program.files()}
            own: dict[str, bytes | None] = {
                n: (where / n).read_bytes() if (where / n).is_file() else None for n in files
            }
            left[which].append({"standard output": done.stdout.replace(str(root).encode(), b"ROOT"), **own})
    found = [compared(n, [x[n] for x in left["before"]], [x[n] for x in left["after"]], _dtype(program, n))
             for n in left["before"][0]]  # fmt: skip
    before, after = (statistics.median(seconds[w]) for w in roots)
    figures = {"before": before, "after": after, "outputs": [_said(c) for c in found]}
    differs = ends["before"] != ends["after"]
    return Done(program.shell("run", program.rebuilt), int(differs), figures, f"exit codes {ends}" if differs else "")


Step = Callable[[Program, Known, Settings], Done]
STEPS: dict[str, Step] = {"build": build, "profile": profile, "optimize": optimize, "tryout": tryout,
                          "export": export, "rebuild": rebuild, "run": run}  # fmt: skip
GOES_ON = ("optimize", "tryout")
"""Steps after whose failure the others may still tell something."""


def _dtype(program: Program, name: str) -> str:
    return next((n.rpartition(":")[2] for n in program.files() if n.rpartition(":")[0] == name), "")


def _said(c: Compared) -> dict[str, Any]:
    return {"name": c.name, "status": c.status, "parts": c.parts, "differ": c.differ, "text": c.text}


def _headers(program: Program) -> list[str]:
    return [x for h in program.entry.get("headers", []) for x in ("-I", str(program.root / h))]


# ------------------------------------------------------------------------------------------------------------- figures


def _profiled(out: Mapping[str, Any]) -> dict[str, Any]:
    """The kernels by their part of the GPU's time, and those to optimise: of which there is a source."""
    kernels = out["kernels"]
    whole = sum(k["seconds"] for k in kernels) or 1.0
    shares = [(k["kernel"], k["seconds"] / whole, bool(k.get("source"))) for k in kernels]
    chosen, have = list[str](), 0.0
    for kernel, share, known in shares:
        if known and have < SHARE and len(chosen) < MOST_KERNELS:
            chosen.append(kernel)
            have += share
    return {"program_seconds": out["seconds"], "kernels": shares[:8], "chosen": chosen}


def _optimized(out: Mapping[str, Any]) -> dict[str, Any]:
    rows = []
    for k in out["kernels"]:
        folder = Path(k["folder"] or ".") / "recipe.json"
        recipe = json.loads(folder.read_text()) if folder.is_file() else {}
        timings = {n: t.get("ratio") for n, t in recipe.get("timings", {}).items()}
        rows.append({"kernel": k["kernel"], "faster": k["faster"], "why": k["why"], "ratios": timings})
    return {"kernels": rows}


def _tried(out: Mapping[str, Any]) -> dict[str, Any]:
    return {n: out[n] for n in ("ratio", "before", "after", "swapped", "launches", "refused", "left", "outputs")}


# ------------------------------------------------------------------------------------------------------------ commands


def _ktc(
    program: Program, words: Sequence[str], settings: Settings, figures: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> Done:
    command = python_module("ktc", *words)
    done = subprocess.run(command, cwd=program.root / program.entry["folder"], capture_output=True, text=True,
                          timeout=settings.timeout, env=python_environment())  # fmt: skip
    shown = " ".join(["ktc", *map(shlex.quote, words)]).replace(f"{program.work}/", "")
    found: dict[str, Any] = {}
    start = done.stdout.find("\n{") if not done.stdout.startswith("{") else -1  # behind what the program printed
    try:
        found = figures(json.loads(done.stdout[start + 1 :]))
    except (ValueError, KeyError) as e:
        return Done(shown, done.returncode or 1, {}, done.stderr or repr(e))
    return Done(shown, done.returncode, found, done.stderr if done.returncode else "")


def _shell(program: Program, commands: Sequence[str], root: Path, settings: Settings) -> Done:
    line = " && ".join(c for c in commands if c)
    done = subprocess.run(line, shell=True, cwd=root / program.entry["folder"], capture_output=True, text=True,
                          timeout=settings.timeout)  # fmt: skip
    return Done(line.replace(f"{program.work}/", ""), done.returncode, {}, done.stderr if done.returncode else "")


if __name__ == "__main__":
    main()
