"""What the gate costs: one winning candidate of each serving kernel, cold and from the cache.

    python -m tests.bench.gate [--json]

Cold means a fresh process's first verdict on this original: its own results in every domain are computed, too.
``again`` is another candidate of the same original, as in a search. Processor seconds of one core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import ktc.kernels
from ktc.ir.kernel import Kernel, bind
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import verify

SCRIPTS = {
    "silu_and_mul": "raise | distribute{loop=idx map=[vec $V, thread.x $T, unroll $U]}",
    "fused_add_rmsnorm": "raise | distribute{loop=i.* map=[vec $V, thread.x $T, unroll $U]}",
    "merge_attn_states": "raise | distribute{loop=i map=[vec $V, thread.x $T, unroll $U, seq]}",
}
KNOBS = ({"V": 8, "T": 256, "U": 2}, {"V": 4, "T": 128, "U": 1})


def candidate(original: Kernel, script: str, knobs: dict[str, int]) -> Kernel:
    return materialise(bind(apply_script(original, parse_script(script)).kernel, knobs))


def measure(name: str) -> dict[str, float | str]:
    """Processor seconds of three verdicts: the first one, one on another candidate, the first one remembered."""
    root = Path(next(iter(ktc.kernels.__path__))) / "serving"
    workload = Workload.load(root / name)
    original = workload.load_kernel()
    first, other = (candidate(original, SCRIPTS[name], k) for k in KNOBS)
    out: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for label, made in (("cold", first), ("again", other), ("cached", first)):
            start = time.process_time()
            verdict = verify(original, made, workload, cache_dir=folder)
            out[label] = time.process_time() - start
            out[f"{label} verdict"] = verdict.status
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {name: measure(name) for name in SCRIPTS}
    if options.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        times = ", ".join(f"{k} {row[k]:.3f} s" for k in ("cold", "again", "cached"))
        print(f"{name:18} {times}  ({row['cold verdict']}, {row['again verdict']})")


if __name__ == "__main__":
    main()
