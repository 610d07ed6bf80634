"""Shifts by the width and more shift everything out, as NVIDIA's devices do, wherever a kernel is run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.search.verification.rungs.parse_back import parse_back
from tests import devices

SOURCE = """
__global__ void k(unsigned *o, int *s, unsigned long long *w, long long *v, const unsigned *x, const int *n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  o[i] = x[i] << n[i];
  o[i + 64] = x[i] >> n[i];
  s[i] = (int)x[i] >> n[i];
  s[i + 64] = (int)x[i] << n[i];
  w[i] = (unsigned long long)x[i] << n[i];
  w[i + 64] = (0x8000000000000000ull | x[i]) >> n[i];
  v[i] = (long long)(0x8000000000000000ull | x[i]) >> n[i];
  o[i + 128] = x[i] >> (32 - (n[i] & 31));
}
void launch(unsigned *o, int *s, unsigned long long *w, long long *v, const unsigned *x, const int *n) {
  k<<<2, 32>>>(o, s, w, v, x, n);
}
"""


def arguments() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    n = np.array([*range(40), 63, 64, 65, 100, 2**31 - 1, -1, -32, -(2**31), *([32] * 16)], np.int32)
    x = rng.integers(0, 2**32, 64, np.uint32) | np.uint32(1 << 31)
    out = {"o": np.uint32, "s": np.int32, "w": np.uint64, "v": np.int64}
    return {**{k: np.zeros(192, t) for k, t in out.items()}, "x": x, "n": n}


def expected(a: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """By Python's integers."""
    x, n = [int(v) for v in a["x"]], [int(v) if v >= 0 else 1 << 40 for v in a["n"]]
    n = [min(v, 200) for v in n]
    signed, top = [v - (1 << 32) for v in x], [(1 << 63) | v for v in x]
    left = [v << k & 0xFFFFFFFF for v, k in zip(x, n)]
    return {
        "o": [*left, *(v >> k for v, k in zip(x, n)), *(v >> 32 - (int(k) & 31) for v, k in zip(x, a["n"]))],
        "s": [*(v >> k for v, k in zip(signed, n)), *(v - (1 << 32) if v >> 31 else v for v in left), *([0] * 64)],
        "w": [*(v << k & (1 << 64) - 1 for v, k in zip(x, n)), *(v >> k for v, k in zip(top, n)), *([0] * 64)],
        "v": [*((v - (1 << 64)) >> k for v, k in zip(top, n)), *([0] * 128)],
    }


def check(got: dict[str, np.ndarray], a: dict[str, np.ndarray]) -> None:
    for name, want in expected(a).items():
        assert [int(v) for v in got[name]] == want, name


def test_in_the_interpreter() -> None:
    a = arguments()
    check(run(load(SOURCE), a, domain="float", sanitize=False).outputs, a)


@pytest.mark.parametrize("device", ["numba", "opencl"])
def test_on_a_device(device: str) -> None:
    runtime, a = devices.working(device), arguments()
    code = emit(load(SOURCE), runtime.device.profile)
    placed = {k: runtime.to_device(v) for k, v in a.items()}
    runtime.compile(code).launch(placed)
    runtime.synchronize()
    check({k: runtime.to_host(placed[k], v) for k, v in a.items()}, a)


def test_only_what_may_be_too_far_is_guarded() -> None:
    text = """__global__ void k(unsigned *o, const unsigned *x, int n) {
      int lane = threadIdx.x & 31;
      for (int i = 0; i < n; ++i) o[i] = (x[i] << lane) | (x[i] >> 3) | (x[i] << (n & 7)) | (x[i] >> (i % 8));
    }"""
    for target in ("opencl", "hip", "cuda"):
        assert "?" not in emit(load(text), target).text
    far = text.replace("n & 7", "32 - lane")
    assert "(uint)(32 - lane) < 32 ? x[i] << (32 - lane)" in emit(load(far), "opencl").text
    assert "(unsigned)(32 - lane) < 32 ? x[i] << (32 - lane)" in emit(load(far), "hip").text
    assert "?" not in emit(load(far), "cuda").text  # the machine does it


@pytest.mark.parametrize("target", ["opencl", "hip", "cuda"])
def test_the_printed_text_is_read_back_as_the_same_kernel(target: str) -> None:
    assert parse_back(load(SOURCE), target).status == "pass"


def test_opencls_own_shifts_are_modulo_the_width() -> None:
    text = "__kernel void k(__global uint *o, uint n) { o[0] = 3u << n; o[1] = 3u << 2; }"
    assert "3u << (n & 31)" in emit(load(text, name="k.cl"), "cuda").text


def test_a_small_operand_keeps_its_width_where_the_amount_needs_it() -> None:
    """5 >> 40 has no meaning in int; 5ull >> 40 is 0."""
    text = "__global__ void k(unsigned long long *o, int n) { o[0] = 5ull >> n; o[1] = 5ull >> (n & 31); }"
    printed = emit(load(text), "cuda").text
    assert "5ULL >> n" in printed and "5 >> (n & 31)" in printed


def test_amounts_beyond_every_type_cost_nothing() -> None:
    text = "__global__ void k(unsigned long long *o) { o[0] = 1ull << 0x7fffffffffffffff; }"
    assert "1ULL << 0x7fffffffffffffffULL" in emit(load(text), "cuda").text


AMOUNTS = {
    "o[0] = x << b": "blockIdx.x * blockDim.x / (1u << 26)",
    "o[1] = x >> b": "gridDim.x * blockDim.x >> 26",
    "o[2] = x << b": "blockIdx.y * blockDim.y >> 26",
}
"""Amounts of 32 and more in a large launch, though not in one that a launcher of ours would take."""


@pytest.mark.parametrize("target", ["hip", "opencl"])
@pytest.mark.parametrize("shift", AMOUNTS)
def test_no_launch_is_taken_to_be_small(shift: str, target: str) -> None:
    source = f"__global__ void k(unsigned *o, unsigned x) {{ unsigned b = {AMOUNTS[shift]}; {shift}; }}"
    assert "b < 32 ? x" in emit(load(source, name="k.cu"), target).text


@pytest.mark.parametrize("target", ["hip", "opencl"])
def test_an_unsigned_counter_and_a_declared_range_are_no_bounds(target: str) -> None:
    head = "__global__ void k(unsigned *o, unsigned x) "
    loop = head + "{ for (unsigned i = 0; i < x; i += 1u << 30) o[0] = x >> (i >> 26); }"
    assert "i >> 26 < 32 ? x" in emit(load(loop, name="k.cu"), target).text
    kernel = load("__global__ void k(unsigned *o, unsigned x, int n) { o[0] = x << n; }", name="k.cu")
    params = tuple(replace(p, range=(0, 31)) if p.sym.name == "n" else p for p in kernel.params)
    assert "< 32 ? x" in emit(kernel.with_(params=params), target).text
