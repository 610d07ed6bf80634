"""One tuned template in three languages on one GPU: CUDA, HIP (through a thin header) and OpenCL, retuned.

    python -m tests.bench.porting --runs RUNS --out kernels/PORTING.md [--budget 60]

RUNS holds the runs of ``serving.py``. For each kernel's largest tuned scenario: the winner's script (without fast-math
and cache hints, which differ between the languages by design) is one template; each language gets knobs of its own by
the same search on the same GPU. Outputs of all three are compared bit for bit on exact inputs; times are device time by
each API's means.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.paths import ROOT

LOCAL = ("fast-math", "cache-hints")
"""Steps whose meaning differs between the languages by design; the shared template goes without them."""

KERNELS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=Path, default=Path("runs"))
    p.add_argument("--out", type=Path, default=ROOT / "kernels" / "PORTING.md")
    p.add_argument("--budget", type=int, default=60, help="measurements of the OpenCL search, per kernel")
    a = p.parse_args()
    rows = [one(name, a) for name in KERNELS]
    a.out.write_text(table(rows))
    print(a.out.read_text())


def one(name: str, a: argparse.Namespace) -> dict[str, Any]:
    from ktc.backends.hip.hip_dialect import on_nvidia
    from ktc.backends.runtimes import open_runtime
    from ktc.driver.printing import printed
    from ktc.ir.kernel import bind
    from ktc.ir.workload import Workload
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script

    work = Workload.load(ROOT / "kernels" / "serving" / name)
    report = json.loads((a.runs / name / "report.json").read_text())
    best = max((s for s in report["scenarios"] if not s["heldout"]), key=lambda s: s["bytes"])
    script = parse_script(best["script"])
    script = dataclasses.replace(script, steps=tuple(s for s in script.steps if s.name not in LOCAL))
    template = apply_script(work.load_kernel(), script).kernel
    sizes = best["sizes"]
    cuda, cl = open_runtime("cuda"), open_runtime("opencl:NVIDIA")
    inputs = work.make_inputs(sizes, seed=1)
    languages: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "CUDA": (cuda, lambda k: printed(k, cuda.device.profile)),
        "HIP": (cuda, lambda k: on_nvidia(printed(k, "hip"))),
        "OpenCL": (cl, lambda k: printed(k, cl.device.profile)),
    }
    knobs = {n: tune_on(rt, emit, template, inputs, a.budget) for n, (rt, emit) in languages.items()}
    codes = {n: (rt, emit(bind(template, knobs[n]))) for n, (rt, emit) in languages.items()}
    exact = work.make_inputs(sizes, seed=2, exact=True)
    outputs = {k: launch(rt, code, exact) for k, (rt, code) in codes.items()}
    want = outputs["CUDA"]
    different = {k: sum(int(np.count_nonzero(_bits(want[n]) != _bits(o[n]))) for n in want) for k, o in outputs.items()}
    times = {k: timed(rt, code, inputs) for k, (rt, code) in codes.items()}
    row = {"kernel": name, "scenario": best["name"], "script": str(script), "knobs": knobs,
           "times": times, "different": different,
           "elements": sum(v.size for v in want.values()), "device": cuda.device.name}  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def _bits(a: np.ndarray) -> np.ndarray:
    return a.reshape(-1).view(f"u{a.dtype.itemsize}")


def arrays(rt: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: rt.to_device(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}


def launch(rt: Any, code: Any, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Written buffers after one launch."""
    from ktc.ir.types import Ptr
    from ktc.ir.walk import assigned

    args = arrays(rt, values)
    rt.compile(code).launch(args)
    rt.synchronize()
    written = assigned(code.kernel.body)
    names = [p.sym.name for p in code.kernel.params if isinstance(p.sym.type, Ptr) and p.sym in written]
    return {n: rt.to_host(args[n], values[n]) for n in names}


def timed(rt: Any, code: Any, values: Mapping[str, Any]) -> float:
    """Median device seconds per launch over two rotating sets."""
    return rt.time(rt.compile(code), [arrays(rt, values) for _ in range(2)], budget_s=0.5).median


def tune_on(
    rt: Any, emit: Callable[[Any], Any], template: Any, values: Mapping[str, Any], budget: int
) -> dict[str, int]:
    """The best knobs of ``template`` on this runtime: ktc's own search, in this process."""
    from ktc.agent.limits import space_for
    from ktc.ir.kernel import bind
    from ktc.search.records.outcome import Outcome
    from ktc.search.tuning.tune import tune

    sets = [arrays(rt, values) for _ in range(2)]
    scalars = {k: v for k, v in values.items() if isinstance(v, int)}

    def evaluate(config: Mapping[str, int], incumbent: object) -> Outcome:
        try:
            t = rt.time(rt.compile(emit(bind(template, config))), sets, budget_s=0.1)
        except Exception as e:
            return Outcome("compile-error", details={"error": str(e)[:500]})
        return Outcome("ok", {"": t.median}, {"": (t.low, t.high)})

    found = tune(None, evaluate, space_for(template, rt.device, scalars), budget=budget, seed=0)
    best = min((t for t in found.trials if t.objective is not None), key=lambda t: t.objective)
    return dict(best.config)


def table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0]["times"])
    out = [
        "# One template, three languages, one GPU",
        "",
        f"{rows[0]['device']}, {datetime.date.today().isoformat()}. Device time per launch in µs, cold buffers,",
        "the largest tuned scenario, float16. CUDA and HIP: graph replay; OpenCL: event profiling, which adds a few µs",
        "to short launches. HIP runs through `backends/include/hip_on_nvidia.h`. *Bits*: elements that differ from",
        "CUDA's on exact inputs.",
        "",
        "Regenerate with `python -m tests.bench.serving --optimize && python -m tests.bench.porting`.",
        "",
        "| kernel | scenario | " + " | ".join(names) + " | bits that differ |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    for r in rows:
        base = r["times"]["CUDA"]
        cells = [f"{r['times'][n] * 1e6:.1f} ({r['times'][n] / base:.2f}x)" for n in names]
        bits = ", ".join(f"{n}: {r['different'][n]}" for n in names[1:]) + f" of {r['elements']}"
        out.append(f"| {r['kernel']} | {r['scenario']} | " + " | ".join(cells) + f" | {bits} |")
    out += ["", "Scripts and knobs:", ""]
    out += [f"- {r['kernel']}: `{r['script']}`; " + ", ".join(f"{n} {k}" for n, k in r["knobs"].items()) for r in rows]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
