"""How well the cost model ranks schedules that were measured.

    python -m tests.bench.cost_model FOLDER... --log rows.jsonl [--device cuda] [--schedules 30] [--seconds 540]
    python -m tests.bench.cost_model --table rows.jsonl [--for H100] [--fitted FOLDER_NAME...]

The first form measures up to ``--schedules`` schedules of each folder that holds a workload, at its largest tuned
sizes: the source, the scripts beside it, and what the embedded planner proposes at first, each at its defaults, then at
other feasible values of its knobs, at random (seed 0). Each is a row: kernel, scenario, script, knobs, seconds (or why
there are none), commit, code and device. Rows that the log has are not made again; nothing is begun after
``--seconds``: the same command goes on where it was interrupted. Schedules are timed, not verified.

The second form predicts each row's time anew, from the sources and for the device that the row names (``--for``: for
another one), and prints by kernel Spearman's rank correlation of predicted and measured times, and the regret of the
first one, three and five: how much longer the fastest of the first k by prediction takes than the fastest of all.
``--fitted`` names kernels that constants were chosen on: they are listed and left out of the mean.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ktc.agent.bench import Bench
from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.limits import space_for
from ktc.agent.planner import Observation, Proposal
from ktc.driver.printing import printed
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import bind
from ktc.ir.workload import Scenario, Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, sites
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import estimate_of, machine_of
from ktc.search.space.knob_space import Config
from ktc.search.workers.executor import FromWorkload
from tests.bench.planner import scripts
from tests.bench.row_logs import append, logged, rows_of
from tests.code_hash import code_hash
from tests.paths import ROOT

TOPS = (1, 3, 5)
PROPOSED = 12
"""Scripts asked of the planner for one kernel."""


def main(argv: Sequence[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--log", type=Path, default=Path("rows.jsonl"))
    p.add_argument("--device", default="cuda")
    p.add_argument("--schedules", type=int, default=30)
    p.add_argument("--seconds", type=float, default=540.0)
    p.add_argument("--table", type=Path)
    p.add_argument("--for", dest="target", default="", help="predict for this device of the table")
    p.add_argument("--fitted", nargs="*", default=[])
    a = p.parse_args(argv)
    if a.table:
        print(table(rows_of(a.table), a.target, a.fitted))
        return
    end = time.monotonic() + a.seconds
    for folder in a.folders:
        if time.monotonic() < end:
            measure(folder, a.log, a.device, a.schedules, end)


# ------------------------------------------------------------------------------------------------------------ measuring


def measure(folder: Path, log: Path, device: str, most: int, end: float) -> None:
    """Append rows for ``folder`` until there are ``most`` or ``end`` (of :func:`time.monotonic`) is over."""
    work = Workload.load(folder)
    scenario = largest(work)
    original = work.load_kernel()
    bench = Bench(work, original, device=device)
    try:
        head = {
            "folder": str(folder),
            "kernel": folder.name,
            "scenario": scenario.name,
            "code": code_hash(),
            "device": bench.device.name,
        }
        old = logged(log)
        made = {_key(r) for r in old if all(r[k] == v for k, v in head.items())}
        builder = Builder(original)
        for c, knobs in schedules(work, scenario, builder, folder, bench, most):
            row = head | {"script": c.script, "knobs": knobs}
            if _key(row) in made or len(made) >= most:
                continue
            if time.monotonic() > end:
                return
            made.add(_key(row))
            row |= {"commit": _commit(), **_timed(bench, c, knobs, scenario, work)}
            append(log, row)
            print(f"{folder.name} {row.get('seconds', row.get('error'))} {c.label} {knobs}", flush=True)
    finally:
        bench.close()


def schedules(
    work: Workload, scenario: Scenario, builder: Builder, folder: Path, bench: Bench, most: int
) -> Iterator[tuple[Candidate, Config]]:
    """Templates at their own values first, then, in turns, each at other feasible ones; the same in every run."""
    rng = np.random.default_rng(0)
    spaces = []
    for script, given in _scripts(work, scenario, builder, folder, bench):
        built = builder.build(Proposal(script, ""))
        if not isinstance(built, Candidate):
            continue
        try:
            space = space_for(built.kernel, bench.device, work.scalars(scenario.sizes))
        except KtcError:
            continue
        first = space.canonical(given) if space.contains(space.canonical(given)) else space.default()
        yield built, first
        others = [space.config(i) for i in space.sample_indices(rng, min(most, space.size))]
        spaces.append((built, [c for c in others if c != first]))
    for turn in range(most):
        for built, others in spaces:
            if turn < len(others):
                yield built, others[turn]


def _scripts(
    work: Workload, scenario: Scenario, builder: Builder, folder: Path, bench: Bench
) -> Iterator[tuple[str, Mapping[str, int]]]:
    """The source, the folder's scripts with their knobs, and the embedded planner's first ideas, each once."""
    yield "", {}
    seen = {""}
    for _, script, knobs in scripts(folder):
        seen.add(script)
        yield script, knobs
    raised = builder.build(Proposal("raise", ""))
    kernel = raised.kernel if isinstance(raised, Candidate) else None
    seen_at = facts(kernel or builder.original, work.scalars(scenario.sizes))
    observation = Observation(
        builder.original,
        kernel,
        (seen_at,),
        bench.device,
        lambda: tuple(s for group in sites(kernel or builder.original).values() for s in group),
        attempt=builder.attempt,
    )
    for p in Rules().propose(observation, PROPOSED):
        if p.script not in seen:
            yield p.script, {}


def largest(work: Workload) -> Scenario:
    tuned = [s for s in work.scenarios if s.tuned] or list(work.scenarios)
    return max(tuned, key=lambda s: math.prod(s.sizes.values()))


def _timed(bench: Bench, c: Candidate, knobs: Config, scenario: Scenario, work: Workload) -> dict[str, Any]:
    try:
        code = printed(materialise(bind(c.kernel, knobs)), bench.device.profile)
    except KtcError as e:
        return {"error": f"{e.message} [{e.code}]"[:300]}
    said = bench.station.executor.time(code, FromWorkload(str(work.path), dict(scenario.sizes)), budget_s=0.15)
    if said.timing is None:
        return {"error": f"{said.status}: {str(said.details.get('error', ''))[:300]}"}
    return {"seconds": said.timing.median, "low": said.timing.low, "high": said.timing.high}


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row["script"], row["knobs"]], sort_keys=True)


@cache
def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


# -------------------------------------------------------------------------------------------------------------- judging


def table(rows: Sequence[Mapping[str, Any]], target: str = "", fitted: Sequence[str] = ()) -> str:
    """A Markdown table of all kernels with three schedules that have both times."""
    lines = [
        "| kernel | schedules | rank correlation | " + " | ".join(f"regret of first {k}" for k in TOPS) + " |",
        "|---|---|---|" + "---|" * len(TOPS),
    ]
    figures = []
    for kernel in dict.fromkeys(r["kernel"] for r in rows):
        mine = [r for r in rows if r["kernel"] == kernel and "seconds" in r]
        both = [(p, r["seconds"]) for r in mine if (p := predicted(r, target or r["device"])) is not None]
        if len(both) < 3:
            lines.append(f"| {kernel} | {len(both)} of {len(mine)} | - |" + " - |" * len(TOPS))
            continue
        guess, real = np.array(both).T
        values = [rank_correlation(guess, real), *(regret(guess, real, k) for k in TOPS)]
        if kernel not in fitted:
            figures.append(values)
        name = f"{kernel} (fitted)" if kernel in fitted else kernel
        lines.append(_line(name, f"{len(both)} of {len(mine)}", values))
    if figures:
        lines.append(_line("mean", str(len(figures)), list(np.mean(figures, axis=0))))
    return "\n".join(lines)


def _line(name: str, count: str, values: Sequence[float]) -> str:
    return f"| {name} | {count} | {values[0]:.2f} | " + " | ".join(f"{v:.0%}" for v in values[1:]) + " |"


def predicted(row: Mapping[str, Any], device: str) -> float | None:
    """Seconds by the cost model; None where it has no opinion."""
    work, original = _loaded(row["folder"])
    applied = apply_script(original, parse_script(row["script"]))
    if applied.refused is not None:
        return None
    kernel = materialise(bind(applied.kernel, row["knobs"]))
    found = estimate_of(kernel, work.scalars(work.scenario(row["scenario"]).sizes), machine_of(device))
    return found.seconds if found is not None else None


@cache
def _loaded(folder: str) -> tuple[Workload, Any]:
    work = Workload.load(folder)
    return work, work.load_kernel()


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, ties at their mean rank; 0 where one of them is constant."""
    ra, rb = _ranks(a), _ranks(b)
    spread = ra.std() * rb.std()
    return float(((ra - ra.mean()) * (rb - rb.mean())).mean() / spread) if spread else 0.0


def _ranks(a: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def regret(guess: np.ndarray, real: np.ndarray, k: int) -> float:
    """How much longer than the fastest the fastest of the ``k`` first by ``guess`` takes (0: as fast)."""
    return float(real[np.argsort(guess, kind="stable")[:k]].min() / real.min() - 1)


if __name__ == "__main__":
    main()
