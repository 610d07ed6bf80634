"""The readers of labelled suites on tiny suites of the same conventions: what is caught, missed, alarmed, left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.frontend import load

from . import faial, gpuverify, indigo, oclgrind
from .arguments import candidates
from .bodiless import bodiless, with_bodies
from .execute import execute
from .report import summary

FAILS, PASSES = "//xfail:NOT_ALL_VERIFIED", "//pass"
RACE = "//possible write-write race on p"
SMALL, FOUR = "//--local_size=8 --num_groups=2", "//--local_size=64 --num_groups=4"

GPUVERIFY = {
    "race.cl": ("caught", FAILS, FOUR, RACE, "kernel void k(global int *p) { p[0] = get_local_id(0); }"),
    "mislabelled.cl": ("missed", FAILS, FOUR, RACE, "kernel void k(global int *p) { p[get_global_id(0)] = 1; }"),
    "needs_a_value.cu": (
        "caught", FAILS, "//--blockDim=256 --gridDim=1",
        "__global__ void k(int *p, int x) { __requires(x > 0); __requires(x < 1000);",
        "  if (threadIdx.x == 15) p[15 + x] = 1;",
        "  if (threadIdx.x == 200) p[200] = 2;",
        "}",
    ),
    "assertion.cl": ("caught", FAILS, SMALL, "kernel void k(int x) { __assert(x != 77); }"),
    "bounds.cl": (
        "caught", FAILS, SMALL + " --check-array-bounds", "//possible array out-of-bounds access on array L",
        "kernel void k(global int *p) {",
        "  local int L[8]; L[get_global_id(0)] = 1; p[get_global_id(0) * 999] = 1;",
        "}",
    ),
    "null.cl": (
        "caught", FAILS, SMALL, "//possible null pointer access",
        "kernel void k(global int *p) { global int *q = 0; q[get_global_id(0)] = 1; }",
    ),
    "adversarial.cl": (
        "outside", FAILS, SMALL + " --adversarial-abstraction", RACE,
        "kernel void k(global int *p, int i) { p[0] = p[i]; }",
    ),
    "divergence.cl": (
        "caught", FAILS, SMALL, "//barrier may be reached by",
        "kernel void k(global int *p) { if (p[get_global_id(0)]) barrier(CLK_LOCAL_MEM_FENCE); }",
    ),
    "breaks_a_callees_requirement.cl": (
        "caught", FAILS, SMALL,
        "void f(int y) {",
        "  __requires(y < 6);",
        "}",
        "kernel void k() { f(get_local_id(0)); }",
    ),
    "meets_its_requirements.cl": (
        "clean", PASSES, FOUR,
        "kernel void k(global int *p, int stride) {",
        "  __requires(stride == 1);",
        "  p[get_global_id(0) * stride] = 0;",
        "}",
    ),
    "false_alarm.cl": ("false-alarm", PASSES, FOUR, "kernel void k(global int *p) { p[0] = get_global_id(0); }"),
    "same_value.cl": ("clean", PASSES, FOUR, "kernel void k(global int *p) { p[0] = 3; }"),
    "a_proof.cl": ("outside", FAILS, FOUR, "kernel void k() { for (int i = 0; __invariant(i < 5), i < 9; i++) ; }"),
    "ghost.cl": ("outside", PASSES, FOUR, "kernel void k(global int *p) { __assert(!__write(p)); }"),
    "bodiless.cl": (
        "clean", PASSES, FOUR, "int f(int);", "kernel void k(global int *p) { p[get_global_id(0)] = f(1); }",
    ),
    "bodiless_fails.cl": (
        "caught", FAILS, FOUR, "int f(int);", "kernel void k(global int *p) { __assert(f(get_local_id(0)) > 0); }",
    ),
    "bodiless_record.cl": (
        "unsupported", PASSES, FOUR, "typedef struct { int a; } S;", "S f(int);",
        "kernel void k(global int *p) { p[get_global_id(0)] = f(1).a; }",
    ),
}  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name, (_, *lines) in GPUVERIFY.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def results(reader, root: Path) -> dict[str, str]:
    return {c.name: execute(reader, c, 20.0).result for c in reader.cases(str(root))}


def test_gpuverify_labels(suite: Path) -> None:
    assert results(gpuverify, suite) == {name: result for name, (result, *_) in GPUVERIFY.items()}


INDIGO = """
__global__ void test_kernel(int* nindex, int* nlist, int* data1, int* data2, int numv) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (GUARD) {
    for (int j = nindex[i]; j < nindex[i + 1]; j++) UPDATE;
  }
}
"""


@pytest.mark.parametrize(
    "name, guard, update, result",
    [
        ("sum", "i < numv", "atomicAdd(data1, data2[nlist[j]])", "clean"),
        ("sum_atomicBug", "i < numv", "data1[0] += data2[nlist[j]]", "caught"),
        ("sum_boundsBug", "i <= numv", "atomicAdd(data1, data2[nlist[j]])", "caught"),
        ("sum_guardBug", "i < numv", "atomicAdd(data1, data2[nlist[j]])", "missed"),
        ("sum2", "i < numv", "data1[nlist[j]] = i", "false-alarm"),
    ],
)
def test_indigo_names(tmp_path: Path, name: str, guard: str, update: str, result: str) -> None:
    (tmp_path / f"{name}.cu").write_text(INDIGO.replace("GUARD", guard).replace("UPDATE", update))
    assert results(indigo, tmp_path) == {f"{name}.cu": result}


def test_oclgrind_simulations(tmp_path: Path) -> None:
    (tmp_path / "a.cl").write_text("kernel void k(global int *p, local int *s, int4 v) { p[get_global_id(0)] = v.w; }")
    sim = "a.cl\nk\n4 1 1\n2 1 1\n\n<size=SIZE fill=0 dump>\n<size=16>\n<size=16 int range=1:1:4>\n"
    for name, size, ref in (("ok", "16", ""), ("small", "12", "ERROR Invalid write of size 4 at global memory")):
        (tmp_path / f"{name}.sim").write_text(sim.replace("SIZE", size))
        (tmp_path / f"{name}.ref").write_text(ref)
    assert results(oclgrind, tmp_path) == {"ok.sim": "clean", "small.sim": "caught"}


def test_numbers_come_from_the_source_and_the_launch() -> None:
    found = candidates("int x = 0x20; // 999\n if (n == 185) f(200);", (256,))
    assert {32, 185, 200, 256, 255, 257, 15} <= set(found) and 999 not in found


def test_the_summary_counts_by_kind_and_reason(suite: Path) -> None:
    text = summary([execute(gpuverify, c, 20.0) for c in gpuverify.cases(str(suite))])
    assert "recall 8/9 (88.9 %), false alarms 1/4 (25.0 %)" in text
    for line in ("race: 1/2", "unstated: 4/4", "outside: 1 an obligation of the proof", "unsupported: 1 E-SEMA-BODY"):
        assert line in text


def test_the_shim_is_read_by_the_front_end() -> None:
    text = '#include "gpuverify.h"\n__global__ void k(int *p, int n) { __requires(n > 0); p[0] = n; }'
    assert load(text, name="k.cu", include_dirs=(str(gpuverify.SHIM.parent),)).name == "k"


def test_functions_without_a_body_get_one_a_seed() -> None:
    text = (
        "int any(int x, int *p);\nfloat twice(float);\nfloat twice(float y) { return 2 * y; }\n"
        "void gone();\nint2 v(uint3);"
    )
    assert bodiless(text) == ["any", "gone", "v"]
    zero, two = (with_bodies(text, seed) for seed in (0, 2))
    assert "int any(int x, int *p) { return (int)((0 + 0 * (int)x) & 0); }" in zero
    assert "(6 + 2 * (int)x) & 5" in two and "float twice(float);" in two and "void gone() {  }" in two
    assert "int2 v(uint3 ktc_0) { return (int2)((6) & 5); }" in two
    assert zero.count("\n") == text.count("\n")


FAIAL = {
    "safe.cu": ("y[i] = 2 * y[i];", "[], 0", "clean"),
    "racy.cu": ("y[i] = y[i + 1];", "[], 1", "caught"),
    "one_block.cu": ("y[threadIdx.x] = i;", "[], 0", "clean"),
    "all_blocks.cu": ("y[threadIdx.x] = i;", '["--grid-level"], 1', "caught"),
    "guarded.cu": ("__requires(n == 0); y[i] = y[i + n];", "[], 0", "clean"),
    "defined.cu": ("y[i] = y[i + SHIFT];", '["-DSHIFT=1"], 1', "caught"),
    "unreadable.cu": ("y[i] = ;", "[], 2", "outside"),
    "file_scope.cu": ("if (i < n) s[i] = y[i] + s[i + 1];", "[], 1", "caught"),
    "launched_bytes.cu": ("extern __shared__ int d[]; if (i < n) d[i] = y[i] + d[i + 1];", "[], 1", "caught"),
    "enumerators.cu": ("if (i % 2 == 0) y[i + e] = y[i];", "[], 0", "clean"),
    "assumed_block.cu": ("__assume(blockDim.x == 48); y[i] = 2 * y[i];", "[], 0", "clean"),
    "templated.cu": ("y[i] = t + y[i + 1];", "[], 1", "caught"),
    "bodiless.cu": ("y[i] = y[i] + f(i);", "[], 0", "clean"),
}

HEADS = {
    "file_scope.cu": "__shared__ int s[64];\n",
    "bodiless.cu": "__device__ int f(int);\n",
    "templated.cu": "template <typename T> ",
}  # fmt: skip


def test_faial_table(tmp_path: Path) -> None:
    start = "  int i = blockIdx.x * blockDim.x + threadIdx.x;"
    for name, (body, _, _) in FAIAL.items():
        more = {"templated.cu": ", T t", "enumerators.cu": ", E e"}.get(name, "")
        head = f"enum E {{ A, B }};\n{HEADS.get(name, '')}__global__ void k(int *y, int n{more}) {{"
        (tmp_path / name).write_text(f"{head}\n{start}\n  {body}\n}}\n")
    rows = "".join(f'  "{name}", {row};\n' for name, (_, row, _) in FAIAL.items())
    (tmp_path / "test.ml").write_text(f"let tests = [\n{rows}]\n")
    found = {name.split()[0]: result for name, result in results(faial, tmp_path).items()}
    assert found == {name: result for name, (_, _, result) in FAIAL.items()}
