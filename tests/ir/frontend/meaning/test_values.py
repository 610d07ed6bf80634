"""Names, types and values as C++ has them: enumerations, constant expressions, promotions, copies and moves.

Each case's values are those that g++ 12 computes from the same text.
"""

from __future__ import annotations

import numpy as np
import pytest

CASES: dict[str, tuple[str, str, list[int], list[int]]] = {
    "scopes of enumerators": (
        """\
enum class A { X, Y, Z }; enum class B { Z, Y = 7, X };
namespace P { enum K { U, V = 4, W }; enum class G { X = sizeof(int), Y = X * 2 }; } namespace Q { enum K { W,
  V, U = 9 }; int g() { return W + U * 10; } }
struct S { enum M { U = 20, V, W }; enum class T : char { X = 30, Y }; int m() { return W; } }; struct R { enum
  M { W = 1, V = 2 }; int m() { return W; } };
using Other = B; enum { SIZE = 4, TWICE = SIZE * 2 };
""",
        """\
y[0] = (int)A::X * 100 + (int)B::X; y[1] = (int)A::Z * 10 + (int)B::Z; y[2] = P::V * 100 + Q::V; y[3] = P::W *
  100 + Q::W; y[4] = Q::g(); y[5] = S::U * 100 + S().m(); y[6] = R::W * 10 + R().m(); y[7] = (int)S::T::X; y[8]
  = (int)S::T::Y; y[9] = S::V; y[10] = P::K::V * 10 + Q::K::V; y[11] = (int)P::G::Y; y[12] = (int)Other::X; int
  SIZE = 100; y[13] = TWICE + SIZE; enum Own { U = 50, X }; y[14] = U + X; { enum Own { U = 60 }; y[15] = U; }
  y[16] = U + Own::X;
""",
        [8, 20, 401, 500, 90, 2022, 11, 30, 31, 21, 41, 8, 8, 108, 101, 60, 101],
        [],
    ),
    "types of enumerators": (
        """\
enum Low { LO = -1, HI = 0x7fffffff }; enum Mask { NONE, ALL = 0xffffffff }; enum Wide { BIT = 1ll << 40, NEXT
  }; enum Byte : unsigned char { LAST = 255 };
""",
        """\
l[0] = HI; l[1] = ALL; l[2] = NEXT; l[3] = ALL + 1; l[4] = sizeof(Wide); l[5] = LO; l[6] = LAST + 1; l[7] =
  sizeof(Byte); l[8] = (LO < 0) + (ALL > 0) * 10;
""",
        [],
        [2147483647, 4294967295, 1099511627777, 0, 8, -1, 256, 1, 11],
    ),
    "inner namespaces first": (
        """\
namespace A { namespace detail { int f() { return 1; } const int c = 2; } int g() { return detail::f() * 10 +
  detail::c; } } namespace B { namespace detail { int f() { return 3; } const int c = 4; } int g() { return
  detail::f() * 10 + detail::c; } }
""",
        """\
y[0] = A::g(); y[1] = B::g();
""",
        [12, 34],
        [],
    ),
    "branches not taken have types": (
        """\
constexpr int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
""",
        """\
const int v = 63; l[0] = 1 - (0x3 ? v : 100u); l[1] = true ? -1 : 1ull; l[2] = true ? -1 : 0u; l[3] =
  sizeof(true ? 1 : 2.0); short s = -3; l[4] = true ? s : 0u; y[0] = (true ? -1 : (false ? 0 : 1u)) > 0; y[1] =
  (false ? 2.5f : 1) / 2 > 0; y[2] = fib(12);
""",
        [1, 1, 144],
        [4294967234, -1, 4294967295, 8, 4294967293],
    ),
    "constants wrap": (
        """\

""",
        """\
constexpr unsigned a = -7u, b = ~0u, c = 3u - 5u, d = 0xffffffffu + 2u; constexpr long long w = -1u; constexpr
  short s = (short)-4ull; l[0] = a; l[1] = b; l[2] = c; l[3] = d; l[4] = w; y[0] = s; constexpr bool t = -1u >
  5; y[1] = t; int z[(0u - 1u) / 1073741824u]; y[2] = sizeof(z); switch (n) { case (int)(0u - 4294967291u): y[3]
  = 3; }
""",
        [-4, 1, 12, 3],
        [4294967289, 4294967295, 4294967294, 1, 4294967295],
    ),
    "bit-fields are ints": (
        """\
struct B { unsigned a : 3; unsigned b : 32; int c : 4; unsigned d : 20; };
""",
        """\
B q; q.a = 5; q.b = 7; q.c = -3; q.d = 1000; l[0] = q.a - 9; l[1] = q.b - 9; l[2] = -q.a; l[3] = ~q.d; y[0] =
  (q.a - 9) / 2; q.d /= -3; y[1] = q.d; l[4] += q.a - 6; y[2] = q.a < -1; l[5] = q.a << 30; l[6] = (q.a - 7) >>
  1;
""",
        [-2, 1048243],
        [-4, 4294967294, -5, -1001, -1, 1073741824, -1],
    ),
    "lambdas are copied": (
        """\
template <typename F> int twice(F f) { return f() + f(); } template <typename F> int refer(F& f) { return f() +
  f(); }
""",
        """\
int a = 3; auto m = [a]() mutable { return ++a; }; auto c = m; y[0] = c() * 10 + m(); auto& r = m; y[1] = r() +
  m(); y[2] = twice(m); y[3] = m(); y[4] = refer(m); y[5] = m(); auto z = [m]() mutable { return m(); }; y[6] =
  z(); y[7] = z(); y[8] = m(); int k = 0; auto w = [&k]() mutable { return ++k; }; auto v = w; v(); w(); y[9] =
  k;
""",
        [44, 11, 15, 7, 17, 10, 11, 12, 11, 2],
        [],
    ),
    "objects that are chosen": (
        """\
struct S { int a, b; int g() const { return a * 2; } S& inc() { ++a; return *this; } }; void ch(S& s) { s.a =
  99; } int rd(const S& s) { return s.a; }
""",
        """\
S p{1}, q{2}; (n > 3 ? p : q).a = 10; y[0] = p.a; y[1] = (n < 3 ? p : q).g(); (n < 3 ? p : q).inc().inc(); y[2]
  = q.a; S r = n > 3 ? p : q; r.a++; y[3] = p.a; const S& cr = n > 9 ? p : q; q.a = 50; y[4] = cr.g(); y[5] = (n
  > 3 ? S{7} : q).a; S& nr = n > 3 ? p : q; nr.b = 6; y[6] = p.b; (n < 3 ? p : q) = S{8, 9}; y[7] = q.b; (n > 3
  ? p : q).b++; y[8] = p.b; ch(n > 3 ? p : q); y[9] = p.a; y[10] = rd(n < 3 ? p : q); S arr[3] = {{1, 2}, {3,
  4}, {5, 6}}; int i = 1; const S& z = n > 3 ? arr[i] : arr[0]; i = 0; y[11] = z.a; S* pp = &(n > 3 ? p : q);
  pp->a = 5; y[12] = p.a;
""",
        [10, 4, 4, 10, 100, 7, 6, 9, 7, 99, 8, 3, 5],
        [],
    ),
    "moves": (
        """\
struct R { int v; int* log; R(int a, int* l) : v(a), log(l) { ++*log; } R(const R& o) : v(o.v), log(o.log) {
  *log += 10; } R(R&& o) : v(o.v), log(o.log) { *log += 100; o.v = -1; } R& operator=(const R& o) { v = o.v;
  *log += 1000; return *this; } R& operator=(R&& o) { v = o.v; o.v = -2; *log += 10000; return *this; } }; R
  mk(int a, int* l) { return R(a, l); } int take(R r) { return r.v; } int rr(R&& r) { return ++r.v; }
""",
        """\
int c = 0; R a = mk(1, &c); y[0] = c; R b2 = a; y[1] = c; R d2 = std::move(a); y[2] = c; y[3] = a.v; b2 = d2;
  y[4] = c; b2 = mk(5, &c); y[5] = c; y[6] = b2.v; R e = b2; b2 = std::move(e); y[8] = c; y[9] = e.v; y[10] =
  take(b2); y[11] = c; y[12] = take(std::move(b2)); y[13] = c; y[14] = b2.v; y[15] = rr(std::move(d2)); y[16] =
  d2.v; R&& x = std::move(d2); x.v = 8; y[17] = d2.v; y[18] = c; R q = x; y[19] = c;
""",
        [1, 11, 111, -1, 1111, 11112, 5, 0, 21122, -2, 5, 21132, 5, 21232, -1, 2, 2, 8, 21232, 21242],
        [],
    ),
    "moves of what is passed by value": (
        """\
struct P { int v; P(int x) : v(x) {} P(const P& o) : v(o.v + 100) {} P(P&& o) : v(o.v + 1) {} };
P give(P p) { return p; } P same(P& p) { return p; }
""",
        """\
P a(5); P b = give(static_cast<P&&>(a)); y[0] = b.v; P c = give(a); y[1] = c.v; P d(std::move(a)); y[2] = d.v;
  P e = same(a); y[3] = e.v; P f = give(P(9)); y[4] = f.v;
""",
        [7, 106, 6, 105, 10],
        [],
    ),
    "forwarded places": (
        """\
template <typename F, typename A> void call(F f, A&& a) { f(std::forward<A>(a)); } void add(int& q) { q += 10; }
  struct S { int v; }; void ch(S& s) { s.v = 77; } template <typename A> void call2(A&& a) {
  ch(std::forward<A>(a)); }
""",
        """\
int z = 1; call([](int& q) { q += 10; }, z); y[0] = z; call(add, z); y[1] = z; S s{1}; call2(s); y[2] = s.v; int
  a[3] = {1, 2, 3}; call([](int& q) { q = 9; }, a[n - 4]); y[3] = a[1];
""",
        [11, 21, 77, 9],
        [],
    ),
    "members copied by code": (
        """\
struct X { int v; X(int a = 0) : v(a) {} X(const X& o) : v(o.v + 1) {} }; struct O { X x; int k; }; int byv(O o)
  { return o.x.v; } X pass(X r) { return r; } X loc(int a) { X r(a); r.v += 5; return r; }
""",
        """\
O o{X(1), 2}; O p = o; y[0] = p.x.v; y[1] = byv(o); O p3{p}; y[3] = p3.x.v; X a(1); y[4] = pass(a).v; X b2 =
  pass(a); y[5] = b2.v; y[6] = loc(3).v; X c = loc(4); y[7] = c.v;
""",
        [2, 2, 0, 3, 3, 3, 8, 9],
        [],
    ),
    "braces copy": (
        """\
struct S { int v, w; }; struct Q { S s; int k; }; struct Z { int w[2] = {1, 2}; int g() { return w[0] * 10 +
  w[1]; } }; struct T { int a = 3; int b = a + 1; int2 c = {4, 5}; Z s; };
""",
        """\
S a{1, 2}; S c = {a}; c.v = 5; y[0] = a.v; S e{a}; e.v = 6; y[1] = a.v; Q q = {a, 3}; q.s.v = 9; y[2] = a.v; Q
  r{q.s, 1}; r.s.w = 8; y[3] = q.s.w; S arr[2] = {a, c}; arr[0].v = 77; y[4] = a.v; a = S{arr[1]}; a.v = 1; y[5]
  = arr[1].v; Z s; y[6] = s.g(); T t; y[7] = t.b + t.c.y; y[8] = t.s.g(); Z z[2]; y[9] = z[1].g(); T t2{7};
  y[10] = t2.b;
""",
        [1, 1, 1, 2, 1, 5, 12, 9, 12, 12, 8],
        [],
    ),
    "layout of derived classes": (
        """\
struct A { char c; int i; char d; }; struct D : A { char e; }; struct N { int i; char d; N(int a) : i(a) {} };
  struct M : N { char e; M(int a) : N(a), e(7) {} }; struct Empty {}; struct G : Empty { int i; }; struct L : G
  { double d; char c; }; struct K : D { char f; };
""",
        """\
y[0] = sizeof(D); y[1] = sizeof(M); y[2] = sizeof(G); y[3] = sizeof(L); y[4] = sizeof(K); y[5] =
  alignof(float3); y[6] = alignof(double4) <= 32; y[7] = alignof(L); D q[2]; q[1].e = 3; y[8] = ((char*)q)[28];
  y[9] = (int)((char*)&q[1] - (char*)&q[0]);
""",
        [16, 8, 4, 24, 16, 4, 1, 8, 3, 16],
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


def test_an_enumerator_of_two_enumerations_is_refused(refuses) -> None:
    text = "namespace A { enum { N = 1 }; } namespace B { enum { N = 2 }; }\n"
    refuses(text + "__global__ void k(int* y) { y[0] = N; }", "E-SEMA-AMBIGUOUS")


def test_overloads_that_only_enumerations_tell_apart_are_refused(refuses) -> None:
    text = "enum D { X }; int f(D) { return 1; } int f(int) { return 2; }\n"
    refuses(text + "__global__ void k(int* y) { y[0] = f(X); }", "E-UNSUPPORTED-OVERLOAD")


def test_a_function_declared_before_it_is_defined_takes_enumerations(execute) -> None:
    text = "enum D { X, Y }; int f(D); int f(D d) { return d + 1; }\n__global__ void k(int* y) { y[0] = f(Y); }"
    assert execute(text, {"y": np.zeros(1, np.int32)})["y"][0] == 2


def test_a_place_that_only_a_copy_would_stand_for_is_refused(refuses) -> None:
    text = (
        "struct T { int v[3]; }; __global__ void k(int* y, int n) { T p, q; (n > 3 ? p : q).v[1] = 9; y[0] = p.v[1]; }"
    )
    refuses(text, "E-UNSUPPORTED-LVALUE")


@pytest.mark.parametrize("holder", ["struct D : X { int z; };", "struct D { X a[2]; };"])
def test_copies_by_code_that_are_not_followed_are_refused(refuses, holder: str) -> None:
    text = f"struct X {{ int v; X() {{}} X(const X& o) : v(o.v + 1) {{}} }}; {holder}\n"
    refuses(text + "__global__ void k(int* y) { D d; D e = d; y[0] = sizeof(e); }", "E-UNSUPPORTED-COPY")


def test_members_that_hide_those_of_a_base_class_are_refused(refuses) -> None:
    text = "struct A { int v; int g() { return v; } }; struct B : A { int v; };\n"
    refuses(text + "__global__ void k(int* y) { B b; b.v = 1; y[0] = b.g(); }", "E-UNSUPPORTED-MEMBER")


def test_an_endless_constant_expression_is_refused(refuses) -> None:
    text = "constexpr int f(int n) { while (n) n = n % 7 + 1; return n; } "
    refuses(text + "__global__ void k(int* y) { int z[f(3)]; y[0] = sizeof(z); }", "E-SEMA-CONSTANT")


def test_an_assignment_of_members_by_code_is_refused(refuses) -> None:
    text = "struct X { int v; X& operator=(const X& o) { v = o.v + 1; return *this; } }; struct P { X x; };\n"
    refuses(text + "__global__ void k(int* y) { P p{{1}}, q; q = p; y[0] = q.x.v; }", "E-UNSUPPORTED-MEMBER")
