"""Integers of one signedness: numba makes a float64 of int64 with uint64, and counts ``prange`` in uint64."""

from __future__ import annotations

import numpy as np
import pytest

import ktc
from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel

BODIES = {
    "arith":
        "o[i] = u[i] + 3; w[i] = -u[i] + 5; o[i + 32] = ~u[i] * 2 - w[i];",
    "shifts":
        "o[i] = u[i] >> (n[i] & 63); o[i + 32] = n[i] >> (u[i] & 31); w[i] = (unsigned)n[i] << (u[i] & 31); "
        "w[i + 32]=u[i] << (i+1);",
    "index":
        "__shared__ unsigned long long s[32]; s[u[i] & 31] = u[i]; __syncthreads(); o[i] = s[(u[i] + 1) & "
        "31]; w[(u[i] & 31) + i] = 1;",
    "cmp":
        "o[i] = u[i] < (unsigned long long)n[i]; w[i] = n[i] < 3 ? u[i] : n[i]; o[i + 32] = min(u[i], 7ull) + "
        "max((long long)u[i], 2ll);",
    "div":
        "w[i] = u[i] / 3 + u[i] % 5; o[i] = n[i] / (int)(u[i] % 3 + 1); o[i + 32] = (u[i] + n[i]) / "
        "(size_t)blockDim.x;",
    "loop":
        "unsigned long long t = 0; for (unsigned long long k = 0; k < u[i] % 7; ++k) t += k * n[i]; for "
        "(size_t k = threadIdx.x; k < 64; k += blockDim.x) w[k] = k; o[i] = t;",
    "conv":
        "o[i] = (unsigned long long)n[i] * u[i]; w[i] = (int)u[i] + (short)u[i] + (unsigned char)u[i]; float "
        "f = u[i]; w[i + 32] = f; double d = n[i]; o[i + 32] = d + u[i];",
    "bits":
        "o[i] = __popcll(u[i]) + __clzll(u[i]) + __ffsll(u[i]); w[i] = u[i] & n[i] | 1 ^ u[i]; w[i + 32] = "
        "u[i] & (unsigned)n[i];",
    "products":
        "int m = u[i]; unsigned k = u[i], l = n[i]; o[i] = __mulhi(n[i] * 12345678, m) + __mul24(n[i] << 20, m) + "
        "__dp4a(n[i] * 70707, m, n[i]); w[i] = __umul24(l, k) + __dp4a(l, k, 9u) + __brevll(u[i]); "
        "o[i + 32] = __mul64hi((long long)u[i] << 20, (long long)n[i] << 40); "
        "w[i + 32] = __umul64hi(u[i] << 20, ~u[i]);",
    "atom":
        "unsigned long long x = atomicAdd(&w[i & 1], u[i]); o[i] = 0; int y = atomicAdd((int*)n2, 1); o[i + "
        "32] = 0 * x + 0 * y; atomicMax(&w[3], u[i]);",
    "warp":
        "o[i] = __shfl_sync(~0u, u[i], i ^ 1); w[i] = __shfl_down_sync(~0u, u[i], 1) + 1; w[i + 32] = "
        "__ballot_sync(~0u, u[i] & 1) + u[i];",
    "vec":
        "ulonglong2 v = make_ulonglong2(u[i], 2); o[i] = v.x + v.y * n[i]; float4 g = make_float4(1,2,3,4); "
        "o[i + 32] = g.x + u[i];",
    "sel":
        "unsigned long long z = n[i] > 2 ? u[i] : 5; long long q = u[i] > 9 ? n[i] : (long long)u[i]; o[i] = "
        "z + q; if (u[i]) w[i] = !u[i]; while (z > 100) z /= 3; w[i + 32] = z;",
    "arr":
        "unsigned long long a[4]; for (int k = 0; k < 4; ++k) a[k] = u[i] + k; o[i] = a[u[i] & 3] + a[n[i] & "
        "3]; unsigned long long p = u[i] & 3; p += n[i]; w[i] = p; p <<= 3; w[i + 32] = p -= 1;",
}  # fmt: skip
"""Bodies in which ``u`` has 64 bits without a sign, and all else has one."""


def arguments() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    u = rng.integers(0, 1 << 40, 32, dtype=np.uint64) * np.uint64(32) + np.arange(32, dtype=np.uint64)
    n = np.arange(-3, 29, dtype=np.int32)
    return {"o": np.zeros(64, np.uint64), "w": np.zeros(96, np.uint64), "u": u, "n": n, "n2": np.zeros(4, np.int32)}


def on_cpu(kernel: Kernel, args: dict, parallel: bool = True) -> dict:
    """``args`` after a run; one thread compiles in a fraction of the time."""
    code = emit(kernel, "numba")
    text = code.text.replace("cache=True", "cache=False")
    names: dict = {}
    exec(compile(text if parallel else text.replace("parallel=True, ", ""), "<kernel>", "exec"), names)
    given = {name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in args.items()}
    names[code.entry](*given.values())
    return given


@pytest.mark.parametrize("name", BODIES)
def test_unsigned_and_signed_integers_of_64_bits(name: str) -> None:
    params = "unsigned long long *o, unsigned long long *w, const unsigned long long *u, const int *n, int *n2"
    source = f"""__global__ void k({params}) {{ int i = threadIdx.x; {BODIES[name]} }}
    void go({params}) {{ k<<<1, 32>>>(o, w, u, n, n2); }}"""
    kernel, args = load(source, name="k.cu"), arguments()
    want, got = run(kernel, args).outputs, on_cpu(kernel, args, parallel=False)
    for output, values in want.items():
        np.testing.assert_array_equal(got[output], values)


ROWS = """
__global__ void rows(float* y, const float* x, int n, int heads) {
  int row = blockIdx.x;
  int head = row % heads, b = row / heads;
  for (int k = threadIdx.x; k < n; k += blockDim.x) y[(b * heads + head) * n + k] = x[row * n + k] * (head + 1);
}
void go(float* y, const float* x, int n, int heads) { rows<<<6, 32>>>(y, x, n, heads); }
"""


@pytest.mark.parametrize("script", ["", "raise", "raise | distribute{loop=row map=[unroll 4, block.x]}"])
def test_a_block_index_is_taken_apart(script: str) -> None:
    program = ktc.loads(ROWS)
    kernel = (program.apply(script) if script else program).kernel
    x = np.arange(42, dtype=np.float32)
    args = {"y": np.zeros(42, np.float32), "x": x, "n": 7, "heads": 3}
    want = x * (np.arange(42) // 7 % 3 + 1)
    np.testing.assert_array_equal(on_cpu(kernel, args)["y"], want)
