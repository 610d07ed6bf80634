"""Sums by atomics come in any order: their last bits may change from launch to launch, and nothing else may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktc
from ktc.search.workers.worker_measure import Measurer
from ktc.search.workers.worker_protocol import FromWorkload, inputs_to_json

ATOMIC = """
__global__ void total(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(out, in[i]);
}
void go(float* o, const float* i, int n) { total<<<(n + 63) / 64, 64>>>(o, i, n); }
"""
PLAIN = ATOMIC.replace("atomicAdd(out, in[i])", "if (i == 0) *out = in[0]")
WORKLOAD = """
[kernel]
source = "k.cu"
name = "total"
[[args]]
name = "out"
dtype = "f32"
role = "inout"
shape = ["1"]
init = "zeros"
[[args]]
name = "in"
dtype = "f32"
role = "in"
shape = ["n"]
init = "uniform"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "small"
sizes = { n = 4096 }
"""


class Drifting:
    """Launches like ``inner``, and then shifts the output by ``relative``, further with each launch."""

    def __init__(self, inner: Any, relative: float) -> None:
        self.inner, self.relative, self.launches = inner, relative, 0
        self.resources = inner.resources
        self.code = inner.code

    def launch(self, args: Any) -> None:
        self.inner.launch(args)
        self.launches += 1
        args["out"][...] = args["out"] * np.float32(1 + self.relative * (self.launches % 7))


@pytest.mark.parametrize(
    ("source", "relative", "fine"), [(ATOMIC, 2e-7, True), (ATOMIC, 1e-3, False), (PLAIN, 2e-7, False)]
)
def test_only_the_last_bits_of_atomic_sums_may_change(
    source: str, relative: float, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.cu").write_text(source)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    code = ktc.load(str(tmp_path)).lower("numba")
    measurer = Measurer("numba", tmp_path)
    exe = Drifting(measurer.runtime.compile(code), relative)
    monkeypatch.setattr(measurer, "_executable", lambda m: (code, exe))
    monkeypatch.setattr(measurer.runtime, "time", lambda exe, sets, budget_s: _timed())
    inputs = inputs_to_json(FromWorkload(str(tmp_path / "workload.toml"), {"n": 4096}, None, 0), tmp_path)
    said = measurer.time({"code": None, "inputs": inputs, "cold": False, "budget_s": 0.0})
    assert (said.get("status") != "wrong") == fine, said
    if not fine:
        assert "change from one launch to the next" in said["message"]


def _timed() -> Any:
    from ktc.search.workers.timing import timing

    return timing([1e-6] * 5)
