"""Objects as C++ has them: copies, ends, base parts, what constant and temporary objects choose among overloads.

Each case's values are those that g++ 12 computes from the same text.
"""

from __future__ import annotations

import numpy as np
import pytest

CASES: dict[str, tuple[str, str, list[int]]] = {
    "virtual dispatch": (
        """\
struct A { int v; virtual int f() { return v; } int g() { return f() * 10; } };
struct B : A { int f() override { return v + 1; } };
int call(A& a) { return a.g(); }
""",
        """\
B b; b.v = 4; y[0] = b.g(); A a; a.v = 4; y[1] = a.g(); y[2] = call(b); A& r = b; y[3] = r.f(); A c = b; y[4] =
  c.f();
""",
        [50, 40, 50, 5, 4],
    ),
    "slicing": (
        """\
struct A { int v; }; struct B : A { int w; };
A cut(A a) { a.v += 1; return a; }
""",
        """\
B b; b.v = 1; b.w = 2; A a = cut(b); y[0] = a.v; y[1] = b.v; A& r = b; r.v = 9; y[2] = b.v; static_cast<A&>(b)
  = a; y[3] = b.v; y[4] = b.w;
""",
        [2, 1, 9, 2, 2],
    ),
    "ctor order": (
        """\
struct C { int* t; int id; C(int* p, int i) : t(p), id(i) { t[0] = t[0] * 10 + i; } ~C() { t[0] = t[0] * 10 +
  id + 4; } };
""",
        """\
y[0] = 0; { C a(y, 1); C b(y, 2); } y[1] = y[0]; { C a(y + 2, 3); if (n > 3) { C c(y + 2, 1); } y[2] = y[2] *
  10 + 9; }
""",
        [1265, 1265, 31597],
    ),
    "ref return": (
        """\
struct V { int d[4]; int& operator[](int i) { return d[i]; } int operator[](int i) const { return d[i] + 100; }
  };
int& pick(V& v, int i) { return v[i]; }
""",
        """\
V v; for (int i = 0; i < 4; ++i) v[i] = i; pick(v, 2) = 7; pick(v, 3) += 5; const V& c = v; y[0] = v[2]; y[1] =
  c[2]; y[2] = v[3]; v[0]++; y[3] = v[0]--; y[4] = v[0]; y[5] = ++v[1];
""",
        [7, 107, 8, 1, 0, 2],
    ),
    "explicit conv": (
        """\
struct E { int v; explicit E(int x) : v(x) {} explicit operator bool() const { return v > 2; } };
""",
        """\
E e(3); if (e) y[0] = 1; y[1] = !E(1); y[2] = e && E(4); E g{5}; y[3] = g.v; y[4] = static_cast<bool>(E(0));
""",
        [1, 1, 1, 5],
    ),
    "copy semantics": (
        """\
struct P { int a[3]; int b; };
P inc(P p) { for (int& x : p.a) x++; p.b = p.a[0]; return p; }
""",
        """\
P p = {{1, 2, 3}, 4}; P q = inc(p); P r = q; r.a[1] = 50; y[0] = p.a[1]; y[1] = q.a[1]; y[2] = r.a[1]; y[3] =
  q.b; P z[2] = {p, q}; z[0] = z[1]; z[1].a[0] = -1; y[4] = z[0].a[0]; y[5] = z[1].a[0]; P e = {}; y[6] =
  e.a[2] + e.b;
""",
        [2, 3, 50, 2, 2, -1],
    ),
    "overloads": (
        """\
int o(int) { return 1; } int o(float) { return 2; } int o(double) { return 3; } int o(unsigned) { return 4; }
  int o(long long) { return 5; } int o(const int*) { return 6; } int o(bool) { return 7; } template <typename
  T> int o(T*) { return 8; }
int r(int&) { return 1; } int r(const int&) { return 2; } int r(int&&) { return 3; }
""",
        """\
short s = 1; unsigned char c = 1; y[0] = o(1); y[1] = o(1.f); y[2] = o(1.); y[3] = o(1u); y[4] = o(1LL); y[5] =
  o(s); y[6] = o(c); y[7] = o(true); y[8] = o(y); y[9] = o(f); const int q = 3; int w = 3; y[10] = r(q); y[11]
  = r(w); y[12] = r(5); y[13] = r(w + 1);
""",
        [1, 2, 3, 4, 5, 1, 1, 7, 8, 8, 2, 1, 3, 3],
    ),
    "const ref temp": (
        """\
struct K { int v; K(int x) : v(x) {} }; int g(const K& k) { return k.v; } int h(K&& k) { k.v++; return k.v; }
""",
        """\
y[0] = g(5); y[1] = h(K(6)); const K& r = K(8); y[2] = r.v; y[3] = g(K{n}); const int& t = n + 1; y[4] = t;
""",
        [5, 7, 8, 5, 6],
    ),
    "copy ctor": (
        """\
struct X { int v; X(int a) : v(a) {} X(const X& o) : v(o.v + 1) {} };
int byval(X x) { return x.v; } int byref(const X& x) { return x.v; } X make(int a) { return X(a); }
""",
        """\
X a(1); X b = a; X c(b); y[0] = b.v; y[1] = c.v; y[2] = byval(a); y[3] = byref(a); y[4] = byval(X(7)); X d =
  make(3); y[5] = d.v; y[6] = byval(make(4)); auto e = a; y[7] = e.v; auto g = make(9); y[8] = g.v; const X& r
  = a; X h = r; y[9] = h.v; X i{a}; y[10] = i.v;
""",
        [2, 3, 2, 1, 7, 3, 4, 2, 9, 2, 2],
    ),
    "dtor inline": (
        """\
struct L { int* p; L(int* q) : p(q) { p[0] += 1; } ~L() { p[1] += 10; } };
void scope(int* p) { L l(p); p[2] = p[1]; }
struct H { L l; int w; H(int* q) : l(q), w(2) {} ~H() { l.p[3] = l.p[1] + w; } };
""",
        """\
scope(y); for (int i = 0; i < 3; ++i) { L l(y); y[4] += y[1]; } if (n > 2) { L l(y); y[5] = y[1]; } { H h(y +
  8); y[12] = 1; }
""",
        [5, 50, 0, 0, 60, 40, 0, 0, 1, 10, 0, 2, 1],
    ),
    "const nested": (
        """\
struct In { int v; int get() { return v; } int get() const { return -v; } };
struct Out { In a; In& ref() { return a; } const In& ref() const { return a; } int both() const { return
  a.get(); } int both2() { return a.get(); } };
int viac(const Out& o) { return o.a.get(); } int viar(Out& o) { return o.a.get(); } int viap(const Out* o) {
  return o->a.get(); }
""",
        """\
Out o; o.a.v = 4; y[0] = o.both(); y[1] = o.both2(); y[2] = viac(o); y[3] = viar(o); y[4] = viap(&o); y[5] =
  o.ref().get(); const Out c = o; y[6] = c.ref().get(); y[7] = c.a.get(); Out arr[2]; arr[1] = o; const Out* q
  = arr; y[8] = q[1].a.get(); y[9] = arr[1].a.get();
""",
        [-4, 4, -4, 4, -4, 4, -4, -4, -4, 4],
    ),
    "ref overload mix": (
        """\
struct P { int v; }; int k(P&) { return 1; } int k(const P&) { return 2; } int k(P&&) { return 3; } P mk() { P
  p; p.v = 1; return p; }
template <typename T> int fw(T&& t) { return sizeof(T); } int nn(int* p) { return 1; } int nn(const int* p) {
  return 2; }
""",
        """\
P a; a.v = 0; const P b{1}; y[0] = k(a); y[1] = k(b); y[2] = k(mk()); y[3] = k(P{4}); const P& c = a; y[4] =
  k(c); P& d = a; y[5] = k(d); const int* q = y; y[6] = nn(y); y[7] = nn(q); y[8] = fw(3); auto&& z = mk();
  y[9] = k(z);
""",
        [1, 2, 3, 3, 2, 1, 1, 2, 4, 1],
    ),
    "braces": (
        """\
template <typename T, int N = 3> struct Arr { T d[N]; T sum() const { T s = 0; for (int i = 0; i < N; ++i) s +=
  d[i]; return s; } };
struct In { int a, b; }; struct Out { In i; int c; }; struct One { In i; };
""",
        """\
Arr<int> a = {{1, 2, 3}}; y[0] = a.sum(); Arr<float, 2> b = {{1.5f, 2.f}}; f[0] = b.sum(); Out o = {{1, 2}, 3};
  y[1] = o.i.b * 10 + o.c; One n1 = {{4, 5}}; y[2] = n1.i.a * 10 + n1.i.b; One n2{{6}}; y[3] = n2.i.a * 10 +
  n2.i.b; Out p{{7}}; y[4] = p.i.a + p.c; Arr<int> e{}; y[5] = e.sum();
""",
        [6, 23, 45, 60, 7],
    ),
    "ternary ref": (
        """\

""",
        """\
int a = 1, b = 2; int& r = n > 3 ? b : a; r = 100; y[0] = a; y[1] = b; const int& c = n > 30 ? a : b; y[2] = c;
  int v[3] = {1, 2, 3}; int& s = n == 5 ? v[2] : v[0]; s += 4; y[3] = v[2]; y[4] = s;
""",
        [1, 100, 100, 7, 7],
    ),
    "opers": (
        """\
struct V { float x, y; V operator-() const { return {-x, -y}; } V& operator+=(const V& o) { x += o.x; y += o.y;
  return *this; } bool operator<(const V& o) const { return x < o.x; } float operator()(int k) const { return k
  ? y : x; } V& operator++() { ++x; return *this; } V operator++(int) { V t = *this; ++x; return t; } float*
  operator&() = delete; };
V operator*(float s, const V& v) { return {s * v.x, s * v.y}; } V operator+(V a, const V& b) { a += b; return
  a; } bool operator==(const V& a, const V& b) { return a.x == b.x && a.y == b.y; }
""",
        """\
V a{1, 2}, b{3, 4}; V c = a + 2.f * -b; f[0] = c.x; f[1] = c(1); y[0] = a < b; V d = a++; f[2] = d.x; f[3] =
  a.x; V e = ++a; f[4] = e.x; (a += b) += b; f[5] = a.x; y[1] = d == V{1, 2}; y[2] = !(a == b);
""",
        [1, 1, 1],
    ),
    "static local": (
        """\
int cnt2(int a) { const int t[4] = {1, 2, 4, 8}; static constexpr int u[3] = {5, 6, 7}; return t[a] + u[a % 3];
  }
enum class E : unsigned char { A = 3, B, C = 250 }; enum F2 { X = -1, Y, Z = 10 };
""",
        """\
y[0] = cnt2(2); y[1] = (int)E::B; E e = E::C; y[2] = static_cast<unsigned char>(e) + 10; y[3] = e == E::C; F2
  f2 = Y; y[4] = f2 + Z; switch (e) { case E::A: y[5] = 1; break; case E::C: y[5] = 2; } y[6] = sizeof(E);
  constexpr auto sq = [](int v) { return v * v; }; int arr[sq(2)] = {1, 2}; y[7] = sizeof(arr) / sizeof(arr[0])
  + arr[3]; y[9] = X < Y;
""",
        [11, 4, 260, 1, 10, 2, 1, 4, 0, 1],
    ),
    "inherit2": (
        """\
struct A { int v = 1; int f() { return v; } int g(int) { return 5; } }; struct B : A { using A::g; int
  g(double) { return 6; } int f() { return A::f() + 10; } }; struct C : B { int f() { return B::f() + 100; } };
template <typename D> struct Crtp { int run() { return static_cast<D*>(this)->impl() * 2; } }; struct Im :
  Crtp<Im> { int z; int impl() { return z; } };
""",
        """\
C c; c.v = 3; y[0] = c.f(); y[1] = c.g(1); y[2] = c.g(1.0); B& b = c; y[3] = b.f(); A* a = &c; y[4] = a->f();
  Im i; i.z = 8; y[5] = i.run(); a->v = 9; y[6] = c.v;
""",
        [113, 5, 6, 13, 3, 16, 9],
    ),
    "bindings": (
        """\
struct S { int a, b; }; S mk(int v) { return {v, v + 1}; }
""",
        """\
S s{1, 2}; auto [a, b] = s; a = 7; b++; y[0] = s.a; y[1] = a * 10 + b; auto& [c, d] = s; c = 30; d += 4; y[2] =
  s.a; y[3] = s.b; auto [e, g] = mk(5); e += g; y[4] = e; const auto& [h, i] = s; y[5] = h + i; s.a = 1; y[6] =
  h;
""",
        [1, 73, 30, 6, 11, 36, 1],
    ),
    "eval order": (
        """\
int f1(int* c, int v) { *c = *c * 10 + v; return v; }
""",
        """\
int c = 0; int r = f1(&c, 1) + f1(&c, 2) * f1(&c, 3); y[0] = r; int i = 2; int a[5] = {0}; a[i] = ++i; i = 1; i
  += i++ + 1; y[2] = i; int x = 5; x = x-- - --x; c = 0; bool b = (f1(&c, 0) || f1(&c, 1)) && f1(&c, 2); y[4] =
  c; y[5] = b;
""",
        [7, 0, 4, 0, 12, 1],
    ),
    "loop control": (
        """\

""",
        """\
int s = 0; for (int i = 0; i < 6; ++i) { switch (i) { case 1: continue; case 3: s += 100; break; case 4: { if
  (s > 50) break; s += 7; } default: s += i; } s += 1000; } y[0] = s; int k = 0; do { ++k; if (k == 2)
  continue; if (k == 5) break; y[1] += k; } while (k < 10); y[2] = k; for (unsigned u = 3; u-- > 0;) y[3] =
  y[3] * 10 + u; for (int i = 0, j = 5; i != j; i++, j--) { if (i > 10) break; y[4]++; if (j == 4) { j--; } }
  int w = 0; while (true) { if (++w > 3) { if (w == 5) break; else continue; } y[5] += w; }
""",
        [5107, 8, 5, 210, 2, 6],
    ),
    "capture loop": (
        """\

""",
        """\
int s = 0; for (int i = 0; i < 3; ++i) { auto g = [i, s](int k) { return i * 100 + s * 10 + k; }; s += 1; y[i]
  = g(s); auto h = [&, i](int k) { s += i; return k; }; h(1); } y[3] = s; int v[3] = {1, 2, 3}; auto byv =
  [v](int i) { return v[i]; }; v[1] = 50; y[4] = byv(1); auto byr = [&v](int i) { v[i]++; return v[i]; }; y[5]
  = byr(1); y[6] = v[1]; struct Q { int a; int m() { auto l = [this] { a++; return a; }; l(); return l(); } int
  c() { auto l = [*this]() mutable { a += 10; return a; }; return l() + a; } }; Q q{5}; y[7] = q.m(); y[8] =
  q.c();
""",
        [1, 112, 234, 6, 2, 51, 51, 7, 24],
    ),
    "nested struct": (
        """\
struct O { struct I { int v; I(int x = 4) : v(x) {} int dbl() const { return v * 2; } }; I a; I b[2]; enum K {
  Z = 3 }; typedef int T; static T mk(K k) { return k + 1; } O() : a(7) { b[1].v = 9; } int all() { return
  a.dbl() + b[0].v + b[1].v; } O& set(int v) { a.v = v; return *this; } };
namespace A { int g = 5; namespace B { int h(int x) { return x + 1; } struct S { int q; }; int val(S s) {
  return s.q; } } inline int k2(B::S s) { return val(s) * 3; } } namespace AB = A::B; using A::B::h;
""",
        """\
O o; y[0] = o.all(); y[1] = O::mk(O::Z); O::I i; y[2] = i.v + O::I(2).dbl(); o.set(1).set(2).a.v += 10; y[3] =
  o.a.v; O p = o; p.b[0] = O::I(33); y[4] = o.b[0].v; y[5] = p.all(); AB::S s{6}; y[6] = A::k2(s); y[7] = h(3)
  + AB::h(1); y[8] = val(s); const O& c = o; y[9] = c.a.dbl();
""",
        [27, 4, 8, 12, 4, 66, 18, 6, 6, 24],
    ),
    "starts": (
        """\
struct A { int v = 3; int w; }; struct I { int v; I(int x = 4) : v(x) {} }; struct Q { I m[2]; A a; }; struct R
  { Q q; int z = 9; };
""",
        """\
A a[2]; y[0] = a[1].v; I i[2]; y[1] = i[0].v; Q q; y[2] = q.m[1].v + q.a.v; Q z[2]; y[3] = z[1].m[0].v +
  z[0].a.v; R r; y[4] = r.q.m[1].v + r.z; R rr[2]; y[5] = rr[1].q.a.v + rr[0].z; I k[3] = {I(1), 2}; y[6] =
  k[0].v * 100 + k[1].v * 10 + k[2].v; A e{}; y[7] = e.v + e.w; A g{7}; y[8] = g.v + g.w; int* p =
  &z[0].m[1].v; *p = 50; y[9] = z[0].m[1].v;
""",
        [3, 4, 7, 7, 13, 12, 124, 3, 7, 50],
    ),
    "lambda arrays": (
        """\

""",
        """\
int t[3] = {1, 2, 3}; auto g = [=](int i) { return t[i]; }; t[0] = 9; y[0] = g(0); auto h = [&](int i) { t[i]
  += 1; }; h(1); y[1] = t[1]; y[2] = g(1); const int c[2] = {7, 8}; auto m = [c](int i) { return c[i]; }; y[3]
  = m(1);
""",
        [1, 3, 2, 8],
    ),
}
"""(declarations, body of a kernel ``k(int* y, float* f, int n)`` that is run with n = 5, the first values of y)."""


@pytest.mark.parametrize("case", CASES)
def test_objects(execute, case: str) -> None:
    head, body, want = CASES[case]
    text = f"{head}\n__global__ void k(int* y, float* f, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(16, np.int32), "f": np.zeros(8, np.float32), "n": 5})
    assert got["y"].tolist() == want + [0] * (16 - len(want))


GUARD = "struct Guard { int* p; Guard(int* q) : p(q) {} ~Guard() { p[0] = 7; } };\n"


@pytest.mark.parametrize("body", [
    "Guard g(y); if (y[1]) return; y[2] = 1;",
    "for (int i = 0; i < 4; ++i) { Guard g(y); if (y[i]) break; }",
    "Guard(y).p[1] = 2;",
    "Guard all[2] = {Guard(y), Guard(y + 1)};",
])  # fmt: skip
def test_ends_that_are_not_followed_are_refused(refuses, body: str) -> None:
    refuses(f"{GUARD}__global__ void k(int* y) {{ {body} }}", "E-UNSUPPORTED-DESTRUCTOR")


def test_bindings_of_a_vector_are_copies_or_its_elements(execute) -> None:
    body = (
        "int2 v = make_int2(8, 9); auto [p, q] = v; p += 1; auto& [r, s] = v; s = p * 10 + q; "
        "y[0] = v.x; y[1] = v.y; y[2] = p; y[3] = r;"
    )
    got = execute(f"__global__ void k(int* y) {{ {body} }}", {"y": np.zeros(4, np.int32)})
    assert got["y"].tolist() == [8, 99, 9, 8]
