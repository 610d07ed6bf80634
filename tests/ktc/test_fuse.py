"""``ktc fuse`` and what the rest of ktc makes of sequences: texts, launchers, devices, searches, recipes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import ktc
from ktc import fused_sequences
from ktc.agent.build import Builder
from ktc.agent.planner import Proposal
from ktc.cli.optimizing_sequence import compared
from ktc.ir.fact_origins import unvouched_pairs
from ktc.ir.interp import run
from ktc.ir.workload import Workload
from ktc.launches_apart import launch_folders
from ktc.search.bounds.workload_work import work_of
from ktc.search.records.recipe_sources import gathered
from ktc.search.verification import twin, verify
from tests.devices import working
from tests.passes.launches.sequence_sources import elementwise, rows, workload

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def accepted(fused: ktc.Program) -> bool:
    """Whether a fused kernel does what the launches do, in exact arithmetic and without a race."""
    assert fused.original is not None and fused.workload is not None
    return verify(fused.original, fused.kernel, fused.workload, count=4, layers=("verifier", "static", "exact")).ok


def program(work: Workload) -> ktc.Program:
    return ktc.load(str(work.path))


def test_the_command_prints_one_verified_kernel_and_writes_what_a_search_goes_on_from(
    ktc_run: Run, tmp_path: Path
) -> None:
    work = elementwise(tmp_path)
    done = ktc_run("fuse", str(work.path), "-o", "fused")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("__global__") == 1 and "temporary" not in done.stdout
    assert "TESTED against the launches as they are" in done.stderr and "next: ktc optimize fused" in done.stderr
    folder = ktc.load(str(tmp_path / "fused"))
    assert folder.kernel.is_sequence and folder.workload is not None and not folder.workload.launches
    script = (tmp_path / "fused" / fused_sequences.SCRIPT).read_text()
    about, _, text = folder.apply(script).lower("cuda").text.partition("\n")
    assert "from launches.ktir" in about and done.stdout.endswith(text)


def test_what_cannot_be_fused_says_why_and_what_may_help(ktc_run: Run, tmp_path: Path) -> None:
    one = ktc_run("fuse", "saxpy")
    assert one.returncode == 1 and "E-FUSE-ONE" in one.stderr and "[sequence]" in one.stderr
    with pytest.raises(ktc.KtcError) as e:
        fused_sequences.fuse(_apart(tmp_path))
    assert e.value.code == "E-FUSE-NONE" and "stay apart" in e.value.message and "--beside" in e.value.hint


THREE = """\
#include <cuda_runtime.h>
__global__ void add_bias(float* y, const float* x, const float* b, int n, int c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * c) y[i] = x[i] + b[i % c];
}
__global__ void square(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
__global__ void add(float* y, const float* x, const float* r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + r[i];
}
void tail(float* out, const float* x, const float* b, const float* r, int n, int c) {
  float *t, *u;
  cudaMalloc(&t, n * c * sizeof(float));
  cudaMalloc(&u, n * c * sizeof(float));
  add_bias<<<(n * c + 255) / 256, 256>>>(t, x, b, n, c);
  square<<<(n * c + 255) / 256, 256>>>(u, t, n * c);
  add<<<(n * c + 255) / 256, 256>>>(out, u, r, n * c);
  cudaFree(t);
  cudaFree(u);
}
"""


def test_that_no_memory_overlaps_is_tested_where_nobody_promises_it(ktc_run: Run, tmp_path: Path) -> None:
    """Temporaries are the function's own; whether its results overlap what it reads, its callers know."""
    (tmp_path / "three.cu").write_text(THREE)
    assert ktc_run("init", "three.cu", "--function", "tail").returncode == 0
    found = fused_sequences.fuse(ktc.load(str(tmp_path / "tail.toml")))
    assert not found.program.kernel.is_sequence and not found.hint
    pairs = {(p.sym.name, q.sym.name) for p, q in unvouched_pairs(found.program.kernel)}
    assert pairs == {("x", "out"), ("b", "out"), ("out", "r")}
    text = ktc_run("lower", "tail.toml", "-p", found.program.script, "--emit", "launcher").stdout
    assert "reinterpret_cast<intptr_t>(out) + (long long)c * n * 4 <= reinterpret_cast<intptr_t>(r)" in text
    assert "add_original<<<" in text, "and where they overlap, the launches run as they were"


GATHERING = THREE.replace("const float* r, int n)", "const float* r, const int* pick, int n)").replace(
    "const float* r, int n, int c)", "const float* r, const int* pick, int n, int c)"
).replace("+ r[i]", "+ r[pick[i]]").replace("(out, u, r, n * c)", "(out, u, r, pick, n * c)")  # fmt: skip


def test_where_some_launches_are_one_it_is_said_what_would_let_more_be(ktc_run: Run, tmp_path: Path) -> None:
    """What is read of ``r`` stands in memory: no launcher can test that it is none of what is written."""
    (tmp_path / "three.cu").write_text(GATHERING)
    done = ktc_run("fuse", "three.cu", "--function", "tail", "--no-verify")
    assert done.returncode == 0 and "stay apart" in done.stderr, done.stderr
    assert "take noalias of" in done.stderr and "tail.toml" in done.stderr
    sheet = tmp_path / "tail.toml"
    sheet.write_text(sheet.read_text().replace('"noalias", ', ""))
    done = ktc_run("fuse", "tail.toml", "--no-verify")
    assert done.returncode == 0 and "stay apart" not in done.stderr and done.stdout.count("__global__") == 1
    assert "take noalias of" not in done.stderr


def _apart(folder: Path) -> ktc.Program:
    """Two launches over ranges that have nothing in common."""
    args = ["x f32 n in apart", "y f32 n out apart", "u f32 m in apart", "z f32 m out apart"]
    steps = [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), ("neighbours", {"y": "u", "n": "m"}, "cdiv(m, 64)", "64")]
    return program(workload(folder, args, steps, "n = 200, m = 300"))


def test_launches_that_share_nothing_may_share_a_grid(tmp_path: Path) -> None:
    found = fused_sequences.fuse(_apart(tmp_path), beside=True)
    assert not found.program.kernel.is_sequence and not found.why_apart()
    assert "side-by-side{first=scale second=neighbours} | raise" in str(found.fusion.script)
    assert accepted(found.program)


def test_serial_loops_become_parallel_where_that_lets_launches_join(tmp_path: Path) -> None:
    """A thread goes through a row by itself in the first launch; the second has a block a row."""
    kernels = """
__global__ void centre(float* y, const float* x, int rows, int d) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float top = -1e30f;
  for (int i = 0; i < d; ++i) top = fmaxf(top, x[r * d + i]);
  for (int i = 0; i < d; ++i) y[r * d + i] = x[r * d + i] - top;
}
__global__ void halve(float* z, const float* y, int rows, int d) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int i = 0; i < d; ++i) z[r * d + i] = y[r * d + i] * 0.5f;
}
"""
    args = ["x f32 rows,d in apart", "y f32 rows,d temp", "z f32 rows,d out apart"]
    steps = [("centre", {}, "cdiv(rows, 64)", "64"), ("halve", {}, "cdiv(rows, 64)", "64")]
    found = fused_sequences.fuse(program(workload(tmp_path, args, steps, "rows = 70, d = 30", kernels)))
    assert not found.program.kernel.is_sequence
    assert accepted(found.program)


def test_the_launcher_runs_the_launches_where_an_assumption_fails(tmp_path: Path) -> None:
    from ktc import emission

    fused = program(rows(tmp_path)).apply("raise | fuse-launches | contract{array=y where=shared}").ok
    text = emission.emit(fused, "cuda", "launcher", {}, None).text
    fallback = text[text.index("if (!applies)") :]
    assert "sizeof(float) * max((long long)rows * d, 1LL)" in fallback, "no memory is asked for nothing"
    steps = (
        "cudaMallocAsync",
        "if (rows > 0) {",
        "normalise_rows_original<<<",
        "scale_rows_original<<<",
        "cudaFreeAsync",
    )
    order = [fallback.index(s) for s in steps]
    assert order == sorted(order)
    with pytest.raises(ktc.KtcError, match="runs one kernel"):
        emission.emit(fused, "cuda", "launcher-cupy", {}, None)


@pytest.mark.parametrize("device", ["numba", "opencl"])
def test_devices_run_sequences_launch_by_launch(tmp_path: Path, device: str) -> None:
    runtime = working(device)
    work = elementwise(tmp_path, second="neighbours")
    p = program(work)
    inputs = work.make_inputs({"n": 300})
    want = run(p.kernel, inputs).outputs["z"]
    for made in (p, p.apply("raise | fuse-launches").ok):
        exe = runtime.compile(made.lower(runtime.device.profile))
        args = {n: runtime.to_device(v) if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
        exe.launch(args)
        runtime.synchronize()
        np.testing.assert_array_equal(runtime.to_host(args["z"], want), want)
        assert runtime.time(exe, [args], budget_s=0.01).median >= 0


def test_scripts_of_a_search_begin_with_the_fusion(tmp_path: Path) -> None:
    builder = Builder(program(rows(tmp_path)).kernel)
    start = "raise | fuse-launches{first=normalise_rows second=scale_rows} | contract{array=y where=shared}"
    assert builder.start == start
    spread = " | distribute{loop=i.* map=[thread.x 64, unroll 2]}"
    kept, plain = builder.variants(Proposal("raise" + spread, ""))
    assert plain.script == start + spread and kept.script == plain.script + " | contract{array=y_row where=registers}"
    asked = Proposal("raise", "", whole=True)
    assert builder.whole(asked) is asked and builder.whole(Proposal("", "")).script == ""


def test_the_least_work_of_a_sequence_is_without_its_temporaries(tmp_path: Path) -> None:
    work = elementwise(tmp_path)
    found = work_of(work, {"n": 1024}, program(work).kernel)
    assert (found.bytes_in, found.bytes_out) == (4096, 4096)


def test_each_launch_is_a_workload_of_its_own(tmp_path: Path) -> None:
    made = launch_folders(program(rows(tmp_path)), tmp_path / "apart")
    assert [name for name, _ in made] == ["normalise_rows", "scale_rows"]
    roles = [{a.name: a.role for a in Workload.load(folder).args if a.role != "scalar"} for _, folder in made]
    assert roles == [{"x": "in", "y": "out"}, {"y": "in", "top": "out", "q": "out"}]
    assert all(ktc.load(str(folder)).apply("raise").refused is None for _, folder in made)


def test_both_ways_are_compared_by_scenario() -> None:
    def report(**seconds: float) -> Any:
        timed = [SimpleNamespace(name=n, before=SimpleNamespace(median=9.0), after=SimpleNamespace(median=s))
                 for n, s in seconds.items()]  # fmt: skip
        return cast(Any, SimpleNamespace(scenarios=timed))

    whole, first, second = report(a=5.0, b=9.5), report(a=2.0, b=4.0), report(a=4.0)
    found = {w.scenario: w for w in compared(whole, [first, second])}
    assert (found["a"].apart, found["a"].best) == (6.0, "fused")
    assert (found["b"].apart, found["b"].best) == (None, "as they are")
    assert compared(whole, [report(a=1.0), second])[0].best == "fused"
    assert compared(whole, [report(a=1.0), report(a=2.0)])[0].best == "launches tuned apart"


def test_a_recipe_takes_the_sources_of_all_launches_along(tmp_path: Path) -> None:
    work = elementwise(tmp_path)
    assert set(gathered(work, None).files) == {"kernels.cu", "workload.toml"}


def test_sequences_have_twins(tmp_path: Path) -> None:
    k = program(elementwise(tmp_path)).kernel
    assert [p.sym.type.elem.name for p in twin(k).params if p.sym.name == "y"] == ["u64"]  # type: ignore[union-attr]


def test_json(ktc_run: Run, tmp_path: Path) -> None:
    done = ktc_run("fuse", str(elementwise(tmp_path).path), "--no-verify", "--json")
    found = json.loads(done.stdout)
    assert found["script"].startswith("raise | fuse-launches") and found["apart"] == [] and found["verdict"] is None
