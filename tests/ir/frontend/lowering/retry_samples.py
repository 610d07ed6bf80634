"""Helpers that update an element by comparing and swapping: the spellings, and texts that look like them."""

from __future__ import annotations

KERNEL = """{includes}
{helper}
__global__ void k(const {t}* a, {t}* o, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {{ {call}; }}
}}
void run(const {t}* a, {t}* o, int n) {{ k<<<(n + 127) / 128, 128>>>(a, o, n); }}
"""
INCLUDES = {"__half": "#include <cuda_fp16.h>", "__nv_bfloat16": "#include <cuda_bf16.h>"}
BITS = {
    "float": ("int", "__float_as_int", "__int_as_float"),
    "double": ("unsigned long long", "__double_as_longlong", "__longlong_as_double"),
    "__half": ("unsigned short", "__half_as_ushort", "__ushort_as_half"),
    "__nv_bfloat16": ("unsigned short", "__bfloat16_as_ushort", "__ushort_as_bfloat16"),
}


def text_of(t: str, helper: str, call: str = "f(&o[i], a[i])") -> str:
    return KERNEL.format(includes=INCLUDES.get(t, ""), helper=helper, t=t, call=call)


def usual(t: str, new: str) -> str:
    """The loop of the CUDA C++ Programming Guide: ``new`` over ``x``, what is there, and ``v``."""
    word, bits, value = BITS[t]
    return f"""__device__ {t} f({t}* p, {t} v) {{
  {word}* at = ({word}*)p;
  {word} old = *at, assumed;
  do {{
    assumed = old;
    {t} x = {value}(assumed);
    old = atomicCAS(at, assumed, {bits}({new}));
  }} while (assumed != old);
  return {value}(old);
}}"""


def on_floats(body: str, result: str = "void") -> str:
    return f"__device__ {result} f(float* p, float v) {{ {body} }}"


SPELLINGS: dict[str, tuple[str, str, str]] = {
    "fmaxf": ("float", "max", usual("float", "fmaxf(v, x)")),
    "fminf": ("float", "min", usual("float", "fminf(x, v)")),
    "above": ("float", "gt", usual("float", "v > x ? v : x")),
    "not below": ("float", "ge", usual("float", "v >= x ? v : x")),
    "std::max of x first": ("float", "gt", usual("float", "x < v ? v : x")),
    "old stays only above": ("float", "geu", usual("float", "x > v ? x : v")),
    "old stays from equal on": ("float", "gtu", usual("float", "x >= v ? x : v")),
    "below": ("float", "lt", usual("float", "v < x ? v : x")),
    "NaN stays": ("float", "ges", usual("float", "isnan(x) ? x : (v < x ? x : v)")),
    "NaN by comparison": ("float", "lts", usual("float", "x != x ? x : !(v >= x) ? v : x")),
    "numbers before NaN": ("float", "gtn", usual("float", "isnan(v) || v <= x ? x : v")),
    "sum": ("float", "add", usual("float", "x + v")),
    "difference": ("float", "add", usual("float", "x - v")),
    "product": ("float", "mul", usual("float", "v * x")),
    "sum of doubles": ("double", "add", usual("double", "v + x")),
    "maximum of doubles": ("double", "max", usual("double", "fmax(v, x)")),
    "exchange of doubles": ("double", "exch", usual("double", "v")),
    "sum in a wider type": ("float", "add", usual("float", "(float)((double)x + (double)v)")),
    "halves": ("__half", "max", usual("__half", "__hmax(v, x)")),
    "halves in float": ("__half", "add", usual("__half", "__float2half(__half2float(x) + __half2float(v))")),
    "bfloat16": ("__nv_bfloat16", "add", usual("__nv_bfloat16", "__hadd(x, v)")),
    "early break": ("float", "gt", on_floats("""
  unsigned* at = reinterpret_cast<unsigned*>(p);
  unsigned old = *at;
  while (v > __uint_as_float(old)) {
    unsigned seen = old;
    if ((old = atomicCAS(at, seen, __float_as_uint(v))) == seen) break;
  }""")),
    "first glance": ("float", "gtu", on_floats("""
  if (v <= *p) return *p;
  int* const at = (int*)p;
  int old = *at, assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= v) break;
    old = atomicCAS(at, assumed, __float_as_int(v));
  } while (assumed != old);
  return __int_as_float(old);""", "float")),
    "glance, then fmaxf": ("float", "gtn", on_floats("""
  if (*p >= v) return;
  int old = *(int*)p, assumed;
  do { assumed = old; old = atomicCAS((int*)p, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed)))); }
  while (assumed != old);""")),
    "forever with returns": ("float", "gtu", on_floats("""
  int old = *(int*)p;
  for (;;) {
    float now = __int_as_float(old);
    if (now >= v) return;
    int found = atomicCAS((int*)p, old, __float_as_int(v));
    if (found == old) return;
    old = found;
  }""")),
    "flag": ("float", "gtu", on_floats("""
  bool done = false;
  float now = *p;
  while (!done) {
    if (now >= v) { done = true; }
    else {
      int wanted = __float_as_int(now);
      int found = atomicCAS((int*)p, wanted, __float_as_int(v));
      done = found == wanted;
      now = __int_as_float(found);
    }
  }""")),
    "read again": ("float", "gtu", on_floats("""
  float old;
  do { old = *p; if (old >= v) return; }
  while (atomicCAS((int*)p, __float_as_int(old), __float_as_int(v)) != __float_as_int(old));""")),
    "read again through volatile": ("float", "min", on_floats("""
  volatile float* q = p;
  unsigned seen;
  do { seen = __float_as_uint(*q); }
  while (atomicCAS((unsigned*)p, seen, __float_as_uint(fminf(__uint_as_float(seen), v))) != seen);""")),
    "test after failing": ("float", "gt", on_floats("""
  int old = __float_as_int(*p);
  while (__int_as_float(old) < v) {
    int found = atomicCAS((int*)p, old, __float_as_int(v));
    if (found == old || __int_as_float(found) >= v) break;
    old = found;
  }""")),
    "union": ("float", "max", on_floats("""
  union { float f; unsigned u; } old, next;
  old.f = *p;
  do {
    next.f = fmaxf(old.f, v);
    unsigned wanted = old.u;
    old.u = atomicCAS((unsigned*)p, wanted, next.u);
    if (wanted == old.u) break;
  } while (true);""")),
    "memcpy": ("float", "add", on_floats("""
  unsigned old, next;
  float first = *p;
  memcpy(&old, &first, 4);
  for (unsigned assumed = ~old; assumed != old;) {
    assumed = old;
    float x;
    memcpy(&x, &assumed, 4);
    x = x + v;
    memcpy(&next, &x, 4);
    old = atomicCAS((unsigned*)p, assumed, next);
  }""")),
    "goto": ("float", "gt", on_floats("""
  int old = *(int*)p;
again:
  int seen = old;
  if (__int_as_float(seen) < v) {
    old = atomicCAS((int*)p, seen, __float_as_int(v));
    if (old != seen) goto again;
  }""")),
    "atomic_ref": ("float", "gt", "#include <cuda/atomic>\n" + on_floats("""
  cuda::atomic_ref<float, cuda::thread_scope_device> at(*p);
  float old = at.load(cuda::memory_order_relaxed);
  while (old < v && !at.compare_exchange_weak(old, v, cuda::memory_order_relaxed)) {}""")),
}  # fmt: skip
"""By name: the type, the operation, the helper."""

INTEGERS: dict[str, tuple[str, str, str]] = {
    "product": ("int", "mul", "int old=*p, s; do { s=old; old=atomicCAS(p,s,s*v); } while(s!=old);"),
    "maximum": ("int", "max", "int old=*p, s; do { s=old; old=atomicCAS(p,s,max(s,v)); } while(s!=old);"),
    "while below": (
        "unsigned long long", "max",
        "unsigned long long old=*p; while (old < v) { auto s=old; old=atomicCAS(p,s,v); if (old==s) break; }",
    ),
}  # fmt: skip

NEAR_MISSES: dict[str, str] = {
    "compared with the wrong value": usual("float", "fmaxf(v, x)").replace("(at, assumed", "(at, __float_as_int(v)"),
    "no retry": on_floats("""
  int old = *(int*)p;
  if (v > __int_as_float(old)) atomicCAS((int*)p, old, __float_as_int(v));"""),
    "two tries": on_floats("""
  int old = *(int*)p, s;
  for (int t = 0; t < 2; ++t) {
    s = old;
    old = atomicCAS((int*)p, s, __float_as_int(fmaxf(v, __int_as_float(s))));
    if (s == old) break;
  }"""),
    "value read again": usual("float", "fmaxf(v, *p)"),
    "value of the first look": on_floats("""
  int old = *(int*)p, s;
  float most = fmaxf(v, __int_as_float(old));
  do { s = old; old = atomicCAS((int*)p, s, __float_as_int(most)); } while (s != old);"""),
    "first look at another element": usual("float", "fmaxf(v, x)").replace("old = *at", "old = at[1]"),
    "compared as floats": on_floats("""
  float old = *p, s;
  do { s = old; old = __int_as_float(atomicCAS((int*)p, __float_as_int(s), __float_as_int(fmaxf(v, s)))); }
  while (s != old);"""),
    "until it fails": usual("float", "fmaxf(v, x)").replace("assumed != old", "assumed == old"),
    "tested by another look": on_floats("""
  while (true) {
    float seen = *p;
    if (v <= seen) break;
    int now = *(int*)p;
    if (atomicCAS((int*)p, now, __float_as_int(v)) == now) break;
  }"""),
    "taken from the operand": usual("float", "v - x"),
    "counts its turns": on_floats("""
  int old = *(int*)p, s, t = 0;
  do { s = old; old = atomicCAS((int*)p, s, __float_as_int(__int_as_float(s) + v * ++t)); } while (s != old);"""),
    "NaN stays, and zeros by their signs": usual("float", "isnan(x) ? x : isnan(v) ? v : fmaxf(x, v)"),
    "two things at once": usual("float", "fmaxf(v, x) + 1.0f"),
}
"""Texts that are no maximum of ``*p`` and ``v``, nor any other update with a name."""
