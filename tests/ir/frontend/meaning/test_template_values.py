"""What templates, constant expressions and initialisers give: values as g++ 12 computes them from the same text."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.text import print_body, print_kernel

CASES: dict[str, tuple[str, str, list[int], list[int]]] = {
    "initializer lists": (
        """\
constexpr size_t most(std::initializer_list<size_t> l) { return std::max(l); } int
  sum(std::initializer_list<int> l) { int s = 0; for (int x : l) s = s * 10 + x; return s + (int)l.size(); }
  struct T { static constexpr int k = most({sizeof(int), 8, 3}); };
""",
        """\
y[0] = sum({1, n, 3}); int b2[T::k]; y[1] = sizeof(b2); y[2] = std::max({n, 7, 3}); y[3] = std::min({2.5f,
  1.5f}) * 2; int q = 3; y[4] = sum({q, q + 1});
""",
        [156, 32, 7, 3, 36],
        [],
    ),
    "packs in braces": (
        """\
template <typename... T> void arr(int* p, T... t) { int v[] = {t...}; for (int i = 0; i < (int)sizeof...(t);
  ++i) p[i] = v[i]; } template <class T, T... v> struct IS { static int get(int i) { constexpr T a[] = {v...};
  return a[i]; } }; struct P3 { int a, b, c; }; template <class... A> P3 mk(A... a) { return P3{a...}; }
  template <class... A> P3 mk2(A... a) { P3 p = {(a + 1)...}; return p; }
""",
        """\
arr(y + 12, 1, 2, 3); y[0] = IS<short, 3, 4, 5>::get(n - 3); y[2] = mk(1, 2, 3).b; y[3] = mk2(1, 2, 3).c;
""",
        [5, 0, 2, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3],
        [],
    ),
    "base classes of templates": (
        """\
template <class D> struct Base { int x = 1; D& self() { return *static_cast<D*>(this); } }; struct A : Base<A> {
  int v = 3; }; template <class D> int call(Base<D>& b) { return b.x + b.self().v; } template <class T, int N>
  struct Ar { T v[N]; }; struct Q : Ar<float, 3> { int k; }; template <class T, int N> int cnt(const Ar<T, N>&
  a) { return N + sizeof(T) * 10; }
""",
        """\
A a; y[0] = call(a); Q q; q.v[1] = 2; y[1] = cnt(q);
""",
        [4, 43],
        [],
    ),
    "braces of vectors": (
        """\
struct C { float2 x[2] = {{1, 2}, {3, 4}}; };
""",
        """\
C c; y[0] = c.x[1].x; int4 z{}; z = {1, 2, 3, 4}; y[1] = z.z; float4 v{1.f}; y[2] = v.x * 10 + v.y; int2 w[2] =
  {{1, 2}, {3}}; y[3] = w[1].x + w[1].y;
""",
        [3, 3, 10, 3],
        [],
    ),
    "constants that are written to": (
        """\

""",
        """\
const float q = 1.5f; *((unsigned*)&q) &= n > 9 ? 0u : 0xffffffffu; y[0] = q * 2; const float r = n;
  *((unsigned*)&r) &= n > 9 ? 0xffffffffu : 0u; y[1] = r;
""",
        [3],
        [],
    ),
    "texts and unnamed arrays as arguments": (
        """\
void note(const char* file, int line, const char* what) { if (line < 0) printf("%s %d %s\\n", file, line, what);
  } int len(const char* s) { int k = 0; while (s[k]) ++k; return k; } template <typename T, int N> int size(T
  (&)[N]) { return N; }
""",
        """\
note("a", 1, __func__); y[0] = sizeof("abc"); y[1] = len("hello"); int v[7]; y[2] = size(v); y[3] =
  std::is_same<const int, int>::value;
""",
        [4, 5, 7],
        [],
    ),
    "members of a named base class": (
        """\
struct A { int v = 5; int f() { return 1; } }; struct B : A { int w = 6; int f() { return 2; } };
""",
        """\
B q; y[0] = q.f() * 10 + q.A::f(); B* p = &q; y[1] = p->A::f();
""",
        [21, 1],
        [],
    ),
    "constant expressions with loops": (
        """\
constexpr int lp(int n) { int s = 0; for (int i = 0; i < n; ++i) { if (i == 2) continue; if (i == 7) break; s +=
  i; } return s; } constexpr int ilog2(unsigned n) { int r = 0; do { ++r; n >>= 1; } while (n); return r; }
  template <int N> struct Bits { static constexpr int v = ilog2(N); }; constexpr unsigned hash(unsigned x) { for
  (int i = 0; i < 3; ++i) x = x * 2654435761u + 1; return x; } constexpr int G = lp(10);
""",
        """\
y[0] = G; y[1] = Bits<200>::v; constexpr auto h = hash(7); l[0] = h; int z[ilog2(17)]; y[2] = sizeof(z); y[3] =
  lp(n); l[1] = hash(n); switch (n) { case lp(4): y[4] = 1; break; case ilog2(31): y[4] = 2; }
""",
        [19, 8, 20, 8, 2],
        [842751626, 2587037288],
    ),
    "constant objects": (
        """\
struct Cfg { int a, b; constexpr int sum() const { return a + b; } }; constexpr Cfg cfg{3, 4}; template <int N>
  int un(const int* p) { int s = 0; for (int i = 0; i < N; ++i) s += p[i]; return s; }
""",
        """\
for (int i = 0; i < 8; ++i) y[i] = i + 1; y[8] = un<cfg.a>(y); y[9] = un<cfg.sum()>(y); constexpr Cfg lc{1, 2};
  y[10] = un<lc.b>(y + 3); int arr[cfg.b]; y[11] = sizeof(arr);
""",
        [1, 2, 3, 4, 5, 6, 7, 8, 6, 28, 9, 16],
        [],
    ),
    "converting assignment": (
        """\
struct Fx { int raw; Fx(float f) : raw((int)(f * 256)) {} Fx(int i) : raw(i << 8) {} };
""",
        """\
Fx c = 1; c = 0.25f; y[0] = c.raw; c = 3; y[1] = c.raw;
""",
        [64, 768],
        [],
    ),
    "tables seen as bytes": (
        """\
static const __device__ unsigned long long grid[4] = {0x0807060504030201, 0xff00000000000001, 3, 4}; static
  const __device__ float ff[2] = {1.5f, -2.f};
""",
        """\
const unsigned char* p = (const unsigned char*)(grid + 1); y[0] = p[7]; y[1] = p[0]; y[2] = ((const unsigned
  char*)grid)[n]; y[3] = ((const unsigned*)ff)[1]; const signed char* q = (const signed char*)grid; y[4] =
  q[15];
""",
        [255, 1, 6, -1073741824, -1],
        [],
    ),
    "functions that constants keep": (
        """\
typedef int (*op_t)(int, int); template <int K> int addk(int a, int b) { return a + b * K; } template <int K>
  struct Tr { static constexpr op_t op = addk<K>; }; template <> struct Tr<2> { static constexpr op_t op =
  addk<7>; }; constexpr op_t gop = addk<3>;
""",
        """\
constexpr op_t f0 = Tr<1>::op; y[0] = f0(1, 2); y[1] = Tr<2>::op(1, 2); y[2] = gop(1, 2); constexpr op_t f1 =
  Tr<2>::op; y[3] = f1(n, 1);
""",
        [3, 15, 7, 12],
        [],
    ),
    "members of one instance": (
        """\
template <typename T> struct Ops { static T add(T a, T b) { return a + b; } T v; T get() const { return v; } T
  get(int k) const { return v + k; } T f(float x) { return x * 2; } T f(T x) { return x * 3; } }; template <>
  int Ops<int>::add(int a, int b) { return a * b; } template <> int Ops<int>::get() const { return -v; }
  template <> int Ops<int>::f(float x) { return x * 100; }
""",
        """\
y[0] = Ops<int>::add(3, 4); y[1] = Ops<short>::add(3, 4); Ops<int> a{5}; Ops<short> b{6}; y[2] = a.get(); y[3] =
  b.get(); y[4] = a.get(2); y[5] = a.f(1.5f) + a.f(2); y[6] = b.f(1.5f) + b.f((short)2);
""",
        [12, 7, -5, 6, 7, 156, 9],
        [],
    ),
    "lambdas in objects": (
        """\
template <typename F> struct Wr { F f; int go(int x) { return f(x); } }; template <typename F> struct W2 { F f;
  int k; W2(F g, int q) : f(g), k(q) {} int go(int x) const { return f(x) * k; } }; template <typename F> auto
  mk(F f) { return Wr<F>{f}; } template <typename A, typename B> struct Comp { A a; B b; int operator()(int x)
  const { return a(b(x)); } }; template <typename A, typename B> Comp<A, B> compose(A a, B q) { return {a, q}; }
  template <typename F> struct Wm { F f; int go() { return f(); } };
""",
        """\
int k = 4; auto l1 = [k](int x) { return x * k; }; Wr<decltype(l1)> w{l1}; k = 9; y[0] = w.go(3); auto l2 =
  [&k](int x) { return x + k; }; Wr<decltype(l2)> v{l2}; y[1] = v.go(1); k = 20; y[2] = v.go(1);
  W2<decltype(l1)> z(l1, 3); y[3] = z.go(2); y[4] = mk([](int q) { return q - 1; }).go(10); auto c = compose(l1,
  l2); y[5] = c(2); auto m = [k]() mutable { return ++k; }; Wm<decltype(m)> a{m}; y[6] = a.go(); y[7] = a.go();
  y[8] = m(); Wm<decltype(m)> e = a; y[9] = e.go(); y[10] = a.go();
""",
        [12, 10, 21, 24, 9, 88, 21, 22, 21, 23, 23],
        [],
    ),
    "slices and references in copies": (
        """\
struct A { int v; }; struct B : A { int w; }; struct R { int& a; const int& b; int* c; R(int& x, const int& z,
  int* w) : a(x), b(z), c(w) {} void go() { a += b; *c = a; } }; struct V { R r; int& get() { return r.a; } };
""",
        """\
B q; q.v = 3; q.w = 4; A a; a = q; y[0] = a.v; int x = 1, z = 2, w = 0; R r(x, z, &w); z = 5; r.go(); y[1] = x;
  y[2] = w; V v{r}; v.get() = 50; y[3] = x; R r2 = r; r2.a = 7; y[4] = x; int arr[3] = {1, 2, 3}; R r3(arr[1],
  arr[2], arr); r3.go(); y[5] = arr[1] * 10 + arr[0]; for (int i = 0; i < 2; ++i) { R t(arr[i], i, &w); t.go();
  } y[6] = arr[0] * 100 + arr[1];
""",
        [3, 6, 6, 50, 7, 55, 506],
        [],
    ),
}
"""(declarations, body of a kernel ``k(int* y, long long* l, int n)`` run with n = 5, the first values of y and l)."""


@pytest.mark.parametrize("case", CASES)
def test_values(execute, case: str) -> None:
    head, body, y, wide = CASES[case]
    text = f"{head}\n__global__ void k(int* y, long long* l, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(24, np.int32), "l": np.zeros(24, np.int64), "n": 5})
    assert got.get("y", np.zeros(24)).tolist() == y + [0] * (24 - len(y))
    assert got.get("l", np.zeros(24)).tolist() == wide + [0] * (24 - len(wide))


def test_functions_as_arguments_of_templates_run_where_they_are_called(execute) -> None:
    """Their statements went to the lowering that had looked at the launch: a store was lost, a variable undefined."""
    head = """\
namespace f {
__device__ void put(int* o) { o[1] = 3; }
template <typename T> __device__ T twice(const T& x) { T y = x * 2; return y + 1; }
}
template <typename T, void (*F)(int*), T (*G)(const T&)> __global__ void k(int* o) { F(o); o[0] = G(o[2]); }
void host(int* o) { k<int, f::put, &f::twice<int>><<<1, 1>>>(o); }
"""
    assert execute(head, {"o": np.array([0, 0, 5], np.int32)})["o"].tolist() == [11, 3, 5]


DISPATCH = """\
#include <torch/all.h>
namespace f {
template <typename T> __device__ T twice(const T& x) { return x + x; }
template <typename T> __device__ T half_of(const T& x) { return (T)((float)x / 2.0f); }
template <typename T, T (*F)(const T&), bool B> __global__ void k(T* o, int n) { if (B) o[0] = F(o[n]); }
}
#define RUN(F, B) AT_DISPATCH_SWITCH(o.scalar_type(), "k", \
    AT_DISPATCH_CASE(at::ScalarType::Float, [&] { \\
      f::k<scalar_t, F<scalar_t>, B><<<grid, 32>>>(o.data_ptr<scalar_t>(), n); }) \\
    AT_DISPATCH_CASE(at::ScalarType::Half, [&] { \\
      f::k<scalar_t, F<scalar_t>, B><<<grid, 32>>>(o.data_ptr<scalar_t>(), n); }))
void one(torch::Tensor& o, int n) { dim3 grid(n); RUN(f::twice, true); }
void two(torch::Tensor& o, int n) { dim3 grid(n); RUN(f::half_of, false); }
void all(torch::Tensor& o, int n) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, o.scalar_type(), "l", [&] {
    l<scalar_t><<<n, 32>>>(o.data_ptr<scalar_t>()); });
}
""".replace("void one", "template <typename T> __global__ void l(T* o) { o[0] = o[0] * o[0]; }\nvoid one")


def test_dispatch_over_element_types_gives_the_instances(refuses, cu) -> None:
    error = refuses(DISPATCH, "E-TEMPLATE-MISSING", kernel="k")
    assert "<float, f::twice<float>, true>; <__half, f::twice<__half>, true>; <float, f::half_of<float>, false>" in str(
        error
    )
    given = {"T": "__half", "F": "f::half_of<__half>", "B": "false"}
    assert "f16" in print_kernel(cu(DISPATCH, kernel="k", template=given))
    error = refuses(DISPATCH, "E-TEMPLATE-MISSING", kernel="l")
    assert "<float>; <__half>; <__nv_bfloat16>; <double>" in str(error)
    assert "--template T=float" in error.hint  # double is named first, and hardly what is run


@pytest.mark.parametrize(
    ("made", "first"),
    [
        ("V<float, 2>", "V<float, 2>"),  # a class template of the file
        ("typename Of<int>::Two", "Of<int>::Two"),  # a class in one
        ("Pair<float>", "V<float, 2>"),  # another name of one
    ],
)
def test_arguments_that_are_proposed_are_understood(refuses, cu, made: str, first: str) -> None:
    text = f"""
    template <class T, int N> struct V {{ T v[N]; }};
    template <class T> struct Of {{ struct Two {{ T v[2]; }}; }};
    template <class T> using Pair = V<T, 2>;
    template <class T> __global__ void k(T* y) {{ y[threadIdx.x].v[0] = 1; }}
    void go(void* y) {{ k<<<1, 32>>>(({made}*)y); k<<<1, 32>>>((V<short, 2>*)y); }}
    """
    assert f"--template 'T={first}'" in refuses(text, "E-TEMPLATE-MISSING").hint
    for spelled in (first, made):
        assert cu(text, template={"T": spelled}).launch is not None


OPERATIONS = """
enum class Op { Add, Max, Min };
enum Plain { ONE = 1, TWO };
typedef int count;
using Same = Op;
template <typename T, Op A, count w = 32> __device__ int fold() { return 1000 + w; }
template <typename T, Op A, Op B, count w = 32> __device__ int fold() { return 2000 + w; }
template <typename T, Op A, Op B, Same C, count w = 32> __device__ int fold() { return 3000 + w; }
template <int n> __device__ int number() { return n; }
template <typename E, E e> __device__ int of_any() { return (int)e; }
template <Op A> struct As { static constexpr int value = static_cast<int>(A); };
template <Op A> __device__ int cast() { return number<static_cast<int>(A)>(); }
template <Op... all> __device__ int folded() { return fold<float, all...>(); }
template <Op... all> __device__ int folded_by_4() { return fold<float, all..., 4>(); }
"""


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("fold<float, Op::Max>()", 1032),
        ("fold<float, Op::Max, 4>()", 1004),
        ("fold<float, Op::Max, Op::Min>()", 2032),
        ("fold<float, Op::Max, Op::Min, 4>()", 2004),
        ("fold<float, Op::Max, Op::Min, Op::Add, 4>()", 3004),
        ("fold<float, Op::Max, (int)Op::Min>()", 1002),
        ("folded<Op::Max, Op::Min>()", 2032),
        ("folded_by_4<Op::Max, Op::Min>()", 2004),
        ("number<TWO>()", 2),
        ("number<As<Op::Min>::value>()", 2),
        ("number<int(Op::Max)>()", 1),
        ("cast<Op::Min>()", 2),
        ("of_any<Op, Op::Min>()", 2),
    ],
)
def test_an_enumerator_of_a_scoped_enumeration_is_no_number(cu, call: str, value: int) -> None:
    body = print_body(cu(OPERATIONS + f"__global__ void k(int* o) {{ o[0] = {call}; }}").body)
    assert body.strip() == f"o[0] = {value}"


@pytest.mark.parametrize("call", ["number<Op::Max>()", "number<1, 2>()", "fold<float, Kind::A>()"])
def test_arguments_that_no_parameter_takes(cu, call: str) -> None:
    with pytest.raises(KtcError, match="accepts"):
        cu(OPERATIONS + f"enum class Kind {{ A }}; __global__ void k(int* o) {{ o[0] = {call}; }}")
