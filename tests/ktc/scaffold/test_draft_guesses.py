"""What a draft guesses is marked; what a source implies is kept: rounding up, strides, places, windows, numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold import Draft, draft, workload_text

COPY = """
#define UP(m, n) ((m) / (n) + ((m) % (n) > 0))
inline int up(int a, int b) { int q = a / b; if (q * b < a) ++q; return q; }
__global__ void copy(const float* a, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = a[i];
}
void go(const float* a, float* o, int n) { copy<<<GRID, 256>>>(a, o, n); }
"""
TAIL = """
__global__ void add(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4)
    for (int k = 0; k < 4; ++k) a[4 * i + k] += 1.0f;
  if (i < n - n / 4 * 4) a[n / 4 * 4 + i] += 1.0f;
}
void go(float* a, int n) { add<<<(n + 255) / 256, 256>>>(a, n); }
"""
STAGE = """
__global__ void stage(int* dist, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j < n) dist[i * n + j] = min(dist[i * n + j], dist[i * n + k] + dist[k * n + j]);
}
void go(int* d, int n) { for (int k = 0; k < n; ++k) stage<<<dim3((n + 255) / 256, n), 256>>>(d, n, k); }
"""
FROM_OFFSET = """
__global__ void part(const float* x, float* o, int n, int offset) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) o[i] = x[offset + i];
}
void go(const float* x, float* o, int n, int offset) { part<<<(n + 127) / 128, 128>>>(x, o, n, offset); }
"""
VECTORS = """
__device__ float4 speed[128];
__constant__ float3 pull[64];
__global__ void bump(const float* a) {
  int k = threadIdx.x;
  float4 v = speed[k];
  v.x += a[k] * pull[k % 64].y;
  speed[k] = v;
}
void go(const float* a) { bump<<<1, 128>>>(a); }
"""
PADDED = """
__global__ void logits(float* out, const float* x, const int* target, int classes, int padded) {
  int t = target[blockIdx.x];
  for (int c = threadIdx.x; c < classes; c += blockDim.x)
    out[blockIdx.x * padded + c] = x[blockIdx.x * padded + c] - x[blockIdx.x * padded + t] - (c == t ? 1.0f : 0.0f);
}
void go(float* o, const float* x, const int* t, int rows, int classes, int padded) {
  logits<<<rows, 64>>>(o, x, t, classes, padded);
}
"""
UNROLLED = """
template <int PER> __global__ void add(float* c, const float* a) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * PER;
  for (int k = 0; k < PER; ++k) c[i + k] = a[i + k] + 1.0f;
}
template __global__ void add<16>(float*, const float*);
"""
BOX = """
__global__ void box(const float* a, float* o, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  float s = 0.0f;
  for (int j = 0; j < 7; ++j)
    for (int i = 0; i < 7; ++i) s += a[(y + j) * (nx + 6) + x + i];
  o[y * nx + x] = s;
}
void go(const float* a, float* o, int nx, int ny) {
  box<<<dim3((nx + 15) / 16, (ny + 3) / 4), dim3(16, 4)>>>(a, o, nx, ny);
}
"""
POOL = """
__global__ void pool(const float* x, float* y, int sh, int ph, int n, int h, int w, int oh, int ow) {
  int i = blockIdx.x * 8 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y, k = blockIdx.z;
  if (i >= ow || j >= oh || k >= n) return;
  float m = 0.0f;
  for (int r = 0; r < ph; ++r)
    for (int c = 0; c < ph; ++c) m = fmaxf(m, x[(k * h + sh * j + r) * w + sh * i + c]);
  y[(k * oh + j) * ow + i] = m;
}
void go(const float* x, float* y, int n, int h, int w) {
  int step = 2;
  const int window = step;
  dim3 grid((w / step + 7) / 8, (h / step + 7) / 8, n);
  pool<<<grid, dim3(8, 8)>>>(x, y, step, window, n, h, w, h / step, w / step);
}
"""
POOL_OF_ANY = """
__global__ void pool(const float* x, float* y, int sh, int ph, int n, int h, int w, int oh, int ow) {
  int i = blockIdx.x * 8 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y, k = blockIdx.z;
  if (i >= ow || j >= oh || k >= n) return;
  float m = 0.0f;
  for (int r = 0; r < ph; ++r)
    for (int c = 0; c < ph; ++c) m = fmaxf(m, x[(k * h + sh * j + r) * w + sh * i + c]);
  y[(k * oh + j) * ow + i] = m;
}
void go(const float* x, float* y, int n, int h, int w, int step, int window) {
  dim3 grid((w / step + 7) / 8, (h / step + 7) / 8, n);
  pool<<<grid, dim3(8, 8)>>>(x, y, step, window, n, h, w, h / step, w / step);
}
"""
TAPS = """
__global__ void filter(const float* x, const float* k, float* y, int n, int taps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0.0f;
  for (int r = 0; r < taps; ++r) s += x[i + r] * k[r];
  y[i] = s;
}
void go(const float* x, const float* k, float* y, int n, int taps) {
  filter<<<(n + 127) / 128, 128>>>(x, k, y, n, taps);
}
"""
TAPS_OF_DIGITS = """
__global__ void blur(const float* x, float* y, int w, int h, int n, int size, int reach) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= w * h * n) return;
  int c = i % w;
  i /= w;
  int r = i % h;
  i /= h;
  float s = 0.0f;
  for (int a = 0; a < size; ++a)
    for (int b = -reach; b <= reach; ++b) {
      int p = r + a, q = c + b;
      if (p < h && q >= 0 && q < w) s += x[(i * h + p) * w + q];
    }
  y[(i * h + r) * w + c] = s;
}
void go(const float* x, float* y, int w, int h, int n, int size, int reach) {
  blur<<<(w * h * n + 127) / 128, 128>>>(x, y, w, h, n, size, reach);
}
"""
CLIPPED_POOL = """
__global__ void pool(const float* x, float* y, int n, int h, int w, int oh, int ow, int k, int step, int pad) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int q = i % ow, p = i / ow % oh, c = i / ow / oh;
  int r0 = p * step - pad, c0 = q * step - pad;
  int r1 = min(r0 + k, h), c1 = min(c0 + k, w);
  r0 = max(r0, 0);
  c0 = max(c0, 0);
  float m = -1e30f;
  for (int r = r0; r < r1; ++r)
    for (int s = c0; s < c1; ++s) m = fmaxf(m, x[(c * h + r) * w + s]);
  y[i] = m;
}
void go(const float* x, float* y, int n, int h, int w, int oh, int ow, int k, int step, int pad) {
  pool<<<(n + 127) / 128, 128>>>(x, y, n, h, w, oh, ow, k, step, pad);
}
"""
TWO_COUNTS = """
__global__ void count(int cols, int first, int rest, const unsigned char* d, float* o) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= cols) return;
  int a = 0, b = 0;
  for (int i = 0; i < first; ++i) a += d[i * cols + t] == '1';
  for (int i = first; i < first + rest; ++i) b += d[i * cols + t] == '1';
  o[t] = (float)a / (b + 1);
}
void go(int cols, int first, int rest, const unsigned char* d, float* o) {
  count<<<(cols + 255) / 256, 256>>>(cols, first, rest, d, o);
}
"""
AGAIN = """
__global__ void grades(const char* d, int* o, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  char c;
  int good = 0;
  for (int j = 0; j < m; j++) { c = d[j * n + i]; if (c == 'a') good++; else if (c == 'c') good--; }
  for (int j = 0; j < m; j++) { c = d[j * n + i]; if (c == 'd') good += 2; }
  o[i] = good;
}
void go(const char* d, int* o, int n, int m) { grades<<<(n + 63) / 64, 64>>>(d, o, n, m); }
"""
MASKS = """
__global__ void pick(const int* on, const bool* also, const short* way, int* seen, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = 0.0f;
  if (on[i] && also[i]) v = 1.0f;
  switch (way[i]) { case 3: v += 4.0f; break; case 5: v -= 1.0f; }
  if (v > 1.0f) atomicAdd(&seen[0], 1);
  o[i] = v;
}
void go(const int* m, const bool* t, const short* s, int* c, float* o, int n) {
  pick<<<(n + 127) / 128, 128>>>(m, t, s, c, o, n);
}
"""
UPPER = """
__global__ void upper(const float* a, float* o, float* sum, int n) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  sum[c] = 0.0f;
  for (int r = 0; r <= c; ++r) { o[r * n + c] = 2.0f * a[r * n + c]; sum[c] += a[r * n + c]; }
}
void go(const float* a, float* o, float* s, int n) { upper<<<(n + 63) / 64, 64>>>(a, o, s, n); }
"""
NUMBERS = """
#define RATE 0.25f
__global__ void line(float* a, int n, float k, float s, float t, double u, float w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] = a[i] * k + s * t + u + w;
}
void go(float* a, int n, float w) {
  constexpr float s = 1e-3f;
  const double half = -1.0 / 2;
  float scale = RATE;
  line<<<(n + 255) / 256, 256>>>(a, n, 0.01f, s, -scale, half, w);
}
"""
GROUPED = """
__global__ void unpack(const unsigned* q, const float* scale, float* y, int K, int group) {
  float s = 0.0f;
  for (int k = threadIdx.x; k < K / 8; k += blockDim.x)
    for (int i = 0; i < 8; ++i)
      s += (q[blockIdx.x * (K / 8) + k] >> 4 * i & 15) * scale[blockIdx.x * (K / group) + k * 8 / group];
  atomicAdd(&y[blockIdx.x], s);
}
void go(const unsigned* q, const float* s, float* y, int N, int K, int group) { unpack<<<N, 64>>>(q, s, y, K, group); }
"""
WHOLE_GRID = """
__global__ void twice(const float* a, float* o, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) o[i] = 2 * a[i];
}
void go(const float* a, float* o, int n) { twice<<<29184, 256>>>(a, o, n); }
"""
A_RESULT_A_BLOCK = WHOLE_GRID.replace("{\n", "{\n  if (threadIdx.x == 0) o[blockIdx.x] = 0.0f;\n", 1)


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def shapes(d: Draft) -> dict[str, tuple[str, ...]]:
    return {name: extent.shape for name, extent in d.shapes.items() if extent is not None}


def written(source: str, folder: Path) -> Workload:
    (folder / "k.cu").write_text(source)
    program = ktc.load(str(folder / "k.cu"))
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, folder / "workload.toml")
    (folder / "workload.toml").write_text(text)
    return Workload.load(folder)


@pytest.mark.parametrize("grid, step", [
    ("(n + 255) / 256", 1), ("(n - 1) / 256 + 1", 1), ("(int)ceil(n / 256.0)", 1), ("n / 256 + !!(n % 256)", 1),
    ("n % 256 ? n / 256 + 1 : n / 256", 1), ("UP(n, 256)", 1), ("up(n, 256)", 1), ("(n >> 8) + ((n & 255) != 0)", 1),
    ("n / 256 + 1", 1), ("n / 256", 256),
])  # fmt: skip
def test_a_size_that_is_rounded_up_is_a_multiple_of_nothing(grid: str, step: int) -> None:
    assert drafted(COPY.replace("GRID", grid)).steps.get("n", 1) == step


def test_a_loop_for_the_rest_leaves_no_promise() -> None:
    assert drafted(TAIL).steps.get("n", 1) == 1


def test_guesses_are_marked_for_people_and_for_passes(tmp_path: Path) -> None:
    work = written(COPY.replace("GRID", "n / 256"), tmp_path)
    assert {a.name: a.guessed for a in work.args} == {
        "a": {"align"}, "o": {"align", "noalias"}, "n": {"range", "divisible_by"}
    }  # fmt: skip
    lines = (tmp_path / "workload.toml").read_text().splitlines()
    for key in ("align", "noalias", "range", "divisible_by"):
        assert all("# guessed: " in x for x in lines if x.startswith(f"{key} ="))


@pytest.mark.parametrize("guessed", ['["value"]', '["divisible_by"]', '"range"'])
def test_only_what_is_there_is_guessed(guessed: str, tmp_path: Path) -> None:
    written(COPY.replace("GRID", "(n + 255) / 256"), tmp_path)
    target = tmp_path / "workload.toml"
    target.write_text(target.read_text().replace('guessed = ["range"]', f"guessed = {guessed}"))
    with pytest.raises(KtcError, match="guessed") as e:
        Workload.load(tmp_path)
    assert e.value.code == "E-WORKLOAD-SCHEMA" and e.value.loc is not None and e.value.loc.line > 10


def test_a_place_in_a_row_is_no_size_and_no_matrix_is_one_by_one() -> None:
    d = drafted(STAGE)
    assert shapes(d) == {"dist": ("n", "n")} and d.names == ["n"] and d.tied("k") == "n / 2"


def test_what_begins_at_an_offset_ends_behind_it() -> None:
    assert shapes(drafted(FROM_OFFSET)) == {"x": ("n + offset",), "o": ("n",)}


def test_variables_at_file_scope_have_all_lanes_of_their_elements() -> None:
    assert shapes(drafted(VECTORS)) == {"a": ("128",), "speed": ("512",), "pull": ("192",)}


def test_a_stride_is_no_shorter_than_its_row_and_a_label_is_one_of_the_classes() -> None:
    d = drafted(PADDED)
    assert d.tied("padded") == "classes" and d.tied("target_values") == "classes" and not d.doubts
    assert shapes(d)["x"] == shapes(d)["out"] == ("rows", "classes")


def test_a_guessed_grid_is_no_larger_than_32_bit_indices_allow(tmp_path: Path) -> None:
    work = written(UNROLLED, tmp_path)
    (most,) = [a.range[1] for a in work.args if a.range is not None]
    assert most * 256 * 16 < 1 << 31
    assert ktc.load(str(tmp_path)).apply("raise").verify(device="none").status == "TESTED"


def test_a_border_belongs_to_the_input() -> None:
    assert shapes(drafted(BOX)) == {"a": ("ny + 6", "nx + 6"), "o": ("ny", "nx")}


def test_a_copy_of_a_constant_is_one_and_windows_stay_inside() -> None:
    d = drafted(POOL)
    assert d.roles.fixed == {"sh": 2, "ph": 2} and d.names == ["n", "h", "w"]
    assert shapes(d) == {"x": ("n", "h", "w"), "y": ("n", "h / 2", "w / 2")}


def test_what_indexes_within_a_window_is_small() -> None:
    d = drafted(TAPS)
    assert shapes(d) == {"x": ("n + taps - 1",), "k": ("taps",), "y": ("n",)}
    assert all(sizes["taps"] < 10 for _, sizes, _ in d.scenarios)
    d = drafted(POOL_OF_ANY)
    assert dict(d.roles.windows) == {"ph": "window", "sh": "step"} and shapes(d)["y"] == ("n", "h / sh", "w / sh")
    x = d.shapes["x"]
    assert x is not None and x.value({"n": 2, "h": 6, "w": 8, "sh": 2, "ph": 3}) == 2 * 6 * 8 + 8 + 1


def test_windows_around_digits_of_a_flat_index_and_on_both_sides_are_small() -> None:
    d = drafted(TAPS_OF_DIGITS)
    assert dict(d.roles.windows) == {"size": "window", "reach": "border"}
    assert all(sizes["size"] < 10 and sizes["reach"] < 10 for _, sizes, _ in d.scenarios)


def test_windows_that_edges_clip_are_small() -> None:
    d = drafted(CLIPPED_POOL)
    assert dict(d.roles.windows) == {"k": "padded", "step": "step", "pad": "border"}
    assert all(sizes["k"] < 10 and sizes["pad"] < 10 for _, sizes, _ in d.scenarios)


def test_two_sizes_of_the_launcher_stay_two(tmp_path: Path) -> None:
    work = written(TWO_COUNTS, tmp_path)
    assert work.arg("d").shape == ("first + rest", "cols")
    assert (work.arg("d").init, work.arg("d").range) == ("ints", (48, 50))


def test_a_variable_that_holds_one_element_after_another_is_compared_as_they_are(tmp_path: Path) -> None:
    d = written(AGAIN, tmp_path).arg("d")
    assert (d.init, d.range) == ("ints", (ord("a") - 1, ord("d") + 1))


def test_integers_reach_both_sides_of_comparisons_and_counters_begin_at_nothing(tmp_path: Path) -> None:
    work = written(MASKS, tmp_path)
    assert {n: work.arg(n).range for n in ("on", "also", "way")} == {"on": (0, 2), "also": (0, 1), "way": (2, 6)}
    assert work.arg("seen").init == "zeros"


def test_roles_are_those_of_the_elements(tmp_path: Path) -> None:
    work = written(UPPER, tmp_path)
    assert {a.name: a.role for a in work.args if a.shape} == {"a": "in", "o": "inout", "sum": "out"}


@pytest.mark.parametrize(
    ("update", "role"),
    [
        ("if (mask[i]) y[i] = x[i];", "inout"),
        ("if (x[i] >= 0) y[i] = x[i];", "inout"),
        ("if (f[i] < 100.f) y[i] = x[i];", "inout"),
        ("y[i] *= x[i];", "inout"),
        ("y[i] = (y[i] & x[i]) + 1;", "inout"),
        ("if (at[i] < 0) return; y[i] = f[at[i]];", "inout"),
        ("y[i] -= y[0];", "inout"),
        ("y[i] = mask[i] ? x[i] : -x[i];", "out"),
    ],
)
def test_what_other_numbers_leave_or_read_is_no_output_alone(update: str, role: str) -> None:
    """A probe's numbers are zeros and small, its masks true, its indices all there."""
    d = drafted(f"""
__global__ void k(int* y, const int* x, const float* f, const unsigned char* mask, const int* at, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  {update}
}}
void go(int* y, const int* x, const float* f, const unsigned char* mask, const int* at, int n) {{
  k<<<(n + 63) / 64, 64>>>(y, x, f, mask, at, n);
}}
""")
    assert d.role(d.kernel.param("y")) == role


def test_numbers_of_the_launch_are_taken(tmp_path: Path) -> None:
    work = written(NUMBERS, tmp_path)
    assert {n: work.arg(n).value for n in "kstu"} == {"k": 0.01, "s": 0.001, "t": -0.25, "u": -0.5}
    lines = (tmp_path / "workload.toml").read_text().splitlines()
    assert sum("CHECK" in x for x in lines if x.startswith("value")) == 1  # of w, which the caller has


def test_groups_of_a_row_are_inside_it() -> None:
    d = drafted(GROUPED)
    assert shapes(d)["q"] == ("N", "K / 8") and shapes(d)["scale"] == ("N", "K / group")


def test_a_large_launch_of_loops_over_the_grid_is_tried_with_fewer_blocks(tmp_path: Path) -> None:
    d = drafted(WHOLE_GRID)
    assert shapes(d) == {"a": ("n",), "o": ("n",)} and not d.doubts and d.launch is None
    said = drafted(A_RESULT_A_BLOCK).doubts
    assert any("{'n': 32, 2 for 29184}" in x and "race: o[1]" in x for x in said), said


@pytest.mark.parametrize(
    "source", [TAIL, FROM_OFFSET, VECTORS, PADDED, BOX, POOL, POOL_OF_ANY, TAPS, TWO_COUNTS, MASKS, UPPER]
)
def test_untouched_drafts_are_clean(source: str, tmp_path: Path) -> None:
    from ktc.search.verification import check_original

    work = written(source, tmp_path)
    assert check_original(work.load_kernel(), work) == []


def test_each_kernel_of_a_source_gets_a_file(ktc_run, tmp_path: Path) -> None:
    two = FROM_OFFSET + TAIL.replace("go(", "other(")
    (tmp_path / "k.cu").write_text(two)
    done = ktc_run("init", "k.cu")
    assert done.returncode == 2 and "ktc init k.cu --kernel part -o part.toml" in done.stderr
    assert ktc_run("init", "k.cu", "--kernel", "part", "-o", "part.toml").returncode == 0
    assert ktc_run("init", "k.cu", "--kernel", "add", "-o", "add.toml").returncode == 0
    assert Workload.load(tmp_path / "add.toml").kernel_name == "add"
