"""The planner alone against the scripts beside a kernel: ``ktc optimize`` from its source, then a duel with the best.

    python -m tests.bench.planner FOLDER... [--scenarios largest,smallest] [--budget N] [--time-limit S] [--device D]
                                  [--log rows.jsonl] [--seconds S]
    python -m tests.bench.planner --table rows.jsonl

A row is one scenario of a folder that holds a workload (by default: those of ``kernels/``): one run of the command line
with the embedded planner and no memory, from process start to the verdict; then each script beside the source
(``*.ktp``, knobs in a ``.set`` of the same name) is timed at the same sizes, and the fastest meets the winner, both
interleaved in one process. Scripts need no verdict, winners have one. Rows are appended to ``--log``; those of the same
code and device are not made again. Nothing is begun after ``--seconds``.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktc.agent.bench import Bench
from ktc.agent.trajectory import NAME as TRAJECTORY
from ktc.driver.printing import printed
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.workload import Scenario, Workload
from ktc.ir.workload.scenario_facts import runnable
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.space.knob_space import completed
from ktc.search.workers.executor import FromWorkload
from tests.bench.row_logs import append, logged, rows_of
from tests.code_hash import code_hash
from tests.paths import KERNELS

DUEL_S = 0.8
"""Seconds of the duel between the winner and the best script."""

COLUMNS = ("kernel", "scenario", "source us", "planner us", "bound us", "of bound", "best script", "of its speed",
           "first s", "total s", "measured")  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--scenarios", default="largest,smallest", help="largest, smallest, or names")
    p.add_argument("--budget", type=int, default=40)
    p.add_argument("--time-limit", type=float, default=60.0)
    p.add_argument("--device", default="cuda")
    p.add_argument("--log", type=Path, default=Path("planner.jsonl"))
    p.add_argument("--seconds", type=float, default=540.0)
    p.add_argument("--table", type=Path, help="only print the table of the rows in this file")
    a = p.parse_args()
    if a.table:
        print(table(rows_of(a.table)))
        return
    end = time.monotonic() + a.seconds
    folders = a.folders or sorted(f.parent for f in KERNELS.glob("*/*/workload.toml"))
    made = {key(r) for r in logged(a.log)}
    wanted = a.scenarios.split(",")
    for place in range(len(wanted)):  # the largest sizes of every kernel before the smallest of any
        for folder in folders:
            work = Workload.load(folder)
            for scenario in scenarios(work, wanted[place]):
                row = {"kernel": folder.name, "scenario": scenario.name, "code": code_hash(), "device": a.device}
                if key(row) in made or time.monotonic() > end:
                    continue
                made.add(key(row))
                row |= contest(work, folder, scenario, a)
                append(a.log, row)
                print(" | ".join(cells(row)), flush=True)


def key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[k] for k in ("kernel", "scenario", "code", "device"))


def scenarios(work: Workload, which: str) -> list[Scenario]:
    """The scenario of this name, or the tuned one with the largest (smallest) product of sizes."""
    named = [s for s in work.scenarios if s.name == which]
    tuned = sorted((s for s in work.scenarios if s.tuned), key=lambda s: math.prod(s.sizes.values()))
    return named or ({"largest": tuned[-1:], "smallest": tuned[:1] if len(tuned) > 1 else []}.get(which, []))


def contest(work: Workload, folder: Path, scenario: Scenario, a: argparse.Namespace) -> dict[str, Any]:
    """What the planner found, and how fast the best script of the folder is beside it."""
    row, beside = optimized(folder, scenario, a), list(scripts(folder))
    if not beside or "error" in row:
        return row
    original = work.load_kernel()
    bench = Bench(work, original, device=a.device)
    try:
        inputs = FromWorkload(str(work.path), dict(scenario.sizes))
        timed = []
        for name, script, knobs in beside:
            try:
                made = _made(original, script, knobs)
                code = printed(made, bench.device.profile) if runnable(made, work, scenario.sizes) else None
            except KtcError:
                continue  # a script for other sizes, or for a device of another kind
            said = bench.station.executor.time(code, inputs, budget_s=0.15) if code is not None else None
            if said is not None and said.timing is not None:
                timed.append((said.timing.median, name, code))
        if timed:
            seconds, row["best"], code = min(timed, key=lambda t: t[0])
            mine = printed(_made(original, row["script"], row["knobs"]), bench.device.profile)
            duel = bench.station.executor.time(mine, inputs, baseline=code, budget_s=DUEL_S)
            row |= {"best_us": seconds * 1e6, "of_best": duel.ratio}
    finally:
        bench.close()
    return row


def _made(original: Kernel, script: str, knobs: Mapping[str, int]) -> Kernel:
    applied = apply_script(original, parse_script(script))
    if applied.refused is not None:
        raise KtcError(applied.refused.code, applied.refused.why)
    return materialise(bind(applied.kernel, completed(applied.kernel, knobs)))


def optimized(folder: Path, scenario: Scenario, a: argparse.Namespace) -> dict[str, Any]:
    """One run of ``ktc optimize``, as a new process."""
    with tempfile.TemporaryDirectory() as out:
        command = python_module(
            "ktc", "optimize", str(folder), "--device", a.device, "--scenario", scenario.name,
            "--budget", str(a.budget), "--time-limit", str(a.time_limit), "--no-memory", "--planner", "rules",
            "--out", out,
        )  # fmt: skip
        began, clock = time.monotonic(), time.time()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=4 * a.time_limit + 60, env=python_environment()
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no end within {4 * a.time_limit + 60:g} s"}
        row: dict[str, Any] = {"seconds": time.monotonic() - began}
        report = Path(out) / "report.json"
        if not report.exists():
            return row | {"error": done.stderr.strip()[-300:]}
        d = json.loads(report.read_text())
        (s,) = d["scenarios"]
        start = next(e for e in map(json.loads, (Path(out) / TRAJECTORY).open()) if e["event"] == "begin")
        loading = start["at"] - start["elapsed"] - clock  # the run's own seconds count from then on
        return row | {
            "gpu": d["device"]["name"],
            "before_us": s["before"]["median"] * 1e6, "after_us": s["after"]["median"] * 1e6, "ratio": s["ratio"],
            "bound_us": s["bound"] * 1e6, "script": s["script"], "knobs": s["knobs"], "verdict": s["verdict"],
            "first": d["first_improvement"] and loading + d["first_improvement"],
            "measured": d["measured"], "failed": d["failed"],
            "rejected": [{k: str(r.get(k, ""))[:300] for k in ("script", "knobs", "verdict")} for r in d["rejected"]],
        }  # fmt: skip


def scripts(folder: Path) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Name, script and knobs of what is committed beside a kernel."""
    for path in sorted(folder.glob("*.ktp")):
        given = path.with_suffix(".set")
        words = given.read_text().split() if given.exists() else []
        yield path.stem, path.read_text().strip(), {k: int(v) for k, _, v in (w.partition("=") for w in words)}


def cells(r: Mapping[str, Any]) -> list[str]:
    if "error" in r:
        return [r["kernel"], r["scenario"], f"failed: {r['error']}"]
    of_best = r.get("of_best")
    return [
        r["kernel"], r["scenario"], f"{r['before_us']:.1f}", f"{r['after_us']:.2f}", f"{r['bound_us']:.1f}",
        f"{100 * r['bound_us'] / r['after_us']:.0f} %", f"{r['best']} {r['best_us']:.2f}" if "best" in r else "-",
        f"{100 * of_best[0]:.0f} % [{100 * of_best[1]:.0f}, {100 * of_best[2]:.0f}]" if of_best else "-",
        f"{r['first']:.1f}", f"{r['seconds']:.1f}", str(r["measured"]),
    ]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown, and how many reach 95 % of the best script's speed."""
    met = [r for r in rows if r.get("of_best")]
    good = sum(r["of_best"][0] >= 0.95 for r in met)
    lines = [COLUMNS, tuple("-" * 3 for _ in COLUMNS), *(cells(r) for r in rows)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"{text}\n\n{good} of {len(met)} at 95 % or more of the best script's speed; {len(rows) - len(met)} without one"
    )


if __name__ == "__main__":
    main()
