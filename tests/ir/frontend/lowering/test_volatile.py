"""Volatile accesses to memory whose own type does not say so keep that, one by one, in text and in each language."""

from __future__ import annotations

import pytest

from ktc.backends import check_compile, emit
from ktc.ir.analysis.order import pinned
from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const, Load, Store
from ktc.ir.purity import is_removable, is_volatile
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import F32
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Result
from ktc.passes.core.pipeline import apply_step, sites

LAST_WARP = """
__device__ void last_warp(volatile float *v, int t) {
  v[t] += v[t + 32]; v[t] += v[t + 16]; v[t] += v[t + 8];
  v[t] += v[t + 4]; v[t] += v[t + 2]; v[t] += v[t + 1];
}
__global__ void total(const float *in, float *out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = in[blockIdx.x * 64 + t];
  __syncthreads();
  if (t < 32) last_warp(s, t);
  if (t == 0) out[blockIdx.x] = s[0];
}
void host(const float *in, float *out) { total<<<4, 64>>>(in, out); }
"""
EVERY_WAY = """
struct Pair { int a; float b; };
__global__ void ways(float *out, int *flag, float4 *wide) {
  __shared__ volatile float rows[2][64];
  __shared__ volatile int one;
  __shared__ float plain[64];
  __shared__ Pair pairs[4];
  volatile float *moving = plain;
  volatile int *f = flag;
  volatile float &second = plain[1];
  volatile Pair *p = pairs;
  auto copy = f;
  int t = threadIdx.x;
  rows[1][t] = out[t];
  one = 3;
  while (f[0] == 0) {}
  moving += t;
  *moving = rows[1][t ^ 1] + second;
  p[t & 3].b = 1.f;
  ((volatile float4 *)wide)[t].y = copy[1];
  out[t] = *((volatile float *)plain + 2) + one + plain[3];
}
void host(float *out, int *flag, float4 *wide) { ways<<<1, 64>>>(out, flag, wide); }
"""


SPIN = """
__device__ int spin(volatile int *p) { do { p[0] = 1; } while (p[0] != 1); return p[0]; }
__global__ void k(int *x, volatile int *y) {
  extern __shared__ volatile int d[];
  __shared__ int s[64];
  d[threadIdx.x] = y[0];
  x[0] = spin(s) + d[1];
}
void host(int *x, int *y) { k<<<1, 64, 256>>>(x, y); }
"""


def accesses(kernel: Kernel) -> list[tuple[str, str, str]]:
    """(buffer, load or store, marker) of every access."""
    nodes = [*all_exprs(kernel.body), *walk(kernel.body)]
    return sorted((x.buffer.name, type(x).__name__, x.cache) for x in nodes if isinstance(x, Load | Store))


def test_the_unrolled_last_warp_stays_volatile_and_the_rest_plain() -> None:
    found = accesses(load(LAST_WARP))
    assert found.count(("s", "Load", "volatile")) == 12 and found.count(("s", "Store", "volatile")) == 6
    assert found.count(("s", "Load", "")) == 1 and found.count(("s", "Store", "")) == 1


def test_every_way_to_say_it() -> None:
    found = accesses(load(EVERY_WAY))
    plain = [x for x in found if not x[2]]
    assert sorted(plain) == [("out", "Load", ""), ("out", "Store", ""), ("plain", "Load", "")]
    assert {x[0] for x in found if x[2]} == {"rows", "one", "plain", "flag", "pairs", "wide"}


@pytest.mark.parametrize("source", [LAST_WARP, EVERY_WAY, SPIN])
@pytest.mark.parametrize("language", ["cuda", "hip", "opencl"])
def test_what_is_printed_reads_back_with_the_same_accesses(source: str, language: str) -> None:
    kernel = load(source)
    if language == "opencl" and source is EVERY_WAY:
        kernel = load(LAST_WARP.replace("float s[64]", "volatile float s[64]"))
    again = load(emit(kernel, language).text, name="k.cl" if language == "opencl" else "k.cu")
    assert accesses(again) == accesses(kernel)


@pytest.mark.parametrize("source", [LAST_WARP, EVERY_WAY, SPIN])
def test_text_round_trip(source: str) -> None:
    kernel = load(source)
    text = print_kernel(kernel)
    assert ".volatile[" in text
    assert print_kernel(parse_kernel(text)) == text


def test_what_the_type_says_is_not_marked_and_plain_memory_stays_plain() -> None:
    found = accesses(load(SPIN))
    assert ("y", "Load", "") in found and ("x", "Store", "") in found
    assert {x[0] for x in found if x[2]} == {"d", "s"}
    text = emit(load(SPIN), "cuda").text
    assert "volatile int* y" in text and "__shared__ int s[64]" in text


def test_a_volatile_access_acts() -> None:
    kernel = load(LAST_WARP)
    marked = [e for e in all_exprs(kernel.body) if isinstance(e, Load) and e.buffer.name == "s"]
    assert [is_removable(e) for e in marked] == [e.cache == "" for e in marked]
    stores = [s for s in walk(kernel.body) if isinstance(s, Store) and s.buffer.name == "s"]
    alone = [Store(s.buffer, s.index, Const(0.0, F32), cache=s.cache) for s in stores]
    assert [pinned((s,)) is not None for s in alone] == [s.cache == "volatile" for s in stores]


LOOPS = """
__global__ void loops(float *x, volatile int *flag, int n) {
  __shared__ float s[64];
  volatile float *v = s, *g = x;
  int t = threadIdx.x;
  float acc = 0.f;
  for (int i = 0; i < 8; i++) { v[t] = i; acc += v[t ^ 1]; acc += v[t ^ 1]; }
  for (int j = 0; j < n; j++) acc += g[j];
  for (int k = 0; k < 16; k++) { g[64] = acc; flag[0] = k; int unused = flag[1]; }
  x[t] = acc;
}
void host(float *x, int *f, int n) { loops<<<1, 64>>>(x, f, n); }
"""


def test_no_pass_drops_or_hints_a_volatile_access() -> None:
    kernel = load(LOOPS)

    def volatile(k: Kernel) -> int:
        return sum(is_volatile(x) for x in [*all_exprs(k.body), *walk(k.body)] if isinstance(x, Load | Store))

    assert volatile(kernel) == 7
    applied = 0
    for name, found in sites(kernel).items():
        assert name != "cache-hints" or not found, found
        for site in found:
            step = site.step
            after = apply_step(kernel, step)
            if isinstance(after, Result):
                applied += 1
                assert volatile(after.kernel) >= 7, str(site.step)
    assert applied >= 4


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("source", [LAST_WARP, EVERY_WAY])
def test_nvcc_makes_volatile_accesses_of_them(source: str) -> None:
    ptx = check_compile(emit(load(source), "cuda"), output="ptx").artifact.decode()
    assert ptx.count("ld.volatile.shared") >= 3 and ptx.count("st.volatile.shared") >= 3


def test_atomics_of_volatile_buffers_are_of_what_is_behind_them() -> None:
    """No overload takes a volatile pointer: sources cast it away."""
    source = """
__global__ void lowest(volatile unsigned* cost, volatile float* sum, unsigned* o) {
  o[threadIdx.x] = atomicMin((unsigned*)&cost[threadIdx.x], 7u);
  atomicAdd(const_cast<float*>(sum) + threadIdx.x, 1.0f);
}
"""
    kernel = load(source)
    text = emit(kernel, "cuda").text
    assert "atomicMin(const_cast<unsigned*>(&cost[threadIdx.x]), 7u)" in text
    assert "atomicAdd(const_cast<float*>(&sum[threadIdx.x]), 1.0f)" in text
    again = print_kernel(load(text))
    assert "atomic min cost[threadIdx.x], 7_u32" in again and "atomic add sum[threadIdx.x], 1.0" in again
