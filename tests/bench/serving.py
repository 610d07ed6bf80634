"""Regenerates kernels/RESULTS.md: the serving kernels on a CUDA device against naive code, hand-written code and
torch.compile, with the byte floor beside them.

    python -m tests.bench.serving --runs RUNS --out kernels/RESULTS.md [--optimize --budget 100]

``--optimize`` first runs ``ktc optimize`` on each kernel; without it the recipes in RUNS are used. All contenders of a
scenario are timed interleaved in one process by graph replay over rotating buffers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.graphs import ROTATE_BYTES, Contender, race
from tests.bench.rivals import HAND, hand_launches, torch_functions
from tests.paths import ROOT

MAX_SETS = 640
"""Buffer sets at most: small scenarios still rotate through more than the L2."""

KERNELS = ("silu_and_mul", "fused_add_rmsnorm", "merge_attn_states")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the optimize runs, one a kernel")
    p.add_argument("--out", type=Path, default=ROOT / "kernels" / "RESULTS.md")
    p.add_argument("--optimize", action="store_true", help="run the optimiser first")
    p.add_argument("--budget", type=int, default=100, help="measurements a kernel")
    p.add_argument("--kernels", nargs="*", default=list(KERNELS))
    a = p.parse_args()
    rows: list[dict[str, Any]] = []
    for name in a.kernels:
        folder = ROOT / "kernels" / "serving" / name
        if a.optimize:
            from ktc.agent.optimize import optimize

            optimize(folder, device="cuda", budget=a.budget, out_dir=a.runs / name, planner="rules", progress=_say)
        report = json.loads((a.runs / name / "report.json").read_text())
        for scenario in report["scenarios"]:
            rows.append(contest(name, folder, scenario))
            print(json.dumps(rows[-1]), flush=True)
    from tests.bench.copying import copy_bandwidth

    a.out.write_text(table(rows, copy_bandwidth(), a))
    print(a.out.read_text())


def _say(event: Mapping[str, object]) -> None:
    if event.get("event") in ("tune", "rejected", "refused", "compare"):
        print({k: v for k, v in event.items() if k not in ("order", "knobs")}, flush=True)


def contest(name: str, folder: Path, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Time every contender on one scenario, in seconds."""
    from ktc.ir.workload import Workload

    work = Workload.load(folder)
    sizes = scenario["sizes"]
    sets = buffer_sets(work, sizes)
    contenders = [
        Contender("naive", ktc_launcher(work, "", {}), sets),
        Contender("ktc", ktc_launcher(work, scenario["script"], scenario["knobs"]), sets),
    ]
    hand = HAND / f"{name}.cu"
    for entry, grid, block, names in hand_launches(name, sizes):
        contenders.append(Contender("hand", raw_launcher(hand.read_text(), entry, grid, block, names), sets))
    compiled = torch_launcher(name)
    contenders.append(Contender("torch.compile", compiled, [as_tensors(s) for s in sets]))
    race(contenders)
    times: dict[str, float] = {}
    for c in contenders:
        times[c.name] = min(times.get(c.name, float("inf")), c.time)
    return {"kernel": name, "scenario": scenario["name"], "heldout": scenario["heldout"], "bytes": scenario["bytes"],
            "script": scenario["script"], "knobs": scenario["knobs"], **times}  # fmt: skip


def buffer_sets(work: Any, sizes: Mapping[str, int], variant: str = "") -> list[dict[str, Any]]:
    """Arguments on the device, as many sets as rotate past the L2; fp8 arrays travel as bytes."""
    import cupy as cp
    import numpy as np

    first = {k: _plain(v) for k, v in work.make_inputs(sizes, variant or None, seed=1).items()}
    size = sum(v.nbytes for v in first.values() if isinstance(v, np.ndarray))
    count = max(1, min(MAX_SETS, -(-ROTATE_BYTES // size)))
    one = {k: cp.asarray(v) if isinstance(v, np.ndarray) else v for k, v in first.items()}
    return [one] + [{k: v.copy() if isinstance(v, cp.ndarray) else v for k, v in one.items()} for _ in range(count - 1)]


def _plain(v: Any) -> Any:
    """An array of a type that CuPy has: narrow floats as integers of their size."""
    narrow = NARROW.get(str(getattr(v, "dtype", "")))
    return v.view(narrow) if narrow else v


NARROW = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def ktc_launcher(work: Any, script: str, knobs: Mapping[str, int]) -> Any:
    from ktc.backends import emit
    from ktc.ir.fold import evaluate
    from ktc.ir.kernel import bind
    from ktc.passes.core.language import parse_script
    from ktc.passes.core.pipeline import apply_script
    from ktc.passes.lowering import materialise

    kernel = work.load_kernel()
    if script:
        applied = apply_script(kernel, parse_script(script))
        assert applied.refused is None, applied.refused
        kernel = bind(applied.kernel, knobs)
    kernel = materialise(kernel)
    code = emit(kernel, "cuda")
    names = tuple(p.sym.name for p in kernel.params if not p.host)
    types = {p.sym.name: getattr(p.sym.type, "name", None) for p in kernel.params}
    function = compiled(code.text, code.entry)

    def launch(a: Mapping[str, Any]) -> None:
        env = kernel.environment({k: v for k, v in a.items() if isinstance(v, int)})
        assert kernel.launch is not None
        grid, block = (tuple(int(evaluate(e, env)) for e in g) for g in (kernel.launch.grid, kernel.launch.block))  # type: ignore[arg-type]
        shared = int(evaluate(kernel.launch.dynamic_shared, env) or 0) if kernel.launch.dynamic_shared else 0
        if shared > 48 << 10:
            function.max_dynamic_shared_size_bytes = shared
        _launch(function, grid, block, [_scalar(a[n], types[n]) for n in names], shared)

    return launch


def raw_launcher(text: str, entry: str, grid: Sequence[int], block: Sequence[int], names: Sequence[str]) -> Any:
    function = compiled(text, entry)

    def launch(a: Mapping[str, Any]) -> None:
        _launch(function, tuple(grid), tuple(block), [_scalar(a[n], "f32" if n == "eps" else "i32") for n in names], 0)

    return launch


def _launch(function: Any, grid: Any, block: Any, args: list[Any], shared: int) -> None:
    import cupy as cp
    import torch

    with cp.cuda.Stream.from_external(torch.cuda.current_stream()):
        function(grid, block, tuple(args), shared_mem=shared)


def _scalar(v: Any, kind: str | None) -> Any:
    import numpy as np

    if isinstance(v, (int, float)):
        return {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}[kind or "i32"](v)
    return v


def compiled(text: str, entry: str) -> Any:
    import cupy as cp

    dirs = [*(library_dirs() if re.search(r"#include <(cub|thrust|cuda)/", text) else ()), *include_dirs()]
    options = ("-std=c++17", *(f"-I{d}" for d in dirs))
    return cp.RawModule(code=text, options=options, name_expressions=[entry]).get_function(entry)


def include_dirs() -> list[str]:
    import importlib.util

    roots = [Path("/usr/local/cuda/include")]
    spec = importlib.util.find_spec("nvidia")
    if spec is not None and spec.submodule_search_locations:
        roots += [d for base in spec.submodule_search_locations for d in sorted(Path(base).glob("*/include"))]
    return [str(d) for d in roots if (d / "cuda_fp16.h").exists()]


def library_dirs() -> list[str]:
    """Headers of cub, Thrust and libcu++ that CuPy brings; before a toolkit's, which may be of another version."""
    import cupy as cp

    base = Path(cp.__file__).parent / "_core" / "include" / "cupy" / "_cccl"
    return [str(d) for d in (base / "cub", base / "thrust", base / "libcudacxx") if d.exists()]


def as_tensors(s: Mapping[str, Any]) -> dict[str, Any]:
    import cupy as cp
    import torch

    return {k: torch.as_tensor(v, device="cuda") if isinstance(v, cp.ndarray) else v for k, v in s.items()}


def torch_launcher(name: str) -> Any:
    import torch

    torch._dynamo.reset()
    return torch.compile(torch_functions()[name], dynamic=False)


def table(rows: list[dict[str, Any]], bandwidth: float, a: argparse.Namespace) -> str:
    import cupy as cp

    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    date = datetime.date.today().isoformat()
    out = [
        "# Results: the serving kernels, float16",
        "",
        f"{device}, {date}. Device time per launch in µs: graph replay over rotating buffers larger than the L2,",
        "every contender of a row interleaved in one process, median of 25. *Floor*: each input byte read once and",
        f"each output byte written once at the copy bandwidth measured in the same run ({bandwidth / 1e12:.2f} TB/s).",
        "*Hand*: `tests/bench/hand`, the best of its block shapes. *ktc*: the winner of `ktc optimize` with",
        f"{a.budget} measurements a kernel.",
        "",
        "Regenerate with `python -m tests.bench.serving --optimize` on a machine with a CUDA device, CuPy and PyTorch.",
        "",
        "| kernel | scenario | floor | naive | hand | torch.compile | **ktc** | over naive | over torch | of floor |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        floor = r["bytes"] / bandwidth
        cells = [_us(floor), _us(r["naive"]), _us(r.get("hand")), _us(r["torch.compile"]), f"**{_us(r['ktc'])}**"]
        ratios = [f"{r['naive'] / r['ktc']:.2f}x", f"{r['torch.compile'] / r['ktc']:.2f}x", f"{floor / r['ktc']:.0%}"]
        held = " (held out)" if r["heldout"] else ""
        out.append(f"| {r['kernel']} | {r['scenario']}{held} | " + " | ".join(cells + ratios) + " |")
    out += ["", "The scripts and knobs that won:", ""]
    for r in rows:
        knobs = " ".join(f"{k}={v}" for k, v in r["knobs"].items())
        out.append(f"- {r['kernel']} {r['scenario']}: `{r['script'] or 'the original'}` {knobs}")
    return "\n".join(out) + "\n"


def _us(t: float | None) -> str:
    return "–" if t is None else f"{t * 1e6:.2f}"


if __name__ == "__main__":
    main()
