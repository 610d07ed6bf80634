"""Regenerates kernels/EXPERT.md: naive kernels, a script of passes and knobs, against what experts and compilers reach.

    python -m tests.bench.expert [--tune BUDGET] [--kernels NAME ...] [--scenarios SUBSTRING ...] [--json rows.jsonl]
                                 [--warm PROCESSES]

Each row of ``expert_table.ENTRIES`` is one kernel. Contenders of a scenario: the source as it is (*naive*), the scripts
committed beside it (``expert*.ktp``), with ``--tune`` also its templates at knobs found in this run, and its rivals
(PyTorch, torch.compile). A script takes part only after ``differential`` has compared it with the source on this device
at this size and at awkward ones. All contenders are timed interleaved by graph replay over buffers larger than the L2.
``--write`` commits the winners: ``expert.ktp`` (largest scenario) and ``expert-SCENARIO.ktp`` beside the kernel.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.agree import Judge
from tests.bench.expert_table import ENTRIES, Entry
from tests.bench.graphs import Contender, race
from tests.bench.tuning import Bench, Made, launcher
from tests.paths import ROOT

COLUMNS = ("kernel", "scenario", "floor", "copy", "naive", "torch", "torch.compile", "**ktc**", "of floor", "of copy",
           "over naive", "over torch", "over compile")  # fmt: skip
FINALISTS = 4
"""Tuned configurations of a scenario that enter the interleaved race."""

SLOW = 0.1
"""Seconds of a launch beyond which the source is timed by that launch alone."""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tune", type=int, default=0, metavar="BUDGET", help="configurations a template and scenario")
    p.add_argument("--kernels", nargs="*", default=[], help="names or folders; all by default")
    p.add_argument("--scenarios", nargs="*", default=[], help="substrings of scenario names; all by default")
    p.add_argument("--templates", nargs="*", default=[], help="substrings of the templates to tune; all by default")
    p.add_argument(
        "--warm", type=int, default=0, metavar="PROCESSES", help="fill torch.compile's cache side by side first"
    )
    p.add_argument("--out", type=Path, default=ROOT / "kernels" / "EXPERT.md")
    p.add_argument("--json", type=Path, help="append one line a scenario to this file")
    p.add_argument("--write", type=Path, help="folder that winners are written below (the checkout's root, say)")
    p.add_argument("--table", type=Path, nargs="*", help="only write the table of rows that --json wrote")
    a = p.parse_args()
    if a.table:
        rows = [json.loads(x) for path in a.table for x in path.read_text().splitlines()]
        a.out.write_text(table(rows))
        return
    named = {e.name: e for e in ENTRIES} | {e.folder: e for e in ENTRIES}
    entries = [named[k] for k in a.kernels] if a.kernels else list(ENTRIES)
    if a.warm:
        from tests.bench.warming import warm

        began = time.perf_counter()
        warm([(e, dict(s.sizes)) for e in entries for s in _scenarios(_work(e), e, a.scenarios)], a.warm)
        print(f"rivals compiled in {time.perf_counter() - began:.1f} s", flush=True)
    from tests.bench.copying import copy_bandwidth

    bench, bandwidth = Bench(), copy_bandwidth()
    print(f"copy bandwidth {bandwidth / 1e12:.3f} TB/s", flush=True)
    rows = []
    for entry in entries:
        for row in contest(bench, entry, a, bandwidth):
            rows.append(row)
            print(line(row), flush=True)
            if a.json:
                with a.json.open("a") as f:
                    f.write(json.dumps(row) + "\n")
        a.out.write_text(table(rows))


def contest(bench: Bench, entry: Entry, a: argparse.Namespace, bandwidth: float):
    """One row a tuned or held-out scenario of ``entry``."""
    from ktc.ir.workload.scenario_facts import runnable
    from tests.bench.serving import buffer_sets

    work = _work(entry)
    committed = [s.read_text().strip() for s in sorted(work.path.parent.glob("expert*.ktp"))]
    naive, *built = bench.build(work, entry.variant, ["", *dict.fromkeys(committed)])
    known: dict[str, str] = {}
    largest = max((s for s in work.scenarios if s.tuned), key=lambda s: moved(work, entry, s.sizes))
    for scenario in _scenarios(work, entry, a.scenarios):
        sets = buffer_sets(work, scenario.sizes, entry.variant)
        found = [m for m in built if runnable(m.kernel, work, scenario.sizes)]
        if a.tune and scenario.tuned:
            templates = [t for t in entry.templates if not a.templates or any(s in t for s in a.templates)]
            found = _tuned(bench, entry, work, templates, scenario.sizes, sets, a.tune)[:FINALISTS] + found
        judge = Judge(work, entry.variant, naive, bench.runtime, sets[0])
        found = [m for m in found if _verified(bench, work, entry.variant, naive, m, judge, known)]
        count, seconds = moved(work, entry, scenario.sizes), judge.seconds
        del judge
        row = _race(entry, scenario, naive, found, sets, count if entry.unit == "bytes" else 0.0, seconds)
        row |= {"floor": count / bandwidth if entry.unit == "bytes" else None, "work": count, "target": entry.target,
                "unit": entry.unit, "device": device(), "bandwidth": bandwidth}  # fmt: skip
        if a.write and found and row["script"] and scenario.tuned:
            name = "expert.ktp" if scenario is largest else f"expert-{scenario.name}.ktp"
            to = a.write / "kernels" / entry.folder / name
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(_pretty(row["script"]))
        yield row


def _work(entry: Entry) -> Any:
    from ktc.ir.workload import Workload

    return Workload.load(ROOT / "kernels" / entry.folder)


def _scenarios(work: Any, entry: Entry, named: list[str]) -> list[Any]:
    """The tuned and held-out scenarios of ``work`` and those of the contest alone that were asked for."""
    from ktc.ir.workload import Scenario

    own = [s for s in work.scenarios if s.tuned or s.heldout]
    every = (*own, *(Scenario(name, dict(sizes), weight=0.0) for name, sizes in entry.beyond))
    return [s for s in every if not named or any(part in s.name for part in named)]


def _tuned(
    bench: Bench, entry: Entry, work: Any, templates: list[str], sizes: Any, sets: Any, budget: int
) -> list[Made]:
    scripts: list[str] = []
    for template in templates:
        try:
            scripts += bench.configurations(work, entry.variant, template, sizes, budget)
        except Exception as e:  # refused here, or no tuple fits these sizes
            print(f"  {entry.name}: {template}: {str(e)[:160]}", flush=True)
    began = time.perf_counter()
    made = bench.build(work, entry.variant, scripts)
    compiled = time.perf_counter()
    found = bench.quick(made, sets)
    timed = time.perf_counter() - compiled
    best = ", ".join(f"{m.seconds * 1e6:.1f}" for m in found[:6])
    print(f"  {len(scripts)} scripts: built in {compiled - began:.1f} s, timed in {timed:.1f} s: {best}", flush=True)
    return found


def _verified(bench: Bench, work: Any, variant: str, naive: Made, m: Made, judge: Judge, known: dict[str, str]) -> bool:
    """Whether the device agrees that ``m`` does what the source does: at awkward sizes, then at this one."""
    from ktc.search.verification import differential

    if m.script not in known:
        both = (naive.exe, m.exe)
        verdict = differential(
            bench.runtime, naive.emitted, m.emitted, work, variant=variant or None, count=2, executables=both
        )
        known[m.script] = "" if verdict.ok or verdict.status == "UNKNOWN" else f"{verdict.layer}: {verdict.reason}"
    why = known[m.script] or judge.differs(m.exe)
    if why:
        print(f"  REJECTED {m.script}: {why}", flush=True)
    return not why


def _race(
    entry: Entry, scenario: Any, naive: Made, found: list[Made], sets: Any, count: float, seconds: float
) -> dict[str, Any]:
    """Seconds of every contender, by name; ``ktc`` is the fastest script. ``count``: bytes that a copy is to move;
    ``seconds``: of one launch of the source."""
    from tests.bench.copying import copies
    from tests.bench.serving import as_tensors

    plain = copies(count) if count else []
    contenders = [*plain, *([Contender("naive", launcher(naive), sets)] if seconds < SLOW else [])]
    scripts = [Contender(m.script, launcher(m), sets) for m in found]
    contenders += scripts
    tensors = [as_tensors(s) for s in sets]
    contenders += [Contender(r, rival(r, scenario.sizes), tensors) for r in entry.rivals]
    captured = []
    for c in contenders:
        try:
            c.capture()
            captured.append(c)
        except Exception as e:
            print(f"  {entry.name} {scenario.name}: {c.name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    race(captured, capture=False)
    times = {c.name: c.time for c in captured if c not in scripts and c not in plain}
    times |= {} if seconds < SLOW else {"naive": seconds}
    best = min((c for c in scripts if c.samples), key=lambda c: c.time, default=None)
    copied = min((c.time for c in plain if c.samples), default=None)
    return {"kernel": entry.name, "scenario": scenario.name, "heldout": scenario.heldout, "times": times,
            "copy": copied, "ktc": best.time if best else None, "script": best.name if best else ""}  # fmt: skip


def rival(name: str, sizes: Mapping[str, int]) -> Any:
    import torch

    from tests.bench.rivals import torch_functions

    name, _, how = name.partition(":")
    f = torch_functions()[name]
    if how == "compile":
        torch._dynamo.reset()
        f = torch.compile(f, dynamic=False)
    return f


def moved(work: Any, entry: Entry, sizes: Mapping[str, int]) -> float:
    """Bytes that any implementation must move, or the entry's operations.

    An array is read once if the source loads from it or updates it atomically, and written once if it stores to it:
    an ``inout`` array whose border alone keeps its old values is not read.
    """
    from math import prod

    from ktc.ir.workload import size_expressions
    from ktc.ir.workload.input_data import numpy_dtype

    if entry.unit != "bytes":
        return float(size_expressions.evaluate(entry.unit, sizes))
    reads, writes = _accessed(work, entry.variant)
    total = 0
    for arg in work.args:
        if arg.role != "scalar":
            size = prod(size_expressions.evaluate(n, sizes) for n in arg.shape)
            size *= numpy_dtype(work.dtype(arg, entry.variant or None)).itemsize
            total += size * ((arg.name in reads) + (arg.name in writes))
    return float(total)


def _accessed(work: Any, variant: str) -> tuple[set[str], set[str]]:
    """Names of the arrays that the source reads, and of those that it writes."""
    from ktc.ir.nodes import Atomic, Load
    from ktc.ir.walk import all_exprs, assigned, walk

    body = work.load_kernel(variant or None).body
    reads = {e.buffer.name for e in all_exprs(body) if isinstance(e, Load)}
    reads |= {s.buffer.name for s in walk(body) if isinstance(s, Atomic)}
    return reads, {s.name for s in assigned(body)}


def _pretty(script: str) -> str:
    return script.replace(" | ", "\n| ") + "\n"


# ------------------------------------------------------------------------------------------------------------- reports


def _best(times: Mapping[str, float], suffix: bool) -> float | None:
    return min((t for n, t in times.items() if n != "naive" and n.endswith(":compile") == suffix), default=None)


def line(r: Mapping[str, Any]) -> str:
    us = {n: f"{t * 1e6:.2f}" for n, t in r["times"].items()}
    if r["ktc"] is None:
        return f"{r['kernel']} {r['scenario']}: no script; {us}"
    ratios = {n: f"{t / r['ktc']:.2f}x" for n, t in r["times"].items()}
    of = (
        f"{100 * r['floor'] / r['ktc']:.0f}% of the floor, {_of_copy(r)} of a copy"
        if r["floor"]
        else f"{r['work'] / r['ktc'] / 1e12:.1f} T/s"
    )
    return f"{r['kernel']} {r['scenario']}: ktc {r['ktc'] * 1e6:.2f} us, {of}; {us} {ratios}\n    {r['script']}"


def _of_copy(r: Mapping[str, Any]) -> str:
    return f"{100 * r['copy'] / r['ktc']:.0f} %" if r.get("copy") and r["ktc"] else "–"


def device() -> str:
    import cupy as cp

    return cp.cuda.runtime.getDeviceProperties(0)["name"].decode()


def table(rows: list[dict[str, Any]]) -> str:
    names = ", ".join(dict.fromkeys(r["device"] for r in rows))
    rates = sorted({round(r["bandwidth"] / 1e12, 2) for r in rows})
    out = [
        "# Expert speed from naive kernels",
        "",
        f"{names}, {datetime.date.today().isoformat()}. Device time per launch in µs: graph replay over buffers",
        "larger than the L2, all contenders of a row interleaved in one process, medians. *Floor*: every byte that the",
        "source reads read once and every byte it writes written once, at the copy bandwidth measured in the same run",
        f"({', '.join(f'{x:.2f}' for x in rates)} TB/s); for matrix products the rate in Tflop/s. *Copy*: a copy that",
        "moves as many bytes, timed beside the others: it is bound by the same latencies, which the floor leaves out.",
        "*ktc*: the fastest script beside the kernel (`expert*.ktp`), verified on this device against the source in",
        "the same run.",
        "Regenerate with `python -m tests.bench.expert`.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|" + "---|" * len(COLUMNS),
    ]

    def cell(t: float | None) -> str:
        return "–" if t is None else f"{t * 1e6:.2f}"

    for r in rows:
        t, k = r["times"], r["ktc"]
        eager, compiled = _best(t, False), _best(t, True)
        over = ["–" if k is None or x is None else f"{x / k:.2f}x" for x in (t.get("naive"), eager, compiled)]
        of = "–" if k is None else f"{100 * r['floor'] / k:.0f} %" if r["floor"] else f"{r['work'] / k / 1e12:.1f} T/s"
        held = " (held out)" if r["heldout"] else ""
        cells = [r["kernel"], r["scenario"] + held, cell(r["floor"]), cell(r.get("copy")), cell(t.get("naive")),
                 cell(eager), cell(compiled), f"**{cell(k)}**", of, _of_copy(r), *over]  # fmt: skip
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
