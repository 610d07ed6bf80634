"""How fast kernels are on this machine's cores, against the loops that one would have written for it.

    python -m tests.bench.cpu [KERNEL...] --log rows.jsonl [--script TEXT] [--optimize BUDGET]

KERNEL is a folder's name in ``kernels/`` (all by default). Contenders: plain C loops with OpenMP (``loops/``) compiled
by gcc with ``-O3 -march=native``, once more with ``-ffast-math``; numpy where the kernel is one line of it; the source
as the numba backend prints it; ``--script``, the source after a pass script (knobs bound or at their defaults; repeat
for several); ``--optimize``, what ``ktc optimize --device numba --budget BUDGET`` finds in this run. All of a kernel
are timed in turn in one process: medians in milliseconds, with 95 % intervals in the log. A contender whose result is
not the kernel's is shown as wrong and not timed. Of ``ktc optimize`` two columns say how long it took, in seconds: from
the start of the command to the verdict on its first gain, and to compile a candidate (median).

Rows already in the log that the same code made are taken over, so that an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ktc.ir.support.child_python import python_environment, python_module, rest_when_waiting

rest_when_waiting()  # before numpy is loaded: its threads would take a core from the contender after it

from tests.bench.row_logs import append, logged  # noqa: E402
from tests.code_hash import code_hash  # noqa: E402

from .contest import Contender, Contest  # noqa: E402
from .entries import ENTRIES, Entry  # noqa: E402
from .machine import this_machine  # noqa: E402
from .report import line, table  # noqa: E402

OWN = "tests/bench/cpu"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernels", nargs="*", metavar="KERNEL")
    p.add_argument("--log", type=Path, required=True, help="rows are appended to this file, one JSON object each")
    p.add_argument("--seconds", type=float, default=8.0, help="of timing a kernel")
    p.add_argument("--script", action="append", default=[], help="a pass script to time as well")
    p.add_argument("--optimize", type=int, default=0, metavar="BUDGET", help="configurations that `ktc optimize` tries")
    p.add_argument("--scenario", help="instead of the table's")
    a = p.parse_args()
    unknown = set(a.kernels) - {e.name for e in ENTRIES}
    if unknown:
        p.error(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(e.name for e in ENTRIES)}")
    chosen = [e for e in ENTRIES if not a.kernels or e.name in a.kernels]
    rows = []
    for entry in chosen:
        key = [code_hash(OWN), entry.folder, a.scenario or entry.scenario, a.script, a.optimize]
        row = _known(a.log, key)
        if row is None:
            row = contest(entry, a) | {"key": key}
            append(a.log, row)
        rows.append(row)
        print(line(row), flush=True)
    print("\n" + table(rows))


def _known(log: Path, key: list[Any]) -> dict[str, Any] | None:
    rows = logged(log)
    return next((r for r in reversed(rows) if r["key"] == key), None)


def contest(entry: Entry, a: argparse.Namespace) -> dict[str, Any]:
    """One row: medians and intervals in seconds by contender."""
    import ktc
    from ktc.backends.runtimes import open_runtime

    optimised = _optimised(entry, a) if a.optimize else {}
    work, runtime = entry.workload(), open_runtime("numba")
    scenario = work.scenario(a.scenario) if a.scenario else entry.at(work)
    program = ktc.load(str(work.path.parent), variant=entry.variant or None)
    args = work.make_inputs(scenario.sizes, entry.variant or None, seed=1)
    ring, compiled = Contest(work, args), {}
    scripts = {"source": ("", {})} | {s: (s, {}) for s in a.script}
    if optimised:
        scripts["ktc optimize"] = (optimised["script"], optimised["knobs"])
    contenders = []
    for name, (script, knobs) in scripts.items():
        made = (program.apply(script) if script else program).ok
        began = time.perf_counter()
        exe = runtime.compile(made.lower("numba", **knobs))
        compiled[name] = time.perf_counter() - began
        contenders.append(Contender(name, exe.launch))
    contenders += others(entry, program.kernel)
    want = ring.result(contenders[0])
    for c in contenders[1:]:
        ring.judge(c, want)
    ring.race([c for c in contenders if not c.differs], a.seconds)
    return {"kernel": entry.folder, "scenario": scenario.name, "variant": entry.variant, "machine": str(this_machine()),
            "times": {c.name: _interval(c) for c in contenders if c.samples}, "compile_s": compiled,
            "wrong": {c.name: c.differs for c in contenders if c.differs}, "optimised": optimised}  # fmt: skip


def others(entry: Entry, kernel: Any) -> Iterator[Contender]:
    """The contenders that are not ours."""
    from .c_loops import compiler, loops
    from .numpy_lines import LINES

    if compiler():
        for build, call in loops(kernel, entry.folder).items():
            yield Contender(build, call)
    if entry.folder in LINES:
        yield Contender("numpy", LINES[entry.folder])


def _interval(c: Contender) -> list[float]:
    from ktc.backends.timing_stats import median_interval

    i = median_interval(c.samples)
    return [i.median, i.low, i.high, len(c.samples)]


def _optimised(entry: Entry, a: argparse.Namespace) -> dict[str, Any]:
    """What ``ktc optimize`` finds at this scenario: its script, knobs and how long it took."""
    from ktc.search.records.recipe import Recipe

    with tempfile.TemporaryDirectory() as folder:
        command = [*python_module("ktc"), "optimize", str(entry.workload().path.parent), "--device", "numba",
                   "--budget", str(a.optimize), "--out", folder, "--no-memory",
                   "--scenario", a.scenario or entry.scenario]  # fmt: skip
        command += ["--variant", entry.variant] if entry.variant else []
        began = time.perf_counter()
        run = subprocess.run(command, env=python_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        seconds = time.perf_counter() - began
        if run.returncode:
            sys.exit(run.stdout.decode(errors="replace"))
        recipe = Recipe.load(Path(folder) / "recipe.json")
        said = progress(Path(folder) / "trajectory.jsonl")
    return {"script": recipe.script, "knobs": dict(recipe.knobs), "seconds": seconds, **said}


def progress(trajectory: Path) -> dict[str, float | None]:
    """Seconds from the start of the command to the verdict on the first gain, and those that a candidate's compiler
    took, by the median; None where there was no gain, or none was compiled."""
    events = [json.loads(x) for x in trajectory.read_text("utf-8").splitlines()]
    gains = [e["elapsed"] for e in events if e["event"] == "improvement"]
    compiled = [t["compile_s"] for e in events for t in e.get("trials", ()) if t.get("compile_s") is not None]
    return {"first_gain_s": min(gains, default=None), "compile_s": median(compiled) if compiled else None}


if __name__ == "__main__":
    main()
