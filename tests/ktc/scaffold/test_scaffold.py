"""Drafted workloads: sizes, shapes, contents and launches are found by running the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold import draft, workload_text
from ktc.scaffold.shapes import fit
from ktc.search.verification import check_original

ROWS = """
__global__ void rows(float* out, float* mean, const float* in, const float* weight, int n, int d) {
  int row = blockIdx.x;
  float s = 0.0f;
  for (int i = 0; i < d; ++i) s += in[row * d + i];
  if (threadIdx.x == 0) mean[row] = s / d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[row * d + i] = in[row * d + i] * weight[i];
}
"""
LAUNCHED = "void go(float* o, float* m, const float* i, const float* w, int n, int d, int block_size) {"
LAUNCHED = ROWS + LAUNCHED + " rows<<<n, block_size>>>(o, m, i, w, n, d); }"
GATHER = """
__global__ void gather(float* out, const int* ids, const float* table, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * c) out[i] = table[ids[i / c] * c + i % c];
}
void go(float* o, const int* ids, const float* t, int n, int c) {
  gather<<<(n * c + 127) / 128, 128>>>(o, ids, t, n, c);
}
"""
SPARSE = """
__global__ void spmv(float* y, const int* start, const int* col, const float* val, const float* x, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    float s = 0.0f;
    for (int j = start[r]; j < start[r + 1]; ++j) s += val[j] * x[col[j]];
    y[r] = s;
  }
}
void go(float* y, const int* s, const int* c, const float* v, const float* x, int n) {
  spmv<<<(n + 127) / 128, 128>>>(y, s, c, v, x, n);
}
"""
LABELS = """
__global__ void loss(float* out, const float* probs, const int* label, int n, int v) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = -logf(probs[i * v + label[i]]);
}
void go(float* o, const float* p, const int* l, int n, int v) { loss<<<(n + 127) / 128, 128>>>(o, p, l, n, v); }
"""
STRIDED = """
__global__ void strided(float* out, const float* in, int d, int stride) {
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[blockIdx.x * d + i] = in[blockIdx.x * stride + i];
}
"""
WIDE = """
__global__ void twice(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    float4 v = reinterpret_cast<const float4*>(in)[i];
    v.x *= 2.0f; v.y *= 2.0f; v.z *= 2.0f; v.w *= 2.0f;
    reinterpret_cast<float4*>(out)[i] = v;
  }
}
void go(float* o, const float* i, int n) { twice<<<(n / 4 + 127) / 128, 128>>>(o, i, n); }
"""
FIXED = """
#define N 50000
__global__ void add(float* out, const float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + 1.0f;
}
int main() { float *o, *a; add<<<(N + 255) / 256, 256>>>(o, a, N); }
"""
TILES = """
__global__ void product(float* c, const float* a, const float* b, int wa, int wb) {
  __shared__ float as[8][8], bs[8][8];
  int tx = threadIdx.x, ty = threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < wa; k += 8) {
    as[ty][tx] = a[wa * (8 * blockIdx.y + ty) + k + tx];
    bs[ty][tx] = b[wb * (k + ty) + 8 * blockIdx.x + tx];
    __syncthreads();
    for (int i = 0; i < 8; ++i) sum += as[ty][i] * bs[i][tx];
    __syncthreads();
  }
  c[wb * (8 * blockIdx.y + ty) + 8 * blockIdx.x + tx] = sum;
}
"""
STEP = """
struct Rates { float lr, beta; };
__global__ void step(float* p, const float* g, float* v, long n, Rates r) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  v[i] = r.beta * v[i] + (1.0f - r.beta) * g[i] * g[i];
  p[i] -= r.lr * g[i] / (sqrtf(v[i]) + 1e-3f);
}
"""
BATCHED = """
__global__ void add(float* o, const float* i, int total, int c, int w) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  int n = total;
  if (e < n) o[e] = i[e % w] + i[e / w % c];
}
void go(float* o, const float* i, int batch, int c, int w) {
  const int total = batch * c * w;
  add<<<(total + 63) / 64, 64>>>(o, i, total, c, w);
}
"""
GROUPS = """
struct Args { const float* x; float* y; int c, groups; };
__global__ void means(Args p) {
  int part = p.c / p.groups;
  for (int i = threadIdx.x; i < part; i += blockDim.x) {
    int at = (blockIdx.y * p.groups + blockIdx.x) * part + i;
    p.y[at] = 2.0f * p.x[at];
  }
}
void go(Args a, int n) { means<<<dim3(a.groups, n), 64>>>(a); }
"""
BYTES = """
__global__ void count(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}
"""
SUMS = """
__global__ void sums(const float* in, float* out, unsigned n) {
  __shared__ float s[64];
  unsigned i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  if (threadIdx.x == 0) { float t = 0.0f; for (int k = 0; k < 64; ++k) t += s[k]; out[blockIdx.x] = t; }
}
"""


def shapes(source: str) -> dict[str, tuple[str, ...]]:
    found = draft(ktc.loads(source).kernel).shapes
    return {name: extent.shape for name, extent in found.items() if extent is not None}


def test_extents_follow_what_the_kernel_reaches() -> None:
    assert shapes(LAUNCHED) == {"out": ("n", "d"), "mean": ("n",), "in": ("n", "d"), "weight": ("d",)}


def test_block_sizes_of_a_host_are_no_sizes() -> None:
    d = draft(ktc.loads(LAUNCHED).kernel)
    assert d.names == ["n", "d"] and d.roles.fixed == {"block_size": 256}


def test_indices_get_a_size_of_their_own() -> None:
    d = draft(ktc.loads(GATHER).kernel)
    assert [(c.buffer, c.kind) for c in d.contents] == [("ids", "index")]
    assert d.shapes["table"].shape == ("ids_values", "c") and d.shapes["ids"].shape == ("n",)


def test_labels_are_as_many_as_the_classes() -> None:
    d = draft(ktc.loads(LABELS).kernel)
    assert d.ties == {"label_values": "v"} and d.shapes["probs"].shape == ("n", "v")


def test_offsets_ascend_to_the_number_of_entries() -> None:
    d = draft(ktc.loads(SPARSE).kernel)
    assert ("start", "offsets") in [(c.buffer, c.kind) for c in d.contents]
    assert d.shapes["start"].shape == ("n + 1",) and d.shapes["val"].shape == ("start_last",)
    assert d.shapes["x"].shape == ("col_values",)


def test_a_grid_of_rows_is_guessed_where_the_source_launches_nothing() -> None:
    d = draft(ktc.loads(ROWS).kernel)
    assert d.launch is not None and d.launch.grid == ("n", "1", "1") and d.shapes["out"].shape == ("n", "d")
    assert any("launch" in x for x in d.doubts)


def test_a_launch_for_one_size_gives_way_to_the_guard() -> None:
    d = draft(ktc.loads(FIXED).kernel)
    assert d.launch is not None and d.launch.grid[0] == "cdiv(n, 256)" and d.launch.block[0] == "256"


def test_sizes_that_vectors_divide_say_so() -> None:
    d = draft(ktc.loads(WIDE).kernel)
    assert d.shapes["in"].shape == ("n",)
    assert all(s["n"] % 4 == 0 for _, s, _ in d.scenarios if s is not d.scenarios[-1][1])


def test_unguarded_tiles_have_as_many_threads_as_elements() -> None:
    d = draft(ktc.loads(TILES).kernel)
    assert d.launch is not None and d.launch.block == ("8", "8", "1") and d.tied("wb") == "8 * blocks_x"
    assert d.shapes["a"] is not None and d.shapes["a"].shape == ("blocks_y", "8 * wa")


def test_a_guard_that_sends_threads_home_bounds_the_grid() -> None:
    d = draft(ktc.loads(STEP).kernel)
    assert d.launch is not None and d.launch.grid[0] == "cdiv(n, 256)" and d.names == ["n"]


def test_roots_get_positive_numbers_and_rates_that_matter() -> None:
    d = draft(ktc.loads(STEP).kernel)
    assert d.positive and d.roles.numbers["r_beta"] not in (0.0, 1.0)
    assert not draft(ktc.loads(ROWS).kernel).positive


def test_what_the_launch_computes_is_no_size() -> None:
    d = draft(ktc.loads(BATCHED).kernel)
    assert d.names == ["c", "w", "batch"] and d.shapes["o"] is not None and sorted(d.shapes["o"].factors) == [
        "batch", "c", "w"
    ]  # fmt: skip


def test_members_of_a_struct_are_sizes_and_groups_divide_them() -> None:
    d = draft(ktc.loads(GROUPS).kernel)
    assert d.launch is None and d.roles.divisors == {"p_groups"}  # the launch is the source's
    assert d.shapes["p_y"] is not None and d.shapes["p_y"].shape == ("n", "p_c")  # rows of channels
    assert all(s["p_c"] % s["p_groups"] == 0 for name, s, _ in d.scenarios if name != "odd")


def test_bytes_index_no_more_than_they_can() -> None:
    d = draft(ktc.loads(BYTES).kernel)
    assert d.limits == {"in_values": 256} and d.names == ["n"] and d.shapes["out"].value({}) == 256  # type: ignore[union-attr]


def test_a_result_a_block_is_a_quotient() -> None:
    d = draft(ktc.loads(SUMS).kernel)
    assert d.launch is not None and d.launch.block[0] == "64" and d.shapes["out"].value({"n": 1000}) == 16  # type: ignore[union-attr]


PARTS = """
__global__ void spread(float* out, const int* ids, const float* in, int slots, int d, int k) {
  int id = ids[blockIdx.x];
  if (id < 0) return;
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[blockIdx.x * d + i] = in[id / k * d + i];
}
void go(float* o, const int* ids, const float* in, int slots, int d, int k) {
  spread<<<slots, 64>>>(o, ids, in, slots, d, k);
}
"""


def test_a_part_of_an_index_is_an_index() -> None:
    d = draft(ktc.loads(PARTS).kernel)
    assert [(c.buffer, c.kind) for c in d.contents] == [("ids", "index")]
    assert d.shapes["in"] is not None and d.shapes["in"].shape == ("cdiv(ids_values, k)", "d")


SOURCES = [
    LAUNCHED, GATHER, SPARSE, LABELS, ROWS, STRIDED, WIDE, FIXED, TILES, STEP, BATCHED, GROUPS, BYTES, SUMS, PARTS,
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_the_file_loads_and_its_kernel_runs_clean(source: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(source)
    program = ktc.load(str(path))
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    (tmp_path / "workload.toml").write_text(text)
    work = Workload.load(tmp_path)
    assert len({s.name for s in work.scenarios}) >= 3 and any(s.heldout for s in work.scenarios)
    assert check_original(work.load_kernel(), work, None, 0) == []


def test_a_shape_is_the_simplest_product_that_bounds_all() -> None:
    seen = [({"a": a, "b": b}, 2 * a * b) for a, b in ((3, 5), (7, 2), (4, 4))]
    extent = fit(seen, ["a", "b"])
    assert extent is not None and extent.shape == ("a", "2 * b") and extent.exact


def test_no_product_fits_what_follows_none() -> None:
    assert fit([({"a": 4}, 1000), ({"a": 400}, 3)], ["a"]) is None


def test_optimize_drafts_a_workload_and_says_what_to_check(ktc_run, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(FIXED)
    done = ktc_run("optimize", "k.cu", "--device", "numba", "--budget", "2", "--scenario", "small")
    assert done.returncode == 0, done.stderr
    assert "drafted ktc-out/add/workload.toml" in done.stderr and "launch" in done.stderr
    assert (tmp_path / "ktc-out" / "add" / "workload.toml").exists()
    again = ktc_run("verify", "k.cu", "-p", "raise", "--device", "none")
    assert again.returncode == 0 and "found ktc-out/add/workload.toml" in again.stderr


def test_a_template_that_nobody_instantiates_gets_arguments(ktc_run, tmp_path: Path) -> None:
    kernel = FIXED.partition("int main")[0].replace("float", "T")
    (tmp_path / "k.cu").write_text(kernel.replace("__global__", "template <typename T> __global__"))
    done = ktc_run("init", "k.cu")
    assert done.returncode == 0 and "T=float" in done.stderr
    assert 'template = { T = "float" }' in (tmp_path / "workload.toml").read_text()


def test_of_overloads_for_several_types_that_for_floats_is_drafted(ktc_run, tmp_path: Path) -> None:
    kernel = FIXED.partition("int main")[0]
    host = "template <typename T> void go(const T* a, T* o, int n) { add<<<(n + 255) / 256, 256>>>(o, a, n); }"
    (tmp_path / "k.cu").write_text(kernel.replace("float", "double") + kernel + host)
    done = ktc_run("init", "k.cu", "--kernel", "add")
    assert done.returncode == 0 and "several kernels are called add: taking --kernel 'add(" in done.stderr
    assert 'name = "add(float*, const float*, int)"' in (tmp_path / "workload.toml").read_text()
    assert ktc_run("init", "k.cu", "--force").returncode == 2


def test_buffers_that_no_memory_has_room_for(ktc_run, tmp_path: Path) -> None:
    huge = "__global__ void k(float* o) { o[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }\n"
    (tmp_path / "k.cu").write_text(huge + "void go(float* o) { k<<<1 << 27, 1024>>>(o); }")
    assert ktc_run("init", "k.cu").returncode == 0
    done = ktc_run("optimize", ".", "--device", "numba", "--scenario", "launched")
    assert done.returncode == 2 and "E-WORKLOAD-ROOM" in done.stderr and "take 549.8 GB" in done.stderr


STENCIL = """
__global__ void step(float* out, const float* in, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  int left = x == 0 ? 1 : x - 1;
  out[y * nx + x] = in[y * nx + x] + in[y * nx + left];
}
void go(float* o, const float* i, int nx, int ny) {
  step<<<dim3((nx + 31) / 32, (ny + 7) / 8), dim3(32, 8)>>>(o, i, nx, ny);
}
"""


def test_sizes_that_a_border_needs_say_so() -> None:
    d = draft(ktc.loads(STENCIL).kernel)
    assert d.shapes["in"].shape == ("ny", "nx") and d.least == {"nx": 2, "ny": 1}


def test_a_buffer_of_unknown_size_is_nothing_to_run_on(ktc_run, tmp_path: Path) -> None:
    """What cannot be run cannot be measured: the draft has to be completed first."""
    endless = "__global__ void k(float* o, int n) { for (int i = threadIdx.x; i < n;) o[i] = 1.0f; }\n"
    (tmp_path / "k.cu").write_text(endless + "void go(float* o, int n) { k<<<1, 32>>>(o, n); }")
    done = ktc_run("optimize", "k.cu", "--device", "numba")
    assert done.returncode == 2 and "E-DRAFT-INCOMPLETE" in done.stderr and "ktc-out/k/workload.toml" in done.stderr
    again = ktc_run("init", "k.cu")
    assert again.returncode == 0 and "o: its shape" in again.stderr


DYNAMIC = """
__global__ void rowsum(float* out, const float* in, int d) {
  extern __shared__ float s[];
  float a = 0.0f;
  for (int i = threadIdx.x; i < d; i += blockDim.x) a += in[blockIdx.x * d + i];
  s[threadIdx.x] = a;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
"""


def test_dynamic_shared_memory_is_as_large_as_the_workloads_launch_says(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(DYNAMIC)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert 'shared = "16384"' in text and not any("outside" in x for x in todo)
    (tmp_path / "workload.toml").write_text(text.replace('"16384"', '"1024"'))
    work = Workload.load(tmp_path)
    assert "array s: shared f32[256] dynamic" in ktc.load(str(tmp_path)).text()
    assert check_original(work.load_kernel(), work, None, 0) == []
    raised = ktc.load(str(tmp_path)).apply("raise").ok
    assert "reduce(+)" in raised.text()


def test_sizes_that_only_pass_together_say_so() -> None:
    source = """
__global__ void turn(float* out, const float* in, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i / d * d + d - 1 - i % d];
}
void go(float* o, const float* i, int n, int d) { turn<<<(n * d + 255) / 256, 256>>>(o, i, n, d); }
"""
    d = draft(ktc.loads(source).kernel)
    assert d.steps["n"] * d.steps["d"] % 256 == 0
    assert 1 << 28 < d.most["n"] * d.most["d"] < 1 << 31, "products in 32 bits do not wrap within the ranges"
    assert all(sizes[n] <= d.most[n] for _, sizes, _ in d.scenarios for n in d.names)


def test_a_grid_of_its_own_size_is_as_large_as_its_work() -> None:
    source = """
__global__ void twice(float* out, const float* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) out[i] = in[i] + in[i];
}
void go(float* o, const float* i, int n, int blocks) { twice<<<blocks, 32>>>(o, i, n); }
"""
    assert draft(ktc.loads(source).kernel).tied("blocks") == "cdiv(n, 32)"


def test_what_the_launch_passes_a_constant_for_is_that_constant(tmp_path: Path) -> None:
    source = """
__global__ void norm(float* out, const float* in, int n, int d) {
  if (threadIdx.x < d) out[blockIdx.x * d + threadIdx.x] = 2 * in[blockIdx.x * d + threadIdx.x];
}
void go(float* o, const float* i, int n, int d) { switch (d) { case 96: norm<<<n, d>>>(o, i, n, 96); } }
"""
    d = draft(ktc.loads(source).kernel)
    assert d.roles.fixed == {"d": 96} and d.names == ["n"]


def test_a_recipe_is_replayed_on_the_workload_that_was_drafted_for_it(ktc_run, tmp_path: Path) -> None:
    from ktc.search.records.recipe import Recipe, sha256

    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ void other(float* o) { o[0] = 1; }\n"
        "template <typename T> __global__ void twice(T* o, const T* i, int n) {\n"
        "  int at = blockIdx.x * blockDim.x + threadIdx.x; if (at < n) o[at] = i[at] + i[at]; }\n"
        "void go(float* o, const float* i, int n) { twice<float><<<(n + 127) / 128, 128>>>(o, i, n); }\n"
    )
    (tmp_path / "out").mkdir()
    assert ktc_run("init", "k.cu", "--kernel", "twice", "-o", "out/workload.toml").returncode == 0
    made = Recipe("twice", sha256(source.read_bytes()), "raise", {}, "numba", source=str(source))
    made.save(tmp_path / "out" / "recipe.json")
    done = ktc_run("replay", "out", "--no-time")
    assert done.returncode == 0 and "source unchanged" in done.stdout, done.stderr
    made = Recipe(**{**vars(made), "workload": str(tmp_path / "out" / "workload.toml")})
    made.save(tmp_path / "recipe.json")
    assert ktc_run("replay", "recipe.json", "--no-time").returncode == 0


def test_sizes_are_multiples_where_one_less_is_read_beyond(tmp_path: Path) -> None:
    """``n / 1024`` blocks leave one element more to nobody, and read one less beyond its end."""
    source = """
__global__ void total(float* out, const float* in, int n) {
  int i = (blockIdx.x * 256 + threadIdx.x) * 4;
  float4 v = reinterpret_cast<const float4*>(in + i)[0];
  if (i < n) atomicAdd(out, v.x + v.y + v.z + v.w);
}
void go(float* o, const float* i, int n) { total<<<(n + 255) / 256 / 4, 256>>>(o, i, n); }
"""
    d = draft(ktc.loads(source).kernel)
    assert d.steps == {"n": 1024}


@pytest.mark.parametrize(
    ("params", "body", "name"),
    [
        (
            "float** rows, const float* x",
            "float* row = rows[j]; if (i < n && row) row[i] = x[j * n + i]; if (i == n) rows[j + 1] = row;",
            "rows",
        ),
        ("const float** x, float* y", "if (i < n) y[j * n + i] = x[j][i]; if (i == n) x[j] = y;", "x"),
    ],
)
def test_an_array_of_pointers_is_refused_at_its_place(params: str, body: str, name: str, tmp_path: Path) -> None:
    kernel = f"__global__ void k({params}, int n) {{ int i = threadIdx.x, j = blockIdx.x; {body} }}"
    source = tmp_path / "k.cu"
    source.write_text(kernel)
    program = ktc.load(source)
    with pytest.raises(KtcError, match=f"'{name}' is an array of pointers") as caught:
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert caught.value.code == "E-SCAFFOLD" and caught.value.loc is not None


def test_an_object_that_holds_pointers_is_refused_as_such(tmp_path: Path) -> None:
    """``__constant__ Scene scene``: no array of pointers, but an object that has some among its members."""
    source = tmp_path / "k.cu"
    source.write_text("""struct Scene { int width; float* image; };
__constant__ Scene scene;
__global__ void clear(float v) { if (threadIdx.x < scene.width) scene.image[threadIdx.x] = v; }""")
    program = ktc.load(source)
    with pytest.raises(KtcError, match="'scene' holds pointers") as caught:
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert caught.value.code == "E-SCAFFOLD" and caught.value.hint == "pass each of them as a parameter of the kernel"


@pytest.mark.parametrize(("body", "hint"), [("", "-D __CUDA_ARCH__=800"), ("if (threadIdx.x > 9) return;", "")])
def test_a_kernel_that_a_macro_hides_is_told_from_one_that_writes_nothing(body: str, hint: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(f"__global__ void k(float* y) {{\n#if __CUDA_ARCH__ == 801\n  y[0] = 1;\n#endif\n{body}\n}}")
    program = ktc.load(source)
    with pytest.raises(KtcError, match="writes to none of its buffers") as caught:
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert (hint in caught.value.hint) if hint else not caught.value.hint


@pytest.mark.parametrize(
    ("body", "memory"),
    [("y[i] = tex1Dfetch<float>(t, i);", "linear memory"), ("y[i] = tex2D<float>(t, i, 1.5f);", "that it is bound to")],
)
def test_a_texture_is_refused_with_what_to_pass_instead(body: str, memory: str, tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(f"__global__ void k(cudaTextureObject_t t, float* y) {{ int i = threadIdx.x; {body} }}")
    program = ktc.load(source)
    with pytest.raises(KtcError, match="'t' is a texture or surface object") as caught:
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert caught.value.code == "E-SCAFFOLD" and memory in (caught.value.hint or "")
