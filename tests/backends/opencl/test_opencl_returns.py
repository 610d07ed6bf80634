"""Early returns above barriers in OpenCL, where every thread must reach a barrier: on a device, as CUDA means it."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from tests import devices

THREADS, BLOCKS = 64, 4


def kernel_of(body: str):
    head = f"__global__ void k(int* y, const int* lens, int n) {{\n  __shared__ int s[{THREADS}];\n"
    head += "  const int t = threadIdx.x;\n"
    host = f"void host(int* y, const int* lens, int n) {{ k<<<{BLOCKS}, {THREADS}>>>(y, lens, n); }}\n"
    return load(f"{head}  const int row = blockIdx.x * {THREADS} + t;\n{body}\n}}\n{host}", name="k.cu")


ROUNDS = """ for (int i = 0; i < len; ++i) {
    s[t] = y[row] + i; __syncthreads(); y[row] += s[len]; __syncthreads(); }"""

CASES = {
    "whole blocks": "if (blockIdx.x >= n / 64) return; const int len = lens[blockIdx.x];" + ROUNDS,
    "a bound computed behind the return": "if (row >= n) return; int len = n; len = len / 64 + 1;" + ROUNDS,
    "a condition around a barrier": ("if (row >= n) return; const int len = 2; const bool some = n > 70; "
                                     "if (some) {" + ROUNDS + "}"),
    "a bound read before the return": "const int len = lens[blockIdx.x]; if (row >= n) return;" + ROUNDS,
    "out of a loop": ("const int len = 2; for (int k = 0; k < 9; ++k) { if (k == lens[blockIdx.x]) return; s[t] = k; "
                      "__syncthreads(); y[row] += s[63 - t]; __syncthreads(); }"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [0, 64, 100, 256])
def test_a_device_computes_what_cuda_means(case: str, n: int) -> None:
    cl, context, queue = devices.opencl()
    kernel = kernel_of("  " + CASES[case])
    y = np.arange(BLOCKS * THREADS, dtype=np.int32)
    lens = np.array([3, 1, 2, 4], np.int32)
    got = run(kernel, {"y": y, "lens": lens, "n": n})
    assert not got.findings
    built = cl.Program(context, emit(kernel, "opencl").text).build()
    flags = cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=a) for a in (y, lens)]
    built.k(queue, (BLOCKS * THREADS,), (THREADS,), *buffers, np.int32(n))
    out = np.empty_like(y)
    cl.enqueue_copy(queue, out, buffers[0])
    assert (out == got.outputs["y"]).all()


def test_whole_blocks_still_return() -> None:
    text = emit(kernel_of("  " + CASES["whole blocks"]), "opencl").text
    assert "return;" in text and "active" not in text


@pytest.mark.parametrize(
    "body",
    [
        "if (row >= n) return; const int len = lens[t];" + ROUNDS,  # each thread has a bound of its own
        "int a[2]; if (row >= n) return; a[0] = n; a[1] = 1; for (int i = 0; i < a[0]; ++i) { __syncthreads(); }",
        "int len = 1; if (row >= n) return; if (n > 9) { len = 3; y[row] = 0; }" + ROUNDS,
        "if (row >= n) return; const int len = lens[blockIdx.x];" + ROUNDS,  # nobody reads it where all have left
        "if (row >= n) return; int len = s[5]; __syncthreads();" + ROUNDS,
        "for (int i = 0; i < 4; ++i) { if (y[row] == i) return; __syncthreads(); }",
    ],
)
def test_what_threads_that_returned_cannot_follow_is_refused(body: str) -> None:
    with pytest.raises(KtcError) as caught:
        emit(kernel_of("  " + body), "opencl")
    assert caught.value.code == "E-BACKEND-RETURN" and caught.value.loc is not None
