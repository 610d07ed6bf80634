"""Two sources: a kernel written by hand, checked against the one it is to replace."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.cli.app import run
from ktc.ir.diagnostics import KtcError
from ktc.scaffold import with_draft

SUMS = """
__global__ void sums(float* out, const float* in, int rows, int d) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float s = 0.0f;
  for (int i = 0; i < d; ++i) s += in[r * d + i];
  out[r] = s;
}
void go(float* o, const float* i, int rows, int d) { sums<<<(rows + 63) / 64, 64>>>(o, i, rows, d); }
"""
BLOCKS = """
__global__ void by_block(float* y, const float* x, int n, int width) {
  __shared__ float part[32];
  float s = 0.0f;
  for (int i = threadIdx.x; i < width; i += 32) s += x[blockIdx.x * width + i];
  part[threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.x == 0) { for (int i = 1; i < 32; ++i) s += part[i]; y[blockIdx.x] = s; }
}
void go(float* o, const float* i, int n, int w) { by_block<<<n, 32>>>(o, i, n, w); }
"""


@pytest.fixture
def naive(tmp_path: Path) -> ktc.Program:
    (tmp_path / "naive.cu").write_text(SUMS)
    return with_draft(ktc.load(str(tmp_path / "naive.cu")), tmp_path)[0]


def status(naive: ktc.Program, source: str) -> tuple[str, str]:
    verdict = naive.rewritten_as(ktc.loads(source)).verify(device="none")
    return verdict.status, verdict.reason


def test_another_mapping_and_other_names_pass(naive: ktc.Program) -> None:
    rewrite = naive.rewritten_as(ktc.loads(BLOCKS))
    assert [p.sym.name for p in rewrite.kernel.params] == ["out", "in", "rows", "d"]


def test_a_wrong_rewrite_is_rejected_with_its_smallest_case(naive: ktc.Program) -> None:
    state, reason = status(naive, BLOCKS.replace("i = 1; i < 32", "i = 2; i < 32"))
    assert state == "REJECTED" and "wrong result: out[" in reason


def test_a_rewrite_with_a_race_is_rejected(naive: ktc.Program) -> None:
    state, reason = status(naive, BLOCKS.replace("__syncthreads();", ""))
    assert state == "REJECTED" and "not ordered" in reason


def test_without_a_launch_of_its_own_it_is_launched_as_the_original(naive: ktc.Program) -> None:
    same = SUMS[: SUMS.index("void go")].replace("void sums", "void mine")
    rewrite = naive.rewritten_as(ktc.loads(same))
    assert rewrite.original is not None and rewrite.kernel.launch == rewrite.original.launch


def test_passes_go_on_from_a_rewrite(naive: ktc.Program) -> None:
    rewrite = naive.rewritten_as(ktc.loads(BLOCKS)).unroll(loop="i", factor=2).ok
    assert rewrite.script == "unroll{loop=i factor=2}" and rewrite.original == naive.kernel


def test_other_arguments_are_refused(naive: ktc.Program) -> None:
    with pytest.raises(KtcError, match="takes 4 arguments, one 1") as e:
        naive.rewritten_as(ktc.loads("__global__ void one(float* x) { x[0] = 1.0f; }"))
    assert e.value.code == "E-COMPARE-PARAMS"
    with pytest.raises(KtcError, match="'in' is"):
        naive.rewritten_as(ktc.loads(BLOCKS.replace("const float* x", "const int* x")))


def test_the_command_takes_options_between_the_two(naive: ktc.Program, tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text("__global__ void one(float* x) { x[0] = 1.0f; }")
    with pytest.raises(KtcError, match="sums takes 4 arguments, one 1"):
        run(["verify", str(tmp_path / "naive.cu"), "--device", "none", str(tmp_path / "mine.cu")])


def test_a_kernel_with_a_race_does_not_pass_against_itself(tmp_path: Path) -> None:
    (tmp_path / "naive.cu").write_text(BLOCKS.replace("__syncthreads();", ""))
    racy = with_draft(ktc.load(str(tmp_path / "naive.cu")), tmp_path)[0]
    verdict = racy.verify(device="none")
    assert not verdict.ok and "not ordered" in verdict.reason and verdict.rungs[0].name == "original"


COPY = """
__global__ void copy(float* y, const float* x, int rows, int cols) {
  int c = blockIdx.x * 256 + threadIdx.x;
  INDEX r = blockIdx.y;
  if (c < cols) y[r * cols + c] = x[r * cols + c];
}
void go(float* y, const float* x, int rows, int cols) {
  copy<<<dim3((cols + 255) / 256, rows), 256>>>(y, x, rows, cols);
}
"""


@pytest.mark.parametrize(("mine", "other", "state"), [("size_t", "int", "UNKNOWN"), ("int", "size_t", "TESTED")])
def test_a_rewrite_is_right_beyond_what_a_draft_guesses(tmp_path: Path, mine: str, other: str, state: str) -> None:
    """No launcher tests the sizes before it runs: where the original's indices have 64 bits, so must the rewrite's."""
    (tmp_path / "k.cu").write_text(COPY.replace("INDEX", mine))
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    found, reason = status(original, COPY.replace("INDEX", other).replace("c < cols", "!(c >= cols)"))
    assert found == state and ("whether r * cols stays within i32" in reason) == (state == "UNKNOWN")


DOUBLED = """
__global__ void twice(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
void go(float* y, const float* x, int n) { twice<<<(n + 255) / 256, 256>>>(y, x, n); }
"""
FOURS = """
__global__ void twice(float* y, const float* x, int n) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) {
    if (i >= n / 4) { if (i < n / 4 + n % 4) y[n - 1 - (i - n / 4)] = 2.0f * x[n - 1 - (i - n / 4)]; continue; }
    float4 v = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<float4*>(y)[i] = make_float4(2.0f * v.x, 2.0f * v.y, 2.0f * v.z, 2.0f * v.w);
  }
}
void go(float* y, const float* x, int n) { twice<<<64, 256>>>(y, x, n); }
"""


def test_what_a_comparison_leaves_open_is_said(tmp_path: Path) -> None:
    """No launcher tests alignment or overlaps before it runs a rewrite by hand."""
    (tmp_path / "k.cu").write_text(DOUBLED)
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    notes = original.rewritten_as(ktc.loads(FOURS)).notes
    assert [n.split(" to ")[0] for n in notes if "aligned" in n] == [
        "it is right where y is aligned",
        "it is right where x is aligned",
    ]
    assert any("y and the other buffers share no memory" in n for n in notes)
    fixed = DOUBLED.replace("float* y, const float* x", "float* __restrict__ y, const float* x").replace(
        "(n + 255) / 256", "64"
    )
    notes = original.rewritten_as(ktc.loads(fixed)).notes
    assert any("launched as the original is" in n for n in notes) and not any("aligned" in n for n in notes)


WEIGHED = """
TABLE
__global__ void weigh(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * WEIGHT;
}
void go(float* y, const float* x, int n) { weigh<<<(n + 255) / 256, 256>>>(y, x, n); }
"""


def weighed(values: str, name: str = "w") -> str:
    table = f"__constant__ float {name}[3] = {{{values}}};"
    return WEIGHED.replace("TABLE", table).replace("WEIGHT", f"{name}[i % 3]")


@pytest.mark.parametrize(
    ("other", "state"),
    [
        (weighed("1, 2, 3").replace("x[i] *", "1.0f * x[i] *"), "TESTED"),
        (weighed("1, 2, 4"), "REJECTED"),
        (weighed("1, 2, 3", "v"), "TESTED"),
        (weighed("1, 2, 4", "v"), "REJECTED"),
        (WEIGHED.replace("TABLE", "").replace("WEIGHT", "(1 + i % 3)"), "TESTED"),
    ],
)
def test_a_rewrite_has_tables_of_its_own(tmp_path: Path, other: str, state: str) -> None:
    """What they hold is theirs, whatever they are called."""
    (tmp_path / "k.cu").write_text(weighed("1, 2, 3"))
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    assert status(original, other)[0] == state


TOTAL = """
__global__ void total(float* out, const float* x, int n) {
  if (threadIdx.x == 0) { float s = 0.0f; for (int i = 0; i < n; ++i) s += x[i]; out[0] = s; }
}
void go(float* out, const float* x, int n) { total<<<1, 32>>>(out, x, n); }
"""
LAST_BLOCK = """
__device__ unsigned count = FIRST;
__device__ float part[64];
__global__ void total(float* out, const float* x, int n) {
  if (threadIdx.x != 0) return;
  float s = 0.0f;
  for (int i = blockIdx.x; i < n; i += gridDim.x) s += x[i];
  part[blockIdx.x] = s;
  __threadfence();
  bool last = TICKET == gridDim.x - 1;
  __threadfence();
  if (!last) return;
  s = 0.0f;
  for (int b = 0; b < gridDim.x; ++b) s += part[b];
  out[0] = s;
}
void go(float* out, const float* x, int n) { total<<<4, 32>>>(out, x, n); }
"""
ROUND = LAST_BLOCK.replace("TICKET", "atomicInc(&count, gridDim.x - 1)").replace("FIRST", "0")


@pytest.mark.parametrize(
    ("other", "state", "says"),
    [
        (ROUND, "TESTED", ""),
        (ROUND.replace("__threadfence();", "", 1), "REJECTED", "are not ordered"),
        (ROUND.replace("1;\n  __threadfence();", "1;"), "REJECTED", "one after the atomic that receives it"),
        (LAST_BLOCK.replace("TICKET", "atomicAdd(&count, 1)").replace("FIRST", "0"), "REJECTED", "of a second launch"),
    ],
)
def test_what_a_rewrite_leaves_for_its_next_launch_is_fit_for_that(
    tmp_path: Path, other: str, state: str, says: str
) -> None:
    (tmp_path / "k.cu").write_text(TOTAL)
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    found, reason = status(original, other)
    assert found == state and says in reason


def test_memory_of_a_rewrite_that_nobody_describes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TOTAL)
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    with pytest.raises(KtcError, match="begins with other numbers than 0"):
        original.rewritten_as(ktc.loads(ROUND.replace("count = 0", "count = 3")))
    with pytest.raises(KtcError, match="nothing says what 'v' of weigh holds"):
        original.rewritten_as(ktc.loads(WEIGHED.replace("TABLE", "__constant__ float v[3];").replace("WEIGHT", "v[0]")))


MANY_ROWS = """
__global__ void rows(float* y, const float* x, int n, int m) {
  int j = threadIdx.x + blockIdx.x * 64;
  for (int r = blockIdx.y; r < n; r += gridDim.y) if (j < m) y[(size_t)r * m + j] = x[(size_t)r * m + j] * 2.0f;
}
void go(float* y, const float* x, int n, int m) { rows<<<dim3((m + 63) / 64, MOST), 64>>>(y, x, n, m); }
"""


def test_blocks_that_a_rewrite_alone_has_too_many_of_are_told(tmp_path: Path) -> None:
    limited, other = (MANY_ROWS.replace("MOST", most) for most in ("n < 65535 ? n : 65535", "n"))
    (tmp_path / "k.cu").write_text(limited)
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    notes = {text: original.rewritten_as(ktc.loads(text)).notes for text in (limited, other)}
    assert not any("launched" in n for n in notes[limited])
    assert "it can be launched where n <= 65535_i64" in notes[other]
