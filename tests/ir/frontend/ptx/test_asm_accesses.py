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
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r"), True),
        ("ld.shared.v2.u32 {%0, %1}, [%2];", ("=r", "=r", "r"), True),
        ("ld.shared.u32 {%0}, [%1];", ("=r", "r"), True),
        ("st.shared.b64 [%0 + 8], %1;", ("l", "l"), True),
        ("{.reg .pred p;setp.ne.s32 p, %2, 0;@p st.global.v2.f32 [%0], {%1, %3};}", ("l", "f", "r", "f"), True),
    ],
)
def test_what_is_one_access(text: str, constraints: tuple[str, ...], volatile: bool) -> None:
    assert understood_access(text, constraints, volatile) is not None


@pytest.mark.parametrize(
    ("text", "constraints"),
    [
        ("ld.global.cv.b32 %0, [%1];", LOAD),
        ("ld.volatile.global.b32 %0, [%1];", LOAD),
        ("ld.global.volatile.b32 %0, [%1];", LOAD),
        ("ld.relaxed.gpu.global.b32 %0, [%1];", LOAD),
        ("ld.acquire.gpu.global.u32 %0, [%1];", LOAD),
        ("ld.global.nc.L2::cache_hint.b32 %0, [%1], %2;", ("=r", "l", "l")),
        ("st.release.gpu.global.u32 [%0], %1;", STORE),
        ("ld.volatile.shared.b32 %0, [%1];", ("=r", "r")),
        ("ld.shared.ca.b32 %0, [%1];", ("=r", "r")),
        ("ld.shared.u8 %0, [%1];", ("=r", "r")),
        ("st.shared::cluster.b32 [%0], %1;", ("r", "r")),
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
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r")),  # else it has no value
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 1; @p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r")),
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @!p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r")),
        ("{ .reg .pred p; setp.eq.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r")),
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, %3; @p ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r", "f")),
        ("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @q ld.global.nc.b32 %0, [%1]; }", (*LOAD, "r")),
        ("red.global.add.u32 [%0], %1;", STORE),
        ("ld.global.nc.b32 %0, [%1];", ("=r", "r")),
    ],
)
def test_what_is_not(text: str, constraints: tuple[str, ...]) -> None:
    assert understood_access(text, constraints, True) is None


GUARDED = r"""
__device__ void fetch(uint2* to, const void* from, bool there) {
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\tmov.b32 %0, 0;\n\tmov.b32 %1, %4;\n"
               "\t@p ld.global.cg.v2.u32 {%0, %1}, [%2];\n}\n"
               : "=r"(to->x), "=r"(to->y) : "l"(from), "r"((int)there), "r"(7));
}
__device__ void put(void* to, uint2 v, bool there) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.v2.u32 [%0], {%1, %2}; }"
               ::"l"(to), "r"(v.x), "r"(v.y), "r"((int)there) : "memory");
}
__global__ void move(unsigned int* out, const unsigned int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint2 v;
  fetch(&v, in + 2 * i, i < n);
  put(out + 2 * i, v, i != 3 && i < n + 4);
}
void go(unsigned int* out, const unsigned int* in, int n) { move<<<(n + 127) / 128, 128>>>(out, in, n); }
"""


def test_guarded_accesses_move_what_their_guard_lets_through() -> None:
    kernel = load(GUARDED, name="k.cu")
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    n = 37
    words = np.arange(1, 2 * n + 1, dtype=np.uint32)
    got = run(kernel, {"out": np.full(2 * n + 8, 99, np.uint32), "in": words, "n": n})
    assert got.ok, got.findings
    want = np.concatenate([words, np.tile(np.array([0, 7], np.uint32), 4)]).reshape(-1, 2)
    want[3] = 99
    assert (got.outputs["out"].reshape(-1, 2) == want).all()


READING = """
__device__ int seen(const int* p) {{
  int v;
  asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}}
__global__ void k(int* y, const int* x, const int* flag, int n) {{
  int t = threadIdx.x, got = 0;
  {code}
  y[t] = got;
}}
"""


@pytest.mark.parametrize(
    "code",
    [
        "got = seen(x + t);",
        "for (int i = 0; i < n; ++i) got += seen(x + i);",
        "int m = seen(x + t); for (int i = 0; i < m; ++i) got += i;",
        "for (int i = 0; i < n; ++i) { int v = seen(x + i); if (v > got) got = v; }",
    ],
)
def test_a_volatile_load_that_no_loop_waits_by_is_a_load(code: str) -> None:
    kernel = load(READING.format(code=code), name="k.cu")
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))


@pytest.mark.parametrize(
    "code",
    [
        "while (seen(flag) != n);",
        "do { got = seen(flag); } while (got < n);",
        "while (true) { if (seen(flag) == n) break; }",
        "for (bool set = false; !set;) { if (seen(flag) == n) set = true; }",
        "while (true) { int v = seen(flag); if (v == 0) continue; got = v; break; }",
        "for (int i = 0; i < n; i += seen(flag)) got++;",
        "__shared__ int s[1]; s[0] = 0; while (s[0] == 0) s[0] = seen(flag);",
    ],
)
def test_what_a_loop_waits_by_stays_as_it_is(code: str) -> None:
    kernel = load(READING.format(code=code), name="k.cu")
    assert any(isinstance(s, InlineAsm) for s in walk(kernel.body))


SHARED = """
__device__ unsigned place(const void* p) {{ return __cvta_generic_to_shared(p); }}
__device__ void put(void* to, uint2 v) {{
  unsigned at = place(to);
  asm volatile("st.shared.v2.u32 [%0], {{%1, %2}};" ::"r"(at), "r"(v.x), "r"(v.y));
}}
__device__ unsigned taken(const unsigned* from, bool there) {{
  unsigned at = place(from), v;
  {more}
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.shared.u32 %0, [%1]; }}"
               : "=r"(v) : "r"(at), "r"((int)there));
  return v;
}}
__global__ void turn(unsigned* out, const unsigned* in) {{
  __shared__ __align__(8) unsigned s[128];
  int t = threadIdx.x;
  put(s + 2 * t, make_uint2(in[2 * t], in[2 * t + 1]));
  __syncthreads();
  out[2 * t] = taken(&s[127 - 2 * t], t != 5);
  out[2 * t + 1] = taken(&s[126 - 2 * t], true);
}}
void go(unsigned* out, const unsigned* in) {{ turn<<<1, 64>>>(out, in); }}
"""


def test_shared_memory_is_reached_where_its_address_was_taken() -> None:
    kernel = load(SHARED.format(more=""), name="k.cu")
    assert not any(isinstance(s, InlineAsm) for s in walk(kernel.body))
    words = np.arange(100, 228, dtype=np.uint32)
    got = run(kernel, {"out": np.zeros(128, np.uint32), "in": words})
    assert got.ok, got.findings
    want = words[::-1].copy()
    want[10] = 0
    assert (got.outputs["out"] == want).all()


@pytest.mark.parametrize("more", ["at += 4;", "if (there) at = 0;", "from += 1; at = at & 0xffff;"])
def test_an_address_that_changes_is_not_followed(more: str) -> None:
    kernel = load(SHARED.format(more=more), name="k.cu")
    assert any(isinstance(s, InlineAsm) for s in walk(kernel.body))
