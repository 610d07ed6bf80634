"""The command line as a user meets it: exit codes, messages with places, JSON, files, what start-up loads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.cli import output

Run = Callable[..., subprocess.CompletedProcess[str]]

COMMANDS = (
    "lower", "passes", "sites", "verify", "tune", "optimize", "port", "replay", "report", "doctor", "kernels", "init",
    "parse", "capture", "rerun",
)  # fmt: skip

SCALE = """
#include <cuda_runtime.h>
__global__ void scale(float* __restrict__ y, const float* __restrict__ x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
void launch(float* y, const float* x, float a, int n) { scale<<<(n + 255) / 256, 256>>>(y, x, a, n); }
"""


@pytest.fixture
def scale(tmp_path: Path) -> str:
    (tmp_path / "scale.cu").write_text(SCALE)
    return "scale.cu"


def fails(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The run ended with ``code`` and said every one of ``words``; no traceback ever."""
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == code, (done.returncode, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(ktc_run: Run, command: str) -> None:
    done = ktc_run(command, "--help")
    assert done.returncode == 0
    assert f"ktc {command}" in done.stdout.split("Examples:")[1]
    assert "--json" in done.stdout
    assert done.stdout.replace("\n", "").isprintable()


def test_help_says_how_to_turn_off_what_is_on(ktc_run: Run) -> None:
    done = ktc_run("replay", "--help")
    assert "--time, --no-time" in done.stdout and "[default: --time]" in done.stdout


def test_help_lists_every_command_and_loads_nothing_heavy(ktc_run: Run) -> None:
    done = ktc_run("--help")
    assert done.returncode == 0
    assert all(re.search(rf"^  {c} ", done.stdout, re.M) for c in COMMANDS)
    script = (
        "import sys\nfrom ktc.__main__ import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('loaded', *sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.rsplit("loaded ", 1)[1].split())
    heavy = {
        "numpy",
        "numba",
        "optuna",
        "networkx",
        "lark",
        "pycparser",
        "pcpp",
        "ml_dtypes",
        "z3",
        "pyopencl",
        "openai",
    }
    assert "ktc" in loaded
    assert not loaded & heavy


def test_lower_imports_nothing_heavy(ktc_process: Run, scale: str) -> None:
    done = ktc_process("lower", scale, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.M))
    assert "ktc.ir.frontend.syntax.cxx_parser" in loaded
    assert not loaded & {"numpy", "rich", "optuna", "numba", "cupy", "openai", "pyopencl", "networkx"}
    assert "ktc.driver.printing" in loaded
    assert [m for m in loaded if m.startswith(("ktc.search", "ktc.agent"))] == [], "a compiler driver needs no search"


@pytest.mark.parametrize("backend", ["cuda", "hip", "opencl", "numba"])
def test_lower_prints_each_language(ktc_run: Run, scale: str, backend: str) -> None:
    done = ktc_run("lower", scale, "--backend", backend)
    assert done.returncode == 0, done.stderr
    mark = {"cuda": "__global__", "hip": "hip_runtime.h", "opencl": "__kernel", "numba": "numba"}[backend]
    assert mark in done.stdout


def test_lower_reads_standard_input_and_writes_json(ktc_run: Run) -> None:
    done = ktc_run("lower", "-", "--json", stdin=SCALE)
    data = json.loads(done.stdout)
    assert data["target"] == "cuda" and "scale" in data["text"]


def test_template_comes_with_its_search_space(ktc_run: Run, scale: str, tmp_path: Path) -> None:
    script = "raise | distribute{loop=i map=[vec $V:(1,2,4), thread.x $T:(64,128), block.x]}"
    done = ktc_run("lower", scale, "-p", script, "--emit", "template", "-o", "out/k.cuh")
    assert done.returncode == 0, done.stderr
    assert "template" in (tmp_path / "out/k.cuh").read_text()
    space = json.loads((tmp_path / "out/k.cuh.space.json").read_text())
    assert {k["name"]: k["domain"] for k in space["knobs"]} == {"V": [1, 2, 4], "T": [64, 128]}


def test_a_missing_file_is_a_usage_error_with_the_nearest_name(ktc_run: Run) -> None:
    fails(ktc_run("lower", "nothing.cu"), 2, "nothing.cu", "E-FILE")
    fails(ktc_run("lower", "silu_and_mull"), 2, "did you mean 'silu_and_mul'")


def test_a_file_without_a_kernel(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "host.cu").write_text("int main() { return 0; }\n")
    fails(ktc_run("lower", "host.cu"), 1, "host.cu")
    (tmp_path / "notes.cu").write_text("Dear all,\nthis is not a kernel.\n")
    fails(ktc_run("lower", "notes.cu"), 1, "notes.cu")
    (tmp_path / "noise.cu").write_bytes(bytes(range(256)) * 64)
    fails(ktc_run("lower", "noise.cu"), 2, "noise.cu")
    (tmp_path / "empty.cu").write_text("")
    fails(ktc_run("lower", "empty.cu"), 1, "empty.cu")


def test_a_folder_is_not_a_kernel(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    fails(ktc_run("lower", "src"), 2, "workload.toml", "ktc init")


def test_a_syntax_error_has_file_line_column_and_caret(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.cu").write_text(SCALE.replace("y[i] = a * x[i];", "y[i] = a * ;"))
    done = ktc_run("lower", "bad.cu")
    fails(done, 1)
    assert re.search(r"bad\.cu:5:\d+: error:", done.stderr), done.stderr
    caret = done.stderr.splitlines()[2]
    assert caret.strip() == "^"
    assert "a * ;" in done.stderr.splitlines()[1]


def test_errors_are_json_too(ktc_run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.cu").write_text(SCALE.replace("y[i] = a * x[i];", "y[i] = a * ;"))
    data = json.loads(ktc_run("lower", "bad.cu", "--json").stdout)
    assert data["loc"]["line"] == 5 and data["error"].startswith("E-")


def test_an_unknown_pass_names_the_nearest(ktc_run: Run, scale: str) -> None:
    fails(ktc_run("lower", scale, "-p", "rais"), 2, "rais", "raise")
    fails(ktc_run("passes", "unrol"), 2, "did you mean 'unroll'")


def test_a_malformed_script_has_a_caret(ktc_run: Run, scale: str) -> None:
    fails(ktc_run("lower", scale, "-p", "raise | unroll{loop=i factor=}"), 1, "^")


def test_a_missing_script_file(ktc_run: Run, scale: str) -> None:
    fails(ktc_run("lower", scale, "-p", "@nothing.ktp"), 2, "nothing.ktp")


def test_a_refusal_has_its_code_and_what_to_do(ktc_run: Run, scale: str) -> None:
    done = ktc_run("lower", scale, "-p", "distribute{loop=nothing map=[thread.x 64, block.x]}")
    fails(done, 1, "E-")


def test_infeasible_and_unknown_knobs(ktc_run: Run, scale: str) -> None:
    script = "raise | distribute{loop=i map=[vec $V:(1,2,4), thread.x $T:(64,128), block.x]} where V * T <= 256"
    fails(ktc_run("lower", scale, "-p", script, "--set", "V=4", "--set", "T=128"), 1, "E-KNOB-INFEASIBLE", "V=4")
    fails(ktc_run("lower", scale, "-p", script, "--set", "V=3"), 1, "E-KNOB-DOMAIN")
    fails(ktc_run("lower", scale, "-p", script, "--set", "Q=3"), 2, "no knob named 'Q'", "V")
    fails(ktc_run("lower", scale, "-p", script, "--set", "V"), 2, "--set")
    fails(ktc_run("lower", scale, "-p", script, "--set", "V=two"), 2, "integer")


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/version").exists(), reason="root may write anywhere here")
def test_an_unwritable_folder(ktc_run: Run, scale: str) -> None:
    fails(ktc_run("lower", scale, "-o", "/proc/nothing/k.cu"), 3, "cannot write")


def test_a_cubin_needs_a_file(ktc_run: Run, scale: str, needs: Callable[[str], str]) -> None:
    needs("nvcc")
    fails(ktc_run("lower", scale, "--emit", "cubin"), 2, "-o")


def test_usage_errors(ktc_run: Run, ktc_process: Run) -> None:
    fails(ktc_process("lower"), 2, "KERNEL")
    fails(ktc_run("lower", "x", "--backend", "fortran"), 2, "fortran")
    fails(ktc_run("frobnicate"), 2, "frobnicate")


def test_library_kernels_by_name_from_anywhere(ktc_run: Run) -> None:
    done = ktc_run("lower", "saxpy", "--backend", "hip")
    assert done.returncode == 0 and "saxpy_kernel" in done.stdout


def test_init_writes_a_workload_that_loads(ktc_run: Run, scale: str, tmp_path: Path) -> None:
    from ktc.ir.workload import Workload

    done = ktc_run("init", scale)
    assert done.returncode == 0, done.stderr
    w = Workload.load(tmp_path / "workload.toml")
    roles = {a.name: a.role for a in w.args}
    assert roles == {"y": "out", "x": "in", "a": "scalar", "n": "scalar"}
    k = w.load_kernel()
    assert k.param("n").sym.name == "n" and k.launch is not None
    fails(ktc_run("init", scale), 2, "exists", "--force")


def test_init_ends_in_time(ktc_run: Run, scale: str, tmp_path: Path) -> None:
    fails(ktc_run("init", scale, "--time-limit", "1e-6"), 2, "the time limit was over before", "--time-limit SECONDS")
    assert not (tmp_path / "workload.toml").exists()


def test_port_reports_what_changes(ktc_run: Run) -> None:
    done = ktc_run("port", "fused_add_rmsnorm", "--to", "opencl", "--no-check", "--json")
    data = json.loads(done.stdout)
    rows = {r["construct"]: r for r in data["constructs"]}
    assert {"__half buffers", "__shared__ array", "__syncthreads"} <= set(rows)
    assert "kernel.cu:" in rows["__syncthreads"]["place"]


def test_doctor_says_what_is_there_and_how_to_get_the_rest(ktc_run: Run) -> None:
    done = ktc_run("doctor", "--json")
    rows = {r["name"]: r for r in json.loads(done.stdout)}
    assert rows["CPU through numba"]["status"] == "ok"
    assert rows["default"]["status"] == "ok"
    chosen = rows["default"]["detail"]  # what commands take, drivers of this Python environment included
    assert not chosen.startswith("opencl") or rows["OpenCL"]["detail"].startswith(
        f"0: {chosen[8:].split(' (profile')[0]}"
    )
    assert all(r["remedy"] for r in rows.values() if r["status"] == "missing")


def test_a_port_without_a_launch_gets_a_launcher_with_a_guess(ktc_run: Run, tmp_path: Path) -> None:
    """OpenCL sources never launch what they hold."""
    guard = "int i = get_global_id(0); if (i < n) x[i] *= 2.0f;"
    (tmp_path / "k.cl").write_text(f"__kernel void twice(__global float* x, int n) {{ {guard} }}")
    done = ktc_run("port", "k.cl", "--to", "hip", "--no-check", "-o", "k.hip", "--launcher", "k.cpp")
    assert done.returncode == 0, done.stderr
    assert "(n + 255) / 256" in (tmp_path / "k.cpp").read_text()
    assert "grid (cdiv(n, 256), 1, 1), block (256, 1, 1) is a guess" in done.stderr


def test_no_colour_where_it_is_not_wanted(ktc_run: Run) -> None:
    assert "\x1b[" not in ktc_run("kernels").stdout + ktc_run("lower", "nothing.cu").stderr


def test_port_writes_kernel_and_launcher_from_any_language(ktc_run: Run, scale: str, tmp_path: Path) -> None:
    done = ktc_run("port", scale, "--to", "hip", "--no-check", "-o", "k.hip", "--launcher", "k_launch.cpp")
    assert done.returncode == 0, done.stderr
    assert (
        "hipLaunchKernelGGL" in (tmp_path / "k_launch.cpp").read_text()
        or "<<<" in (tmp_path / "k_launch.cpp").read_text()
    )
    done = ktc_run("port", "k.hip", "--to", "opencl", "--no-check", "-o", "k.cl")
    assert done.returncode == 0 and "__kernel void scale" in (tmp_path / "k.cl").read_text()
    done = ktc_run("port", "k.cl", "--to", "cuda", "--no-check")
    assert done.returncode == 0 and "__global__ void scale" in done.stdout


def test_port_to_python_compiles_nothing(ktc_run: Run, scale: str) -> None:
    data = json.loads(ktc_run("port", scale, "--to", "numba", "--json").stdout)
    assert "njit" in data["text"] and data["compiles"] is None


def test_a_port_takes_the_plainest_profile_that_can(ktc_run: Run, tmp_path: Path) -> None:
    vote = "__global__ void vote(int *p) { p[threadIdx.x] = __shfl_xor_sync(~0u, p[threadIdx.x], 1); }\n"
    (tmp_path / "vote.cu").write_text(vote)
    done = ktc_run("port", "vote.cu", "--to", "opencl", "--no-check")
    assert done.returncode == 0 and "sub_group_shuffle" in done.stdout
    assert "opencl-cl30-subgroups" in done.stderr


def test_comments_of_loops_survive_the_way_through_parallel_form(ktc_run: Run) -> None:
    text = ktc_run("lower", "fused_add_rmsnorm", "-p", "raise").stdout
    sums, norm = text.index("// Sum of squares of the row."), text.index("// Normalise the sum itself")
    assert sums < text.index("sum_sq = 0.0f") < norm < text.index("residual[row + i] =")


def test_parallel_text_for_devices_without_lane_exchange(ktc_run: Run) -> None:
    """A reduction whose strategy is open goes through shared memory where lanes cannot exchange registers."""
    listing = ktc_run("lower", "fused_add_rmsnorm", "-p", "raise", "--emit", "ir").stdout
    done = ktc_run("lower", "-", "--backend", "opencl", stdin=listing)
    assert done.returncode == 0, done.stderr
    assert "__local" in done.stdout and "sub_group" not in done.stdout


def test_kernels_in_a_header_that_is_not_found(ktc_run, tmp_path: Path) -> None:
    (tmp_path / "inc" / "lib").mkdir(parents=True)
    (tmp_path / "inc" / "lib" / "k.cuh").write_text("__global__ void k(float* o) { o[0] = N; }\n")
    (tmp_path / "binding.cu").write_text(
        "#include <vector>\n#include <lib/k.cuh>\nvoid f(float* o) { k<<<1, 1>>>(o); k<<<2, 1>>>(o); }\n"
    )
    done = ktc_run("kernels", "binding.cu")
    assert done.returncode == 1 and "lib/k.cuh (-I DIR" in done.stderr and "vector" not in done.stderr
    done = ktc_run("kernels", "binding.cu", "-I", "inc", "-D", "N=3")
    assert done.returncode == 0 and "binding.cu:3:21 and 1 more" in done.stdout


def test_what_takes_long_is_said_once_it_does(monkeypatch, capsys):
    monkeypatch.setattr(output, "PATIENCE", 0.01)
    with output.waiting("drafting"):
        time.sleep(0.1)
    assert capsys.readouterr().err == "drafting ...\n"
    with output.waiting("drafting", quiet=True):
        time.sleep(0.05)
    monkeypatch.setattr(output, "PATIENCE", 60.0)
    with output.waiting("drafting"):
        pass
    assert capsys.readouterr().err == ""
