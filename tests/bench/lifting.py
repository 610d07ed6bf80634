"""Regenerates kernels/LIFTING.md: kernels staged or reduced by hand, raised to plain loops and tuned again.

    python -m tests.bench.lifting [--only NAME ...] [--budget N] [--jobs N] [--out FILE]

The sources are those that the tests of raising hold (``tests/passes/*_sources.py``): block reductions written in many
ways (cub's collectives too, whose headers CuPy brings), products, transposes and convolutions staged through shared
memory with and without halo. Workloads are drafted by ``ktc init``; nothing here knows a kernel. Contenders of a row:
the source's own text (*source*, twice: the second shows the noise), ``raise`` alone (*raised*), and the best of what
the embedded planner proposes first, its knobs sampled (*retuned*), verified on the device. All are timed interleaved
by graph replay over buffers larger than the L2.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.graphs import Contender, race
from tests.bench.tuning import Bench, Made, launcher
from tests.paths import ROOT

PROPOSALS = 6
"""Scripts of the planner's first round that are tuned."""

FINALISTS = 3
"""Tuned configurations that are verified and raced."""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[], help="names of sources; all by default")
    p.add_argument("--budget", type=int, default=20, help="configurations a script")
    p.add_argument("--jobs", type=int, default=12, help="processes that lower and compile")
    p.add_argument("--out", type=Path, default=ROOT / "kernels" / "LIFTING.md")
    a = p.parse_args()
    sources = {n: s for n, s in _sources().items() if not a.only or n in a.only}
    bench, rows = Bench(a.jobs), []
    with tempfile.TemporaryDirectory() as folder:
        with ThreadPoolExecutor(a.jobs) as pool:
            works = dict(zip(sources, pool.map(lambda n: drafted(Path(folder, n), sources[n]), sources)))
        for name, work in works.items():
            try:
                rows.append({"name": name, **contest(bench, work, sources[name], a.budget)})
            except Exception as e:
                print(f"{name}: {type(e).__name__}: {str(e)[:400]}", flush=True)
                continue
            print(" | ".join(_cells(rows[-1])), flush=True)
            a.out.write_text(table(rows))


def _sources() -> dict[str, str]:
    from tests.passes.raising.reduction_sources import REDUCTIONS
    from tests.passes.raising.staged_sources import STAGED

    return {name: source for name, (source, _) in {**REDUCTIONS, **STAGED}.items()}


def drafted(folder: Path, source: str) -> Path:
    """``source`` in a folder of its own, with the workload that ``ktc init`` drafts of it."""
    folder.mkdir()
    (folder / "kernel.cu").write_text(source)
    command = [sys.executable, "-m", "ktc", "init", str(folder / "kernel.cu")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{folder.name}: {done.stderr.strip()}")
    return folder


def contest(bench: Bench, folder: Path, source: str, budget: int) -> dict[str, Any]:
    """The row of one kernel: its largest drafted scenario, seconds of each contender and the script that won."""
    from ktc.ir.workload import Workload
    from tests.bench.agree import Judge
    from tests.bench.serving import buffer_sets

    work = Workload.load(folder)
    scenario = next(s for s in work.scenarios if s.name == "large")
    sets = buffer_sets(work, scenario.sizes)
    printed, plain = bench.build(work, "", ["", "raise"])
    scripts: list[str] = []
    for script in proposals(bench, work, scenario.sizes):
        try:
            scripts += bench.configurations(work, "", script, scenario.sizes, budget)
        except Exception as e:  # no tuple of its knobs fits these sizes
            print(f"    {script}: {str(e)[:160]}", flush=True)
    found = bench.quick(bench.build(work, "", list(dict.fromkeys(scripts))), sets)
    judge = Judge(work, "", printed, bench.runtime, sets[0])
    good = [m for m in found[:FINALISTS] if _agrees(bench, work, printed, m, judge)]
    if why := judge.differs(plain.exe):
        raise RuntimeError(f"raised: {why}")
    launch = own_text(printed, source, work)
    field = [Contender("source", launch, sets), Contender("again", launch, sets),
             Contender("printed", launcher(printed), sets), Contender("raised", launcher(plain), sets)]  # fmt: skip
    tuned = [Contender(m.script, launcher(m), sets) for m in good]
    race([*field, *tuned], 15)
    best = min((c for c in tuned), key=lambda c: c.time, default=None)
    ratio = {c.name: median(a / b for a, b in zip(c.samples[2:], field[0].samples[2:])) for c in field[1:]}
    retuned, script = (best.time, best.name) if best else (None, "")
    return {"sizes": scenario.sizes, "source": field[0].time, "ratio": ratio, "retuned": retuned, "script": script}


def _agrees(bench: Bench, work: Any, printed: Made, m: Made, judge: Any) -> bool:
    """Whether ``m`` does what the source does, at awkward sizes and at this one."""
    from ktc.search.verification import differential

    both = (printed.exe, m.exe)
    verdict = differential(bench.runtime, printed.emitted, m.emitted, work, count=2, executables=both)
    why = "" if verdict.ok or verdict.status == "UNKNOWN" else f"{verdict.layer}: {verdict.reason}"
    why = why or judge.differs(m.exe)
    if why:
        print(f"    REJECTED {m.script}: {why}", flush=True)
    return not why


def proposals(bench: Bench, work: Any, sizes: Mapping[str, int]) -> Iterator[str]:
    """What the embedded planner tries first on the raised kernel at ``sizes``."""
    from ktc.agent.planners import Observation, Rules
    from ktc.ir.analysis.planner_facts import facts
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script, sites

    original = work.load_kernel()
    raised = apply_script(original, parse_script("raise")).kernel
    seen = Observation(
        kernel=original,
        raised=raised,
        facts=(facts(raised, work.scalars(sizes)),),
        device=bench.runtime.device,
        find_sites=lambda: tuple(s for group in sites(raised).values() for s in group),
        attempt=lambda script: apply_script(original, parse_script(script)).refused,
    )
    for p in Rules().propose(seen, PROPOSALS):
        if seen.attempt(p.script) is None:
            yield p.script


def own_text(printed: Made, source: str, work: Any) -> Any:
    """Launches the kernel of ``source`` as its author wrote it, where and as ``printed`` is launched."""
    from ktc.ir.fold import evaluate
    from tests.bench.identity import device_part
    from tests.bench.serving import _launch, _scalar, compiled

    kernel = printed.kernel
    function = compiled(_HEADERS + device_part(source), kernel.name + _instance(str(work.source)))
    names = [p.sym.name for p in work.load_kernel().params if not p.host]
    types = {p.sym.name: getattr(p.sym.type, "name", None) for p in kernel.params}

    def launch(a: Mapping[str, Any]) -> None:
        env = kernel.environment({k: v for k, v in a.items() if isinstance(v, int)})
        grid, block = (tuple(int(evaluate(e, env)) for e in g) for g in (kernel.launch.grid, kernel.launch.block))
        shared = int(evaluate(kernel.launch.dynamic_shared, env) or 0) if kernel.launch.dynamic_shared else 0
        _launch(function, grid, block, [_scalar(a[n], types[n]) for n in names], shared)

    return launch


def _instance(path: str) -> str:
    """``<arguments>`` of the kernel template in ``path`` as its launch there gives them; '' for a plain function."""
    from ktc.ir.frontend.entry_points import deep_recursion, parse_unit
    from ktc.ir.frontend.host.launch_sites import launch_sites
    from ktc.ir.frontend.host.template_instances import instances, spell

    with deep_recursion(path):
        unit = parse_unit(path, None, None, ())
        entity = next(iter(unit.program.kernels))
        bindings, *_ = instances(unit.lowering(), entity, launch_sites(unit.lowering(), entity.name), {})[0]
        args = [spell(bindings[p.name]) for p in entity.params or ()]
    return f"<{', '.join(args)}>" if args else ""


_HEADERS = "#include <cuda_fp16.h>\n#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n"


# -------------------------------------------------------------------------------------------------------------- report


def _cells(r: Mapping[str, Any]) -> list[str]:
    sizes = ", ".join(f"{k}={v}" for k, v in r["sizes"].items())
    ratio, best = r["ratio"], r["retuned"]
    return [r["name"], sizes, f"{r['source'] * 1e6:.2f}", *(f"{ratio[k]:.2f}" for k in ("again", "printed", "raised")),
            f"**{best * 1e6:.2f}**" if best else "–", f"{r['source'] / best:.2f}x" if best else "–"]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    from tests.bench.expert import device

    head = ("source", "sizes", "source, µs", "again", "printed", "raised", "retuned, µs", "over the source")
    out = [
        "# Raised from what experts write by hand, and tuned again",
        "",
        f"{device()}, {datetime.date.today().isoformat()}. Device time per launch: graph replay over buffers larger",
        "than the L2, the contenders of a row interleaved in one process, medians. *again*, *printed*, *raised*: time",
        "over the source's, of the same text once more (the noise), of what ktc prints of it without a pass, and of",
        "`raise` alone.",
        "*retuned*: the best of the embedded planner's first scripts, verified on the device.",
        "Regenerate with `python -m tests.bench.lifting`.",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(_cells(r))} |" for r in rows),
        "",
        "The scripts that won:",
        "",
        *(f"- {r['name']}: `{r['script']}`" for r in rows if r["script"]),
    ]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
