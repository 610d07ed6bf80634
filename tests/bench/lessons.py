"""What lessons from some kernels are worth on others, and what wrong ones cost.

    python -m tests.bench.lessons FOLDER... --log rows.jsonl [--teachers FOLDER...] [--device cuda] [--seconds 540]
    python -m tests.bench.lessons --table rows.jsonl

The teachers (by default :data:`TEACHERS`, ten kernels of the library) are optimised with an empty knowledge base each;
what they leave in it is the memory. Then every FOLDER, a kernel with a workload, is optimised in three ways, all at the
largest tuned sizes (``--smallest``: at the smallest, for CPUs):

- ``without``: no memory, ten measurements;
- ``with``: the teachers' lessons, five measurements;
- ``misled``: ten measurements, and a memory that claims of other kernels' scripts, which nothing speaks for here and
  the planner had not proposed, that they made this very kernel nine times faster: up to three of them.

Each is a row of the log, with the verified result and the measurements that each script got. A lesson is *wrong* if its
script is not the fastest of the run and gains less than half of what was claimed. Rows of the same code, device and
budgets are not made again, and nothing is begun after ``--seconds``: the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ktc.agent.bench import Bench
from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.features import features
from ktc.agent.lessons import KEPT
from ktc.agent.loop_roles import Roles
from ktc.agent.memory import Lesson, Memory
from ktc.agent.optimize import optimize
from ktc.agent.planner import Proposal
from ktc.agent.trajectory import NAME as TRAJECTORY
from ktc.ir.analysis.planner_facts import KernelFacts, facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Scenario, Workload
from ktc.search.target import DeviceInfo
from tests.bench.cost_model import largest
from tests.bench.planner import scenarios
from tests.bench.row_logs import append, logged, rows_of
from tests.code_hash import code_hash
from tests.paths import KERNELS

TEACHERS = (
    "basic/axpby", "basic/sum", "basic/histogram", "dense/transpose", "dense/sgemm", "serving/silu_and_mul",
    "serving/fused_add_rmsnorm", "training/softmax", "training/column_sum", "stencil/jacobi2d",
)  # fmt: skip
"""Folders of the library, one of each kind: streams, sums, counts, reorderings, products, gated rows, rows that are
read twice, columns, neighbours."""

FEW, MANY = 5, 10
"""Measurements with lessons, and without."""

CLAIMED = 9.0
"""The speed-up that wrong lessons claim."""

MISLEADING = 3
"""Wrong lessons for one kernel: as many as a run looks at."""

MOST_A_LESSON = 2
"""Measurements that a wrong lesson may cost."""

SAME = ("part", "kernel", "device", "smallest", "code", "budget", "time_limit")


def main(argv: Sequence[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--teachers", nargs="+", type=Path, default=[KERNELS / t for t in TEACHERS])
    p.add_argument("--log", type=Path, default=Path("lessons.jsonl"))
    p.add_argument("--device", default="cuda")
    p.add_argument("--budget", type=int, default=40, help="measurements of a teacher")
    p.add_argument("--time-limit", type=float, default=15.0, help="seconds of one run")
    p.add_argument("--smallest", action="store_true", help="at the smallest tuned sizes")
    p.add_argument("--seconds", type=float, default=540.0)
    p.add_argument("--table", type=Path)
    a = p.parse_args(argv)
    if a.table:
        print(table(rows_of(a.table)))
        return
    School(a, time.monotonic() + a.seconds).keep()


class School:
    """The rows of one command: those that its log has, and those that are made before ``end`` (of
    :func:`time.monotonic`)."""

    def __init__(self, a: argparse.Namespace, end: float) -> None:
        self.a, self.end = a, end
        old = logged(a.log)
        self.rows = {_key(r): r for r in old}

    def keep(self) -> None:
        """All rows, as far as the time goes."""
        taught: list[Mapping[str, Any]] = []
        for folder in self.a.teachers:
            row = self.row("teach", folder, self.a.budget, lambda: (Memory(":memory:"), []))
            if row is None:
                return
            taught += row.get("lessons", [])
        for folder in self.a.folders:
            self._pupil(folder, [x for x in taught if x["of"] != folder.name])

    def _pupil(self, folder: Path, taught: Sequence[Mapping[str, Any]]) -> None:
        alone = self.row("without", folder, MANY, lambda: (None, []))
        self.row("with", folder, FEW, lambda: (_memory(taught), []))
        if alone is not None:
            self.row("misled", folder, MANY, lambda: misled(folder, taught, alone, self.a))

    def row(
        self, part: str, folder: Path, budget: int, learn: Callable[[], tuple[Memory | None, list[str]]]
    ) -> Mapping[str, Any] | None:
        """The row of one run, from the log where it is there; None where the time is over."""
        a = self.a
        head = {"part": part, "kernel": folder.name, "device": a.device, "code": code_hash("tests/bench/lessons.py")}
        head |= {"budget": budget, "time_limit": a.time_limit, "smallest": a.smallest}
        if _key(head) not in self.rows:
            if time.monotonic() > self.end:
                return None
            row = head | one_run(folder, budget, a, *learn())
            self.rows[_key(head)] = row
            append(a.log, row)
            print(part, folder.name, row.get("speedup", row.get("error")), flush=True)
        return self.rows[_key(head)]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[k] for k in SAME)


def sizes_of(work: Workload, a: argparse.Namespace) -> Scenario:
    """The scenario that kernels are optimised for."""
    return (scenarios(work, "smallest") or [largest(work)])[0] if a.smallest else largest(work)


def _memory(lessons: Sequence[Mapping[str, Any]]) -> Memory:
    memory = Memory(":memory:")
    memory.merge(lessons)
    return memory


def one_run(
    folder: Path, budget: int, a: argparse.Namespace, memory: Memory | None, planted: Sequence[str]
) -> dict[str, Any]:
    """The verified result of one run; seconds of a launch, measurements by script, and what is in ``memory`` then.
    ``planted``: scripts of wrong lessons, in the names of this kernel."""
    work = Workload.load(folder)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        try:
            report = optimize(
                work, planner=Rules(), budget=budget, time_limit=a.time_limit, out_dir=out, memory=memory,
                scenarios=[sizes_of(work, a).name], lab=Bench(work, work.load_kernel(), device=a.device),
            )  # fmt: skip
        except KtcError as e:
            return {"error": f"{e.message} [{e.code}]"[:300]}
        spent = measurements(Path(out) / TRAJECTORY)
    (found,) = report.scenarios
    return {
        "gpu": report.device["name"],
        "before": found.before.median,
        "after": found.after.median,
        "speedup": found.ratio[0],
        "script": found.script,
        "gains": {o.script: o.gain for o in report.outcomes if o.gain is not None and o.script},
        "suggested": sorted({o.script for o in report.outcomes if o.planner == "memory"}),
        "spent": spent,
        "planted": list(planted),
        "seconds": time.monotonic() - began,
        "lessons": [asdict(x) | {"of": folder.name} for x in memory.lessons()] if memory is not None else [],
    }


def measurements(trajectory: Path) -> dict[str, int]:
    """How many configurations of each script a run measured."""
    spent: Counter[str] = Counter()
    for event in map(json.loads, trajectory.read_text().splitlines()):
        if event["event"] == "tune":
            spent[event["script"]] += len(event["trials"])
    return dict(spent)


def misled(
    folder: Path, taught: Sequence[Mapping[str, Any]], alone: Mapping[str, Any], a: argparse.Namespace
) -> tuple[Memory, list[str]]:
    """A memory of wrong lessons about the kernel in ``folder``, and their scripts in its names: what applies of
    ``taught`` and is not among the scripts of the run ``alone``, the farthest kernels' first."""
    work = Workload.load(folder)
    builder = Builder(work.load_kernel())
    raised = builder.build(Proposal("raise", ""))
    kernel = raised.kernel if isinstance(raised, Candidate) else builder.original
    seen = facts(kernel, work.scalars(sizes_of(work, a).sizes))
    memory, planted, roles = Memory(":memory:"), list[str](), Roles.of(seen)
    for x in reversed(_nearest(taught, seen, alone)):
        script = roles.concrete(x["script"])
        if script is None or script in alone.get("spent", {}) or script in planted:
            continue
        if isinstance(builder.build(Proposal(script, "")), Candidate):
            planted.append(script)
            said = {k: x[k] for k in ("backend", "device", "knobs")}
            memory.add(Lesson(**said, features=features(seen), script=x["script"], gain=CLAIMED))
        if len(planted) == MISLEADING:
            break
    return memory, planted


def _nearest(
    taught: Sequence[Mapping[str, Any]], seen: KernelFacts, alone: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """``taught``, those of the kernels most like the one that was ``seen`` first."""
    found = _memory(taught).nearest(seen, _device(alone), len(taught), within=math.inf)
    order = {x.script: n for n, x in enumerate(found)}
    return sorted(taught, key=lambda x: order.get(x["script"], len(order)))


def _device(row: Mapping[str, Any]) -> DeviceInfo:
    return DeviceInfo(row["device"].partition(":")[0], row.get("gpu", ""), "", 1, 0, 0)


# ------------------------------------------------------------------------------------------------------------ the table


def wrong(row: Mapping[str, Any]) -> dict[str, int]:
    """Planted scripts of a ``misled`` row that were wrong, with the measurements that each got."""
    claimed = KEPT * (CLAIMED - 1)
    return {
        s: row["spent"].get(s, 0)
        for s in row["planted"]
        if s != row["script"] and (row["gains"].get(s) or 0.0) - 1 < claimed
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: a line a kernel that was optimised with and without lessons, then in how many they carry over."""
    by = {(r["part"], r["kernel"]): r for r in rows if "error" not in r}
    kernels = [k for part, k in by if part == "without" and ("with", k) in by]
    taught = [k for part, k in by if part == "teach"]
    lines = [
        f"Lessons of {len(taught)} kernels ({', '.join(taught)}), on {', '.join({r['gpu'] for r in by.values()})}.",
        "",
        f"| kernel | as written us | {MANY} without us | {FEW} with us | as fast | lessons tried "
        f"| wrong lessons tried | measurements of each | {MANY} misled us |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios, costs = [], []
    for k in kernels:
        alone, helped = by["without", k], by["with", k]
        ratios.append(alone["after"] / helped["after"])
        bad = by.get(("misled", k))
        each = wrong(bad) if bad is not None else {}
        costs += each.values()
        said = ", ".join(map(str, each.values())) or "-"
        lines.append(
            f"| {k} | {alone['before'] * 1e6:.2f} | {alone['after'] * 1e6:.2f} | {helped['after'] * 1e6:.2f} "
            f"| {ratios[-1]:.2f} | {len(helped['suggested'])} | {len(each)} | {said} "
            f"| {_us(bad)} |"
        )
    if kernels:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        good = sum(r >= TOLERANCE for r in ratios)
        lines += [
            "",
            f"{FEW} measurements with lessons reach {mean:.2f} of the speed of {MANY} without (geometric mean), and at "
            f"least {TOLERANCE:.0%} of it on {good} of {len(ratios)}. {len(costs)} wrong lessons were tried; none took "
            f"more than {max(costs, default=0)} measurements ({MOST_A_LESSON} are allowed).",
        ]
    return "\n".join(lines)


def _us(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{row['after'] * 1e6:.2f}"


TOLERANCE = 0.97
"""Of the time of a launch: two runs of one configuration differ by as much."""


if __name__ == "__main__":
    main()
