"""Loads and stores of global memory written as PTX are loads and stores; what others may be waiting for is not."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.frontend.ptx.ptx_access import understood_access
from ktc.ir.interp import run
from ktc.ir.nodes import InlineAsm
from ktc.ir.walk import walk

MOVED = r"""
__device__ __forceinline__ int4 fetched(const int4* p) {
  int4 r;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
  return r;
}
__device__ __forceinline__ void left(int4* p, const int4& v) {
  asm volatile("st.global.L1::no_allocate.v4.s32 [%0], {%1, %2, %3, %4};"
               ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__global__ void move(int4* out, const int4* in, const unsigned long long* a, unsigned long long* b, const float* f,
                     float* g, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int4 v = fetched(in + i);
  v.x += v.w;
  left(out + i, v);
  unsigned long long t;
  asm volatile("ld.global.nc.b64 %0,[%1];" : "=l"(t) : "l"(a + i) : "memory");
  asm volatile("st.global.cg.b64 [%0],%1;" ::"l"(b + i), "l"(t) : "memory");
  float x, y;
  asm("ld.global.cs.v2.f32 {%0, %1}, [%2 + 8];" : "=f"(x), "=f"(y) : "l"(f + 4 * i));
  g[i] = x - 2 * y;
}
void go(int4* out, const int4* in, const unsigned long long* a, unsigned long long* b, const float* f, float* g,
        int n) {
  move<<<(n + 127) / 128, 128>>>(out, in, a, b, f, g, n);
}
"""


@pytest.mark.parametrize("domain", ["float", "int"])
def test_each_element_is_moved_to_its_place(domain: str) -> None:
    kernel = load(MOVED, name="k.cu")
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    n = 37
    ints, longs, floats = np.arange(4 * n, dtype=np.int32), np.arange(n, dtype=np.uint64), np.arange(4 * n)
    args = {
        "out": np.zeros_like(ints), "in": ints, "a": longs << 33, "b": np.zeros_like(longs), "n": n,
        "f": floats.astype(np.float32) ** 2, "g": np.zeros(n, np.float32),
    }  # fmt: skip
    got = run(kernel, args, domain=domain)
    assert got.ok, got.findings
    want = ints.reshape(n, 4).copy()
    want[:, 0] += want[:, 3]
    assert (got.outputs["out"].reshape(n, 4) == want).all() and (got.outputs["b"] == longs << 33).all()
    assert (got.outputs["g"] == args["f"].reshape(n, 4) @ [0, 0, 1, -2]).all()  # type: ignore[attr-defined]


def test_cache_operators_are_kept_and_other_languages_have_the_access() -> None:
    kernel = load(MOVED, name="k.cu")
    text = emit(kernel, "cuda").text
    assert "asm" not in text and all(fn in text for fn in ("__ldg(", "__stcg(", "__ldcs("))
    assert not any("asm" in emit(kernel, to).text for to in ("hip", "opencl"))


LOAD, STORE = ("=r", "l"), ("l", "r")


@pytest.mark.parametrize(
    ("text", "constraints", "volatile"),
    [
        ("ld.global.nc.b32 %0, [%1];", LOAD, True),
        ("ld.global.b32 %0, [%1];", LOAD, False),
        ("ld.global.L1::no_allocate.u32 %0, [%1 + 4];", LOAD, True),
        ("st.global.b32 [%0], %1;", STORE, True),
        ("st.global.wt.u32 [%0+8], %1", STORE, True),
        ("ld.global.nc.v2.f32 {%0,%1}, [%2];", ("=f", "=&f", "l"), True),
        ("st.global.v4.b16 [%4], {%0, %1, %2, %3};", ("h", "h", "h", "h", "l"), True),
    ],
)
def test_what_is_one_access(text: str, constraints: tuple[str, ...], volatile: bool) -> None:
    assert understood_access(text, constraints, volatile) is not None


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("ld.global.b32 %0, [%1];", LOAD),  # somebody may poll with it
        ("ld.global.cg.b32 %0, [%1];", LOAD),
        ("ld.global.cv.b32 %0, [%1];", LOAD),
        ("ld.volatile.global.b32 %0, [%1];", LOAD),
        ("ld.global.volatile.b32 %0, [%1];", LOAD),
        ("ld.relaxed.gpu.global.b32 %0, [%1];", LOAD),
        ("ld.acquire.gpu.global.u32 %0, [%1];", LOAD),
        ("ld.global.nc.L2::cache_hint.b32 %0, [%1], %2;", ("=r", "l", "l")),
        ("st.release.gpu.global.u32 [%0], %1;", STORE),
        ("ld.shared.b32 %0, [%1];", LOAD),
        ("ld.b32 %0, [%1];", LOAD),
        ("ld.global.nc.u8 %0, [%1];", LOAD),  # widens
        ("ld.global.nc.u16 %0, [%1];", LOAD),
        ("ld.global.nc.b64 %0, [%1];", LOAD),
        ("ld.global.nc.b32 %0, [%1 + 2];", LOAD),
        ("ld.global.nc.v2.b32 {%0, %0}, [%1];", LOAD),
        ("ld.global.nc.v4.b32 {%0, %1}, [%2];", ("=r", "=r", "l")),
        ("ld.global.nc.v2.b32 {%0, %1}, [%2];", ("=r", "=f", "l")),
        ("ld.global.nc.b32 %0, [%1]; ld.global.nc.b32 %0, [%1];", LOAD),
        ("@p ld.global.nc.b32 %0, [%1];", LOAD),
        ("red.global.add.u32 [%0], %1;", STORE),
        ("ld.global.nc.b32 %0, [%1];", ("=r", "r")),
    ],
)
def test_what_is_not(text: str, constraints: tuple[str, ...]) -> None:
    assert understood_access(text, constraints, True) is None
