"""What guards say of a draft: how many blocks there are, what truths keep from being reached, how far indices go."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.workload import Workload
from ktc.scaffold import Draft, draft
from ktc.scaffold.checking.corners import faults
from ktc.scaffold.text import plain, workload_text

JOIN = """
__global__ void join(const float* a, const float* b, float* o, int rows, int left, int right) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * (left + right)) return;
  int c = i % (left + right), r = i / (left + right);
  i = c;
  o[r * (left + right) + c] = i < left ? a[r * left + i] : b[r * right + i - left];
}
"""
OPAQUE = """
int parse(const char*);
void go(const float* a, const float* b, float* o, const char* arg, int rows, int left) {
  int n = parse(arg);
  join<<<GRID, 256>>>(a, b, o, rows, left, RIGHT);
}
"""


def _shapes(d: Draft) -> dict[str, tuple[str, ...] | None]:
    return {b: e and e.shape for b, e in d.shapes.items()}


@pytest.mark.parametrize(
    ("grid", "name", "is_"),
    [
        ("(n + 255) / 256", "n", "rows * (left + 7)"),
        ("n / 256 + 1", "n", "rows * (left + 7)"),
        ("n", "n", "cdiv(rows * (left + 7), 256)"),
    ],
    ids=["threads", "one-more", "blocks"],
)
def test_a_number_that_only_the_grid_is_made_of_follows_the_guard(grid: str, name: str, is_: str) -> None:
    d = draft(ktc.loads(JOIN + OPAQUE.replace("GRID", grid).replace("RIGHT", "7")).kernel)
    assert plain(str(d.tied(name)).replace("right", "7")) == is_
    assert name not in d.names
    assert any(x.startswith(f"the launch: {name} follows the guards, ") for x in d.doubts)


def test_without_a_guard_the_number_of_blocks_is_a_size() -> None:
    source = """
    __global__ void k(const float* x, float* o, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      o[i] = x[i % n];
    }
    void go(const float* x, float* o, int n, int blocks) { k<<<blocks, 256>>>(x, o, n); }
    """
    d = draft(ktc.loads(source).kernel)
    assert "blocks" in d.names and not any("follows the guards" in x for x in d.doubts)


def test_a_number_that_the_kernel_is_passed_too_is_no_number_of_the_grid_alone() -> None:
    d = draft(ktc.loads(JOIN + OPAQUE.replace("GRID", "(n + 255) / 256").replace("RIGHT", "n")).kernel)
    assert not any("follows the guards" in x for x in d.doubts)


SCATTERED = """
__global__ void k(const float* x, float* o, int n) {
  int i = STEP * blockIdx.x + threadIdx.x;
  if (i < n) o[i] = x[i];
}
void go(const float* x, float* o, int n, int blocks) { k<<<blocks, 64>>>(x, o, n); }
"""


@pytest.mark.parametrize(("step", "told"), [("64", True), ("(n / blockDim.x + threadIdx.y)", False)])
def test_a_number_of_blocks_that_nothing_tells_is_said_not_to_be_known(step: str, told: bool) -> None:
    d = draft(ktc.loads(SCATTERED.replace("STEP", step)).kernel)
    assert ("blocks" not in d.names) == told
    said = "the launch: how the host computes blocks is not known; it is a size of its own"
    assert (said in d.doubts) != told


TAKEN_OFF = OPAQUE.replace("GRID", "(n + 255) / 256").replace("RIGHT", "1024 - left")


def test_what_is_taken_off_leaves_something(tmp_path: Path) -> None:
    (tmp_path / "join.cu").write_text(JOIN + TAKEN_OFF)
    program = ktc.load(tmp_path / "join.cu")
    d = draft(program.kernel)
    assert _shapes(d) == {"a": ("rows", "left"), "b": ("rows", "1024 - left"), "o": ("1024 * rows",)}
    assert all(0 < sizes["left"] < 1024 for _, sizes, _ in d.scenarios)
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    work = Workload.parse(text, tmp_path / "workload.toml")
    (tmp_path / "workload.toml").write_text(text)
    assert not list(faults(work, work.load_kernel())) and not any("run at" in t for t in todo)


BLOCKS_IN_A_LOOP = """
__global__ void twice(float* x, int n) {
  int i = blockIdx.x * 512 + threadIdx.x;
  if (i < n) x[i] += x[i];
}
void go(float* x, int n) {
  int blocks = 1, threads = n;
  while (threads > 512) {
    blocks = (n + 511) / 512;
    threads = 512;
  }
  twice<<<blocks, threads>>>(x, n);
}
"""


def test_threads_that_only_the_host_knows_are_as_many_as_indices_tell() -> None:
    d = draft(ktc.loads(BLOCKS_IN_A_LOOP).kernel)
    assert d.roles.fixed["threads"] == 512 and d.tied("blocks") == "cdiv(n, 512)"
    assert _shapes(d) == {"x": ("n",)}


TILES = """
struct Matrix { int rows, cols, pitch; };
__global__ void turn(const float* from, float* to, float* sums, Matrix a, int pitch) {
  __shared__ float tile[32][33];
  int i = blockIdx.y * 32 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x, up = gridDim.y * 32;
  float sum = 0.0f;
  for (int begin = 0; begin < a.rows; begin += up) {
    for (int k = 0; k < 32; k += 8)
      if (i + k < a.rows && j < a.cols) tile[threadIdx.y + k][threadIdx.x] = from[(i + k) * a.pitch + j];
    __syncthreads();
    int row = blockIdx.x * 32 + threadIdx.y, column = i - threadIdx.y + threadIdx.x;
    for (int k = 0; k < 32; k += 8)
      if (row + k < a.cols && column < a.rows) to[(row + k) * pitch + column] = tile[threadIdx.x][threadIdx.y + k];
    for (int k = 0; k < 32; k += 8) if (i + k < a.rows && j < a.cols) sum += tile[threadIdx.y + k][threadIdx.x];
    __syncthreads();
    i += up;
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) sums[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
void go(dim3 grid, dim3 block, const float* from, float* to, float* sums, Matrix a, int pitch) {
  turn<<<grid, block>>>(from, to, sums, a, pitch);
}
"""


def test_loops_by_a_constant_tell_the_threads_and_loops_by_the_grid_the_blocks_of_an_axis() -> None:
    """A tile of 32 rows that goes by 8 has a block of 8 rows of threads. Along x a guard says how many blocks there are
    though the sums count them; along y any number will do, and the loop says how many have work."""
    d = draft(ktc.loads(TILES).kernel)
    assert (d.roles.fixed["block_x"], d.roles.fixed["block_y"]) == (32, 8)
    assert (d.tied("grid_x"), d.tied("grid_y")) == ("cdiv(a_cols, 32)", "cdiv(a_rows, 32)")
    assert _shapes(d)["from"] == ("a_rows", "a_cols") and _shapes(d)["to"] == ("a_cols", "a_rows")


VISIT = """
__global__ void visit(const int* edges, bool* front, bool* next, const bool* seen, int* cost, int nodes, int degree) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < nodes && front[i]) {
    front[i] = false;
    for (int e = i * degree; e < (i + 1) * degree; ++e) {
      int to = edges[e];
      if (!seen[to]) {
        cost[to] = cost[i] + 1;
        next[to] = true;
      }
    }
  }
}
void go(const int* e, bool* f, bool* x, const bool* s, int* c, int nodes, int degree) {
  visit<<<(nodes + 127) / 128, 128>>>(e, f, x, s, c, nodes, degree);
}
"""


def test_what_truths_guard_is_reached_and_indices_stay_within_all_that_they_index() -> None:
    """``next`` is reached only where ``front`` holds and ``seen`` does not; ``cost`` has elements for all nodes, so
    that an edge leads to one of them."""
    d = draft(ktc.loads(VISIT).kernel)
    shapes = _shapes(d)
    assert sorted(shapes.pop("edges") or ()) == ["degree", "nodes"]
    assert shapes == dict.fromkeys(("front", "next", "seen", "cost"), ("nodes",))
    (edges,) = (c for c in d.contents if c.buffer == "edges")
    assert d.ties[edges.name] == "nodes"


PICK = """
__global__ void pick(const int* at, const float* x, const float* bias, float* y, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[at[i]] + bias[i % m];
}
void go(const int* a, const float* x, const float* b, float* y, int n, int m) {
  pick<<<(n + 255) / 256, 256>>>(a, x, b, y, n, m);
}
"""


def test_an_index_into_a_buffer_of_its_own_keeps_its_own_size() -> None:
    d = draft(ktc.loads(PICK).kernel)
    (at,) = d.contents
    assert at.name not in d.ties and _shapes(d)["x"] == (at.name,)


LENGTHS = """
__global__ void masked(const float* x, const int* lens, float* y, int batch, int longest) {
  int b = blockIdx.x;
  float s = 0.0f;
  for (int i = threadIdx.x; i < lens[b]; i += blockDim.x) s += x[b * longest + i];
  for (int i = threadIdx.x; i < longest; i += blockDim.x) y[b * longest + i] = s + x[b * longest + i];
}
void go(const float* x, const int* l, float* y, int batch, int longest) {
  masked<<<batch, 64>>>(x, l, y, batch, longest);
}
"""


def test_how_long_a_row_is_is_no_more_than_there_is_room_for() -> None:
    d = draft(ktc.loads(LENGTHS).kernel)
    (lens,) = d.contents
    assert _shapes(d) == {"x": ("batch", "longest"), "lens": ("batch",), "y": ("batch", "longest")}
    assert lens.within == "longest + 1"


def test_how_many_blocks_there_are_is_defined_for_all_sizes(tmp_path: Path) -> None:
    """Who tries other sizes than the draft's may make blocks no distance apart: nothing is divided by that."""
    source = """
    __global__ void part(const float* x, float* y, int n, int halo) {
      int i = (64 - 2 * halo) * blockIdx.x + threadIdx.x;
      if (threadIdx.x < 64 - 2 * halo && i < n) y[i] = x[i];
    }
    void go(const float* x, float* y, int n, int halo, int blocks) { part<<<blocks, 64>>>(x, y, n, halo); }
    """
    (tmp_path / "part.cu").write_text(source)
    program = ktc.load(tmp_path / "part.cu")
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    work = Workload.parse(text, tmp_path / "workload.toml")
    assert all(s.sizes["halo"] < 32 for s in work.scenarios)
    assert [work.scalars({"n": 100, "halo": h})["blocks"] for h in (2, 32, 40)] == [2, 100, 100]


HALO = """
__global__ void halo(const float* a, float* o, int n, int pitch) {
  int i = threadIdx.x;
  if (threadIdx.x < 2) i = i + blockIdx.x * 32;
  else i = i - 1;
  i = i + blockIdx.x * pitch;
  if (i < n) o[i] = a[i];
}
"""


def test_an_index_that_is_made_of_itself_has_no_step_without_end() -> None:
    assert draft(ktc.loads(HALO).kernel).names


SCALE = """
__global__ void scale(float* x, const float* s, int n, int rows, int cols) {
  int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] *= s[i / cols % rows];
}
"""
BY_ROWS = """
dim3 blocks_for(size_t n);
void go(float* x, const float* s, int batch, int rows, int cols) {
  size_t n = batch * rows * cols;
  scale<<<blocks_for(n), 512>>>(x, s, n, rows, cols);
}
"""


def test_blocks_that_are_counted_row_by_row_are_one_row_in_a_draft() -> None:
    d = draft(ktc.loads(SCALE).kernel)
    assert d.launch is not None and d.launch.grid == ("cdiv(n, 256)", "1", "1")
    assert _shapes(d) == {"x": ("n_rows", "rows", "cols"), "s": ("rows",)}


def test_a_function_of_another_file_makes_a_number_of_blocks() -> None:
    d = draft(ktc.loads(SCALE + BY_ROWS).kernel)
    assert d.launch is None and d.tied("blocks_for_n_y") == 1
    assert plain(str(d.tied("blocks_for_n_x"))) == "cdiv(batch * rows * cols, 512)"
    shape = _shapes(d)["x"]
    assert shape is not None and sorted(shape) == ["batch", "cols", "rows"]


FEATURES = """
__global__ void features(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * 676) y[i] = x[i / 676 * 784 + i % 676];
}
void go(const float* x, float* y, int n) { features<<<(n * 676 + 127) / 128, 128>>>(x, y, n); }
"""
PARTS = """
__global__ void parts(const float* x, float* y, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[3 * stride + i];
}
void go(const float* x, float* y, int n, int stride) { parts<<<n / 256, 256>>>(x, y, stride); }
"""


def test_groups_that_a_bound_is_made_of_ask_for_no_more_of_them() -> None:
    d = draft(ktc.loads(FEATURES).kernel)
    assert (not d.doubts and _shapes(d)["y"] == ("676 * n",)) or _shapes(d)["y"] == ("n", "676")


def test_where_an_array_begins_is_no_row() -> None:
    d = draft(ktc.loads(PARTS).kernel)
    assert not d.doubts and all(d.shapes.values())


SHARED_OUT = """
__global__ void shared_out(const float* x, const float* z, float* y, int n, int m) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * m; i += blockDim.x * gridDim.x)
    y[i] = x[i / m] * z[i % m];
}
int count();
void go(const float* x, const float* z, float* y, int n, int m) {
  int size = count();
  shared_out<<<BLOCKS, 128>>>(x, z, y, n, m);
}
"""


@pytest.mark.parametrize(("blocks", "number"), [("size", "cdiv(n * m, 128)"), ("(size + 127) / 128", "n * m")])
def test_a_grid_that_loops_go_over_has_a_thread_for_each_iteration(tmp_path: Path, blocks: str, number: str) -> None:
    """However many it has, the kernel does the same: with one block it would take long, and what replaces it win by
    more than it is worth."""
    (tmp_path / "k.cu").write_text(SHARED_OUT.replace("BLOCKS", blocks))
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert f'value = "{number}"' in text and any("how the host computes" in t for t in todo)


SUMS = """
__global__ void sums(const float* x, float* out, int rows, int cols) {
  __shared__ float part[128];
  int tid = threadIdx.y * blockDim.x + threadIdx.x, j = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.y; i < rows; i += 4)
    if (j < cols) sum += x[i * cols + j];
  part[tid] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half >>= 1) {
    if (tid < half) part[tid] += part[tid + half];
    __syncthreads();
  }
  if (tid == 0) out[blockIdx.x] = part[0];
}
void go(dim3 grid, dim3 block, const float* x, float* out, int rows, int cols) {
  sums<<<grid, block>>>(x, out, rows, cols);
}
"""


@pytest.mark.parametrize(
    "source",
    [
        SUMS,
        SUMS.replace("int i = threadIdx.y; i < rows; i += 4", "int i = threadIdx.y; i < rows; i += blockDim.y"),
    ],
)
def test_a_loop_from_a_thread_on_or_room_for_all_threads_tells_how_many_there_are(source: str) -> None:
    d = draft(ktc.loads(source).kernel)
    assert (d.roles.fixed["block_x"], d.roles.fixed["block_y"]) == (32, 4)
    assert _shapes(d) == {"x": ("rows", "cols"), "out": ("cdiv(cols, 32)",)}


TRIANGLE = """
__global__ void products(const float* t, float* s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j > i) return;
  float sum = 0.0f;
  for (int k = i; k < n; ++k) sum += t[i + n * k] * t[j + n * k];
  s[i * n + j] = sum;
}
void go(const float* t, float* s, int n) { products<<<dim3(n / 16 + 1, n / 16 + 1), dim3(16, 16)>>>(t, s, n); }
"""


def test_a_loop_from_a_thread_s_own_place_goes_over_a_row_and_no_window() -> None:
    d = draft(ktc.loads(TRIANGLE).kernel)
    assert not d.roles.windows and _shapes(d)["t"] == ("n", "n")
