"""Drafts of kernels whose integers are windows, counters, powers of two, places and ends: each says what it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.workload import Workload
from ktc.ir.workload.input_data import make_array
from ktc.scaffold import Draft, draft, with_draft, workload_text
from ktc.scaffold.text import filled
from ktc.search.verification import check_original, verify

UNFOLD = """
__global__ void unfold(int n, const float* img, int H, int W, int KH, int KW, int PH, int PW, int SH, int SW, int OH,
                       int OW, float* cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = i % OW, y = i / OW % OH, c = i / OW / OH;
  const float* from = img;
  from += c * H * W;
  for (int a = 0; a < KH; ++a)
    for (int b = 0; b < KW; ++b) {
      int v = y * SH - PH + a, u = x * SW - PW + b;
      cols[(((c * KH + a) * KW + b) * OH + y) * OW + x] = v >= 0 && u >= 0 && v < H && u < W ? from[v * W + u] : 0.0f;
    }
}
void go(const float* img, int C, int H, int W, int KH, int KW, int PH, int PW, int SH, int SW, float* cols) {
  int OH = (H + 2 * PH - KH) / SH + 1, OW = (W + 2 * PW - KW) / SW + 1, n = C * OH * OW;
  unfold<<<(n + 127) / 128, 128>>>(n, img, H, W, KH, KW, PH, PW, SH, SW, OH, OW, cols);
}
"""
SORTED = """
__global__ void sort_by_part(const int* part, int* place, int* owner, int parts, int size, int n) {
  extern __shared__ int room[];
  int* count = room;
  int* start = room + parts;
  for (int p = threadIdx.x; p < parts; p += blockDim.x) count[p] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&count[part[i]], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    start[0] = 0;
    for (int p = 0; p < parts; ++p) start[p + 1] = start[p] + (count[p] + size - 1) / size * size;
  }
  __syncthreads();
  for (int p = threadIdx.x; p < parts; p += blockDim.x) {
    for (int i = start[p]; i < start[p + 1]; i += size) owner[i / size] = p;
    count[p] = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) place[start[part[i]] + atomicAdd(&count[part[i]], 1)] = i;
}
void go(const int* part, int* place, int* owner, int parts, int size, int n) {
  sort_by_part<<<1, 64, (2 * parts + 1) * sizeof(int)>>>(part, place, owner, parts, size, n);
}
"""
ROUTES = """
__global__ void routes(const int* chosen, const float* weight, float* dense, int rows, int some, int all) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * some) dense[i / some * all + chosen[i]] = weight[i];
}
void go(const int* c, const float* w, float* d, int rows, int some, int all) {
  routes<<<(rows * some + 63) / 64, 64>>>(c, w, d, rows, some, all);
}
"""
PART_OF_A_TABLE = """
__global__ void rows_of(const long long* word, const float* table, float* out, int width, long long first,
                        long long end) {
  long long w = word[blockIdx.x];
  bool mine = w >= first && w < end;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[blockIdx.x * width + i] = mine ? table[(w - first) * width + i] : 0.0f;
}
void go(const long long* word, const float* table, float* out, int words, int width, long long first, long long end) {
  rows_of<<<words, 64>>>(word, table, out, width, first, end);
}
"""
KEPT = """
__global__ void keep(const float* in, float* out, int* kept, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] > 0.0f) out[atomicAdd(kept, 1)] = in[i];
}
void go(const float* in, float* out, int* kept, int n) { keep<<<(n + 63) / 64, 64>>>(in, out, kept, n); }
"""
BUTTERFLY = """
__global__ void butterfly(float* x, int n, int len) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 2) return;
  int half = len >> 1, k = i & (half - 1), at = i / half * len + k;
  float a = x[at], b = x[at + half];
  x[at] = a + b;
  x[at + half] = a - b;
}
void go(float* x, int n) { for (int len = 2; len <= n; len *= 2) butterfly<<<(n / 2 + 63) / 64, 64>>>(x, n, len); }
"""
PARTLY_ROTATED = """
__global__ void rotate(float* q, const float* angle, int heads, int width, int turned) {
  int half = turned / 2;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    float* x = q + (blockIdx.x * heads + i / half) * width;
    int j = i % half;
    float u = x[j], v = x[j + half];
    x[j] = u * angle[j] - v * angle[j + half];
    x[j + half] = v * angle[j] + u * angle[j + half];
  }
}
void go(float* q, const float* a, int tokens, int heads, int width, int turned) {
  rotate<<<tokens, 64>>>(q, a, heads, width, turned);
}
"""
LENGTHS = """
__global__ void sums(const float* rows, const int* lengths, float* out, int most) {
  extern __shared__ float seen[];
  int n = lengths[blockIdx.x];
  for (int i = threadIdx.x; i < n; i += blockDim.x) seen[i] = rows[(blockIdx.x * most + i) * 48];
  __syncthreads();
  float s = 0.0f;
  for (int i = 0; i < n; ++i) s += seen[i];
  out[blockIdx.x * 32 + threadIdx.x] = s * rows[blockIdx.x * most * 48 + threadIdx.x];
}
void go(const float* rows, const int* lengths, float* out, int count, int most) {
  sums<<<count, 32, most * sizeof(float)>>>(rows, lengths, out, most);
}
"""
IGNORED = """
__global__ void pick(const float* x, const int* label, float* out, int V, int ignored) {
  int t = label[blockIdx.x];
  if (threadIdx.x == 0) out[blockIdx.x] = t == ignored ? 0.0f : x[blockIdx.x * V + t];
}
void go(const float* x, const int* l, float* o, int rows, int V) { pick<<<rows, 32>>>(x, l, o, V, -100); }
"""
ADAPTED = """
__global__ void adapted(const float* x, const float* table, const int* which, float* out, int width) {
  int a = which[blockIdx.x];
  if (a < 0) return;
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[blockIdx.x * width + i] = x[blockIdx.x * width + i] * table[a * width + i];
}
void go(const float* x, const float* table, const int* which, float* out, int rows, int width) {
  adapted<<<rows, 64>>>(x, table, which, out, width);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def shapes(d: Draft) -> dict[str, tuple[str, ...]]:
    return {name: extent.shape for name, extent in d.shapes.items() if extent is not None}


def sizes(d: Draft, name: str) -> dict[str, int]:
    return next(s for title, s, _ in d.scenarios if title == name)


def test_what_a_launch_computes_windows_from_is_small_and_their_number_is_a_dimension() -> None:
    d = drafted(UNFOLD)
    assert not d.doubts and not d.constants
    across, down = "(((H + (2 * PH)) - KH) / SH) + 1", "(((W + (2 * PW)) - KW) / SW) + 1"
    assert shapes(d)["img"] == ("C", "H", "W")
    assert {*shapes(d)["cols"]} == {"C", "KH", "KW", f"({across})", f"({down})"}
    assert {n: v for n, v in sizes(d, "large").items() if n[0] in "KPS"} == {
        "KH": 3, "KW": 3, "PH": 1, "PW": 1, "SH": 1, "SW": 1
    }  # fmt: skip


def test_values_choose_from_the_counters_that_a_loop_clears() -> None:
    """Each part's last block is hardly begun, which shows only where every part has something."""
    d = drafted(SORTED)
    assert d.ties == {"part_values": "parts"} and not d.doubts
    place, owner = d.shapes["place"], d.shapes["owner"]
    assert place is not None and owner is not None
    at = {"parts": 8, "size": 32, "n": 100}
    assert place.value(at) >= 7 * 32 + 96 and owner.value(at) >= 10
    assert sizes(d, "large")["parts"] == 64


def test_a_launch_has_no_more_shared_memory_than_it_gets() -> None:
    d = drafted(LENGTHS)
    assert shapes(d)["rows"] == ("count", "48 * most") and d.ties == {"lengths_values": "most + 1"}
    assert all(s["most"] * 4 <= 48 << 10 for _, s, _ in d.scenarios)


def test_places_in_a_row_differ_from_row_to_row_only() -> None:
    d = drafted(ROUTES)
    assert [(c.buffer, c.kind, d.tied(c.name)) for c in d.contents] == [("chosen", "distinct-rows", "all")]
    assert not d.doubts and all(s["some"] <= s["all"] for _, s, _ in d.scenarios)


def test_rows_of_distinct_values_need_room_for_one_row_alone() -> None:
    made = make_array("i32", (200, 6), "distinct-rows", (2, 9), "x", 0, False)
    assert all(len({*row}) == 6 for row in made.tolist()) and made.min() >= 2 and made.max() <= 9
    assert len({tuple(row) for row in made.tolist()}) > 8
    with pytest.raises(KtcError, match="9 elements of a row"):
        make_array("i32", (2, 9), "distinct-rows", (2, 9), "x", 0, False)
    assert np.array_equal(made, make_array("i32", (200, 6), "distinct-rows", (2, 9), "x", 0, False))


def test_a_part_of_a_table_begins_at_nothing_and_ends_where_words_do() -> None:
    d = drafted(PART_OF_A_TABLE)
    assert shapes(d) == {"word": ("words",), "table": ("end", "width"), "out": ("words", "width")}
    assert d.ties == {"word_values": "end"} and d.roles.fixed == {"first": 0} and d.roles.flags == ("first",)


def test_a_counter_starts_at_zero_and_all_may_be_kept(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KEPT)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert text.count('init = "zeros"') == 1 and not any("kept" in t for t in todo)
    assert shapes(drafted(KEPT))["out"] == ("n",)


def test_numbers_that_no_byte_holds_say_nothing_of_the_bytes_of_words(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void k(char* rows, int n, size_t pitch, int* out) {\n"
        "  int* row = (int*)(rows + blockIdx.x * pitch);\n"
        "  for (int i = threadIdx.x; i < n; i += 32) if (row[i] == 0x7ffffffe) row[i] = i; else out[i] = row[i];\n}\n"
        "void go(char* rows, int n, size_t pitch, int* out) { k<<<8, 32>>>(rows, n, pitch, out); }\n"
    )
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert "range = [214748364" not in text


def test_where_none_is_a_negative_number_some_are(tmp_path: Path) -> None:
    """A guard that is true in every run is no test of what is behind it."""
    (tmp_path / "k.cu").write_text(ADAPTED)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    (tmp_path / "workload.toml").write_text(
        workload_text(program.kernel, program.source, tmp_path / "workload.toml")[0]
    )
    work = Workload.load(tmp_path)
    which = next(a for a in work.args if a.name == "which")
    assert which.range == (0, "which_values - 1") and which.span == (-1, "which_values - 1")
    values = work.make_inputs({"rows": 400, "width": 2, "which_values": 9})["which"]
    assert isinstance(values, np.ndarray) and 20 < (values == -1).sum() < 90 and values.max() == 8
    assert ktc.load(str(tmp_path)).apply("raise").verify(device="none").status == "TESTED"


def test_a_power_of_two_is_one_number() -> None:
    d = drafted(BUTTERFLY)
    assert d.roles.fixed == {"len": 32} and d.roles.flags == ("len",) and not d.doubts
    assert shapes(d) == {"x": ("n",)} and d.steps == {"n": 32}


def test_what_lies_beyond_a_part_of_a_row_is_not_needed() -> None:
    d = drafted(PARTLY_ROTATED)
    assert d.tied("width") == "turned" and not d.doubts
    assert shapes(d)["q"] == ("tokens", "heads", "turned")


@pytest.mark.parametrize(("given", "mark"), [("-100", -100), ("none", -1)])
def test_a_label_that_is_ignored_is_one_of_the_labels(given: str, mark: int, tmp_path: Path) -> None:
    source = IGNORED.replace("int V) {", "int V, int none) {").replace("-100)", f"{given})")
    d = drafted(source)
    assert d.roles.fixed == {"ignored": mark} and d.ties == {"label_values": "V"}
    (tmp_path / "k.cu").write_text(source)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert f"mark = {mark} " in text
    (tmp_path / "workload.toml").write_text(text)
    work = Workload.load(tmp_path)
    assert check_original(work.load_kernel(), work) == []
    (tmp_path / "workload.toml").write_text(text.replace(f"mark = {mark}", "mark = 1"))
    with pytest.raises(KtcError, match="mark is a negative integer"):
        Workload.load(tmp_path)


@pytest.mark.parametrize("source", [UNFOLD, SORTED, ROUTES, PART_OF_A_TABLE, KEPT, BUTTERFLY, LENGTHS])
def test_the_source_runs_clean_as_drafted(source: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(source)
    program = ktc.load(str(tmp_path / "k.cu"))
    assert program.source is not None
    target = tmp_path / "workload.toml"
    target.write_text(workload_text(program.kernel, program.source, target)[0])
    work = Workload.load(tmp_path)
    assert check_original(work.load_kernel(), work) == []


CLASSES = """
__global__ void gather(const int* label, const float* x, float* sum, int n, int classes) {
  __shared__ float part[64];
  float s = 0.0f;
  int mine = blockIdx.x;
  for (int i = threadIdx.x; i < n; i += 64)
    if (label[i] == mine) s += x[i];
  part[threadIdx.x] = s;
  __syncthreads();
  if (label[0] == mine && threadIdx.x == 0) sum[mine] = part[0];
}
void go(const int* label, const float* x, float* sum, int n, int classes) {
  gather<<<classes, 64>>>(label, x, sum, n, classes);
}
"""


def test_what_is_compared_with_the_block_is_one_of_the_blocks() -> None:
    """As any number, hardly one label would be a block's; all 0, only the first block would be seen to store."""
    d = draft(ktc.loads(CLASSES).kernel)
    assert d.tied("label_values") == "classes"
    sums = d.shapes["sum"]
    assert sums is not None and sums.shape == ("classes",)


COUNTED = """
__global__ void blocks_of(const int* group, int* first, int* owner, int n, int groups, int size) {
  __shared__ int count[256];
  int t = threadIdx.x;
  if (t < groups) count[t] = 0;
  __syncthreads();
  for (int i = t; i < n; i += 256) atomicAdd(&count[group[i] + 1], 1);
  __syncthreads();
  if (t == 0) {
    int blocks = 0;
    for (int g = 0; g < groups; ++g) {
      first[g] = blocks;
      for (int b = 0; b < (count[g] + size - 1) / size; ++b) owner[blocks++] = g;
    }
  }
}
void go(const int* group, int* first, int* owner, int n, int groups, int size) {
  blocks_of<<<1, 256>>>(group, first, owner, n, groups, size);
}
"""


def test_counters_that_threads_set_bound_what_is_counted() -> None:
    """An element is counted one place on: the last group has no counter."""
    d = draft(ktc.loads(COUNTED).kernel)
    assert d.tied("group_values") == "groups - 1" and "groups" in d.roles.few
    shapes = {b: e and e.shape for b, e in d.shapes.items()}
    assert shapes["group"] == ("n",) and shapes["first"] == ("groups",)
    assert not d.doubts


PACKED = """
__global__ void unpacked(const int* words, const float* scales, float* out, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  for (int j = 0; j < 8; ++j) out[8 * i + j] = ((words[i] >> 4 * j) & 15) * scales[i];
}
void go(const int* words, const float* scales, float* out, int n) {
  unpacked<<<(n + 255) / 256, 256>>>(words, scales, out, n);
}
"""


def test_words_that_are_taken_apart_hold_any_bits(tmp_path: Path) -> None:
    """Of small numbers all but the lowest part is zero, whichever part a candidate takes."""
    (tmp_path / "k.cu").write_text(PACKED)
    program = ktc.load(tmp_path / "k.cu")
    text, _ = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    inits = [line for line in text.splitlines() if line.startswith("init")]
    assert inits == ['init = "bits"', 'init = "normal"']
    (tmp_path / "workload.toml").write_text(text)
    words = make_array("i32", (4096,), "bits", None, "words", 0, True)
    assert len({int(w) >> 28 & 15 for w in words}) == 16
    assert {0, -1} <= set(map(int, words))
    work = Workload.load(tmp_path)
    source = work.load_kernel()
    for parts, status in (("4 * j", "PROVED"), ("4 * (j ^ (j >> 1 & 1))", "REJECTED")):
        candidate = parse_kernel(print_kernel(source).replace(">> 4 * j", f">> {parts}"))
        assert verify(source, candidate, work, layers=("exact",)).status == status, parts


@pytest.mark.parametrize("body", [
    "int i = blockIdx.x * size + threadIdx.x; if (i < n) y[i] = x[i];",
    "int t = threadIdx.x; for (int i = t; i < n; i += size) y[blockIdx.x * n + i] = x[i];",
])  # fmt: skip
def test_a_parameter_in_the_place_of_the_block_is_the_block(tmp_path: Path, body: str) -> None:
    """The source has no launch, and the parameter no meaning but that one."""
    (tmp_path / "k.cu").write_text(f"__global__ void k(float* y, const float* x, int size, int n) {{ {body} }}\n")
    program, told = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and program.workload.launch is not None
    assert program.workload.arg("size").value == int(program.workload.launch.block[0])
    assert "size: taken for the number of threads of a block" in told
    assert not any("run at" in t for t in told)


@pytest.mark.parametrize("read", ["x[i] / by[i]", "x[i] % by[i]", "(int)(x[i] / (float)by[i])"])
def test_nothing_is_divided_by_a_drafted_zero(tmp_path: Path, read: str) -> None:
    (tmp_path / "k.cu").write_text(f"""
__global__ void k(int* y, const int* x, const int* by, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = {read};
}}
void go(int* y, const int* x, const int* by, int n) {{ k<<<(n + 63) / 64, 64>>>(y, x, by, n); }}
""")
    program, told = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and not any("run at" in t for t in told)
    low = program.workload.arg("by").range
    assert low is not None and low[0] == 1 and "range" in program.workload.arg("by").guessed


ELIMINATED = """
__global__ void eliminate(float* a, const float* m, int n, int t) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < n - 1 - t) a[n * (j + t + 1) + t] = m[j] / a[n * t + t];
}
void go(float* a, const float* m, int n) {
  for (int t = 0; t < n - 1; t++) eliminate<<<(n + 127) / 128, 128>>>(a, m, n, t);
}
"""
SHORT_WORDS = """
__global__ void lengths(const unsigned long long* words, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long w = words[i];
  out[i] = w == 0 ? 0 : w >> 16 == 0 ? 2 : (w & 0xffffffffu) == 0 ? 3 : (w & 255) == (w >> 8 & 255) ? 1 : 8;
}
void go(const unsigned long long* w, int* o, int n) { lengths<<<(n + 127) / 128, 128>>>(w, o, n); }
"""


def test_a_place_in_a_size_is_none_before_its_first(tmp_path: Path) -> None:
    """From below 0 on there would be more to do than there are threads, and nothing to say that none asks for that."""
    (tmp_path / "k.cu").write_text(ELIMINATED)
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None
    t = program.workload.arg("t")
    assert t.value == "(n - 1) / 2" and t.range is not None and t.range[0] == 0 and "range" in t.guessed
    assert program.apply("raise").verify(device="none").ok


def test_words_whose_bits_are_used_are_of_any_length(tmp_path: Path) -> None:
    """Small numbers alone would have no upper bits, and any words hardly ever few."""
    (tmp_path / "k.cu").write_text(SHORT_WORDS)
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None and program.workload.arg("words").init == "bits"
    assert program.apply("raise").verify(device="none").ok


LETTERS = """
__global__ void count(const char* text, int* bins, int n) {
  __shared__ int mine[7];
  if (threadIdx.x < 7) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[(text[i] - 'a') / 4], 1);
  __syncthreads();
  if (threadIdx.x < 7) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
int main() {
  int n = 1 << 16;
  std::vector<char> h(n);
  std::generate(begin(h), end(h), []() { return 'a' + rand() % 26; });
  char* text; int* bins;
  cudaMemcpy(text, h.data(), n, cudaMemcpyHostToDevice);
  count<<<(n + 255) / 256, 256>>>(text, bins, n);
}
"""


def test_bytes_that_choose_counters_are_those_that_the_host_draws(tmp_path):
    """No others have a counter: the source would write before its first one."""
    source = tmp_path / "k.cu"
    source.write_text(LETTERS)
    program = ktc.load(str(source))
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert 'init = "ints"\nrange = [97, 122]       # guessed: what the host fills it with' in text
    assert not [d for d in todo if "run at" in d or "multiple" in d]


RUNNING = """
__global__ void running(int n, const float* in, int channels, int plane, int size, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float* x = in + i / plane * channels * plane + i % plane;
  float* y = out + i / plane * channels * plane + i % plane;
  int after = size / 2, head = 0;
  float sum = 0;
  while (head < after && head < channels) { sum += x[head * plane]; ++head; }
  while (head < channels + after) {
    if (head < channels) sum += x[head * plane];
    if (head - size >= 0) sum -= x[(head - size) * plane];
    y[(head - after) * plane] = sum;
    ++head;
  }
}
void go(const float* in, int batch, int channels, int plane, int size, float* out) {
  int n = batch * plane;
  running<<<(n + 127) / 128, 128>>>(n, in, channels, plane, size, out);
}
"""


def test_a_length_that_nothing_shows_is_a_window_where_others_have_a_defect():
    """One of more than twice as many channels makes the source write before the first row."""
    d = draft(ktc.loads(RUNNING).kernel)
    assert d.roles.windows == {"size": "window"} and not [x for x in d.doubts if "run at" in x]
    assert {s["size"] for _, s, _ in d.scenarios} == {3, 4}


@pytest.mark.parametrize(
    ("kind", "none", "said"),
    [
        ("short", "-32768", ['init = "ints"', "range = [0, 100]", "mark = -32768    # one in eight"]),
        ("int", "2147483647", ['init = "normal"']),
        ("unsigned long long", "~0ull", ['init = "normal"']),
        ("int", "7", ['init = "ints"', "range = [6, 8]"]),
    ],
)
def test_a_number_at_an_end_of_the_type_says_that_there_is_none(kind: str, none: str, said: list[str]) -> None:
    source = f"""
    __global__ void keep(const {kind}* key, {kind}* out, int n) {{
      int i = blockIdx.x * 256 + threadIdx.x;
      if (i < n && key[i] != {none}) out[i] = key[i] * 2;
    }}
    void go(const {kind}* key, {kind}* out, int n) {{ keep<<<(n + 255) / 256, 256>>>(key, out, n); }}"""
    d = draft(ktc.loads(source).kernel)
    assert filled(d, d.kernel.param("key"))[0] == said


def test_an_element_is_found_equal_to_what_is_stored_in_others() -> None:
    """A level of a search: what is not reached yet is told apart by another number."""
    d = drafted("""
    __global__ void level(const int* first, const int* ends, int* levels, int n, int at) {
      int v = blockIdx.x * 64 + threadIdx.x;
      if (v < n && levels[v] == at)
        for (int e = first[v]; e < first[v + 1]; e++) if (levels[ends[e]] == -1) levels[ends[e]] = at + 1;
    }""")
    assert d.roles.fixed["at"] == 0 and "at" not in d.names
    assert shapes(d)["first"] == ("n + 1",) and shapes(d)["ends"] == ("first_last",)


def test_halves_of_rows_are_no_longer_than_a_block() -> None:
    d = drafted("""
    __global__ void rotate(float* q, int dim) {
      int half = dim / 2, i = threadIdx.x;
      if (i >= half) return;
      float a = q[blockIdx.x * dim + i];
      q[blockIdx.x * dim + i] = q[blockIdx.x * dim + i + half];
      q[blockIdx.x * dim + i + half] = a;
    }
    void go(float* q, int n, int dim) { rotate<<<n, 64>>>(q, dim); }""")
    assert d.most["dim"] <= 128 and all(s["dim"] <= 128 for _, s, _ in d.scenarios)
