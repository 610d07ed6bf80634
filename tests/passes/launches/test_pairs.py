"""Producers and consumers as different authors write them, in all pairs: whatever fuses computes what the two launches
do, race-free, at sizes around blocks and rows; of the rest it is known that it has to stay apart."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from ktc.driver.printing import why_not_lowered
from ktc.ir.interp import run
from ktc.ir.kernel import bind
from ktc.passes.launches.whole_fusion import whole_fusion
from ktc.passes.lowering import materialise
from tests.passes.launches.sequence_sources import Launch, of, workload

HEAD = "__global__ void {}(float* {}, const float* {}, int rows, int d) {{\n"
FLAT = "int n = rows * d, i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) "
GRID = "int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y; if (c < d) "
SERIAL = "int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= rows) return; "
MAXIMUM = """__shared__ float s[64]; float m = -1e30f; const int at = blockIdx.x * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) m = fmaxf(m, IN[at + i]);
  s[threadIdx.x] = m; __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + k]);
    __syncthreads();
  }
  for (int i = threadIdx.x; i < d; i += blockDim.x) OUT[at + i] = IN[at + i] - s[0];"""

FLATLY, NESTED, BY_ROW, THREAD_A_ROW = (
    ("cdiv(rows * d, 64)", "64"), ('cdiv(d, 32)", "rows', "32"), ("rows", "64"), ("cdiv(rows, 32)", "32"),
)  # fmt: skip

PRODUCERS = {
    "scale": (FLAT + "y[i] = x[i] * 2.0f;", FLATLY),
    "nested": (GRID + "y[r * d + c] = x[r * d + c] + 1.0f;", NESTED),
    "strided": ("for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * d; i += gridDim.x * blockDim.x) "
                "y[i] = x[i] * x[i];", ("2", "64")),
    "branching": (FLAT + "{ float g = x[i]; if (g < 0.0f) g = -g; y[i] = g; }", FLATLY),
    "backwards": (FLAT + "y[n - 1 - i] = x[i];", FLATLY),
    "maximum": (MAXIMUM.replace("IN", "x").replace("OUT", "y"), BY_ROW),
    "serial": (SERIAL + "float m = -1e30f; for (int i = 0; i < d; ++i) m = fmaxf(m, x[r * d + i]); "
               "for (int i = 0; i < d; ++i) y[r * d + i] = x[r * d + i] - m;", THREAD_A_ROW),
}  # fmt: skip
CONSUMERS = {
    "shift": (FLAT + "z[i] = y[i] + 3.0f;", FLATLY),
    "halved": (GRID + "z[r * d + c] = y[r * d + c] * 0.5f;", NESTED),
    "transposed": (GRID + "z[c * rows + r] = y[r * d + c];", NESTED),
    "stencil": (FLAT + "z[i] = (i > 0 ? y[i - 1] : 0.0f) + y[i] + (i + 1 < n ? y[i + 1] : 0.0f);", FLATLY),
    "largest": (MAXIMUM.replace("IN", "y").replace("OUT", "z"), BY_ROW),
    "columns": ("int c = blockIdx.x * blockDim.x + threadIdx.x; if (c < d) { float s = 0.f; "
                "for (int r = 0; r < rows; ++r) s += y[r * d + c]; for (int r = 0; r < rows; ++r) z[r * d + c] = s; }",
                ("cdiv(d, 32)", "32")),
    "mirrored": (SERIAL + "for (int i = 0; i < d; ++i) z[r * d + i] = y[r * d + i] * y[r * d + d - 1 - i];",
                 THREAD_A_ROW),
    "gathered": (FLAT + "z[i] = y[(i * 7) % n];", FLATLY),
}  # fmt: skip
KERNELS = "\n".join(
    [HEAD.format(name, "y", "x") + body + "\n}" for name, (body, _) in PRODUCERS.items()]
    + [HEAD.format(name, "z", "y") + body + "\n}" for name, (body, _) in CONSUMERS.items()]
)

SIZES = ((1, 1), (3, 7), (6, 70), (70, 5), (2, 129))

APART = {(p, c) for p in ("maximum", "serial") for c in ("stencil", "columns", "mirrored", "gathered")} | {
    ("backwards", c) for c in CONSUMERS
}
"""Pairs that stay two kernels: blocks would read what others write, or elements are not stored in order."""

QUICK = [("scale", "largest"), ("branching", "stencil"), ("maximum", "halved"), ("maximum", "shift"),
         ("serial", "largest"), ("nested", "gathered"), ("maximum", "mirrored"), ("strided", "columns")]  # fmt: skip
"""Pairs of each kind."""


def check(folder: Path, producer: str, consumer: str, passed_on: str) -> bool:
    """Whether the two fuse; if they do, to the same results."""
    in_place = passed_on == "in place"
    args = [f"x f32 rows*d {'inout' if in_place else 'in'} apart"]
    args.append(f"y f32 rows*d {'out apart' if passed_on == 'output' else 'temp'}")
    args += [] if in_place else ["z f32 rows*d out apart"]
    first: Launch = (producer, {}, *PRODUCERS[producer][1])
    second: Launch = (consumer, {"z": "x"} if in_place else {}, *CONSUMERS[consumer][1])
    work = workload(folder, args, [first, second], "rows = 6, d = 10", KERNELS)
    sequence = of(work)
    made = whole_fusion(sequence, unfit=why_not_lowered).kernel
    if made.is_sequence:
        return False
    for rows, d in SIZES:
        inputs = work.make_inputs({"rows": rows, "d": d}, None, 1, exact=True)
        want = run(sequence, inputs, domain="int")
        for now in (made, materialise(bind(made, {}))):
            got = run(now, inputs, domain="int")
            assert not got.findings and not want.findings
            for name in want.outputs:
                np.testing.assert_array_equal(got.outputs[name], want.outputs[name])
    return True


@pytest.mark.parametrize(("producer", "consumer"), QUICK)
def test_a_pair_of_each_kind(tmp_path: Path, producer: str, consumer: str) -> None:
    assert check(tmp_path, producer, consumer, "temporary") == ((producer, consumer) not in APART)


@pytest.mark.campaign
@pytest.mark.parametrize("passed_on", ["temporary", "output", "in place"])
@pytest.mark.parametrize(("producer", "consumer"), list(itertools.product(PRODUCERS, CONSUMERS)))
def test_all_pairs(tmp_path: Path, producer: str, consumer: str, passed_on: str) -> None:
    fused = check(tmp_path, producer, consumer, passed_on)
    assert not fused or (producer, consumer) not in APART
