"""``ktc facts``: the analyses as one document."""

from __future__ import annotations

import json

import pytest

import ktc


def test_sgemm_is_bound_by_arithmetic_and_reads_its_inputs_often() -> None:
    f = ktc.load("sgemm").apply("raise").facts(M=512, N=512, K=512)
    assert f.kernel.flops == 2 * 512**3 + 3 * 512**2 and f.bounds["H200"].limiter == "f32"
    assert f.kernel.reuse > 100 and f.occupancy is not None and f.occupancy.blocks > 0
    by_buffer = {(r.buffer, r.mode): r for r in f.requests}
    assert by_buffer["B", "read"].efficiency == 1.0 and by_buffer["A", "read"].efficiency == 0.125


def test_the_command_prints_tables_and_json(ktc_run) -> None:
    text = ktc_run("facts", "transpose", "--dependences")
    assert text.returncode == 0, text.stderr
    assert "sectors" in text.stdout and "occupancy" in text.stdout and "H200" in text.stdout
    document = json.loads(ktc_run("facts", "transpose", "--json").stdout)
    assert document["sizes"] == {"rows": 8192, "cols": 8192}
    assert {r["buffer"] for r in document["requests"]} == {"in", "out"}


def test_sizes_are_the_workloads_or_the_kernels(ktc_run) -> None:
    assert ktc.load("silu_and_mul").facts(d=64).sizes["d"] == 64
    assert ktc.load("silu_and_mul").facts(n=3).sizes["num_tokens"] == 3
    with pytest.raises(ktc.KtcError) as caught:
        ktc.load("silu_and_mul").facts(width=3)
    assert caught.value.code == "E-SIZE-NAME" and caught.value.exit_code == 2
    assert ktc_run("facts", "silu_and_mul", "--size", "d").returncode == 2


CONSTANTS = """
__global__ void k(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""


def test_there_is_no_least_time_of_no_size() -> None:
    f = ktc.loads(CONSTANTS).facts()
    assert f.missing == ("n",) and not f.bounds and f.guessed == "grid (cdiv(n, 256), 1, 1), block (256, 1, 1)"
    assert ktc.loads(CONSTANTS).facts(n=1 << 28).bounds["H200"].limiter == "memory"


def test_what_the_source_launches_is_a_size(ktc_run, tmp_path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(CONSTANTS)
    assert "depends on sizes: --size n=N" in ktc_run("facts", str(path)).stdout
    path.write_text(CONSTANTS + "int main() { float *y, *x; k<<<4096, 256>>>(y, x, 1048576); }")
    f = ktc.load(str(path)).facts()
    assert f.sizes == {"n": 1048576} and not f.missing and f.kernel.bytes == 8 << 20


def test_what_limits_a_kernel_is_estimated_where_nothing_can_be_counted(ktc_run, tmp_path, monkeypatch) -> None:
    """The only device that it may look for is none of this machine."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = ktc_run("facts", "transpose", "--profile")
    assert text.returncode == 0, text.stderr
    tail = text.stdout[text.stdout.index("what limits it on H200") :]
    assert "memory" in tail and "by an estimate from counts (" in tail and "no CUDA device: " in tail
    said = json.loads(ktc_run("facts", "transpose", "--profile", "--json").stdout)["limited"]
    assert said["profile"]["source"] == "estimate" and said["profile"]["limiters"][0]["share"] > 0.3


REUSED = """
__global__ void k(float* y, const float* x, int n) {
  __shared__ float tile[32];
  int i = blockIdx.x * 32 + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  i = blockIdx.x * 32 + 31 - threadIdx.x;
  y[i] = tile[31 - threadIdx.x];
}
void go(float* y, const float* x, int n) { k<<<n / 32, 32>>>(y, x, n); }
"""


def test_what_is_asked_for_is_set_against_what_must_move(ktc_run, tmp_path) -> None:
    """An index that is given twice says nothing of how far it goes; runs do."""
    path = tmp_path / "k.cu"
    path.write_text(REUSED)
    assert (
        "bytes asked for                     65,536 (1.00 times)"
        in ktc_run("facts", str(path), "--size", "n=8192").stdout
    )
