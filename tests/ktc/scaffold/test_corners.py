"""A draft is looked at where it is too large to run: some blocks at the sizes of each scenario, within bounds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

import ktc
from ktc.ir.interp import geometry_of, run
from ktc.ir.interp.corner_blocks import corners, some_blocks
from ktc.ir.workload import Workload
from ktc.scaffold.checking.corners import USUAL, Fault, Limits, faults, look
from ktc.scaffold.checking.scenario_doubts import check_scenarios
from ktc.scaffold.text import workload_text

SOURCE = """
__global__ void twice(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
void host(const float *x, float *y, int n) { twice<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
WORKLOAD = """
[kernel]
source = "one.cu"
name = "twice"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["{x}"]
[[args]]
name = "y"
dtype = "f32"
role = "{role}"
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[scenario]]
name = "small"
sizes = {{ n = 64 }}
[[scenario]]
name = "large"
sizes = {{ n = {n} }}
"""


def _work(folder: Path, source: str = SOURCE, x: str = "n", n: int = 70000, role: str = "out") -> Workload:
    (folder / "one.cu").write_text(source)
    return Workload.parse(WORKLOAD.format(x=x, n=n, role=role), folder / "workload.toml")


def _looked(work: Workload, limits: Limits = USUAL) -> Fault | None:
    return look(work, work.load_kernel(), {"n": work.scenario("large").sizes["n"]}, limits)[0]


def test_a_shape_that_holds_at_small_sizes_alone_is_found(tmp_path: Path) -> None:
    assert _looked(_work(tmp_path)) is None
    work = _work(tmp_path, x="1024")
    fault = _looked(work)
    assert fault is not None and (fault.kind, fault.buffer) == ("out-of-bounds", "x")
    assert fault.place == f"{tmp_path / 'one.cu'}:4:15"
    assert "x[35072] is outside its 1024 elements (block (137, 0, 0) of the grid (274, 1, 1), thread 0)" in str(fault)
    assert look(work, work.load_kernel(), {"n": 64})[0] is None


def test_sizes_at_which_nothing_is_written_are_found(tmp_path: Path) -> None:
    work = _work(tmp_path, SOURCE.replace("if (i < n)", "if (i < n && n < 1000)"))
    fault = _looked(work)
    assert fault is not None and fault.kind == "idle" and "(273, 0, 0) of the grid (274, 1, 1)" in str(fault)
    assert look(work, work.load_kernel(), {"n": 64})[0] is None


def test_a_guard_on_data_gets_other_data_before_nothing_is_said_to_be_written(tmp_path: Path) -> None:
    """Of 768 normal numbers of the first seed none is as large as this, of the second one is."""
    x = [_work(tmp_path).make_inputs({"n": 600}, seed=seed)["x"] for seed in (1, 2)]
    first, second = (float(v.max()) for v in x)
    assert first < second
    between = SOURCE.replace("if (i < n)", f"if (i < n && x[i] > {(first + second) / 2}f)")
    assert _looked(_work(tmp_path, between, n=600)) is None
    above = _looked(_work(tmp_path, SOURCE.replace("if (i < n)", "if (i < n && x[i] > 100.0f)"), n=600))
    assert above is not None and above.kind == "idle"


def test_a_store_counts_whatever_it_stores(tmp_path: Path) -> None:
    same = SOURCE.replace("y[i] = 2.0f * x[i]", "y[i] = y[i]")
    assert _looked(_work(tmp_path, same, role="inout")) is None
    in_shared = SOURCE.replace("if (i < n) y[i] = 2.0f * x[i]", "__shared__ float s[256]; s[threadIdx.x] = x[i % n]")
    fault = _looked(_work(tmp_path, in_shared, role="inout"))
    assert fault is not None and fault.kind == "idle"


def test_a_launch_without_blocks_or_of_too_large_ones_is_said(tmp_path: Path) -> None:
    work = _work(tmp_path, SOURCE.replace("(n + 255) / 256, 256", "n / 100000, 256"))
    assert str(_looked(work)) == "no legal launch: grid (0, 1, 1), block (256, 1, 1)"
    work = _work(tmp_path, SOURCE.replace("(n + 255) / 256, 256", "1, n"))
    assert str(_looked(work)) == "no legal launch: grid (1, 1, 1), block (70000, 1, 1)"


def test_sizes_above_the_bounds_are_not_looked_at_and_nothing_is_allocated_for_them(tmp_path: Path) -> None:
    work = _work(tmp_path, x="1024 * 1024 * 1024 * 1024 * n", n=70000)
    kernel = work.load_kernel()
    assert look(work, kernel, {"n": 70000}) == (None, 0.0)
    assert [s.name for s, _ in faults(work, kernel)] == []
    short = _work(tmp_path, x="1024", n=70000)
    assert _looked(short, Limits(bytes=4 * 1024 + 8 * 70000 - 1)) is None
    assert _looked(short, Limits(bytes=4 * 1024 + 8 * 70000)) is not None


def test_a_loop_that_is_longer_than_the_bound_is_looked_at_in_part(tmp_path: Path) -> None:
    summed = SOURCE.replace("y[i] = 2.0f * x[i]", "for (int k = 0; k < n; ++k) y[i] += x[i + k]")
    work = _work(tmp_path, summed, n=70000)
    fault, spent = look(work, work.load_kernel(), {"n": 70000}, Limits(work=500.0))
    assert fault is not None and fault.kind == "out-of-bounds" and spent <= 510.0
    late = SOURCE.replace("y[i] = 2.0f * x[i]", "for (int k = 0; k < n; ++k) if (k == n - 1) y[i] = x[i + k]")
    work = _work(tmp_path, late, n=70000)
    assert look(work, work.load_kernel(), {"n": 70000}, Limits(work=500.0))[0] is None, "and nothing is made up"


def test_all_looks_together_spend_no_more_than_the_bound(tmp_path: Path) -> None:
    """The second of two endless looks has half of what the first has left: one finds its fault, the other does not. A
    round needs what the one before left, or all would run at once."""
    rounds = "for (int k = 0; k < 200; ++k) if (y[i] < 9e9f) y[i] += x[i + (k > 100 ? n : 0)]"
    loop = SOURCE.replace("y[i] = 2.0f * x[i]", rounds)
    work = _work(tmp_path, loop, n=3000)
    kernel = work.load_kernel()
    needed = look(work, kernel, {"n": 3000})[1]
    assert [s.name for s, _ in faults(work, kernel, Limits(work=10 * needed))] == ["large"]
    assert not list(faults(work, kernel, Limits(work=needed)))


def test_blocks_run_as_they_do_among_all_others() -> None:
    source = """
    __global__ void where(int *o) {
      int at = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
      o[at * 4 + threadIdx.x] = 1000 * blockIdx.x + 100 * blockIdx.y + 10 * blockIdx.z + threadIdx.x;
    }
    void host(int *o) { where<<<dim3(5, 2, 3), 4>>>(o); }
    """
    k = ktc.loads(source).kernel
    args = {"o": np.full(5 * 2 * 3 * 4, -1, np.int32)}
    g = geometry_of(k, args)
    whole = run(k, args).outputs["o"].reshape(3, 2, 5, 4)
    some = run(some_blocks(k, g), args).outputs["o"].reshape(3, 2, 5, 4)
    ran = np.zeros((3, 2, 5), bool)
    for x, y, z in corners(g):
        ran[z, y, x] = True
    assert ran.sum() == 3 * 2 * 3 and (some[ran] == whole[ran]).all() and (some[~ran] == -1).all()


SHORT_ROWS = """
__global__ void pick(const int *order, const float *x, float *y, int n, int len) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = n > 4096 ? x[i + n] : x[i];
}
void host(const int *o, const float *x, float *y, int n) { pick<<<(n + 255) / 256, 256>>>(o, x, y, n, 3); }
"""


def test_a_draft_says_what_goes_wrong_at_its_own_sizes(tmp_path: Path) -> None:
    (tmp_path / "pick.cu").write_text(SHORT_ROWS)
    program = ktc.load(tmp_path / "pick.cu")
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    (said,) = (t for t in todo if "out-of-bounds" in t)
    assert said.startswith("run at {'n': ") and ", the sizes of large: " in said
    assert f"{tmp_path / 'pick.cu'}:4:" in said and "x[" in said and "is outside its" in said
    assert said.endswith(": correct its shape, or the sizes and values that the index is made of")
    assert 'name = "large"            # CHECK: out-of-bounds: x[' in text
    assert text.count("# CHECK: out-of-bounds") == 1, "the same is not said of every scenario"
    work = Workload.parse(text, tmp_path / "workload.toml")
    assert work.load_kernel().launch is not None, "and the file is read as before"


def test_a_fault_that_runs_at_small_sizes_have_found_is_not_said_again(tmp_path: Path) -> None:
    from ktc.scaffold import draft

    (tmp_path / "pick.cu").write_text(SHORT_ROWS)
    program = ktc.load(tmp_path / "pick.cu")
    target = tmp_path / "workload.toml"
    assert program.source is not None
    text, todo = workload_text(program.kernel, program.source, target)
    (said,) = (t for t in todo if "out-of-bounds" in t)
    d = dataclasses.replace(draft(program.kernel), doubts=[said])
    assert not check_scenarios(d, program.kernel, text, target) and d.doubts == [said]
    d.doubts.clear()
    d.shapes["x"] = None
    assert not check_scenarios(d, program.kernel, text, target), "its shape is to be completed anyway"


RELAX = """
__global__ void relax(const int *to, int *cost, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) cost[to[i]] = cost[i] + 1;
}
void host(const int *to, int *cost, int n) { relax<<<(n + 255) / 256, 256>>>(to, cost, n); }
"""


def test_threads_of_small_scenarios_are_looked_at_for_races(tmp_path: Path) -> None:
    """Trial runs give all places one content; drawn as the draft says, two threads meet at one of them."""
    (tmp_path / "relax.cu").write_text(RELAX)
    program = ktc.load(tmp_path / "relax.cu")
    assert program.source is not None
    _, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    (said,) = (t for t in todo if ": race: cost[" in t)
    assert said.startswith("run at {'n': ") and f"{tmp_path / 'relax.cu'}:4:" in said


def test_a_buffer_that_is_doubted_by_itself_is_not_doubted_again(tmp_path: Path) -> None:
    """The host allocates n elements and the kernel reads one more: that is said once."""
    source = """
    __global__ void diff(const float* a, float* d, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) d[i] = a[i + 1] - a[i];
    }
    void go(int n) {
      float *a, *d;
      cudaMalloc(&a, n * sizeof(float));
      cudaMalloc(&d, n * sizeof(float));
      diff<<<(n + 127) / 128, 128>>>(a, d, n);
    }
    """
    (tmp_path / "diff.cu").write_text(source)
    program = ktc.load(tmp_path / "diff.cu")
    assert program.source is not None
    _, todo = workload_text(program.kernel, program.source, tmp_path / "workload.toml")
    assert [t.partition(",")[0] for t in todo if t.startswith(("a:", "run at"))] == [
        "a: the kernel reaches n + 1 elements"
    ]
