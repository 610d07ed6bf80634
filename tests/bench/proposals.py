"""What the embedded planner proposes at first, and what the cost model expects of it: no device is needed.

    python -m tests.bench.proposals FOLDER... [--for H100] [--scripts 14] [--log proposals.json] [--compare OLD.json]

For each folder with a workload (by default those of ``kernels/``), at its smallest and largest tuned sizes: the scripts
in their order, each with its expected time over that of the best of them (``-``: the model knows nothing of it).
``--compare`` prints only where the order differs from an earlier log, with the places that scripts had there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from ktc.agent.build import Builder
from ktc.agent.embedded.rules import Rules
from ktc.agent.expectations import Expectations
from ktc.agent.limits import space_for
from ktc.agent.planner import Observation
from ktc.backends.base import DeviceInfo
from ktc.ir.analysis.planner_facts import facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Scenario, Workload
from ktc.passes.core.pipeline import sites
from ktc.search.bounds.cost_model import MULTIPROCESSORS
from tests.paths import KERNELS

Rows = list[tuple[str, float | None]]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folders", nargs="*", type=Path)
    p.add_argument("--for", dest="name", default="H100", choices=MULTIPROCESSORS)
    p.add_argument("--scripts", type=int, default=14)
    p.add_argument("--log", type=Path)
    p.add_argument("--compare", type=Path)
    a = p.parse_args()
    old: dict[str, Any] = json.loads(a.compare.read_text()) if a.compare else {}
    found: dict[str, Rows] = {}
    for place, o in observations(a.folders or [KERNELS], a.name):
        expected = Expectations(o)
        rows = [(p.script, expected.expected(p.script)) for p in Rules().propose(o, a.scripts)]
        found[place] = rows
        before = [script for script, _ in old.get(place, [])]
        if before != [script for script, _ in rows]:
            print(f"\n{place}")
            best = min((t for _, t in rows if t is not None), default=1.0)
            for script, t in rows:
                was = f"{before.index(script) + 1:>3} " if script in before else "new " if before else ""
                print(f"  {was}{f'{t / best:8.2f}' if t is not None else '       -'}  {script}", flush=True)
    if a.log:
        a.log.write_text(json.dumps(found, indent=1) + "\n")


def observations(folders: list[Path], name: str) -> Iterator[tuple[str, Observation]]:
    """What the planner sees before anything was measured, by kernel and scenario."""
    units, capability = MULTIPROCESSORS[name]
    device = DeviceInfo("cuda", name, f"cuda-sm{capability.replace('.', '')}", units, 1024, 227 << 10)
    for path in sorted(f for folder in folders for f in folder.rglob("workload.toml")):
        work = Workload.load(path)
        sizes = [work.scalars(s.sizes) for s in work.scenarios if s.tuned or s.heldout]
        builder = Builder(work.load_kernel(None), sizes=sizes)
        tuned = sorted((s for s in work.scenarios if s.tuned), key=lambda s: prod(map(float, s.sizes.values())))
        for s in {s.name: s for s in (tuned[0], tuned[-1])}.values():
            yield f"{path.parent.name} {s.name}", observed(work, builder, s, device)


def observed(work: Workload, builder: Builder, s: Scenario, device: DeviceInfo) -> Observation:
    raised, at = builder.kernel("raise"), work.scalars(s.sizes)
    kernel = raised or builder.original

    def runs(script: str) -> bool:
        built = builder.kernel(script)
        try:
            return built is None or space_for(built, device, at).size > 0
        except KtcError:
            return False

    return Observation(
        builder.original, raised, (facts(kernel, at),), device,
        attempt=builder.attempt, built=builder.kernel, runs=runs,
        find_sites=lambda: tuple(x for group in sites(kernel).values() for x in group),
    )  # fmt: skip


if __name__ == "__main__":
    main()
