"""What a launch says of a draft: how long buffers are for millions of threads, which sizes a tile covers."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import Draft, draft
from ktc.scaffold.bounding import of_one_block
from ktc.scaffold.roles import roles_of
from ktc.scaffold.text import _scalar, workload_text


def _shapes(d: Draft) -> dict[str, tuple[str, ...] | None]:
    return {b: e and e.shape for b, e in d.shapes.items()}


QUARTERS = """
__global__ void k(const float4* a, float* o) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float4 x = a[i];
  o[i] = x.x + x.y + x.z + x.w;
}
void go(float4* a, float* o) { k<<<(N) / 256, 256>>>(a, o); }
"""


@pytest.mark.parametrize("n", [1 << 18, 1 << 24, 1 << 34])
def test_blocks_of_a_large_launch_are_a_size(n: int) -> None:
    """At the source's number of them a candidate could not be run."""
    d = draft(ktc.loads(QUARTERS.replace("N", f"{n}ll")).kernel)
    assert _shapes(d) == {"a": ("1024 * blocks_x",), "o": ("256 * blocks_x",)} and not d.doubts
    assert d.launch is not None and d.launch.grid == ("blocks_x", "1", "1")
    assert ("launched", {"blocks_x": n // 256}, "") in d.scenarios and d.most["blocks_x"] >= n // 256


def test_blocks_along_two_axes_stay_within_a_row() -> None:
    source = """
#define N 2048
__global__ void turn(const float* in, float* out) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  out[x * N + y] = in[y * N + x];
}
void go(const float* in, float* out) { turn<<<dim3(N / 32, N / 32), dim3(32, 32)>>>(in, out); }
"""
    d = draft(ktc.loads(source).kernel)
    assert d.most == {"blocks_x": 64, "blocks_y": 64} and not d.doubts
    assert d.scenarios[-1][0] == "odd" and d.scenarios[2][:2] == ("launched", {"blocks_x": 64, "blocks_y": 64})


def test_a_few_blocks_stay_what_they_are() -> None:
    d = draft(ktc.loads(QUARTERS.replace("N", "1024")).kernel)
    assert {b: e and e.value({}) for b, e in d.shapes.items()} == {"a": 4096, "o": 1024} and d.launch is None


def test_a_block_extent_that_dynamic_shared_memory_is_made_of_is_a_usual_one() -> None:
    d = draft(
        ktc.loads("""
__global__ void k(float* out, const float* in, int n) {
  extern __shared__ float s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int t = 0; t < blockDim.x; ++t) sum += s[t];
    out[blockIdx.x] = sum;
  }
}
void go(float* out, const float* in, int n, int threads) {
  k<<<(n + threads - 1) / threads, threads, threads * sizeof(float)>>>(out, in, n);
}
""").kernel
    )
    assert _shapes(d)["in"] == ("n",) and d.roles.fixed["threads"] == 256 and not d.doubts


def test_long_loops_do_not_make_one_block_of_a_grid() -> None:
    """At sizes that make them short the grid would be the same in all runs, and what a block writes a constant."""
    d = draft(
        ktc.loads("""
__global__ void k(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int back = 0; back < n; ++back)
    if (i - back >= 0) sum += in[i - back];
  out[i] = sum;
}
void go(float* out, const float* in, int n) { k<<<(n + 511) / 512, 512>>>(out, in, n); }
""").kernel
    )
    assert _shapes(d) == dict.fromkeys(("out", "in"), ("512 * cdiv(n, 512)",)) and not d.doubts


TILES = """
__global__ void k(const float* a, float* o, int rows, int cols, int depth) {
  __shared__ float s[16][4];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < (depth + 3) / 4; ++t) {
    if (threadIdx.x < 4) s[threadIdx.y][threadIdx.x] = a[r * depth + t * 4 + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 4; ++j) sum += s[threadIdx.y][j];
    __syncthreads();
  }
  GUARD o[r * cols + c] = sum;
}
void go(const float* a, float* o, int rows, int cols, int depth) {
  k<<<dim3((cols + 15) / 16, (rows + 16 - 1) / 16), dim3(16, 16)>>>(a, o, rows, cols, depth);
}
"""


def test_what_tiles_cover_and_no_guard_ends_is_a_multiple_of_them() -> None:
    d = draft(ktc.loads(TILES.replace("GUARD", "")).kernel)
    assert _shapes(d) == {"a": ("rows", "depth"), "o": ("rows", "cols")} and not d.doubts
    assert d.steps == {"rows": 16, "cols": 16, "depth": 4}


def test_what_a_guard_ends_is_any_size() -> None:
    d = draft(ktc.loads(TILES.replace("GUARD", "if (r < rows && c < cols)")).kernel)
    assert _shapes(d)["o"] == ("rows", "cols") and d.steps.get("cols", 1) == 1


def test_a_kernel_that_cannot_be_run_says_why() -> None:
    d = draft(
        ktc.loads("""
__global__ void k(float* o) {
  __shared__ float s[32];
  s[threadIdx.x] = o[threadIdx.x];
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&s[threadIdx.x])) / 4;
  o[threadIdx.x] = at;
}
void go(float* o) { k<<<1, 32>>>(o); }
""").kernel
    )
    assert any("<text>:5:" in x and "no meaning" in x for x in d.doubts), d.doubts


def test_a_number_that_is_passed_and_that_the_grid_covers_is_a_size_meanwhile() -> None:
    """Tiles of 128 stay what they are, as large as their array and their blocks."""
    d = draft(
        ktc.loads("""
__global__ void k(const float* a, float* o, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < gridDim.x; ++t) {
    int from = t * blockDim.x + threadIdx.x;
    s[threadIdx.x] = from < n ? a[from] : 0.0f;
    __syncthreads();
    for (int j = 0; j < 128; ++j) sum += s[j];
    __syncthreads();
  }
  if (i < n) o[i] = sum;
}
void go(const float* a, float* o) { k<<<235, 128>>>(a, o, 30000); }
""").kernel
    )
    assert {b: e and e.value({}) for b, e in d.shapes.items()} == {"a": 30000, "o": 30000} and not d.doubts
    assert d.roles.fixed["n"] == 30000 and not d.roles.sizes


def test_what_equals_a_size_makes_it_a_multiple_too() -> None:
    """The pitch of b makes all columns one size; blocks that cover whole tiles of them alone make that a multiple."""
    source = """
__global__ void product(const float* a, const float* b, float* c, int n, int m, int k) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * k + col];
  c[row * m + col] = sum;
}
void go(const float* a, const float* b, float* c, int n, int m, int k) {
  product<<<dim3(m / 16, n / 16), dim3(16, 16)>>>(a, b, c, n, m, k);
}
"""
    d = draft(ktc.loads(source).kernel)
    assert d.ties == {"m": "k"} and d.steps == {"n": 16, "k": 16} and not d.doubts


def test_a_size_that_is_no_argument_makes_what_is_passed_of_it_a_multiple(tmp_path: Path) -> None:
    source = """
__global__ void pairs(const float* x, float* y, int half) {
  int i = blockIdx.x * 256 + threadIdx.x;
  y[2 * i] = x[2 * i + 1] * (i % half);
  y[2 * i + 1] = x[2 * i] * (i / half);
}
void go(const float* x, float* y, int rows, int width) {
  int half = width / 2;
  pairs<<<(rows * half + 255) / 256, 256>>>(x, y, half);
}
"""
    (tmp_path / "k.cu").write_text(source)
    program = ktc.load(tmp_path / "k.cu")
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    _, _, more = text.partition('value = "width / 2"\n')
    assert more.startswith("divisible_by = "), text
    assert not [x for x in todo if "run at" in x]


def test_a_size_that_is_divided_by_several_numbers_is_a_multiple_of_all() -> None:
    source = """
__global__ void k(const float* a, float* o, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  o[i] = a[i % (n / 12)] + a[i % (n / 8)];
}
void go(const float* a, float* o, int n) { k<<<n / 32, 32>>>(a, o, n); }
"""
    assert roles_of(ktc.loads(source).kernel).grains == {"n": 96}


SCAN = """
inline unsigned next_pow2(unsigned x) {
  if (x <= 1) return 1;
  return 1u << (32 - __builtin_clz(x - 1));
}
__global__ void sums(const float* x, float* y, int parts, int width) {
  extern __shared__ float kept[];
  int t = threadIdx.x;
  if (t < width) kept[t] = t < parts ? x[blockIdx.x * parts + t] : 0.0f;
  __syncthreads();
  for (int half = width / 2; half > 0; half /= 2) {
    if (t < half) kept[t] += kept[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = kept[0];
}
void go(const float* x, float* y, int rows, int parts) {
  const size_t width = next_pow2(parts);
  sums<<<rows, 256, width * sizeof(float)>>>(x, y, parts, width);
}
"""


def test_powers_of_two_and_what_threads_of_a_block_do_alone() -> None:
    """As a number of its own the width would be shorter than its parts; of more than 256 parts a row has no threads."""
    d = draft(ktc.loads(SCAN).kernel)
    assert d.tied("width") == "next_pow2(parts)" and d.roles.room["parts"] == 256
    assert all(sizes["parts"] <= 256 for _, sizes, _ in d.scenarios)
    x = d.shapes["x"]
    assert x is not None and x.exact and sorted(x.factors) == ["parts", "rows"]
    assert not d.doubts


def test_what_a_loop_goes_through_as_well_is_not_left_to_the_threads_of_a_block() -> None:
    k = ktc.loads(SCAN.replace("half > 0", "half > 0 && half < parts")).kernel
    assert "parts" not in of_one_block(k)


TURNED = """
__global__ void turned(float* q, const float* angles, int turned_elements, int stride, int heads, int size) {
  for (int i = threadIdx.x; i < heads * turned_elements / 2; i += blockDim.x) {
    int head = i / (turned_elements / 2), at = i % (turned_elements / 2);
    float* row = q + blockIdx.x * stride + head * size;
    row[2 * at] *= angles[at];
    row[2 * at + 1] *= angles[at];
  }
}
void go(torch::Tensor q, torch::Tensor angles, int64_t size) {
  int64_t tokens = q.size(0) * q.size(1);
  int hidden = q.numel() / tokens;
  int heads = hidden / size;
  int turned_elements = angles.size(1);
  dim3 grid(tokens), block(std::min<int64_t>(heads * turned_elements / 2, 512));
  turned<<<grid, block>>>(q.data_ptr<float>(), angles.data_ptr<float>(), turned_elements, q.stride(0), heads, size);
}
"""


def test_what_the_host_makes_of_its_own_numbers_is_a_size() -> None:
    """``heads`` would be nothing wherever ``hidden`` is less than ``size``, and nothing is said of ``hidden``."""
    d = draft(ktc.loads(TURNED).kernel)
    assert {"heads", "turned_elements"} <= set(d.roles.sizes) and "hidden" not in d.roles.sizes
    assert not any("could not be run" in doubt for doubt in d.doubts), d.doubts


def test_a_block_of_a_part_of_a_size_has_threads_at_all_sizes() -> None:
    d = draft(
        ktc.loads("""
__global__ void copied(const float4* in, float4* out, int dim) {
  for (int i = threadIdx.x; i < dim / 8; i += blockDim.x) out[blockIdx.x * (dim / 8) + i] = in[i];
}
void go(const float4* in, float4* out, int rows, int dim) { copied<<<rows, std::min(dim / 8, 1024)>>>(in, out, dim); }
""").kernel
    )
    assert d.roles.grains["dim"] % 8 == 0
    assert _shapes(d)["in"] is not None


def test_bits_of_what_is_loaded_make_no_groups_of_elements() -> None:
    d = draft(
        ktc.loads("""
__global__ void widened(const unsigned* in, unsigned short* out, int cols, int rows) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (col >= cols || row >= rows) return;
  unsigned word = in[row * cols + col], upper = word >> 8;
  out[(row * cols + col) * 2] = word & 0xff;
  out[(row * cols + col) * 2 + 1] = upper;
}
void go(const unsigned* in, unsigned short* out, int cols, int rows) {
  widened<<<dim3((cols + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(in, out, cols, rows);
}
""").kernel
    )
    assert not d.roles.groups
    assert _shapes(d) == {"in": ("rows", "cols"), "out": ("rows", "2 * cols")}


def test_what_the_host_chooses_by_conditions_is_a_formula(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""
__global__ void halved(const float* x, float* y, int groups, int per_block) {
  int group = blockIdx.x * per_block + threadIdx.x / 16, lane = threadIdx.x % 16;
  y[group * 16 + lane] = x[group * 16 + lane] * 0.5f;
}
void go(const float* x, float* y, int groups) {
  int per_block = 1;
  if (groups % 4 == 0) per_block = 4; else if (groups % 2 == 0) per_block = 2;
  halved<<<groups / per_block, per_block * 16>>>(x, y, groups, per_block);
}
""")
    program = ktc.load(tmp_path / "k.cu")
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert 'value = "4 if groups % 4 == 0 else 2 if groups % 2 == 0 else 1"' in text
    assert "sizes = { groups =" in text and "else =" not in text
    assert not [x for x in todo if "run at" in x or "shape" in x]


OTHERWISE = """
template <typename T> __global__ void scale(T* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] *= 2;
}
void few(float* y, int m) { scale<float><<<1, 64>>>(y, m); }
void same(float* y, int count) { if (count > 4) scale<float><<<1, 32 * 2>>>(y, count); }
void many(float* y, int n) { scale<float><<<(n - 1) / 128 + 1, 128>>>(y, n); }
void double_(double* y, int n) { scale<double><<<7, 96>>>(y, n); }
"""


def test_other_launches_of_the_same_instance_are_told(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(OTHERWISE)
    program = ktc.load(str(file), template={"T": "float"})
    assert program.source is not None
    _, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    (told,) = (line for line in todo if line.startswith("the launch:"))
    assert "that of " in told and "k.cu:5:" in told
    assert "k.cu:7:" in told and "has grid((n - 1) / 128 + 1) block(128), and is not described" in told


def test_multiples_that_are_guessed_are_told(tmp_path: Path) -> None:
    """A verdict is about them alone: a shuffle of all lanes behind a guard is right for no other size."""
    file = tmp_path / "k.cu"
    file.write_text("""
__global__ void pairs(float* y, const float* x, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) y[i] = x[i] + __shfl_xor_sync(0xffffffff, x[i], 1);
}
void go(float* y, const float* x, int n) { pairs<<<(n + 127) / 128, 128>>>(y, x, n); }
""")
    program = ktc.load(str(file))
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert "divisible_by = 32" in text
    assert [x for x in todo if x.startswith("n: ")] == [
        "n: that it is a multiple of 32: other values leave something undone"
    ]


def test_an_extent_of_the_block_leaves_room_for_those_that_are_numbers() -> None:
    source = """
    __global__ void k(float* y, const float* x, int h, int w) {
        int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < h && j < w) y[(threadIdx.z * h + i) * w + j] = 2 * x[(threadIdx.z * h + i) * w + j];
    }
    void go(float* y, const float* x, int c, int h, int w) {
        dim3 block(16, 16, c), grid((w + 15) / 16, (h + 15) / 16);
        k<<<grid, block>>>(y, x, h, w);
    }"""
    d = draft(ktc.loads(source).kernel)
    assert d.roles.fixed["c"] == 4 and d.shapes["y"] is not None and not d.doubts


def test_a_distance_of_pointers_is_a_size() -> None:
    """... of types that nothing says either: those of a template of the host."""
    source = """
    template <typename T> __global__ void k(T* y, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = 1; }
    template <typename T> void go(T* begin, T* end) {
        T* last = end;
        int n = last - begin;
        k<<<(n + 63) / 64, 64>>>(begin, n);
    }"""
    d = draft(ktc.loads(source, template={"T": "float"}).kernel)
    assert d.roles.sizes == ("n",) and _shapes(d) == {"y": ("n",)} and not d.doubts


PART = """
__global__ void part(float* y, const float* x, int rows, int stride, int first, int last) {
  int i = first + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < last) y[blockIdx.y * stride + i] = 2.0f * x[blockIdx.y * stride + i];
}
void run(float* y, const float* x, int rows, int stride, int first, int last) {
  part<<<dim3((last - first + 127) / 128, rows), 128>>>(y, x, rows, stride, first, last);
}
"""


def test_what_a_launch_covers_ends_behind_where_it_begins() -> None:
    d = draft(ktc.loads(PART).kernel)
    assert not [x for x in d.doubts if "run" in x]
    assert {name for name, _, _ in d.scenarios} >= {"small", "medium", "large"}


def test_sizes_below_the_most_blocks_of_any_device_are_said_to_be() -> None:
    source = """
constexpr long long most = 2147483647;
__global__ void twice(const float* x, float* y, long long rows, int width) {
  for (long long r = blockIdx.x; r < rows; r += gridDim.x)
    for (int c = threadIdx.x; c < width; c += blockDim.x) y[r * width + c] = 2 * x[r * width + c];
}
void go(const float* x, float* y, long long a, long long b, int width) {
  const long long rows = a * b;
  twice<<<(unsigned)std::min(rows, most), 64>>>(x, y, rows, width);
}
"""
    k = ktc.loads(source).kernel
    d = draft(k)
    text = "\n".join(_scalar(d, k.param("rows")))
    assert 'value = "a * b"' in text and "range = [0, 1073741824]" in text and "guessed" in text


def test_blocks_that_cover_what_loops_go_through_are_no_size() -> None:
    """A product of squares of a constant size: a part of its blocks is no smaller product."""
    source = """
const int N = 512;
__global__ void product(const int* a, const int* b, int* c) {
  __shared__ int left[256], right[256];
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int i = 0; i < N; i += blockDim.x) {
    left[threadIdx.y * blockDim.x + threadIdx.x] = a[row * N + i + threadIdx.x];
    right[threadIdx.y * blockDim.x + threadIdx.x] = b[(i + threadIdx.y) * N + col];
    __syncthreads();
    for (int j = 0; j < blockDim.x; j++)
      sum += left[threadIdx.y * blockDim.x + j] * right[j * blockDim.x + threadIdx.x];
    __syncthreads();
  }
  c[row * N + col] = sum;
}
int main() {
  int *a, *b, *c;
  int T = 16, B = N / T;
  dim3 threads(T, T), blocks(B, B);
  product<<<blocks, threads>>>(a, b, c);
}
"""
    d = draft(ktc.loads(source).kernel)
    assert d.launch is None and {s[0]: s[1] for s in d.scenarios}.keys() == {"small"}
    assert _shapes(d) == {"a": ("262144",), "b": ("262144",), "c": ("262144",)}
