"""Classes in classes, and what ``using enum`` brings into a scope.

Each case's values are those that g++ 12 computes from the same text.
"""

from __future__ import annotations

import numpy as np
import pytest

CASES: dict[str, tuple[str, str, list[int]]] = {
    "nested class uses what is around it": (
        """\
namespace q { constexpr int kDeep = 3; }
struct Cfg { static constexpr int kW = 8; using word = unsigned short; enum { kE = 5 }; static int twice(int x) {
  return 2 * x + kW; } };
template <int H> struct Base : Cfg {
  static constexpr int kH = H * 2;
  struct Inner { word a[kW]; int b[kH]; int sum() const { return b[0] + kH + kE + twice(1); }
    struct Deeper { int c[kH + kW]; word w; int n() const { return kH * 100 + kW + q::kDeep; } }; Deeper d; };
  static int size(const Inner& s) { return (int)sizeof(Inner) + s.sum(); }
};
struct D : Base<3> { static constexpr int kH = 50; };
struct Plain { static constexpr int kN = 4; struct In { int v[kN]; int last() const { return v[kN - 1]; } };
  static int f(In* p) { p->v[kN - 1] = 9; return p->last(); } };
""",
        """\
D::Inner s; s.b[0] = 1; y[0] = s.sum(); y[1] = (int)sizeof(D::Inner); y[2] = D::size(s); y[3] = s.d.n();
Base<1>::Inner t; y[4] = (int)sizeof(t); y[5] = t.d.n(); Plain::In p; y[6] = Plain::f(&p);
  y[7] = (int)sizeof(Plain::In); y[8] = D::kH;
""",
        [22, 100, 122, 611, 68, 211, 9, 16, 50],
    ),
    "nested hides": (
        """\
constexpr int kA = 1, kB = 2;
struct O { static constexpr int kA = 10; struct I { static constexpr int kB = 20; int f() const {
  return kA * 100 + kB; } struct J { int g() const { return kA + kB; } }; }; int h() const { return kA * 100 + kB;
  } };
struct P : O { static constexpr int kA = 70; int h2() const { return kA * 100 + kB; } struct I2 : I {
  int k() const { return kA * 1000 + kB; } }; };
""",
        """\
O o; O::I i; O::I::J j; P p; P::I2 k; y[0] = o.h(); y[1] = i.f(); y[2] = j.g(); y[3] = p.h2(); y[4] = p.h();
  y[5] = k.k(); y[6] = k.f();
""",
        [1002, 1020, 30, 7002, 1002, 70020, 1020],
    ),
    "using enum": (
        """\
enum class Mode : int { A = 0, B = 3 };
namespace q { enum class Other { X = 5, Y }; enum class Third { Z = 40 }; using enum Third; }
enum Old { P = 7, Q };
template <Mode m> int ff() { using enum Mode; if constexpr (m == B) return 1; else return 2; }
int g(q::Other o) { switch (o) { using enum q::Other; case X: return 10; case Y: return 20; } return 0; }
struct S { using enum q::Other; int v() const { return static_cast<int>(Y) * 2; } };
int X(int a) { return a; }
""",
        """\
using enum Old; y[0] = ff<Mode::A>(); y[1] = ff<Mode::B>(); y[2] = g(q::Other::X); y[3] = g(q::Other::Y);
  y[4] = S().v(); y[5] = (int)q::Z; y[6] = Q;
{ using enum Mode; y[7] = static_cast<int>(B); } y[8] = X(4);
""",
        [2, 1, 10, 20, 12, 40, 8, 3, 4],
    ),
    "unions in nested classes": (
        """\
struct Cfg { static constexpr int kB = 4; };
template <unsigned H_> struct Base : Cfg {
  static constexpr unsigned kH = 1 << H_;
  struct Smem {
    using V = int;
    alignas(16) unsigned c;
    union { V h[kH / kB]; int z[kB]; };
    struct { V q[kB]; } named;
  };
  static void go(Smem* s) { s->h[1] = kH; s->named.q[kB - 1] = 6; }
};
template <unsigned H> struct D : Base<H> {
  using B = Base<H>;
  using Smem = typename B::Smem;
  static void f(Smem* s) { B::go(s); }
};
""",
        """\
D<5>::Smem s; D<5>::f(&s); y[0] = s.h[1] + (int)sizeof(s); y[1] = s.z[1]; y[2] = s.named.q[3];
""",
        [96, 32, 6],
    ),
    "bases of nested classes": (
        """\
template <int H> struct Radix { static constexpr int kH = H;
  struct Smem { using Word = short; int count; Word h[kH]; int n() const { return kH; } }; };
template <int C_> struct Cluster : Radix<10> {
  static constexpr int kC = C_;
  using Base = Radix<4>;
  struct Smem : Base::Smem { using Word = typename Base::Smem::Word;
    Word more[kC]; Word w(int i) const { return more[i] + h[0] + kH + kC; } };
  static int f(Smem* s) { s->count = 2; s->h[0] = 5; s->more[1] = 7; return s->n() + s->w(1) * 10; }
};
""",
        """\
Cluster<3>::Smem s; y[0] = Cluster<3>::f(&s);
y[1] = s.count + (int)sizeof(s); y[2] = (int)sizeof(Cluster<3>::Smem::Word); y[3] = Cluster<3>::kH;
""",
        [254, 22, 2, 10],
    ),
}
"""(declarations, body of a kernel ``k(int* y, float* f, int n)`` that is run with n = 5, the first values of y)."""


@pytest.mark.parametrize("case", CASES)
def test_names_of_nested_classes(execute, case: str) -> None:
    head, body, want = CASES[case]
    text = f"{head}\n__global__ void k(int* y, float* f, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(32, np.int32), "f": np.zeros(8, np.float32), "n": 5})
    assert got["y"].tolist() == want + [0] * (32 - len(want))
