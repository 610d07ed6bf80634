"""Exact twins on a device at production size: kernels under their scripts, and wrong versions that tolerances accept.

    python -m tests.bench.twins [--device cuda] [--scenario prefill] [--kernels sgemm ...]

For each kernel: the twin of the source against the twin of the source under its script (equal to the bit, or wrong),
and against a seeded wrong version of the source. The wrong version is also run in floats, on ordinary inputs:
``allclose`` says whether np.allclose(rtol=1e-2, atol=1e-2) takes it for right.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ktc import api
from ktc.backends.base import Runtime
from ktc.backends.emitter import emit
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.search.verification.device.arena import POISONS, launch_checked
from ktc.search.verification.device.twin import twin
from ktc.search.verification.device.twin_device import twin_differential
from tests import paths

ROOT = paths.KERNELS

MERGE = (
    "raise | distribute{loop=token_idx map=[block.z]} | distribute{loop=head_idx map=[thread.y 4, block.x]}"
    " | distribute{loop=token_idx map=[block.y]} | distribute{loop=i map=[vec 8, thread.x 16]}"
    " | fast-math{fns=exp,log,div}"
)

KERNELS: dict[str, tuple[str, str, str]] = {
    "serving/silu_and_mul": ("", "(1.0f + expf(-x))", "(1.0001f + expf(-x))"),
    "serving/fused_add_rmsnorm": ("", "i < hidden_size;", "i < hidden_size - 1;"),  # the first: the sum of squares
    "serving/merge_attn_states": (MERGE, "sum = exp_a + exp_b", "sum = exp_a + exp_b + 1e-4f"),
    "dense/sgemm": ("", "float acc = 0.0f", "float acc = 1e-3f"),
}
"""Folder: its script (the one beside it by default), and what is changed in the source to make it wrong."""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cuda")
    p.add_argument("--scenario", default="", help="substring; by default the largest scenario")
    p.add_argument("--kernels", nargs="*", default=[], help="substrings of folders")
    a = p.parse_args()
    runtime = open_runtime(a.device)
    for folder, (script, old, new) in KERNELS.items():
        if not a.kernels or any(k in folder for k in a.kernels):
            try:
                one(runtime, folder, script, (old, new), a.scenario)
            except KtcError as e:
                print(f"{folder}: {e}", flush=True)


def one(runtime: Runtime, folder: str, script: str, change: tuple[str, str], scenario: str) -> None:
    program = api.load(str(ROOT / folder))
    assert program.workload is not None
    fitting = [s for s in program.workload.scenarios if scenario in s.name and not s.heldout]
    chosen = max(fitting, key=lambda s: int(np.prod([int(v) for v in s.sizes.values()], dtype=np.int64)))
    script = script or (ROOT / folder / "expert.ktp").read_text()
    wrong = wrong_version(folder, change)
    for name, kernel in (("script", program.apply(script).ok.lowered()), ("wrong", wrong)):
        start = time.perf_counter()
        verdict = compare(runtime, program, kernel, chosen.sizes)
        print(f"{folder} {chosen.name} {name}: {verdict} [{time.perf_counter() - start:.1f} s]", flush=True)
    accepted, worst = tolerated(runtime, program, wrong, chosen.sizes)
    print(f"{folder} {chosen.name} wrong, in floats: allclose {accepted}, largest difference {worst:.3g}", flush=True)


def wrong_version(folder: str, change: tuple[str, str]) -> Kernel:
    with tempfile.TemporaryDirectory() as d:
        copy = Path(d) / "wrong"
        shutil.copytree(ROOT / folder, copy)
        text = (copy / "kernel.cu").read_text()
        assert change[0] in text, f"{folder} has changed: {change[0]!r} is not in it"
        (copy / "kernel.cu").write_text(text.replace(*change, 1))
        return api.load(str(copy)).kernel


def compare(runtime: Runtime, program: api.Program, candidate: Kernel, sizes: Mapping[str, int]) -> Any:
    texts = (emit(twin(k), runtime.device.profile) for k in (program.kernel, candidate))
    return twin_differential(runtime, *texts, program.workload, variant=program.variant, sizes=[sizes])


def tolerated(runtime: Runtime, program: api.Program, wrong: Kernel, sizes: Mapping[str, int]) -> tuple[bool, float]:
    """Whether the usual tolerance takes the wrong version's floats for right, and the largest difference."""
    workload = program.workload
    assert workload is not None
    inputs = workload.make_inputs(sizes, program.variant)
    codes = [runtime.compile(emit(k, runtime.device.profile)) for k in (program.kernel, wrong)]
    want, got = (launch_checked(runtime, exe, workload, inputs, POISONS[0]).outputs for exe in codes)
    pairs = [(want[n].astype(np.float32), got[n].astype(np.float32)) for n in want]
    with np.errstate(invalid="ignore"):
        worst = max(float(np.nanmax(np.abs(x - y))) for x, y in pairs)
    return all(np.allclose(x, y, rtol=1e-2, atol=1e-2, equal_nan=True) for x, y in pairs), worst


if __name__ == "__main__":
    main()
