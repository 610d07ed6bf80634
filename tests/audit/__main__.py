"""``python -m tests.audit TREE... [--jobs N] [--steps] [--out FILE]``: raise every kernel of source trees and audit it.

Every kernel that loads is raised; the raised form and what it lowers to are run beside the source on fresh instances
(sizes around block multiples, primes, 1; negative, tied and scattered values) in the exact and the float domain.
Kernels without a launch in their file get a usual block and a grid of open size. One JSON line a kernel, then totals.
With ``--steps`` every step that is suggested for a kernel is taken instead, as it is and raised (:mod:`.steps`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise
from ktc.project.source_trees import Tree
from ktc.survey.assumptions import Builds
from ktc.survey.survey_options import SurveyOptions
from ktc.survey.unit import UnitSurvey, refusals_into

from .compare import audit
from .instances import with_launch
from .steps import all_steps


class UnitAudit(UnitSurvey):
    """The kernels of one file: instead of being printed for backends, each is raised and audited."""

    settings: dict[str, Any]

    def _lower(self, kernel: Kernel, record: dict[str, Any]) -> None:
        s = self.settings
        if s["steps"]:
            self._steps(with_launch(kernel), record)
            return
        record["launch"] = "own" if kernel.launch is not None else "invented"
        source = with_launch(kernel)
        record["text"] = hash(print_kernel(source))
        began = time.process_time()
        outcome = Raise().run(source)
        record["raise_s"] = round(time.process_time() - began, 2)
        if not isinstance(outcome, Result):
            record["status"], record["why"] = outcome.code, outcome.why
            record["place"] = str(outcome.locs[0]) if outcome.locs else ""
            return
        left = [n for n in outcome.notes if "left: " in n]
        record["unchecked"] = sum("unchecked: " in n for n in outcome.notes)
        record["status"], record["why"] = ("in part", left[0]) if left else ("whole", "")
        v = audit(source, outcome.kernel, count=s["instances"], seed=s["seed"], seconds=s["seconds"])
        record |= {"clean": v.clean, "outside": v.outside, "defective": v.defective, "late": v.late, "wrong": v.wrong}

    def _steps(self, source: Kernel, record: dict[str, Any]) -> None:
        found = all_steps(source, self.settings["compiled"])
        record["text"], record["steps"], record["bugs"] = hash(print_kernel(source)), found.tried, found.bugs


def one(task: tuple[str, str, dict[str, Any]]) -> list[dict[str, Any]]:
    root, path, settings = task
    out: list[dict[str, Any]] = []
    if time.monotonic() > settings["end"]:
        return [{"unit": path, "status": "not begun"}]
    options = SurveyOptions(root, backends=(), timeout_s=settings["timeout"])
    trouble: dict[str, Any] = {}
    try:
        with refusals_into(trouble, "refusal", 30 * options.timeout_s):
            tree = Tree(root)
            unit = UnitAudit(path, tree, options, Builds(tree))
            unit.settings = settings
            for record in unit.records(0, lambda k: None):
                out.append(record)
    except BaseException:
        trouble["refusal"] = traceback.format_exc()[-500:]
    if trouble:
        out.append({"unit": path, "status": "no unit", "why": trouble["refusal"]})
    return out


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.audit", description=__doc__)
    parser.add_argument("trees", nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--steps", action="store_true", help="take every suggested step; look for internal errors")
    parser.add_argument("--compiled", type=int, default=0, metavar="N", help="with --steps: nvcc on every N-th text")
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds for one kernel in all")
    parser.add_argument("--seconds", type=float, default=25.0, help="CPU seconds for the comparison of one kernel")
    parser.add_argument("--limit", type=float, default=1e9, help="hand out no more files after so many seconds")
    parser.add_argument("--part", default="0/1", metavar="K/N", help="every N-th file, from the K-th")
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    with open(args.out, "w") if args.out else contextlib.nullcontext(sys.stdout) as out:
        return _run(args, out)


def _run(args: argparse.Namespace, out: Any) -> int:
    began = time.monotonic()
    settings = {k: getattr(args, k) for k in ("instances", "seed", "timeout", "seconds", "steps", "compiled")}
    settings["end"] = began + args.limit
    tasks = [(t, f, settings) for t in args.trees for f in Tree(t).with_kernels if args.only in f]
    part, parts = map(int, args.part.split("/"))
    tasks = tasks[part::parts]
    totals: Counter[str] = Counter()
    seen: set[Any] = set()
    with multiprocessing.get_context("fork").Pool(args.jobs, maxtasksperchild=8) as pool:
        for records in pool.imap_unordered(one, tasks, chunksize=1):
            for r in records:
                _count(r, totals, seen)
                print(json.dumps(r, default=str), file=out, flush=True)
    totals["files"] = len(tasks)
    print(json.dumps({**totals, "seconds": round(time.monotonic() - began)}), flush=True)
    return 1 if totals["wrong"] or totals["bugs"] else 0


def _count(r: dict[str, Any], totals: Counter[str], seen: set[Any]) -> None:
    key = r.get("text", (r.get("unit"), r.get("kernel"), r.get("line")))
    if key in seen:
        totals["repeated"] += 1
        return
    seen.add(key)
    totals["kernels"] += 1
    totals["steps"] += r.get("steps", 0)
    totals["bugs"] += len(r.get("bugs", ()))
    if "refusal" in r:
        totals["not loaded" if "status" not in r else f"audit stopped: {r['refusal']['code']}"] += 1
    status = r.get("status", "")
    if status:
        totals[status] += 1
    if status in ("whole", "in part"):
        how = "audited" if r.get("clean") else "audited beyond its buffers only" if r.get("outside") else "not audited"
        totals[how] += 1
        totals["wrong"] += bool(r.get("wrong"))
        totals["with branches that no check entered"] += bool(r.get("unchecked"))
        totals["clean runs"] += r.get("clean", 0)


if __name__ == "__main__":
    sys.exit(main())
