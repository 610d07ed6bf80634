"""What fusing two launches saves: each launch tuned by itself, and the two tuned as one kernel, on one device.

    python -m tests.bench.fusion [FOLDER ...] [--device cuda] [--budget 200] [--time-limit 240] [--scenario NAME]
                                 [--log fusion.jsonl]
    python -m tests.bench.fusion --table fusion.jsonl

FOLDER holds the workload of a sequence (by default: those of ``kernels/fusion``). One run of ``ktc optimize`` gives the
launches as they are, the tuned times t1, t2, ... of the launches by themselves, and that of the fused kernel, all with
data that is in no cache. What two kernels need not move once they are one is each temporary that the fused kernel has
no longer, written once and read once. The aim is

    fused  <=  t1 + t2 - 0.9 x (bytes saved / copy rate)

with the rate of a copy measured on the same device in the same minute. A row is appended to ``--log`` as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.sequences import temporaries
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.text import named_apart
from ktc.ir.types import scalar_of
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from tests.bench.row_logs import append, rows_of
from tests.code_hash import code_hash
from tests.paths import KERNELS

SHARE = 0.9
"""Of what the bytes that are saved take at the copy rate."""

COLUMNS = ("sequence", "scenario", "as they are us", "t1 + t2 us", "fused us", "saved MB", "aim us", "met")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--device", default="cuda")
    p.add_argument("--budget", type=int, default=200, help="measurements of each scenario, half of them fused")
    p.add_argument("--time-limit", type=float, default=240.0, help="seconds of each scenario")
    p.add_argument("--scenario", action="append", default=[], help="only these; by default all that are tuned for")
    p.add_argument("--log", type=Path, default=Path("fusion.jsonl"))
    p.add_argument("--table", type=Path, help="only print the table of the rows in this file")
    a = p.parse_args()
    if a.table:
        print(table(rows_of(a.table)))
        return
    folders = a.folders or sorted(f.parent for f in KERNELS.glob("fusion/*/workload.toml"))
    rows = []
    for folder in folders:
        work = Workload.load(folder)
        for s in work.scenarios:
            if s.name not in a.scenario if a.scenario else not s.tuned:
                continue
            row = measured(folder, work, s.name, a.device, a.budget, a.time_limit)
            rows.append(row)
            append(a.log, row)
            print(table([row]), flush=True)
    print(table(rows))


def measured(folder: Path, work: Workload, scenario: str, device: str, budget: int, seconds: float) -> dict[str, Any]:
    """One row: both ways of running a sequence in one scenario, and what the bytes that fusion saves are worth."""
    with tempfile.TemporaryDirectory() as out:
        command = python_module(
            "ktc", "optimize", str(folder), "--device", device, "--budget", str(budget), "--time-limit", str(seconds),
            "--scenario", scenario, "--no-memory", "--json", "--out", out,
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=python_environment(), check=False)
    row: dict[str, Any] = {"sequence": work.kernel_name, "scenario": scenario, "device": device, "code": code_hash()}
    if done.returncode:
        return {**row, "failed": done.stderr.strip().splitlines()[-3:]}
    found = json.loads(done.stdout)
    (ways,) = [w for w in found["scenarios"] if w["scenario"] == scenario]
    (won,) = [s for s in found["fused"]["scenarios"] if s["name"] == scenario]
    apart = [_after(r, scenario) for r in found["apart"]]
    saved, rate = bytes_saved(work, scenario, won["script"]), copy_rate(device)
    aim = None if None in apart else sum(apart) - SHARE * saved / rate  # type: ignore[arg-type]
    return {
        **row, "name": found["fused"]["device"]["name"], "before": ways["before"], "apart": apart,
        "fused": ways["fused"], "script": won["script"], "knobs": won["knobs"], "verdict": won["verdict"],
        "interval": [won["after"]["low"], won["after"]["high"]], "bound": won["bound"], "bytes_saved": saved,
        "copy_rate": rate, "aim": aim, "met": aim is not None and ways["fused"] <= aim,
    }  # fmt: skip


def _after(report: Mapping[str, Any] | None, scenario: str) -> float | None:
    rows = report["scenarios"] if report is not None else ()
    return next((s["after"]["median"] for s in rows if s["name"] == scenario), None)


def bytes_saved(work: Workload, scenario: str, script: str) -> int:
    """Bytes of the temporaries that the kernel after ``script`` has no longer, written once and read once."""
    kernel = named_apart(work.load_kernel())
    left = apply_script(kernel, parse_script(script)).kernel if script else kernel
    sizes = work.scalars(work.scenario(scenario).sizes)
    kept = {p.sym.name for p in temporaries(left)}
    return 2 * sum(_bytes(kernel, p, sizes) for p in temporaries(kernel) if p.sym.name not in kept)


def _bytes(kernel: Kernel, p: Any, sizes: Mapping[str, int | float]) -> int:
    n = evaluate(p.scratch, kernel.environment({k: v for k, v in sizes.items() if isinstance(v, int)}))
    return int(n or 0) * scalar_of(p.sym.type).bytes


def copy_rate(device: str) -> float:
    """Bytes a second that a copy reads and writes on the device."""
    from ktc.backends.runtimes import open_runtime
    from ktc.search.bounds.measured_rates import measure_rates

    return measure_rates(open_runtime(device)).copy_bytes


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    return "\n".join([*lines, *(f"| {' | '.join(_cells(r))} |" for r in rows)])


def _cells(r: Mapping[str, Any]) -> Iterator[str]:
    yield from (r["sequence"], r["scenario"])
    if "failed" in r:
        yield from (str(r["failed"]), *[""] * (len(COLUMNS) - 3))
        return
    total = math.nan if None in r["apart"] else sum(r["apart"])
    for seconds in (r["before"], total, r["fused"]):
        yield f"{1e6 * seconds:.1f}"
    yield f"{r['bytes_saved'] / 1e6:.1f}"
    yield "-" if r["aim"] is None else f"{1e6 * r['aim']:.1f}"
    yield "yes" if r["met"] else "no"


if __name__ == "__main__":
    main()
