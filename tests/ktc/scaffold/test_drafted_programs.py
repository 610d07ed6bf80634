"""What drafts take from the program around a launch: loops of the host, variables at file scope, allocations, arrays of
a fixed length, tables that are searched."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import draft, with_draft
from ktc.scaffold.model import Draft

UPDATED = """
int order;
__global__ void update(float* a, const float* f, int n, int rest, int t) {
  if (threadIdx.x + blockIdx.x * blockDim.x >= n - 1 - t || threadIdx.y + blockIdx.y * blockDim.y >= rest) return;
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  a[n * (x + 1 + t) + y + t] -= f[n * (x + 1 + t) + t] * a[n * t + y + t];
}
void go(float* a, const float* f) {
  int t, blocks, side;
  side = 4;
  blocks = order / side + (!(order % side ? 0 : 1));
  dim3 block(side, side), grid(blocks, blocks);
  for (t = 0; t < order - 1; t++) update<<<grid, block>>>(a, f, order, order - t, t);
}
"""


def shapes(d: Draft) -> dict[str, tuple[str, ...] | None]:
    return {b: e and e.shape for b, e in d.shapes.items()}


def test_a_counter_of_the_host_is_in_the_middle_of_its_values() -> None:
    """As a size of its own it was any number: beyond the matrix, or so small that rows were one element long."""
    d = draft(ktc.loads(UPDATED).kernel)
    assert d.names == ["n"] and d.tied("t") == "(n - 1) / 2"
    assert shapes(d) == {"a": ("n", "n"), "f": ("n", "n")}
    assert d.steps.get("n", 1) == 1 and not d.doubts


STRIDED = """
__global__ void diagonal(float* m, int n, int at) {
  __shared__ float tile[16][16];
  for (int r = 0; r < 16; ++r) tile[r][threadIdx.x] = m[(at + r) * n + at + threadIdx.x];
  __syncthreads();
  for (int r = 1; r < 16; ++r) tile[r][threadIdx.x] += tile[r - 1][threadIdx.x];
  for (int r = 0; r < 16; ++r) m[(at + r) * n + at + threadIdx.x] = tile[r][threadIdx.x];
}
void go(float* m, int n) {
  for (int i = 0; i < n - 16; i += 16) diagonal<<<1, 16>>>(m, n, i);
}
"""


def test_a_counter_with_a_step_is_a_multiple_of_it() -> None:
    d = draft(ktc.loads(STRIDED).kernel)
    assert d.tied("at") == "(n - 16) / (2 * 16) * 16"
    assert not any("run at" in doubt for doubt in d.doubts)


CONSTANT = """
__constant__ float centers[1088];
__global__ void nearest(const float* x, int* who, int n, int clusters, int features) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int at = 0;
  for (int c = 0; c < clusters; ++c) {
    float sum = 0.0f;
    for (int f = 0; f < features; ++f) {
      float d = x[f * n + i] - centers[c * features + f];
      sum += d * d;
    }
    if (sum < best) { best = sum; at = c; }
  }
  who[i] = at;
}
void go(const float* x, int* who, int n, int c, int f) { nearest<<<(n + 255) / 256, 256>>>(x, who, n, c, f); }
"""


def test_sizes_do_not_outgrow_an_array_of_a_fixed_length() -> None:
    d = draft(ktc.loads(CONSTANT).kernel)
    used = [s["clusters"] * s["features"] for _, s, _ in d.scenarios]
    assert used and max(used) <= 1088
    assert d.most["clusters"] * d.most["features"] <= 1088


SEARCHED = {
    "linear": """
      int at = n - 1;
      for (int x = 0; x < n; ++x)
        if (table[x] >= wanted[i]) { at = x; break; }""",
    "binary": """
      int at = 0, end = n;
      while (at < end) {
        int mid = (at + end) / 2;
        if (table[mid] < wanted[i]) at = mid + 1; else end = mid;
      }""",
}


@pytest.mark.parametrize("how", SEARCHED)
@pytest.mark.parametrize("real", ["float", "int"])
def test_a_table_that_is_searched_ascends(how: str, real: str, tmp_path: Path) -> None:
    """A search of numbers in no order ends after two of them, so that the table seemed to be as short."""
    (tmp_path / "k.cu").write_text(f"""
    __global__ void find(const {real}* table, const {real}* wanted, int* place, int n, int m) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= m) return; {SEARCHED[how]}
      place[i] = at;
    }}
    void go(const {real}* t, const {real}* w, int* p, int n, int m) {{ find<<<(m + 255) / 256, 256>>>(t, w, p, n, m); }}
    """)
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None
    table, wanted = (program.workload.arg(n) for n in ("table", "wanted"))
    assert table.init == "sorted" and table.shape == ("n",) and wanted.shape == ("m",)
    assert wanted.init == {"float": "uniform", "int": "ints"}[real]
    assert wanted.range == table.range  # what is looked for lies among them


def test_the_largest_of_a_row_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("""
    __global__ void top(const float* x, const float* least, float* y, int n, int m) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= m) return;
      float best = least[i];
      for (int j = 0; j < n; ++j) if (x[i * n + j] > best) best = x[i * n + j];
      y[i] = best;
    }
    void go(const float* x, const float* l, float* y, int n, int m) { top<<<(m + 255) / 256, 256>>>(x, l, y, n, m); }
    """)
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and program.workload.arg("x").init == "normal"


CHUNKED = """
#define CHUNK 256
__global__ void widen(float* y, const unsigned char* x, int n) {
  __shared__ unsigned char part[CHUNK];
  if (threadIdx.x * 4 < CHUNK) ((float*)part)[threadIdx.x] = ((const float*)x)[blockIdx.x * CHUNK / 4 + threadIdx.x];
  __syncthreads();
  int i = blockIdx.x * CHUNK + threadIdx.x;
  if (i < n) y[i] = part[threadIdx.x];
}
void go(float* y, int w, int h) {
  unsigned char* x;
  int n = w * h, whole = (n + CHUNK - 1) / CHUNK * CHUNK;
  cudaMalloc((void**)&x, whole);
  widen<<<whole / CHUNK, CHUNK>>>(y, x, n);
}
"""


def test_a_buffer_is_as_long_as_the_host_makes_it_where_blocks_go_on_to_their_ends() -> None:
    d = draft(ktc.loads(CHUNKED).kernel)
    (length,) = shapes(d)["x"] or ()
    assert "255" in length or "256" in length
    assert d.steps == {} or set(d.steps.values()) == {1}
    assert not any("run at" in doubt for doubt in d.doubts)


PYRAMID = """
__global__ void sweep(int rounds, const float* from, float* to, int n) {
  __shared__ float row[64];
  int x = blockIdx.x * (64 - 2 * rounds) - rounds + threadIdx.x, t = threadIdx.x;
  if (x >= 0 && x < n) row[t] = from[x];
  __syncthreads();
  float v = 0.0f;
  for (int r = 0; r < rounds; ++r) {
    bool in = t > r && t < 63 - r && x > 0 && x < n - 1;
    if (in) v = row[t - 1] + row[t] + row[t + 1];
    __syncthreads();
    if (in) row[t] = v;
    __syncthreads();
  }
  if (t >= rounds && t < 64 - rounds && x < n) to[x] = row[t];
}
void go(const float* from, float* to, int n, int height, int total, int blocks) {
  for (int t = 0; t < total; t += height)
    sweep<<<blocks, 64>>>(height < total - t ? height : total - t, from, to, n);
}
"""


def test_blocks_that_overlap_by_a_number_of_rounds_keep_some_elements_of_their_own() -> None:
    """As a choice between differences of numbers of the host, the rounds had no value that leaves a block elements."""
    d = draft(ktc.loads(PYRAMID).kernel)
    assert "rounds" in d.names and "total" not in d.names
    assert d.roles.room["rounds"] == 31 and all(0 < s["rounds"] < 32 for _, s, _ in d.scenarios)
    assert shapes(d) == {"from": ("n",), "to": ("n",)}


DIVISIONS = """
__global__ void prefix(unsigned* sums, unsigned* totals, int groups) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
  for (int j = i; j < groups * 512; j += 512) { int x = sums[j]; sums[j] = s; s += x; }
  totals[i] = s;
}
void go(unsigned* sums, unsigned* totals, int n) {
  int groups = (n - 1) / 4096 + 1;
  prefix<<<512 / 128, 128>>>(sums, totals, groups);
}
"""


def test_loops_that_go_on_by_all_threads_of_the_launch_are_no_guards() -> None:
    """More blocks did elements twice; and small sizes make one group each, in which nothing is seen to grow."""
    d = draft(ktc.loads(DIVISIONS).kernel)
    assert d.launch is None and shapes(d)["totals"] == ("512",)
    assert "n - 1" in " ".join(shapes(d)["sums"] or ())
    assert max(s["n"] for _, s, _ in d.scenarios) > 1 << 20


EDGES = """
__global__ void inside(const float* x, float* y, int width) {
  int c = threadIdx.x + 20, r = blockIdx.x + 20;
  float s = 0.0f;
  for (int k = 0; k < 600; ++k) s += x[r * width + c + k % 20] * x[(r - k % 20) * width + c];
  y[r * width + c] = s;
}
void go(const float* x, float* y, int width, int height) {
  inside<<<height - 40, width - 40>>>(x, y, width);
}
"""


def test_sizes_that_leave_no_launch_are_not_taken_for_short_probes() -> None:
    d = draft(ktc.loads(EDGES).kernel)
    assert all(shapes(d).values()) and not any("could not be run" in doubt for doubt in d.doubts)


TRIANGLE = """
__global__ void cells(int* m, const int* w, int cols, int i) {
  int x = blockIdx.x * 16 + threadIdx.x + 1, y = (i - 1 - blockIdx.x) * 16 + 1;
  for (int r = 0; r < 16; ++r) m[(y + r) * cols + x] = m[(y + r - 1) * cols + x - 1] + w[(y + r) * cols + x];
}
void go(int* m, const int* w, int cols) {
  dim3 grid, block(16, 1);
  int width = (cols - 1) / 16;
  for (int i = 1; i <= width; i++) {
    grid.x = i;
    grid.y = 1;
    cells<<<grid, block>>>(m, w, cols, i);
  }
}
"""


def test_an_extent_that_a_loop_assigns_is_its_counter() -> None:
    k = ktc.loads(TRIANGLE).kernel
    assert k.launch is not None and str(k.launch.grid[0]) and not [p for p in k.params if p.host]
    d = draft(k)
    assert d.names == ["cols"] and "cols - 1" in str(d.tied("i"))
    assert not any("before its first element" in doubt for doubt in d.doubts)


def test_sizes_are_as_large_as_shared_memory_of_their_length_asks_for() -> None:
    """At a size below that of a block its threads went beyond the array, and the draft was said to be defective."""
    d = draft(
        ktc.loads("""
    __global__ void total(const int* x, int* sum, int n) {
      extern __shared__ int kept[];
      int i = blockIdx.x * blockDim.x + threadIdx.x, mine = i < n ? x[i] : 0;
      kept[threadIdx.x] = mine;
      __syncthreads();
      for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) kept[threadIdx.x] += kept[threadIdx.x + s];
        __syncthreads();
      }
      if (threadIdx.x == 0) sum[blockIdx.x] = kept[0];
    }
    void go(const int* x, int* sum, int n) { total<<<(n + 255) / 256, 256, n * sizeof(int)>>>(x, sum, n); }
    """).kernel
    )
    assert not any("run at" in doubt for doubt in d.doubts)
    assert max(d.least.get("n", 1), d.steps.get("n", 1)) >= 256 and all(s["n"] >= 256 for _, s, _ in d.scenarios)


LABELLED = """
__global__ void loss(const float* weight, const float* x, const long* label, const float* total, float* y, int n,
                     int c) {
  if (total[0] <= 0.0f) return;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = -weight[label[i] - 1] * x[i * c + label[i] - 1] / total[0];
}
void go(const float* w, const float* x, const long* l, const float* t, float* y, int n, int c) {
  loss<<<(n + 127) / 128, 128>>>(w, x, l, t, y, n, c);
}
"""


def test_labels_that_are_counted_from_one_and_a_guard_that_asks_for_positive_numbers(tmp_path: Path) -> None:
    """A label of 0 reads before the first class; and with a total below 0 nothing was seen at all."""
    (tmp_path / "k.cu").write_text(LABELLED)
    program, told = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and not any("run at" in t for t in told)
    label, total, weight = (program.workload.arg(n) for n in ("label", "total", "weight"))
    assert label.range == (1, "c") and weight.shape == ("c",) and total.init == "uniform"


BAGS = """
__global__ void bags(const long* word, const long* first, const float* weight, float* y, long words, long n,
                     long width) {
  long bag = blockIdx.x, c = threadIdx.x;
  long end = bag < n - 1 ? first[bag + 1] - 1 : words;
  if (c >= width) return;
  float s = 0.0f;
  for (long i = first[bag] - 1; i < end; ++i) s += weight[(word[i] - 1) * width + c];
  y[bag * width + c] = s;
}
void go(const long* word, const long* first, const float* w, float* y, long words, long n, long width) {
  bags<<<n, 128>>>(word, first, w, y, words, n, width);
}
"""


def test_offsets_that_are_counted_from_one(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(BAGS)
    program, told = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and not any("run at" in t for t in told)
    first, word = (program.workload.arg(n) for n in ("first", "word"))
    assert (first.init, first.range) == ("offsets", (1, "words + 1"))
    assert word.range is not None and word.range[0] == 1


DILATED = """
__global__ void taps(const float* x, float* y, int height, int size, int border, int step, int apart, int rows) {
  int c = blockIdx.x, r = threadIdx.x;
  if (r >= rows) return;
  for (int k = 0; k < size; ++k) {
    int h = r * step - border + k * apart;
    y[(c * size + k) * rows + r] = h >= 0 && h < height ? x[c * height + h] : 0.0f;
  }
}
void go(const float* x, float* y, int n, int height, int size, int border, int step, int apart) {
  int rows = (height + 2 * border - (apart * (size - 1) + 1)) / step + 1;
  taps<<<n, rows>>>(x, y, height, size, border, step, apart, rows);
}
"""


def test_windows_whose_elements_are_apart_are_small() -> None:
    """A distance of 64 between 64 elements leaves no window at all in 128 rows."""
    d = draft(ktc.loads(DILATED).kernel)
    assert d.roles.windows == {"size": "padded", "border": "border", "step": "step", "apart": "step"}
    assert not d.doubts and shapes(d)["x"] == ("n", "height")


def test_the_least_of_a_size_is_that_at_odd_others_too() -> None:
    """Where rows are mirrored beyond an end, one more row may be needed for columns in pairs of which one is left."""
    d = draft(
        ktc.loads("""
    __global__ void mirrored(const float* x, float* y, int rows, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
      if (i >= n) return;
      int from = r > 0 ? r - 1 : (n % 2 ? 3 : 1);
      y[r * n + i] = x[from * n + i] + x[r * n + i];
    }
    void go(const float* x, float* y, int rows, int n) { mirrored<<<dim3((n + 31) / 32, rows), 32>>>(x, y, rows, n); }
    """).kernel
    )
    assert d.least.get("rows") == 4 and shapes(d) == {"x": ("rows", "n"), "y": ("rows", "n")}


KEPT = """
__global__ void follow(const float* x, const unsigned char* image, int* at, float* found, int n, int height,
                       int pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  at[i] = abs((int)(x[i] * 2.0f) * height);
  if (at[i] >= pixels) at[i] = 0;
  found[i] = image[at[i]];
}
void go(const float* x, const unsigned char* image, int* at, float* found, int n, int w, int h) {
  follow<<<(n + 255) / 256, 256>>>(x, image, at, found, n, h, w * h);
}
"""


def test_a_buffer_has_room_for_indices_that_the_kernel_keeps_below_a_size() -> None:
    d = draft(ktc.loads(KEPT).kernel)
    assert not any("run at" in doubt for doubt in d.doubts)
    assert {"w", "height"} <= {*" ".join(shapes(d)["image"] or ()).replace("(", " ").replace(")", " ").split()}
