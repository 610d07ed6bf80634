"""What planning, tuning and each planner are worth, at equal budgets of measurements.

    python -m tests.bench.ablation FOLDER... --log rows.jsonl [--device cuda] [--budget 40] [--seeds 5] [--arms NAME...]
                                   [--time-limit 120] [--seconds 540]
    python -m tests.bench.ablation --table rows.jsonl [--write ABLATION.md]

A row is one run of the optimiser on a folder that holds a workload, for its largest tuned scenario, by one arm with one
seed; its held-out scenarios are timed at the end. Rows of the same code, device, budget and time limit are not made
again, and no run is begun after ``--seconds``: the same command goes on where it was interrupted. The arms:

- ``agent-only``: the rules' scripts, each measured at its default knobs and no others;
- ``tuning-only``: the rules' first script, all measurements for its knobs;
- ``rules``, ``beam``, ``mcts``, ``map-elites``, ``ensemble``: scripts by that planner, and their knobs tuned;
- ``llm``: where an endpoint is configured; else the table says that it was not run.

The table has, by arm, the geometric mean of the verified speed-ups over the source of all kernels and seeds, with a
95 % interval (percentile bootstrap, 2,000 resamples of kernels and of their seeds), and the same on held-out sizes.
Only kernels and seeds that every arm has been run with count.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ktc.agent.bench import Bench
from ktc.agent.embedded.rules import Rules
from ktc.agent.exploring.beam import Beam
from ktc.agent.exploring.map_elites import MapElites
from ktc.agent.exploring.mcts import Mcts
from ktc.agent.lab import Tuned
from ktc.agent.optimize import optimize
from ktc.agent.planner import Observation, Planner, Proposal
from ktc.agent.planners import AHEAD, Ensemble
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from tests.bench.cost_model import largest
from tests.bench.row_logs import append, logged, rows_of
from tests.code_hash import code_hash

RESAMPLES = 2000


class OneTemplate:
    """The first script that the rules propose, and never another."""

    name = "tuning-only"

    def propose(self, observation: Observation, k: int) -> list[Proposal]:
        return [] if any(h.script for h in observation.history) else Rules().propose(observation, 1)


class DefaultsOnly(Bench):
    """A lab that measures a template at its default knobs and says that there is nothing else."""

    def tune(self, c, scenario, total, seeds, seconds=math.inf) -> Tuned:  # type: ignore[no-untyped-def, override]
        return replace(super().tune(c, scenario, min(total, 1), (), seconds), exhausted=True)


def _llm(seed: int) -> Planner:
    from ktc.agent.llm.config import LlmConfig
    from ktc.agent.llm.llm_planner import LlmPlanner

    config = LlmConfig.from_env()
    if config is None:
        raise KtcError("E-LLM-CONFIG", "no LLM is configured", exit_code=3)
    return LlmPlanner.from_config(config)


ARMS: dict[str, tuple[Callable[[int], Planner], type[Bench]]] = {
    "agent-only": (lambda seed: Rules(), DefaultsOnly),
    "tuning-only": (lambda seed: OneTemplate(), Bench),
    "rules": (lambda seed: Rules(), Bench),
    "beam": (Beam, Bench),
    "mcts": (Mcts, Bench),
    "map-elites": (MapElites, Bench),
    "ensemble": (lambda seed: Ensemble(Mcts(seed), MapElites(seed), Rules(), ahead=AHEAD), Bench),
    "llm": (_llm, Bench),
}
"""Name -> (planner for a seed, lab)."""

EMBEDDED = tuple(a for a in ARMS if a != "llm")
SAME = ("kernel", "arm", "seed", "budget", "time_limit", "code", "device")


def main(argv: Sequence[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--log", type=Path, default=Path("ablation.jsonl"))
    p.add_argument("--device", default="cuda")
    p.add_argument("--budget", type=int, default=40)
    p.add_argument("--time-limit", type=float, default=120.0)
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--arms", nargs="+", default=list(EMBEDDED), choices=list(ARMS))
    p.add_argument("--seconds", type=float, default=540.0)
    p.add_argument("--table", type=Path)
    p.add_argument("--write", type=Path)
    a = p.parse_args(argv)
    if a.table:
        text = table(rows_of(a.table))
        print(text)
        if a.write:
            a.write.write_text(text + "\n")
        return
    end = time.monotonic() + a.seconds
    made = {_key(r) for r in logged(a.log)}
    for head, folder in _wanted(a):
        if _key(head) in made:
            continue
        if time.monotonic() > end:
            return
        row = head | one_run(folder, head["arm"], head["seed"], a)
        append(a.log, row)
        print(row["kernel"], row["arm"], row["seed"], row.get("speedup", row.get("error")), flush=True)


def _wanted(a: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Path]]:
    """All seeds of the table once before any twice: what is interrupted is balanced."""
    same = {"budget": a.budget, "time_limit": a.time_limit, "code": code_hash(), "device": a.device}
    for seed in range(a.seeds):
        for folder in a.folders:
            for arm in a.arms:
                yield {"kernel": folder.name, "arm": arm, "seed": seed, **same}, folder


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[k] for k in SAME)


def one_run(folder: Path, arm: str, seed: int, a: argparse.Namespace) -> dict[str, Any]:
    """The optimiser's result: speed-up on the tuned scenario (1: nothing verified is faster) and on held-out ones."""
    planner, lab = ARMS[arm]
    work = Workload.load(folder)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        try:
            report = optimize(
                work,
                planner=planner(seed),
                budget=a.budget,
                time_limit=a.time_limit,
                out_dir=out,
                seed=seed,
                scenarios=[largest(work).name],
                lab=lab(work, work.load_kernel(), device=a.device, seed=seed),
            )
        except KtcError as e:
            return {"error": f"{e.message} [{e.code}]"[:300]}
    tuned = [s for s in report.scenarios if not s.heldout]
    heldout = [s for s in report.scenarios if s.heldout]
    return {
        "gpu": report.device["name"],
        "speedup": mean([s.ratio[0] for s in tuned]),
        "heldout": mean([s.ratio[0] for s in heldout]) if heldout else None,
        "script": report.best_script,
        "knobs": dict(report.best_knobs),
        "measured": report.measured,
        "seconds": time.monotonic() - began,
        "first_improvement": report.first_improvement,
    }


def mean(values: Sequence[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: arms by geometric mean, then speed-ups by kernel."""
    good = [r for r in rows if "speedup" in r]
    present = [a for a in ARMS if any(r["arm"] == a for r in good)]
    cells = {(r["kernel"], r["seed"], r["arm"]): r for r in good}
    shared = [c for c in dict.fromkeys((k, s) for k, s, _ in cells) if all((*c, a) in cells for a in present)]
    kernels = list(dict.fromkeys(k for k, _ in shared))
    failed = len(rows) - len(good)
    devices = ", ".join(sorted({r["gpu"] for r in good}))
    budgets = ", ".join(sorted({f"{r['budget']} measurements or {r['time_limit']:g} s" for r in good}))
    lines = [
        f"{len(kernels)} kernels, {len(shared)} runs an arm, {budgets}, on {devices or 'no device'}; {failed} failed.",
        "",
        "| arm | speed-up [95 %] | on held-out sizes [95 %] | " + " | ".join(kernels) + " |",
        "|---|---|---|" + "---|" * len(kernels),
    ]
    for arm in ARMS:
        if arm not in present:
            lines.append(f"| {arm} | not run here | |" + " |" * len(kernels))
            continue
        mine = {k: [cells[k, s, arm] for kk, s in shared if kk == k] for k in kernels}
        each = [f"{mean([r['speedup'] for r in mine[k]]):.2f}" for k in kernels]
        lines.append(f"| {arm} | {_interval(mine, 'speedup')} | {_interval(mine, 'heldout')} | {' | '.join(each)} |")
    return "\n".join(lines)


def _interval(runs: Mapping[str, Sequence[Mapping[str, Any]]], field: str) -> str:
    logs = [np.log([r[field] for r in rs if r[field] is not None]) for rs in runs.values()]
    logs = [x for x in logs if len(x)]
    if not logs:
        return "-"
    rng = np.random.default_rng(0)
    drawn = [
        np.mean(
            [
                logs[i][rng.integers(len(logs[i]), size=len(logs[i]))].mean()
                for i in rng.integers(len(logs), size=len(logs))
            ]
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.exp(np.percentile(drawn, [2.5, 97.5]))
    return f"{math.exp(np.mean([x.mean() for x in logs])):.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
