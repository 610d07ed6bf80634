"""What happens above a limit of the launch that no instance comes to: shown in a launch whose limit is made small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import ArgSpec, Workload
from ktc.search.verification import verify
from ktc.search.verification.rungs import small_launch_limits
from tests.passes.checks import applied
from tests.search.verification.gate_samples import _workload, scalar

SPLIT = """
dim3 shape(size_t n) {
  size_t k = (n - 1) / 128 + 1, y = 1;
  if (k > 65535) { y = (k + 65534) / 65535; k = 65535; }
  return dim3(k, y, 1);
}
__global__ void scale(float* a, int n) {
  int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= 2;
}
void run(float* a, int n) { scale<<<shape(n), 128>>>(a, n); }
"""

LIMITED = """
__global__ void rowwise(float* __restrict__ o, const float* __restrict__ a, int rows, int cols) {
  for (int j = blockIdx.x; j < rows; j += gridDim.x)
    for (int t = threadIdx.x; t < cols; t += blockDim.x) o[j * cols + t] = 2 * a[j * cols + t];
}
void run(float* o, const float* a, int rows, int cols) {
  rowwise<<<rows < 65535 ? rows : 65535, cols < 512 ? cols : 512>>>(o, a, rows, cols);
}
"""


def workload(*buffers: str, dtype: str = "f32", init: str = "normal", **sizes: int) -> Workload:
    """Buffers of as many elements as the product of ``sizes``, which are parameters too."""
    args = tuple(ArgSpec(b, dtype, "inout", tuple(sizes), init=init, noalias=True) for b in buffers)
    return _workload("k", args + tuple(scalar(s, s) for s in sizes), sizes)


def raised(text: str) -> tuple[Kernel, Kernel]:
    kernel = load(text, name="source.cu")
    return kernel, applied(kernel, "raise")


def test_a_grid_split_over_two_axes_is_run_with_a_small_limit() -> None:
    kernel, form = raised(SPLIT)
    verdict = verify(kernel, form, workload("a", n=5000))
    assert verdict.status == "TESTED", verdict
    assert "in every run" not in verdict.reason


def test_what_is_wrong_above_the_limit_alone_is_not_passed() -> None:
    kernel, form = raised(SPLIT)
    _, wrong = raised(SPLIT.replace("blockIdx.y * gridDim.x", "blockIdx.y * gridDim.x * 2"))
    assert print_kernel(wrong) != print_kernel(form)
    verdict = verify(kernel, wrong, workload("a", n=5000))
    assert verdict.status == "UNKNOWN" and "65535 made 2" in verdict.reason, verdict


def test_a_block_of_as_many_threads_as_columns_up_to_a_limit() -> None:
    kernel, form = raised(LIMITED)
    assert verify(kernel, form, workload("o", "a", rows=900, cols=700)).status == "TESTED"


ROUNDS = """
__global__ void twice(float* __restrict__ o, const float* __restrict__ a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) o[i] = 2 * a[i];
}
void run(float* o, const float* a, int n) { twice<<<%s, 256>>>(o, a, n); }
"""
UP_TO = "min((n + 255) / 256, 65535)"


def rounds(grid: str, original: str = UP_TO, loop: str = "") -> tuple[Kernel, Kernel]:
    """A loop over the whole grid, and a candidate launched as ``grid`` says: in one round, or striding by ``loop``."""
    head = f"for i = $; i < n; i + {loop}" if loop else "let i: i32 = $\n  if i < n"
    text = f"""kernel twice(o: f32* restrict noalias, a: f32 const* restrict noalias readonly, n: i32)
  launch grid({grid}) block(256)
  {head.replace("$", "blockIdx.x * blockDim.x + threadIdx.x")}
    o[i] = 2.0 * a[i]
"""
    return load(ROUNDS % original, name="source.cu"), parse_kernel(text)


@pytest.mark.parametrize(
    ("grid", "original", "n"),
    [
        (UP_TO, UP_TO, 3000),  # the launch keeps the limit, and the body has lost what it makes necessary
        ("4000", "(n + 255) / 256", 3000),  # a grid that is large, and does not grow
        ("1024", "1024", 3000),  # the same at the sizes of the workload
        ("min((n + 255) / 256, 2048)", "min((n + 255) / 256, 2048)", 1000000),  # seen at a size of the original's loop
    ],
)
def test_a_candidate_that_holds_below_the_limit_alone_is_not_passed(grid: str, original: str, n: int) -> None:
    verdict = verify(*rounds(grid, original), workload("o", "a", n=n))
    assert verdict.status in ("UNKNOWN", "REJECTED"), verdict
    assert "small limits" in verdict.reason or "wrong result" in verdict.reason


@pytest.mark.parametrize(
    ("grid", "loop"),
    [
        ("(n + 255) / 256", ""),
        (UP_TO, "gridDim.x * blockDim.x"),
        (UP_TO, f"{UP_TO} * 256"),
        ("1000", "256000"),  # what the passes fold of a grid that does not grow
    ],
)
def test_a_candidate_that_holds_above_the_limit_is_passed(grid: str, loop: str) -> None:
    kernel, candidate = rounds(grid, loop=loop)
    assert verify(kernel, candidate, workload("o", "a", n=3000)).ok


SECOND_AXIS = "(n - 1_u64) / 128_u64 + 1_u64"


@pytest.mark.parametrize(
    ("grid", "index", "ok"),
    [
        (f"{SECOND_AXIS} > 65535_u64 ? 65535_u64 : {SECOND_AXIS}", "blockIdx.x", False),
        (SECOND_AXIS, "blockIdx.x", True),
        ("4, ((n + 127) / 128 + 3) / 4", "blockIdx.x + 4 * blockIdx.y", True),
    ],
)
def test_a_candidate_without_the_second_axis_of_the_grid(grid: str, index: str, ok: bool) -> None:
    text = f"""kernel scale(a: f32*, n: i32)
  launch grid({grid}) block(128)
  let i: i32 = ({index}) * blockDim.x + threadIdx.x
  if i < n
    a[i] *= 2.0
"""
    verdict = verify(load(SPLIT, name="source.cu"), parse_kernel(text), workload("a", n=5000))
    assert verdict.ok == ok, verdict


def test_rows_beyond_the_limit_that_nobody_computes() -> None:
    text = """kernel rowwise(o: f32* restrict noalias, a: f32 const* restrict noalias readonly, rows: i32, cols: i32)
  launch grid(rows < 65535 ? rows : 65535) block(256)
  let j: i32 = blockIdx.x
  for t = threadIdx.x; t < cols; t + blockDim.x
    o[j * cols + t] = 2.0 * a[j * cols + t]
"""
    kernel = load(LIMITED, name="source.cu")
    verdict = verify(kernel, parse_kernel(text), workload("o", "a", rows=900, cols=700))
    assert verdict.status == "UNKNOWN" and "small limits" in verdict.reason, verdict
    every = parse_kernel(text.replace("rows < 65535 ? rows : 65535", "rows"))
    assert verify(kernel, every, workload("o", "a", rows=900, cols=700)).status == "TESTED"


def test_sizes_that_show_too_little_are_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_launch_limits, "MOST_STATEMENTS", 1)
    kernel, form = raised(SPLIT)
    assert verify(kernel, form, workload("a", n=5000)).status == "TESTED"


FACTORS = """
__global__ void scaled(float* __restrict__ o, const float* __restrict__ f, int rows, int cols) {
  __shared__ float factors[8];
  if (threadIdx.x < rows) factors[threadIdx.x] = 1.0f / f[threadIdx.x];
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += blockDim.x * gridDim.x) {
    float x = i % cols < cols - 1 ? o[i] : 0.0f;
    if (i % cols < cols - 1) x *= factors[i / cols];
    o[i] = x;
  }
}
void run(float* o, const float* f, int cols) {
  int threads = min(cols, 512);
  scaled<<<min(8 * cols / threads, 65536), threads>>>(o, f, 8, cols);
}
"""


def test_a_limit_that_usual_sizes_are_beyond_stays() -> None:
    """Of fewer threads than a block has factors the source means nothing: 512 is no limit that nothing came to."""
    kernel = load(FACTORS, name="source.cu")
    text = print_kernel(kernel).replace("* gridDim.x", "* min(8 * cols / min(cols, 512), 65536) as u32")
    work = workload("o", "f", m=500)
    buffers = (replace(a, shape=("64 * m",)) for a in work.args[:2])
    args = (*buffers, replace(scalar("rows", ""), value=8), scalar("cols", "8 * m"))
    verdict = verify(kernel, parse_kernel(text), replace(work, args=args))
    assert "gridDim.x" not in text and verdict.status == "TESTED", verdict
