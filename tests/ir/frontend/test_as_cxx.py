"""Small programs give what a C++ compiler's code gives: the expected numbers are those of g++ 14 (-std=c++20)."""

from __future__ import annotations

import numpy as np
import pytest

INPUT = np.array([3, -7, 11, 2, 0, -1, 100, 255, -256, 65537, 7, 5, -3, 8, 1, 9], np.int32)

PROGRAMS: dict[str, tuple[str, list[int]]] = {
    "forward-temp": (
        """
        struct S { int v; };
        __device__ int f(int&) { return 1; }
        __device__ int f(int&&) { return 2; }
        __device__ int f(const int&) { return 3; }
        template <class T> __device__ int g(T&& x) { return f(std::forward<T>(x)); }
        template <class T> __device__ int h(T&& x) { return f(x); }
        __global__ void k(int* out, const int* a, int n) {
          int x = n; const int c = n;
          out[0] = g(x); out[1] = g(5); out[2] = g(x + 1); out[3] = g(c); out[4] = g(std::move(x));
            out[5] = h(5); out[6] = h(c); out[7]=f(std::move(x)); out[8]=f(static_cast<int&&>(x));
            out[9]=g(int(x)); out[10]=g((int)x); out[11] = g(a[0]); out[12]=g(out[0]); out[13]=f(x++);
            out[14]=f(++x);
          out[16] = f(n > 2 ? x : 3); out[17] = f((x)); out[18] = f((0, x)); out[19]=f(-x);
        }
        """,
        [1, 2, 2, 3, 2, 1, 3, 2, 2, 2, 2, 3, 1, 2, 1, 0, 2, 1, 1, 2],
    ),
    "forward-record": (
        """
        struct S { int v; };
        __device__ int f(S&) { return 1; }
        __device__ int f(S&&) { return 2; }
        __device__ int f(const S&) { return 3; }
        template <class T> __device__ int g(T&& x) { return f(std::forward<T>(x)); }
        template <class T> __device__ int g2(T&& x) { return g(std::forward<T>(x)) * 10 + g(x); }
        __device__ S mk(int v) { return S{v}; }
        __global__ void k(int* out, const int* a, int n) {
          S x{n}; const S c{n};
          out[0] = g(x); out[1] = g(S{5}); out[2] = g(mk(2)); out[3] = g(c); out[4] = g(std::move(x));
            out[5] = g2(mk(1)); out[6] = g2(c); out[7] = g2(x);
        }
        """,
        [1, 2, 2, 3, 2, 21, 33, 11],
    ),
    "ctor-rvalue": (
        """
        struct B { int v; int how;
        __device__ B(int x) : v(x), how(0) {}
        __device__ B(const B& o) : v(o.v), how(o.how + 1) {}
        __device__ B(B&& o) : v(o.v), how(o.how + 100) { o.v = -1; } };
        __device__ B mk(int v) { B b(v); return std::move(b); }
        struct H { B b;
        __device__ H(B x) : b(std::move(x)) {} };
        __global__ void k(int* out, const int* a, int n) {
          B x(n); B y = x; B z = std::move(x); out[0] = x.v; out[1] = y.how; out[2] = z.how; B w = mk(3);
            out[3] = w.how; out[4] = w.v;
          H h(y); out[5] = h.b.how; out[6] = y.v; H q(std::move(y)); out[7] = q.b.how; out[8] = y.v;
        }
        """,
        [-1, 1, 100, 100, 3, 102, 5, 201, -1],
    ),
    "overload-ints2": (
        """
        __device__ int f(long, int) { return 1; }
        __device__ int f(int, long) { return 2; }
        __device__ int g(unsigned) { return 1; }
        __device__ int g(double) { return 2; }
        template <class T> __device__ int h(T) { return 1; }
        __device__ int h(int) { return 2; }
        template <class T> __device__ int h(T*) { return 3; }
        template <class T> __device__ int h(const T*) { return 4; }
        __global__ void k(int* out, const int* a, int n) {
          short s = n; float fl = n; int x = 0; const int cx = 1;
          out[0] = f(1L, 2); out[1] = f(1, 2L); out[2] = g(fl); out[4] = h(1); out[5] = h(s);
            out[6] = h(&x); out[7] = h(a); out[9] = h(out); out[10] = h(1L);
        }
        """,
        [1, 2, 2, 0, 2, 1, 3, 4, 0, 3, 1],
    ),
    "vartempl": (
        """
        template <class T> constexpr int sz = sizeof(T);
        template <> constexpr int sz<char> = 77;
        template <class T> constexpr int sz<T*> = 5;
        template <int N> constexpr int fib = fib<N - 1> + fib<N - 2>;
        template <> constexpr int fib<0> = 0;
        template <> constexpr int fib<1> = 1;
        template <class A, class B> inline constexpr bool same = false;
        template <class A> inline constexpr bool same<A, A> = true;
        __global__ void k(int* out, const int* a, int n) { out[0] = sz<int>; out[1] = sz<char>;
          out[2] = sz<int*>; out[3] = fib<10>; out[4] = same<int, float>; out[5] = same<int, int>;
          int arr[sz<int>] = {1, 2, 3, 4}; out[6] = arr[n - 2]; if constexpr (same<int, int>) out[7] = 3; }
        """,
        [4, 77, 5, 55, 0, 1, 4, 3],
    ),
    "statmember": (
        """
        template <class T> struct A { static const int v; static const int w = 3; };
        template <class T> const int A<T>::v = 1;
        template <> const int A<int>::v = 5;
        struct Q { template <class T> static constexpr int v = sizeof(T);
        template <int N> static constexpr int sq = N * N; };
        __global__ void k(int* out, const int* a, int n) { out[0] = A<float>::v; out[1] = A<int>::v;
          out[2] = Q::v<int>; out[3] = Q::sq<5>; }
        """,
        [1, 5, 4, 25],
    ),
    "statmember2": (
        """
        template <class T> struct A { static const int v; static const int w = 3; };
        template <> const int A<int>::v = 5;
        template <class T> const int A<T>::v = 1;
        __global__ void k(int* out, const int* a, int n) { out[0] = A<float>::v; out[1] = A<int>::v; }
        """,
        [1, 5],
    ),
    "memberinit1": (
        """
        struct S { int a; int b; int c;
        __device__ S(int x) : c(x), b(c0(x)), a(x * 2) {}
        __device__ int c0(int q) { return a + q; } };
        __global__ void k(int* out, const int* a, int n) { S s(n); out[0] = s.a; out[1] = s.b; out[2] = s.c; }
        """,
        [10, 15, 5],
    ),
    "memberinit2": (
        """
        struct T { int a = 5; int b = a + 1; int c = b * a;
        __device__ T() {}
        __device__ T(int z) : a(z) {} };
        __global__ void k(int* out, const int* a, int n) { T t; out[3] = t.c; T u(n * 2); out[4] = u.b;
          out[5] = u.c; }
        """,
        [0, 0, 0, 30, 11, 110],
    ),
    "memberinit3": (
        """
        struct T { int a = 5; int b = a + 1; int c = b * a;
        __device__ T() {}
        __device__ T(int z) : a(z) {} };
        struct P { T t; int q;
        __device__ P(int z) : t(z), q(t.b + t.c) {} };
        struct P2 { int q; T t{7};
        __device__ P2(int z) : q(z) {}
        __device__ P2() : P2(9) { q++; } };
        __global__ void k(int* out, const int* a, int n) { P p(n + 1); out[6] = p.q; P2 z(1);
          out[0] = z.t.c; P2 y; out[1] = y.q; out[2] = y.t.b;}
        """,
        [56, 10, 8, 0, 0, 0, 49],
    ),
    "memberinit4": (
        """
        __device__ int cnt(int& c) { return c++; }
        struct T { int& r; int a = cnt(r); int b = cnt(r);
        __device__ T(int& q) : r(q) {}
        __device__ T(int& q, int z) : r(q), a(z) {} };
        __global__ void k(int* out, const int* a, int n) { int c = 0; T t(c); out[0] = t.a; out[1] = t.b;
          out[2] = c; T u(c, 9); out[3] = u.a; out[4] = u.b; out[5] = c; }
        """,
        [0, 1, 2, 9, 2, 3],
    ),
    "memberinit5": (
        """
        struct In { int v;
        __device__ In() : v(1) {}
        __device__ In(int q) : v(q) {}
        __device__ In(const In& o) : v(o.v + 10) {} };
        struct Arr { int d[4]; int n;
        __device__ Arr(int q) : d{q, q + 1}, n(d[1]) {} };
        struct Out { In i; In j; const int k;
        __device__ Out(int q, In w) : j(w), i(q), k(i.v + j.v) {} };
        struct Def { int x{3}; float y = 1.5f; int z[3] = {1, 2, 3}; In i{4}; };
        __global__ void k(int* out, const int* a, int n) { Arr r(n);
          out[0] = r.d[0] + r.d[1] + r.d[2] + r.n * 100; Out o(n, In(3)); out[1] = o.i.v; out[2] = o.j.v;
          out[3] = o.k; Def d; out[4] = d.x + d.y * 2 + d.z[2] + d.i.v; Def e{5};
          out[5] = e.x + e.z[0] + e.i.v; Def f = {.x = 1, .z = {9}};
          out[6] = f.z[0] * 100 + f.z[1] * 10 + f.i.v; }
        """,
        [611, 5, 13, 18, 13, 10, 904],
    ),
    "initlist2": (
        """
        __device__ int sum(std::initializer_list<int> l) { int s = 0; for (int x : l) s = s * 3 + x;
          return s + 100 * l.size(); }
        __global__ void k(int* out, const int* a, int n) { out[0] = sum({1, n, 3}); out[1] = sum({});
          for (int x : {3, 5, n}) out[7] += x; }
        """,
        [327, 0, 0, 0, 0, 0, 0, 13],
    ),
    "initlist3": (
        """
        struct V { int d[4]; int n;
        __device__ V(std::initializer_list<int> l) : n(0) { for (auto x : l) d[n++] = x; }
        __device__ V(int a, int b) : d{a, b, 9, 9}, n(-1) {} };
        __global__ void k(int* out, const int* a, int n) { V v{1, 2}; V w(1, 2); out[2] = v.n; out[3] = w.n;
          out[4] = v.d[1]; V q = {n, n + 1, n + 2}; out[5] = q.d[2]; out[6] = q.n; out[10] = max({1, n, 3});
          out[11]= min({n, 4, 9}); }
        """,
        [0, 0, 2, -1, 2, 7, 3, 0, 0, 0, 5, 4],
    ),
    "arrview": (
        """
        template <int N> __device__ void ld(int2 (&d)[N], int v) { for (int i = 0; i < N; i++) {
          d[i].x = v + 2 * i; d[i].y = v + 2 * i + 1; } }
        template <int N> __device__ void go(int (&u)[N], int v) { ld(reinterpret_cast<int2(&)[N / 2]>(u), v); }
        __global__ void k(int* out, const int* a, int n) { int x[4]; go(x, n); out[0] = x[0]; out[1] = x[1];
          out[2] = x[3]; int y[2][4] = {}; go(y[1], 7); out[3] = y[0][3]; out[4] = y[1][0];
          out[5] = y[1][3]; int2 (&w)[2] = reinterpret_cast<int2(&)[2]>(x); out[6] = w[1].y; }
        """,
        [5, 6, 8, 0, 7, 10, 8],
    ),
    "spec3": (
        """
        template <class T> struct C { static const bool v = false; };
        template <class T> struct C<const T> { static const bool v = true; };
        template <class T> struct R { using type = T; static const int n = 1; };
        template <class T> struct R<const T> { using type = T; static const int n = 2; };
        template <class T> struct PC { static const int v = 0; };
        template <class T> struct PC<T*> { static const int v = 1; };
        template <class T> struct PC<const T*> { static const int v = 2; };
        __global__ void k(int* out, const int* a, int n) { out[0] = C<int>::v; out[1] = C<const int>::v;
          out[2] = R<const int>::n; typename R<const int>::type x = 4; x++; out[3] = x;
          out[4] = PC<int*>::v; out[5] = PC<const int*>::v; out[6] = std::is_same<int, const int>::value;
          out[7] = std::is_const<const int>::value; }
        """,
        [0, 1, 2, 5, 1, 2, 0, 1],
    ),
    "ops3": (
        """
        struct V { int x, y;
        __device__ V operator-() const { return {-x, -y}; }
        __device__ V operator+(const V& o) const { return {x + o.x, y + o.y}; } };
        __device__ V operator-(V a, V b) { return a + -b; }
        struct W { int x;
        __device__ operator int() const { return x * 100; }
        __device__ explicit operator bool() const { return x != 0; } };
        __global__ void k(int* out, const int* a, int n) { V v{1, 2}, w{n, 3}; out[7] = (v - w).x;
          out[1] = (-v).y; W q{n}; out[8] = q; if (q) out[11] = 1; int z = q + 1; out[14] = z; out[18] = !q;
          }
        """,
        [0, -2, 0, 0, 0, 0, 0, -4, 500, 0, 0, 1, 0, 0, 501],
    ),
    "sfinae2": (
        """
        struct Sz { int n;
        __device__ int size() { return n; } };
        template <class T> __device__ auto g(T x) -> decltype(x.size()) { return x.size(); }
        template <class T> __device__ int g(long x) { return -1; }
        __global__ void k(int* out, const int* a, int n) {  out[2] = g(Sz{4}); out[3] = g<int>(5); }
        """,
        [0, 0, 4, -1],
    ),
    "sfinae3": (
        """
        template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0> __device__ int f(T) {
          return 1; }
        template <class T, std::enable_if_t<!std::is_integral<T>::value, int> = 0> __device__ int f(T) {
          return 2; }
        struct Sz { int n;
        __device__ int size() { return n; } };
        template <class, class = void> struct Has : std::false_type {};
        template <class T> struct Has<T, std::void_t<decltype(std::declval<T>().size())>> : std::true_type {};
        template <class T> __device__ int h(T x) { if constexpr (Has<T>::value) return x.size();
          else if constexpr (std::is_same_v<T, float>) return 7; else return sizeof(T); }
        template <class... A> __device__ int sum(A... a) { return (0 + ... + a); }
        template <class F, class... A> __device__ auto call(F f, A&&... a) { return f(std::forward<A>(a)...); }
        template <int... I> __device__ int idx(std::integer_sequence<int, I...>) { return ((I * I) + ...); }
        __global__ void k(int* out, const int* a, int n) { out[0] = f(n); out[1] = f(1.0f);
          out[4] = Has<Sz>::value; out[5] = Has<int>::value; out[6] = h(Sz{n}); out[7] = h(1.f);
          out[8] = h(1.0); out[9] = sum(1, n, 3); int c = 0; out[10] = call([&](int& x, int y) { x += y;
          return x * 2; }, c, n); out[11] = c; out[12] = idx(std::make_integer_sequence<int, 5>{}); }
        """,
        [1, 2, 0, 0, 1, 0, 5, 7, 8, 9, 10, 5, 30],
    ),
    "refs4": (
        """
        __device__ int& pick(int& a, int& b, bool w) { return w ? a : b; }
        __global__ void k(int* out, const int* a, int n) { int x = 1, y = 2; pick(x, y, n > 3) = 9;
          out[0] = x; out[1] = y; pick(x, y, n < 3) += 5; out[2] = y;}
        """,
        [9, 2, 7],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_a_cxx_compiler(execute, name):
    text, expected = PROGRAMS[name]
    text += "\nvoid host(int* out, const int* a, int n) { k<<<1, 1>>>(out, a, n); }"
    out = execute(text, {"out": np.zeros(64, np.int32), "a": INPUT, "n": 5})["out"]
    assert list(out[: len(expected)]) == expected
    assert not out[len(expected) :].any()
