"""Exported packages: complete, without ktc, and right where they can be run here."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ktc.exporting.runs import SILU, SILU_SCRIPT, recipe, silu, timing

Run = Callable[..., subprocess.CompletedProcess[str]]
TARGETS = ("torch", "cupy", "numpy", "pyopencl")
OWN = {"torch": {"torch"}, "cupy": {"cupy", "numpy"}, "numpy": {"numpy", "numba", "llvmlite"},
       "pyopencl": {"pyopencl", "numpy"}}  # fmt: skip


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    silu().save(folder / "recipe.json")
    return folder


def python(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A Python that finds no ktc."""
    code = (
        "import sys, runpy; sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod("
        "lambda name, *_: (_ for _ in ()).throw(ImportError(f'no {name} here')) if name.split('.')[0] == 'ktc' "
        "else None)})()); sys.argv = sys.argv[1:]; sys.path.insert(0, '.'); "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.mark.parametrize("to", TARGETS)
def test_a_package_is_complete_and_needs_no_ktc(run_folder: Path, tmp_path: Path, ktc_run: Run, to: str) -> None:
    done = ktc_run("export", str(run_folder), "--to", to, "-o", "out", "--measured-elsewhere", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    there = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert there == {*said["files"], ".ktc-export"}
    package = tmp_path / "out/silu_and_mul_kernel"
    for file in [*package.glob("*.py"), tmp_path / "out/selftest.py"]:
        tree = ast.parse(file.read_text(), str(file))
        names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        names += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level]
        roots = {n.split(".")[0] for n in names} - sys.stdlib_module_names - {"silu_and_mul_kernel"}
        assert roots <= OWN[to] | {"numpy"}, file
    for code in (package / "kernels").iterdir():
        assert "silu_and_mul_kernel" in code.read_text()
    readme = (tmp_path / "out/README.md").read_text()
    assert "\n1. " in readme and "\n2. " in readme and "\n3. " in readme
    assert "d = 4096, num_tokens = 16 (2.00x)" in readme and "the original near c, h" in readme


SCALE = """
__global__ void scale(float* y, float* total, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { y[i] = a * x[i]; total[i] += y[i]; }
}
void run(float* y, float* total, const float* x, float a, int n) {
  scale<<<(n + 255) / 256, 256>>>(y, total, x, a, n);
}
"""


@pytest.mark.parametrize("to", TARGETS)
def test_docstrings_name_the_parameters_that_there_are(tmp_path: Path, ktc_run: Run, to: str) -> None:
    (tmp_path / "scale.cu").write_text(SCALE)
    assert ktc_run("init", "scale.cu").returncode == 0
    done = ktc_run("export", "scale.cu", "--to", to, "-o", "out")
    assert done.returncode == 0, done.stderr
    tree = ast.parse((tmp_path / "out/scale/__init__.py").read_text())
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    for name, total in (("scale", "copied, and the copy updated"), ("scale_out", "updated in place")):
        text, taken = ast.get_docstring(functions[name]) or "", functions[name].args
        assert re.findall(r"^    (\w+): ", text, re.M) == [a.arg for a in (*taken.args, *taken.kwonlyargs)], name
        assert f"total: f32 [n], {total}" in text


@pytest.mark.parametrize("to", ["source", "cmake", "hip"])
def test_what_runs_is_named_as_it_is_in_the_one_file(run_folder: Path, tmp_path: Path, ktc_run: Run, to: str) -> None:
    done = ktc_run("export", str(run_folder), "--to", to, "-o", "out", "--measured-elsewhere", "--no-check")
    assert done.returncode == 0, done.stderr
    readme = (tmp_path / "out/README.md").read_text()
    texts = "".join(p.read_text() for p in (tmp_path / "out").iterdir() if p.suffix in (".cu", ".cuh", ".hip"))
    named = re.findall(r"^- `(\w+)`: `", readme, re.M)
    assert named and all(f"namespace {name} {{" in texts for name in named), named
    assert "`tuned_0`" in done.stdout and "tuned0" not in done.stdout


@pytest.mark.parametrize(("measured_on", "to"), [("numba", "numpy"), ("cuda-sm90", "torch"), ("opencl", "pyopencl")])
def test_a_run_is_exported_to_what_calls_its_own_language(
    tmp_path: Path, ktc_run: Run, measured_on: str, to: str
) -> None:
    silu(measured_on).save(tmp_path / "recipe.json")
    assert ktc_run("export", str(tmp_path)).returncode == 0
    assert [p.name for p in (tmp_path / "ktc-export").iterdir()] == [f"silu_and_mul_kernel-{to}"]


def test_the_self_test_finds_a_wrong_kernel(run_folder: Path, tmp_path: Path, ktc_run: Run) -> None:
    pytest.importorskip("pyopencl")
    assert ktc_run("export", str(run_folder), "--to", "pyopencl", "-o", "out").returncode == 0
    done = python("selftest.py", cwd=tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\n\d+ comparisons with the original kernel, 0 failed", done.stdout)
    tuned = tmp_path / "out/silu_and_mul_kernel/kernels/tuned1.cl"
    text = tuned.read_text()
    broken = text.replace(" * up", " * up * up")
    assert broken != text
    tuned.write_text(broken)
    done = python("selftest.py", cwd=tmp_path / "out")
    assert done.returncode == 1 and "FAIL" in done.stdout


USE = """
import numpy as np
from silu_and_mul_kernel import exported, kernels, silu_and_mul_kernel, silu_and_mul_kernel_out

def reference(x):
    a, b = np.split(x.astype(np.float64), 2, axis=1)
    return a / (1 + np.exp(-a)) * b

for n, d in ((16, 4096), (7, 111), (0, 64), (3, 1)):
    x = np.random.default_rng(0).standard_normal((n, 2 * d)).astype(np.float16)
    got = silu_and_mul_kernel(x)
    assert got.shape == (n, d) and np.allclose(got, reference(x), rtol=2e-3, atol=2e-3), (n, d)
    out = np.empty((n, d), np.float16)
    silu_and_mul_kernel_out(out, x)
    assert np.array_equal(out, got)
x = np.zeros((16, 8192), np.float16)
for n, d, file in ((16, 4096, "tuned0"), (17, 2048, "original")):
    arrays = {"out": np.empty((n, d), np.float16), "input": np.zeros((n, 2 * d), np.float16)}
    assert kernels.run(arrays, {}).kernel.file.stem == file

def refused(error, said, *args):
    try:
        silu_and_mul_kernel_out(*args)
    except error as e:
        assert said in str(e), e
    else:
        raise AssertionError(said)

good = np.empty((16, 4096), np.float16)
refused(TypeError, "no kernel for out f32".replace("f32", "float32"), good.astype(np.float32), x)
refused(ValueError, "out: shape (16, 4095), expected (16, 4096)", np.empty((16, 4095), np.float16), x)
refused(ValueError, "not C-contiguous", good, np.zeros((8192, 16), np.float16).T)
refused(TypeError, "expected a numpy.ndarray", good, x.tolist())
refused(ValueError, "share memory", x.reshape(-1)[: 16 * 4096].reshape(16, 4096), x)
print("used")
"""


def test_the_callable_runs_and_checks_what_it_is_given(tmp_path: Path, ktc_run: Run) -> None:
    recipe(SILU, {"a": timing({"n": 16, "d": 4096}, SILU_SCRIPT, 2.0, V=4)}).save(tmp_path / "r.json")
    assert ktc_run("export", "r.json", "--to", "numpy", "-o", "out").returncode == 0
    done = python("selftest.py", cwd=tmp_path / "out")
    assert done.returncode == 0 and "0 failed" in done.stdout, done.stdout + done.stderr
    (tmp_path / "out/use.py").write_text(USE)
    done = python("use.py", cwd=tmp_path / "out")
    assert done.returncode == 0 and done.stdout == "used\n", done.stderr


def test_texts_for_cuda_compile(run_folder: Path, tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]) -> None:
    assert ktc_run("export", str(run_folder), "--to", "torch", "-o", "out", "--measured-elsewhere").returncode == 0
    for code in (tmp_path / "out/silu_and_mul_kernel/kernels").glob("*.cu"):
        done = subprocess.run(
            [needs("nvcc"), "-arch=sm_90", "-std=c++17", "-c", str(code), "-o", os.devnull],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


TORCH = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
import silu_and_mul_kernel as package

def reference(x):
    a, b = x.float().chunk(2, 1)
    return (a / (1 + torch.exp(-a)) * b).to(x.dtype)

library = package.operators._library  # what runs on a GPU cannot run here: a stand-in for CPU tensors
library.impl("silu_and_mul_kernel", reference, "CPU")
library.impl("silu_and_mul_kernel_out", lambda out, x: (out.copy_(reference(x)), None)[1], "CPU")
x, out = torch.randn(16, 64).half(), torch.empty(16, 32).half()
ops = torch.ops.silu_and_mul_kernel
for op, args in ((ops.silu_and_mul_kernel, (x,)), (ops.silu_and_mul_kernel_out, (out, x))):
    assert set(torch.library.opcheck(op.default, args).values()) == {"SUCCESS"}
f = torch.compile(lambda x: package.silu_and_mul_kernel(x * 2) + 1, fullgraph=True, backend="aot_eager", dynamic=True)
assert all(torch.equal(f(y), reference(y * 2) + 1) for y in (x, x[:5].clone(), x[:9].clone()))
with FakeTensorMode():
    made = package.silu_and_mul_kernel(torch.empty(4, 128, device="cuda", dtype=torch.half))
    assert made.shape == (4, 64) and made.dtype == torch.half and made.device.type == "cuda"
try:
    package.silu_and_mul_kernel(x.clone().requires_grad_()).sum().backward()
except NotImplementedError as e:
    assert "no backward" in str(e)
else:
    raise AssertionError("a gradient of nothing")
print("used")
"""


def test_operators_are_what_torch_expects(run_folder: Path, tmp_path: Path, ktc_run: Run) -> None:
    pytest.importorskip("torch")
    assert ktc_run("export", str(run_folder), "--to", "torch", "-o", "out", "--measured-elsewhere").returncode == 0
    (tmp_path / "out/use.py").write_text(TORCH)
    done = python("use.py", cwd=tmp_path / "out")
    assert done.returncode == 0 and done.stdout == "used\n", done.stderr


def test_a_kernel_with_a_script_is_exported_without_a_run(tmp_path: Path, ktc_run: Run) -> None:
    script = "raise | distribute{loop=idx map=[vec $V, thread.x $T, seq]}"
    done = ktc_run("export", str(SILU), "--to", "cupy", "-p", script, "--set", "V=4", "--variant", "f32", "-o", "out")
    assert done.returncode == 0 and "not measured" in done.stderr, done.stderr
    data = json.loads((tmp_path / "out/silu_and_mul_kernel/kernel.json").read_text())
    (instance,) = data["instances"]
    assert instance["everywhere"] == 0 and instance["dtypes"]["input"] == "f32"
    assert instance["variants"][0]["knobs"] == {"V": 4, "T": 256}
    done = ktc_run("export", str(SILU), "--to", "cupy", "-o", "plain")
    assert done.returncode == 0 and "runs the original everywhere" in done.stderr


def test_what_a_target_cannot_carry_is_left_out_and_said(tmp_path: Path, ktc_run: Run) -> None:
    folder = SILU.parent.parent / "dense/hgemm"
    script = f"@{folder / 'expert.ktp'}"
    done = ktc_run("export", str(folder), "--to", "cupy", "-p", script, "-o", "out", "--no-verify")
    assert done.returncode == 0 and "left out: raise" in done.stderr and "descriptors of matrices" in done.stderr
    assert not list((tmp_path / "out/hgemm_kernel/kernels").glob("tuned*")), done.stdout


def test_a_folder_of_something_else_is_left_alone(run_folder: Path, tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    done = ktc_run("export", str(run_folder), "--to", "numpy", "-o", "out")
    assert done.returncode == 2 and "E-EXPORT-FOLDER" in done.stderr
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.txt"]
    assert ktc_run("export", str(run_folder), "--to", "numpy", "-o", "new").returncode == 0
    (tmp_path / "new/mine.txt").write_text("mine")
    assert ktc_run("export", str(run_folder), "--to", "torch", "-o", "new", "--measured-elsewhere").returncode == 0
    left = {p.name for p in (tmp_path / "new/silu_and_mul_kernel").iterdir()}
    assert "torch_ops.py" in left and "numpy_call.py" not in left and (tmp_path / "new/mine.txt").exists()


def test_a_package_hides_no_module_of_its_name(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void copy(float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }\n"
        "void go(float* y, const float* x) { copy<<<1, 64>>>(y, x); }\n"
    )
    assert ktc_run("export", "k.cu", "--to", "numpy", "-o", "out").returncode == 0
    (tmp_path / "out/use.py").write_text(
        "import copy, numpy as np, copy_kernel\n"
        "print(copy_kernel.copy(np.arange(64, dtype=np.float32))[copy.copy(7)])\n"
    )
    done = python("use.py", cwd=tmp_path / "out")
    assert done.stdout == "7.0\n", done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere"], "E-FILE"),
        (["RUN", "silu_and_mul"], "is no run"),
        (["RUN", "--template", "T=float"], "says itself"),
        (["silu_and_mul", "--set", "V=8"], "-p SCRIPT"),
        (["silu_and_mul", "-p", "raise | unroll{loop=nothing factor=4}"], "E-PLACE"),
    ],
)
def test_usage(run_folder: Path, ktc_run: Run, args: list[str], said: str) -> None:
    done = ktc_run("export", *(str(run_folder) if a == "RUN" else a for a in args), "--to", "numpy", "-o", "out")
    assert done.returncode in (1, 2) and said in done.stderr, done.stderr


ATOMIC = """
__global__ void total(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&out[0], x[i]);
}
void run(float* out, const float* x, int n) { total<<<(n + 255) / 256, 256>>>(out, x, n); }
"""
ROWS = """
__global__ void add_rows(float* __restrict__ out, const float* __restrict__ x, int rows, int cols) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < cols) {
    float s = 0.f;
    for (int i = 0; i < rows; ++i) s += x[i * cols + j];
    out[j] += s;
  }
}
void run(float* out, const float* x, int rows, int cols) { add_rows<<<(cols + 63) / 64, 64>>>(out, x, rows, cols); }
"""


def test_sums_in_an_order_that_depends_on_timing_are_left_out_if_asked(tmp_path: Path, ktc_run: Run) -> None:
    """What the last block adds up from all blocks' parts has an order; what blocks add by atomics has none."""
    for name, text in (("total", ATOMIC), ("rows", ROWS)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.cu").write_text(text)
        assert ktc_run("init", f"{name}/{name}.cu").returncode == 0
    refused = ktc_run("export", "total/total.cu", "--to", "cupy", "-p", "raise", "--deterministic")
    assert refused.returncode == 2 and "E-EXPORT-ORDER" in refused.stderr and "out" in refused.stderr
    assert ktc_run("export", "total/total.cu", "--to", "cupy", "-p", "raise").returncode == 0
    script = "raise | split-reduction{loop=i map=[thread.y 4, block.y 8, seq]}"
    done = ktc_run("export", "rows/rows.cu", "--to", "cupy", "-p", script, "--deterministic")
    assert done.returncode == 0 and "tuned0.cu" in done.stdout, done.stderr
