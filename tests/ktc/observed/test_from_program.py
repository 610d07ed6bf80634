"""Workloads from captures and profiles: sizes, launches, contents and weights are those that ran."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from ktc.__main__ import main
from ktc.ir.diagnostics import KtcError
from ktc.ir.fact_origins import facts_of
from ktc.ir.workload import Workload
from ktc.ir.workload.size_expressions import evaluate
from ktc.observed.from_program import write_workload
from ktc.observed.launch_records import KernelRecord, ProgramRecord, Record, loaded
from ktc.observed.observed_calls import ObservedBuffer
from ktc.profiling.kernel_sources import SourceTree
from ktc.profiling.profile_format import Geometry
from ktc.scaffold.windows import names_in
from ktc.search.verification.defects import check_original

ROWS = """
template <typename T>
__global__ void scale_rows(T *out, const T *in, const T *bias, int rows, int cols, int mode, float factor) {
  int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) {
    T b = bias ? bias[col] : T(0);
    out[row * cols + col] = mode == 1 ? in[row * cols + col] * factor + b : in[row * cols + col] + b;
  }
}
"""
HOST = """
void run(float *out, float *in, float *bias, int rows, int cols, int mode, float f) {
  scale_rows<float><<<dim3((cols + 127) / 128, rows), 128>>>(out, in, bias, rows, cols, mode, f);
}
"""
NAME = "void scale_rows<float>(float*, float const*, float const*, int, int, int, float)"
PARAMETERS = ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4))


def packed(pointers: tuple[int, int, int], *ints: int, factor: float = 0.5) -> bytes:
    return np.array(pointers, np.uint64).tobytes() + np.int32(ints).tobytes() + np.float32(factor).tobytes()


def record(
    rows: int,
    cols: int,
    mode: int = 1,
    bias: int = 0x30000,
    seconds: float = 1.0,
    grid=None,
    room: int = 1 << 20,
    **more,
) -> Record:
    buffers = {
        0: ObservedBuffer(0x10000, 0x10000, room),
        8: ObservedBuffer(0x20000, 0x20000, room, more.get("content")),
    }
    buffers |= {16: ObservedBuffer(bias, bias, 4 * cols)} if bias else {}
    arguments = packed((0x10000, 0x20000, bias), rows, cols, mode)
    return Record(Geometry(grid or (-(-cols // 128), rows, 1), (128, 1, 1)), arguments, buffers, 10, seconds)


def drafted(tmp_path: Path, *records: Record, source: str = ROWS + HOST) -> tuple[Workload, dict, tuple[str, ...]]:
    (tmp_path / "rows.cu").write_text(source)
    k = KernelRecord(NAME, "scale_rows", PARAMETERS, records, alignments={0: 256, 8: 4, 16: 16})
    program = ProgramRecord(tmp_path, ("./prog",), "ktc profile", (k,))
    made = write_workload(program, k, SourceTree([str(tmp_path)]), tmp_path / "w.toml")
    return Workload.load(made.path), tomllib.loads(made.path.read_text()), made.todo


def test_shapes_become_scenarios_with_the_share_of_their_time(tmp_path):
    w, doc, _ = drafted(tmp_path, record(64, 1000, seconds=3), record(32, 512, seconds=1))
    assert w.template() == {"T": "float"} and w.launch is None, "the source's launch gives what was seen"
    first, second, *rest = w.scenarios
    assert (first.sizes["rows"], first.sizes["cols"], first.weight) == (64, 1000, 0.75)
    assert (second.sizes["rows"], second.sizes["cols"], second.weight) == (32, 512, 0.25)
    assert all(s.weight == 0 for s in rest)
    args = {a["name"]: a for a in doc["args"]}
    assert args["factor"]["value"] == 0.5 and args["mode"]["value"] == 1
    assert [s.replace(" ", "") for s in args["out"]["shape"]] == ["rows", "cols"]


def test_what_was_seen_is_observed_and_promised_by_nobody(tmp_path):
    w, doc, _ = drafted(tmp_path, record(64, 1000))
    args = {a["name"]: a for a in doc["args"]}
    assert args["in"]["align"] == 4 and "align" in args["in"]["observed"]
    assert args["out"]["align"] == 16, "more than the widest access needs says nothing"
    assert args["out"]["noalias"] is True and "noalias" in args["out"]["observed"]
    origins = {(f.sym.name, f.kind): f.origin for f in facts_of(w.load_kernel()) if f.kind in ("align", "noalias")}
    assert origins[("in", "align")] == origins[("out", "align")] == "observed"
    assert origins[("out", "noalias")] == "observed"


def test_the_same_memory_twice_is_no_noalias(tmp_path):
    same = record(8, 256)
    together = Record(
        same.geometry, packed((0x10000, 0x10000, 0), 8, 256, 1), {0: same.pointers[0], 8: same.pointers[0]}
    )
    _, doc, todo = drafted(tmp_path, same, together)
    args = {a["name"]: a for a in doc["args"]}
    assert "noalias" not in args["out"] and any("out and in were the same memory" in t for t in todo)


def test_scalars_that_differ_between_calls_are_sizes_and_missing_buffers_have_a_condition(tmp_path):
    w, doc, _ = drafted(tmp_path, record(64, 256, mode=1), record(64, 256, mode=7, bias=0))
    args = {a["name"]: a for a in doc["args"]}
    assert args["mode"]["value"] == "mode" and [s.sizes["mode"] for s in w.scenarios[:2]] == [1, 7]
    bias = w.arg("bias")
    assert [bias.is_null(s.sizes) for s in w.scenarios[:2]] == [False, True]


def test_a_launch_that_the_source_does_not_show_is_as_it_was(tmp_path):
    w, _, _ = drafted(tmp_path, record(64, 1000), record(32, 512), source=ROWS)
    assert w.launch is not None
    (tmp_path / "b").mkdir()
    other = [record(64, 1000, grid=(9, 64, 1)), record(32, 512, grid=(5, 32, 1))]
    strange, _, _ = drafted(tmp_path / "b", *other)
    for found, grids in ((w, [(8, 64), (4, 32)]), (strange, [(9, 64), (5, 32)])):
        assert found.launch is not None
        for s, grid in zip(found.scenarios, grids):
            got = [evaluate(x, s.sizes) for x in (*found.launch.grid, *found.launch.block)]
            assert got == [*grid, 1, 128, 1, 1]
        assert {n for x in found.launch.grid for n in names_in(x)} <= {a.name for a in found.args}


def test_a_drafted_shape_that_is_larger_than_what_was_passed_is_the_allocation(tmp_path):
    w, doc, todo = drafted(tmp_path, record(64, 1000, room=4096))
    args = {a["name"]: a for a in doc["args"]}
    assert args["out"]["shape"] == ["out_elements"] and w.scenarios[0].sizes["out_elements"] == 1024
    assert any(t.startswith("out: the drafted shape") for t in todo)


TRIANGLE = """
#define BLOCK 32
__global__ void triangle(float *x, int n, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < n - first && k <= i) x[(i + first) * n + k + first] *= 2.0f;
}
void run(float *x, int n, int first) {
  dim3 grid((n + BLOCK - 1) / BLOCK, (n + BLOCK - 1) / BLOCK), block(BLOCK, BLOCK);
  triangle<<<grid, block>>>(x, n, first);
}
"""


@pytest.mark.parametrize("block", [32, 8], ids=["as in the source", "built with another block"])
def test_allocations_say_what_reaches_do_not(tmp_path, block):
    """No run of a corner of a matrix shows how large it is; the allocation does."""
    (tmp_path / "t.cu").write_text(TRIANGLE)
    records = tuple(
        Record(Geometry((-(-n // block), -(-n // block), 1), (block, block, 1)),
               np.uint64(0x1000).tobytes() + np.int32([n, 3]).tobytes(), {0: ObservedBuffer(0x1000, 0x1000, 4 * n * n)})
        for n in (96, 64)
    )  # fmt: skip
    k = KernelRecord("triangle(float*, int, int)", "t", ((0, 8), (8, 4), (12, 4)), records)
    program = ProgramRecord(tmp_path, ("./prog",), "ktc profile", (k,))
    made = write_workload(program, k, SourceTree([str(tmp_path)]), tmp_path / "w.toml")
    w = Workload.load(made.path)
    assert w.arg("x").shape == ("n", "n") and [s.sizes["n"] for s in w.scenarios[:2]] == [96, 64]
    assert (w.launch is None) == (block == 32)
    for s, r in zip(w.scenarios, records) if w.launch is not None else ():
        got = tuple(evaluate(x, {**w.scalars(s.sizes), **s.sizes}) for x in (*w.launch.grid, *w.launch.block))
        assert got == (*r.geometry.grid, *r.geometry.block)
    assert not any("CHECK" in line for line in made.path.read_text().splitlines() if line.startswith(("name", "shape")))


def test_contents_that_were_recorded_are_drawn_alike(tmp_path):
    content = np.linspace(0.25, 3, 64 * 128, dtype=np.float32)
    _, doc, _ = drafted(tmp_path, record(64, 128, content=content.view(np.uint8)))
    args = {a["name"]: a for a in doc["args"]}
    assert (args["in"]["init"], args["in"]["range"]) == ("uniform", [0.25, 3.0])
    assert "range" in args["in"]["observed"]
    assert "8192 elements, 0.25 to 3" in (tmp_path / "w.toml").read_text()


def test_a_kernel_without_source_is_said(tmp_path):
    (tmp_path / "other.cu").write_text("__global__ void other(float *x) { x[0] = 1; }")
    k = KernelRecord(NAME, "scale_rows", PARAMETERS, (record(4, 4),))
    program = ProgramRecord(tmp_path, ("./prog",), "ktc profile", (k,))
    with pytest.raises(KtcError, match="no source has the kernel") as e:
        write_workload(program, k, SourceTree([str(tmp_path)]), tmp_path / "w.toml")
    assert "--source" in e.value.hint
    with pytest.raises(KtcError, match="neither a profile nor a capture"):
        loaded(tmp_path)


PROFILE = {
    "pid": 1, "program": "/p", "complete": True, "clock": "cupti", "why": "", "device": "NVIDIA H100", "seconds": 1.0,
    "before": 0.1, "launching": 0.9, "span": 0.9, "busy": 0.8, "copies": 0, "copied_bytes": 0, "copy_seconds": 0,
    "graphs": 0, "lost": 0, "graph": {"timed": 0, "seconds": 0, "least": 0, "most": 0, "times": []}, "strays": [],
}  # fmt: skip


def _function(kernel: str, seconds: float) -> dict:
    row = {
        "grid": [8, 64, 1], "block": [128, 1, 1], "shared": 0, "cluster": [1, 1, 1], "cooperative": False,
        "launches": 10, "captured": 0, "others": False, "arguments": packed((4096, 8192, 0), 64, 1000, 1).hex(),
        "pointers": [[0, 4096, 4096, 1 << 20], [8, 8192, 8192, 1 << 20]], "timed": 10, "seconds": seconds,
        "least": 0.01, "most": 0.1, "times": [seconds / 10],
    }  # fmt: skip
    return {"symbol": kernel, "kernel": kernel, "image": "/p", "launches": 10, "sized": True, "rows": [row],
            "parameters": PARAMETERS, "alignments": [[0, 4096], [8, 8192]], "equal": []}  # fmt: skip


def test_the_command_writes_a_file_for_each_kernel_that_is_worth_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/rows.cuh").write_text(ROWS)
    Path("src/main.cu").write_text('#include "rows.cuh"\n' + HOST)
    small = NAME.replace("scale_rows<float>", "small_rows<float>")
    Path("p").mkdir()
    Path("p/profile.json").write_text(json.dumps({"command": ["./prog"], "status": 0, "seconds": 1.0}))
    functions = [_function(NAME, 0.5), _function(small, 0.001), _function("library()", 0.2)]
    Path("p/profile.1.json").write_text(json.dumps({**PROFILE, "functions": functions}))
    assert main(["init", "--from", "p", "--source", "src"]) == 0
    err = capsys.readouterr().err
    assert "left out: 1 kernels that cannot make the program 1.01x as fast: small_rows<float>" in err
    assert "no workload: library(): no source has the kernel" in err
    w = Workload.load("ktc-out/scale_rows")
    assert w.source.name == "main.cu" and w.scenarios[0].sizes["cols"] == 1000
    assert w.load_kernel().launch is not None
    assert main(["init", "--from", "p", "--source", "src"]) == 2 and "exists" in capsys.readouterr().err
    assert main(["init", "--from", "p"]) == 2 and "--source DIR" in capsys.readouterr().err
    assert main(["init", "--from", "p", "--source", "src", "--kernel", "nothing"]) == 2
    assert main(["init"]) == 2


RELAX = """
__global__ void relax(unsigned *__restrict__ dist, unsigned *__restrict__ via, const unsigned n, const unsigned pass) {
  int x = threadIdx.x + blockIdx.x * blockDim.x, y = threadIdx.y + blockIdx.y * blockDim.y;
  int k = pass, old = dist[y * n + x], by = dist[y * n + k] + dist[k * n + x];
  if (by < old) { dist[y * n + x] = by; via[y * n + x] = k; }
}
void shape(unsigned *grid, unsigned n);
void run(unsigned *d, unsigned *v, unsigned n) {
  unsigned g[2];
  shape(g, n);
  dim3 grid(g[0] / 16, g[1] / 16), block(16, 16);
  for (unsigned k = 0; k < n; ++k) relax<<<grid, block>>>(d, v, n, k);
}
"""


def test_sizes_that_only_a_guessed_launch_was_made_of_are_none(tmp_path):
    """The grid that ran is a formula of what was passed; a buffer that probes hardly touched is its allocation."""
    (tmp_path / "relax.cu").write_text(RELAX)
    buffers = {o: ObservedBuffer(0x100000 * (o + 1), 0x100000 * (o + 1), 1 << 16) for o in (0, 8)}
    arguments = np.array([b.address for b in buffers.values()], np.uint64).tobytes() + np.uint32([128, 13]).tobytes()
    one = Record(Geometry((8, 8, 1), (16, 16, 1)), arguments, buffers, 10, 1.0)
    name = "relax(unsigned int*, unsigned int*, unsigned int, unsigned int)"
    k = KernelRecord(name, "relax", ((0, 8), (8, 8), (16, 4), (20, 4)), (one,))
    program = ProgramRecord(tmp_path, ("./prog",), "ktc profile", (k,))
    made = write_workload(program, k, SourceTree([str(tmp_path)]), tmp_path / "w.toml")
    doc = tomllib.loads(made.path.read_text())
    shapes = {a["name"]: a["shape"] for a in doc["args"] if "shape" in a}
    assert not any("blocks" in str(s["sizes"]) for s in doc["scenario"]), doc["scenario"]
    assert shapes["dist"] == shapes["via"] == ["n", "n"]
    assert not [t for t in made.todo if "out-of-bounds" in t]
    assert doc["launch"]["grid"][:2] == ["n / 16"] * 2, "nothing keeps threads beyond n from their work"
    w = Workload.load(made.path)
    assert not check_original(w.load_kernel(), w, None, 0)


def test_what_a_kernel_is_given_has_the_sources_strides(tmp_path):
    source = """
#define STRIDE 4096
__global__ void columns(const float *a, float *s, int nx, int ny) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < ny) { s[j] = 0; for (int i = 0; i < nx; i++) s[j] += a[i * STRIDE + j]; }
}
"""
    (tmp_path / "columns.cu").write_text(source)
    buffers = {0: ObservedBuffer(1 << 30, 1 << 30, 4 << 24), 8: ObservedBuffer(1 << 20, 1 << 20, 4 << 12)}
    arguments = np.array([1 << 30, 1 << 20], np.uint64).tobytes() + np.int32([4096, 4096]).tobytes()
    one = Record(Geometry((16, 1, 1), (256, 1, 1)), arguments, buffers, 1, 1.0)
    k = KernelRecord("columns(float const*, float*, int, int)", "columns", ((0, 8), (8, 8), (16, 4), (20, 4)), (one,))
    made = write_workload(ProgramRecord(tmp_path, ("./p",), "ktc profile", (k,)), k, SourceTree([str(tmp_path)]),
                          tmp_path / "w.toml")  # fmt: skip
    assert not [t for t in made.todo if "out-of-bounds" in t], made.todo


def test_a_workload_goes_to_a_folder_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(ROWS + HOST)
    assert main(["init", "k.cu", "-o", "out"]) == 0 and Path("out/workload.toml").is_file()
    assert main(["init", "k.cu", "-o", "rows.toml"]) == 0 and Path("rows.toml").is_file()
