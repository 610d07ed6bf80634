"""The identity test of raising on a GPU: kernels raised and lowered with no other pass against their sources' time.

    python -m tests.bench.identity_time prepare OUT [KERNEL ...]     where nvcc is: OUT holds a pickle a kernel
    python -m tests.bench.identity_time run OUT [--rounds N]         where the GPU is

Contenders of a row: the author's own text compiled by nvcc (*source*), what ktc prints of it without any pass
(*printed*), and ``raise`` alone (*raised*), each at every tuned scenario of the kernel's workload, interleaved by graph
replay over buffers larger than the L2. A ratio is raised (or printed) over source: 1.00 is the identity. The source
takes part twice (*again*), which shows the noise. Kernels staged through shared memory by hand are raised to plain
loops that remember their staging: lowered with no other pass, they are staged again.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from statistics import median

from tests.bench.expert_table import ENTRIES
from tests.bench.graphs import Contender, race
from tests.bench.identity import compile_original, entry_of
from tests.paths import ROOT

BAND = 0.03
"""A ratio further than this from 1 is listed as a miss."""


def prepare(out: Path, only: list[str]) -> None:
    """One pickle a kernel: its folder, its source's cubin, and the printed and raised CUDA (:class:`Emitted`)."""
    from ktc import load
    from ktc.ir.frontend.entry_points import parse_unit
    from ktc.ir.workload import Workload

    out.mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        name = entry.folder.rpartition("/")[2]
        if only and name not in only:
            continue
        work = Workload.load(ROOT / "kernels" / entry.folder)
        program = load(str(ROOT / "kernels" / entry.folder), variant=entry.variant or None)
        raised = program.apply("raise").ok
        text = parse_unit(str(work.source), None, dict(work.defines), ()).source.text
        args = list(work.template(entry.variant or None).values())
        cubin = out / f"{name}.cubin"
        why = compile_original(text, f"{work.kernel_name}<{', '.join(args)}>" if args else "", cubin)
        symbol = None if why else entry_of(cubin, work.kernel_name, [])
        if symbol is None:
            raise SystemExit(f"{name}: nvcc: {why or 'no such kernel in the object'}")
        data = {"folder": entry.folder, "variant": entry.variant, "cubin": cubin.name, "symbol": symbol,
                "printed": program.lower("cuda"), "raised": raised.lower("cuda")}  # fmt: skip
        (out / f"{name}.pkl").write_bytes(pickle.dumps(data))
        print(f"{name}: prepared", *raised.notes, sep="\n    ", flush=True)


def run(out: Path, rounds: int) -> None:
    """A line a kernel and scenario; then the misses and the spread of all ratios."""
    import cupy as cp

    from ktc.backends.runtimes import open_runtime
    from ktc.backends.runtimes.cuda_runtime import CudaExecutable
    from ktc.ir.workload import Workload
    from tests.bench.serving import buffer_sets
    from tests.bench.tuning import Made, launcher

    runtime = open_runtime("cuda")
    rows: list[tuple[str, dict[str, float]]] = []
    for pickled in sorted(out.glob("*.pkl")):
        data = pickle.loads(pickled.read_bytes())
        work = Workload.load(ROOT / "kernels" / data["folder"])
        source = CudaExecutable(runtime, data["printed"], (out / data["cubin"]).read_bytes(), data["symbol"])
        made = {"source": Made("", None, data["printed"], source), "again": Made("", None, data["printed"], source)}
        made |= {k: Made(k, None, data[k], runtime.compile(data[k])) for k in ("printed", "raised")}
        for scenario in work.scenarios:
            if not scenario.tuned:
                continue
            sets = buffer_sets(work, scenario.sizes, data["variant"])
            field = [Contender(k, launcher(m), sets) for k, m in made.items()]
            race(field, rounds)
            times = {c.name: c.samples[2:] for c in field}
            ratios = {k: median(a / b for a, b in zip(times[k], times["source"])) for k in times if k != "source"}
            rows.append((f"{pickled.stem} {scenario.name}", ratios))
            shown = "  ".join(f"{k} {r:.3f}" for k, r in ratios.items())
            print(f"{rows[-1][0]:45} source {median(times['source']) * 1e6:9.2f} us  {shown}", flush=True)
            del sets, field
            cp.get_default_memory_pool().free_all_blocks()
    for kind in ("again", "printed", "raised"):
        of = sorted(r[kind] for _, r in rows)
        missed = [f"{name} {r[kind]:.3f}" for name, r in rows if abs(r[kind] - 1) > BAND]
        print(f"{kind}: {len(of)} rows, {of[0]:.3f} to {of[-1]:.3f}, median {median(of):.3f}; "
              f"{len(of) - len(missed)} within {BAND:.0%}; outside: {', '.join(missed) or 'none'}")  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["prepare", "run"])
    p.add_argument("out", type=Path)
    p.add_argument("kernels", nargs="*")
    p.add_argument("--rounds", type=int, default=15)
    a = p.parse_args()
    prepare(a.out, a.kernels) if a.what == "prepare" else run(a.out, a.rounds)


if __name__ == "__main__":
    main()
