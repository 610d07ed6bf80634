"""Exports in C++: the user's file with its launches replaced, and libraries with a function of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.search.records.recipe import Recipe
from tests.ktc.exporting.runs import SILU, SILU_SCRIPT, contested, recipe, silu, timing
from tests.paths import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    for variant in ("", "bf16"):
        silu("cuda", variant).save(folder / f"run{variant}.json")
    return [str(folder / "run.json"), str(folder / "runbf16.json")]


def compiled(nvcc: str, file: Path, *flags: str) -> None:
    command = [nvcc, "-std=c++17", "-gencode", "arch=compute_90,code=sm_90", "-c", str(file), "-o", os.devnull, *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_source_with_its_launch_replaced(runs: list[str], tmp_path: Path, ktc_run: Run) -> None:
    assert ktc_run("export", *runs, "--to", "source", "-o", "out", "--no-check").returncode == 0
    before = (SILU / "kernel.cu").read_text().splitlines()
    after = (tmp_path / "out/kernel.cu").read_text().splitlines()
    removed = [line for line in before if line not in after]
    added = [line for line in after if line not in before]
    assert removed == ["  silu_and_mul_kernel<T><<<grid, block, 0, stream>>>(out, input, d);"]
    space = "silu_and_mul_kernel_tuned"
    ids = ", ".join(f"{space}::id(silu_and_mul_kernel<{t}>)" for t in ("__half", "__nv_bfloat16"))
    call = (
        f"{space}::launch(silu_and_mul_kernel<T>, {{{ids}}}, {space}::config(grid, block, 0, stream), out, input, d);"
    )
    assert added == [f'#include "{space}.cuh"', f"  {call}"]


def test_the_patch_gives_the_same_files(runs: list[str], tmp_path: Path, ktc_run: Run) -> None:
    assert ktc_run("export", *runs, "--to", "source", "-o", "out", "--no-check").returncode == 0
    there = tmp_path / "there"
    there.mkdir()
    shutil.copy(SILU / "kernel.cu", there)
    apply = ["git", "apply", "--unsafe-paths", "--directory=.", str(tmp_path / "out/tuned.patch")]
    done = subprocess.run(apply, cwd=there, capture_output=True, text=True, env=os.environ | {"GIT_DIR": "/nowhere"})
    assert done.returncode == 0, done.stderr
    for name in ("kernel.cu", "silu_and_mul_kernel_tuned.cuh"):
        assert (there / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


INSTANCES = """
template void silu_and_mul<__half>(__half*, const __half*, int, int, cudaStream_t);
template void silu_and_mul<float>(float*, const float*, int, int, cudaStream_t);
"""


def test_the_source_compiles_in_every_instance(
    runs: list[str], tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]
) -> None:
    nvcc = needs("nvcc")
    assert ktc_run("export", runs[0], "--to", "source", "-o", "out", "--no-check").returncode == 0
    file = tmp_path / "out/kernel.cu"
    file.write_text(file.read_text() + INSTANCES)
    compiled(nvcc, file, "-Werror", "all-warnings")


def test_a_library_overloads_its_function_for_each_dtype(runs: list[str], tmp_path: Path, ktc_run: Run) -> None:
    assert ktc_run("export", *runs, "--to", "cmake", "-o", "out", "--no-check").returncode == 0
    cmake = (tmp_path / "out/CMakeLists.txt").read_text()
    assert "set(CMAKE_CUDA_ARCHITECTURES native)" in cmake and "@" not in cmake
    assert "cuda_driver" not in cmake, "a machine that only builds has no driver"
    header = (tmp_path / "out/silu_and_mul_kernel.h").read_text()
    assert header.count("cudaError_t silu_and_mul_kernel(") == 2
    assert "__nv_bfloat16* out, const __nv_bfloat16* input, int d," in header


CHOOSE = """
#include <cmath>
#include <cstdio>
%s
int main() {
  const long long calls[][2] = {%s};
  for (auto& c : calls) std::printf("%%d ", choose_(c[0], c[1]));
}
"""


@pytest.mark.parametrize(
    ("made", "calls", "chosen"),
    [
        (silu, "{4096, 16}, {8192, 64}, {4104, 20}, {8000, 60}, {8192, 32}, {4096, 8}, {8192, 65}", "0 1 0 1 -1 -1 -1"),
        (contested, "{4096, 16}, {4096, 18}, {4096, 26}, {4096, 64}", "0 0 1 1"),
    ],
)
def test_cxx_chooses_as_python_does(
    made: Callable[[str], Recipe], calls: str, chosen: str, tmp_path: Path, ktc_run: Run
) -> None:
    """The same calls as in test_dispatch, in the text that was printed."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made("cuda").save(tmp_path / "run.json")
    assert ktc_run("export", "run.json", "--to", "cmake", "-o", "out", "--no-check").returncode == 0
    text = (tmp_path / "out/silu_and_mul_kernel.cu").read_text()
    start = text.index("inline int choose_")
    function = text[start : text.index("\n}\n", start) + 3]
    (tmp_path / "choose.cpp").write_text(CHOOSE % (function, calls))
    subprocess.run([compiler, "-o", str(tmp_path / "choose"), str(tmp_path / "choose.cpp")], check=True)
    said = subprocess.run([str(tmp_path / "choose")], capture_output=True, text=True, check=True).stdout
    assert said.strip() == chosen


def test_hip(runs: list[str], tmp_path: Path, ktc_run: Run) -> None:
    assert ktc_run("export", runs[0], "--to", "hip", "-o", "out", "--no-check").returncode == 0
    text = (tmp_path / "out/silu_and_mul_kernel.hip").read_text()
    assert "cuda" not in text.replace("tuned on cuda", "") and "hipStream_t stream" in text
    assert "LANGUAGES CXX HIP" in (tmp_path / "out/CMakeLists.txt").read_text()


def test_hip_compiles(runs: list[str], tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]) -> None:
    needs("hipcc")
    done = ktc_run("export", runs[1], "--to", "hip", "-o", "out")
    assert done.returncode == 0 and "silu_and_mul_kernel.hip, selftest.hip: compiled by hipcc" in done.stderr


def test_working_memory_in_cxx(tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]) -> None:
    """A scan of long rows keeps its sums of parts, and who is last, between launches."""
    nvcc = needs("nvcc")
    folder = ROOT / "kernels/basic/cumsum"
    script = f"@{folder / 'expert-long-row.ktp'}"
    assert (
        ktc_run(
            "export", str(folder), "--to", "cmake", "-p", script, "-o", "out", "--no-check", "--no-verify"
        ).returncode
        == 0
    )
    text = (tmp_path / "out/cumsum_kernel.cu").read_text()
    assert "working_memory(stream,0,sizeof(unsignedlonglong)" in "".join(text.split()) and "ErrorNotReady" in text
    compiled(nvcc, tmp_path / "out/cumsum_kernel.cu")
    compiled(nvcc, tmp_path / "out/selftest.cu")


HIDDEN = """
__global__ void twice(float* y, const float* x) {
  y[blockIdx.x * 64 + threadIdx.x] = 2 * x[blockIdx.x * 64 + threadIdx.x];
}
void go(float* y, const float* x, int n, void (*launch)(dim3, float*, const float*)) { launch(n / 64, y, x); }
"""


OVERLOADED = """
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
void go(float* x) { twice<<<1, 64>>>(x); }
"""


def test_what_cannot_be_replaced_is_said(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "o.cu").write_text(OVERLOADED)
    done = ktc_run("export", "o.cu", "--to", "source", "--kernel", "twice(float*)", "-o", "out")
    assert done.returncode == 1 and "E-EXPORT-OVERLOAD" in done.stderr, done.stderr
    (tmp_path / "k.cu").write_text(HIDDEN)
    done = ktc_run("export", "k.cu", "--to", "source", "-o", "out", "--no-check")
    assert done.returncode == 1 and "E-EXPORT-LAUNCH" in done.stderr and "--to cmake" in done.stderr


def test_other_scenarios_do_not_reach_the_library(tmp_path: Path, ktc_run: Run) -> None:
    recipe(SILU, {"a": timing({"n": 16, "d": 4096}, SILU_SCRIPT, 0.9, V=4)}, "cuda").save(tmp_path / "r.json")
    done = ktc_run("export", "r.json", "--to", "cmake", "-o", "out", "--no-check")
    assert done.returncode == 0 and "runs the original everywhere" in done.stderr
    assert "choose_" not in (tmp_path / "out/silu_and_mul_kernel.cu").read_text().split("namespace original")[0]


DEDUCED = """
template <typename T, int N> __global__ void step(T* x, T s) { x[threadIdx.x] = s * x[threadIdx.x] + N; }
void go(int* x, int s) { step<int, 3><<<1, 256>>>(x, s); }
"""


def test_an_instance_that_the_launch_alone_names(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "k.cu").write_text(DEDUCED)
    assert ktc_run("export", "k.cu", "--to", "source", "-p", "raise", "-o", "out", "--no-check").returncode == 0
    assert "{step_tuned::id(step<int, 3>)}" in (tmp_path / "out/k.cu").read_text()


def test_an_export_is_compiled_before_and_after(
    runs: list[str], tmp_path: Path, ktc_run: Run, needs: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that never compiled is no fault of the export; one that only the export breaks is."""
    from ktc.exporting import source_files

    needs("nvcc")
    (tmp_path / "k.cu").write_text(DEDUCED)
    done = ktc_run("export", "k.cu", "--to", "source", "-p", "raise", "-o", "out1")
    assert done.returncode == 0 and "k.cu: compiled by nvcc" in done.stderr, done.stderr
    (tmp_path / "k.cu").write_text("#include <of_my_build.h>\n" + DEDUCED)
    done = ktc_run("export", "k.cu", "--to", "source", "-p", "raise", "-o", "out")
    assert done.returncode == 0 and "alone needs flags of your build" in done.stderr, done.stderr
    (tmp_path / "k.cu").write_text(DEDUCED)
    monkeypatch.setattr(source_files, "SUPPORT", source_files.SUPPORT + "\nno\n")
    done = ktc_run("export", "k.cu", "--to", "source", "-p", "raise", "-o", "out2")
    assert done.returncode == 1 and "E-EXPORT-COMPILE" in done.stderr
    done = ktc_run("export", "k.cu", "--to", "source", "-p", "raise", "-o", "out3", "--no-check")
    assert done.returncode == 0, done.stderr


PRODUCT = """
[kernel]
source = "p.cu"
name = "twice"
[[args]]
name = "y"
dtype = "f32"
shape = ["b * t"]
role = "out"
[[args]]
name = "x"
dtype = "f32"
shape = ["b * t"]
role = "in"
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "b * t"
[[scenario]]
name = "s"
sizes = { b = 8, t = 512 }
"""
PRODUCT_SOURCE = """
__global__ void twice(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
void go(float* y, const float* x, int b, int t) { twice<<<(b * t + 255) / 256, 256>>>(y, x, b * t); }
"""


def test_sizes_that_only_make_up_an_argument_are_not_asked_for(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "p.cu").write_text(PRODUCT_SOURCE)
    (tmp_path / "workload.toml").write_text(PRODUCT)
    script = "raise | distribute{loop=i map=[vec 4, thread.x 256, block.x]}"
    done = ktc_run("export", "p.cu", "--to", "cmake", "-p", script, "-o", "out", "--no-check", "--no-verify")
    assert done.returncode == 0, done.stderr
    header = (tmp_path / "out/twice.h").read_text()
    assert "cudaError_t twice(float* y, const float* x, int n, cudaStream_t stream);" in header
    assert "static_cast<unsigned>((n + 255) / 256)" in (tmp_path / "out/twice.cu").read_text()
    done = ktc_run("export", "p.cu", "--to", "source", "-p", script, "-o", "edited", "--no-check", "--no-verify")
    assert done.returncode == 0, done.stderr
    for facts in ("range = [8, 4096]", "range = [8, 4096]\ndivisible_by = 8"):
        sizes = (("b", "range = [2, 64]"), ("t", facts))
        more = "".join(
            f'[[args]]\nname = "{n}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{n}"\n{f}\n' for n, f in sizes
        )
        (tmp_path / "workload.toml").write_text(PRODUCT.replace("[[scenario]]", f"{more}[[scenario]]"))
        done = ktc_run("export", "p.cu", "--to", "cmake", "-p", script, "-o", "out", "--no-check", "--no-verify")
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "out/twice.cu").read_text()
        if "divisible_by" in facts:
            assert "int n, int b, int t," in text, "what divides t is for the launcher to test"
        else:
            assert ">= 16" in text and "<= 262144" in text and "int b" not in text, "b * t lies between"


def test_types_of_8_bit_floats_and_bfloat16_in_hip(runs: list[str], tmp_path: Path, ktc_run: Run) -> None:
    """What a text calls them is known inside of its namespace alone; a bfloat16 has one name for all of a file."""
    quant = str(ROOT / "kernels/serving/quant_fp8")
    assert ktc_run("export", quant, "--to", "hip", "-p", "raise", "-o", "out", "--no-check").returncode == 0
    assert (
        "quant_fp8_kernel(unsigned char* q, float* scale, const __half* input"
        in (tmp_path / "out/quant_fp8_kernel.h").read_text()
    )
    assert ktc_run("export", runs[1], "--to", "hip", "-o", "bf16", "--no-check").returncode == 0
    header = (tmp_path / "bf16/silu_and_mul_kernel.h").read_text()
    assert header.count("using bf16 = __hip_bfloat16;") == 1
    assert "using bf16" not in (tmp_path / "bf16/silu_and_mul_kernel.hip").read_text()


TWO = """
#include <cuda_runtime.h>
template <typename T>
__global__ void twice(T* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void once(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1; }
void both(float* x, int n, int threads) {
  int blocks = (n + threads - 1) / threads;
  twice<<<blocks, threads>>>(x, n);
  once<<<blocks, threads>>>(x, n);
}
"""
WORK = """
[kernel]
source = "two.cu"
name = "NAME"
TEMPLATE
[[args]]
name = "x"
dtype = "f32"
role = "inout"
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[launch]
grid = ["cdiv(n, block_x)", "1", "1"]
block = ["block_x", "1", "1"]
[[scenario]]
name = "a"
sizes = { n = 4096, block_x = 128 }
"""


def test_several_kernels_of_a_file_are_replaced_in_it_together(
    tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]
) -> None:
    """Launches may leave template arguments to be deduced, and be of sizes that the workload gives otherwise."""
    (tmp_path / "two.cu").write_text(TWO)
    for name, template in (("twice", 'template = { T = "float" }'), ("once", "")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        text = WORK.replace("two.cu", "../../two.cu").replace("NAME", name).replace("TEMPLATE", template)
        (folder / "workload.toml").write_text(text)
        recipe(folder, {"a": timing({"n": 4096, "block_x": 128}, "raise", 2.0)}, "cuda-sm90").save(
            str(folder / "recipe.json")
        )
    ktc_run("export", str(tmp_path / "runs"), "--to", "source", "-o", str(tmp_path / "out"), "--no-check")
    text = (tmp_path / "out/two.cu").read_text()
    assert "twice_tuned::launch(twice<float>, {twice_tuned::id(twice<float>)}, " in text
    assert "once_tuned::launch(once, {once_tuned::id(once)}, " in text and "<<<" not in text
    done = subprocess.run(["git", "apply", str(tmp_path / "out/tuned.patch")], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0 and (tmp_path / "two.cu").read_text() == text
    nvcc = needs("nvcc")
    command = [nvcc, "-arch=sm_90", "-c", str(tmp_path / "out/two.cu"), "-o", os.devnull]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


BOXED = """
#include <cuda_runtime.h>
struct Size { int w, h; float gain; };
namespace app {
__global__ void turn(const float* in, float* out, Size s) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < s.w && y < s.h) out[x * s.h + y] = s.gain * in[y * s.w + x];
}
}
void run(const float* in, float* out, int w, int h, float gain, cudaStream_t stream) {
  dim3 block(16, 16), grid((w + 15) / 16, (h + 15) / 16);
  app::turn<<<grid, block, 0, stream>>>(in, out, Size{w, h, gain});
}
"""


def test_a_kernel_in_a_namespace_is_named_as_its_launch_names_it(
    tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]
) -> None:
    (tmp_path / "turn.cu").write_text(BOXED)
    ktc_run("init", "turn.cu")
    ktc_run("export", "turn.cu", "--workload", "workload.toml", "-p", "raise", "--to", "source", "-o", "out")
    assert "turn_tuned::launch(app::turn, {turn_tuned::id(app::turn)}, " in (tmp_path / "out/turn.cu").read_text()
    compiled(needs("nvcc"), tmp_path / "out/turn.cu")


def test_a_cpu_does_not_say_what_is_fast_on_a_gpu(tmp_path: Path, ktc_run: Run) -> None:
    silu("numba").save(tmp_path / "r.json")
    done = ktc_run("export", "r.json", "--to", "source", "-o", "out", "--no-check")
    assert done.returncode == 2 and "E-EXPORT-DEVICE" in done.stderr and "`ktc optimize` on a machine" in done.stderr
    assert (
        ktc_run("export", "r.json", "--to", "source", "-o", "out", "--no-check", "--measured-elsewhere").returncode == 0
    )


def test_a_size_that_only_shapes_tell_is_asked_of_nobody(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "two.cu").write_text(TWO)
    work = WORK.replace("NAME", "once").replace("TEMPLATE", "").replace('shape = ["n"]', 'shape = ["n + pad"]')
    (tmp_path / "workload.toml").write_text(work.replace("block_x = 128 }", "block_x = 128, pad = 7 }"))
    timings = {"a": timing({"n": 4096, "block_x": 128, "pad": 7}, "raise", 2.0)}
    recipe(tmp_path, timings, "cuda-sm90").save(str(tmp_path / "r.json"))
    done = ktc_run("export", "r.json", "--to", "source", "-o", "out", "--no-check")
    assert done.returncode == 0 and "pad" not in (tmp_path / "out/once_tuned.cuh").read_text(), done.stderr
