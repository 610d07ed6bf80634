"""Classes as kernels use them: conversion operators, member classes, base classes, template template parameters."""

from __future__ import annotations

import numpy as np
import pytest

SHARED = """template <class T> struct Shared {
    __device__ inline operator T*() { extern __shared__ int raw[]; return (T*)raw; }
    __device__ inline operator const T*() const { extern __shared__ int raw[]; return (T*)raw; } };
template <> struct Shared<double> {
    __device__ operator double*() { extern __shared__ double wide[]; return (double*)wide; } };
"""


def test_an_object_converts_to_the_shared_array_it_stands_for(execute, round_trip):
    text = (
        SHARED
        + """template <class T> __global__ void k(T* out, int n) {
        T* s = Shared<T>(); const int i = threadIdx.x;
        s[i] = out[i]; __syncthreads(); out[i] = s[n - 1 - i] + Shared<T>()[i]; }
    template __global__ void k<float>(float*, int);
    void f(float* o, double* d, int n) { k<float><<<1, 4, 4 * sizeof(float)>>>(o, n); }"""
    )
    a = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_array_equal(execute(text, {"out": a.copy(), "n": 4})["out"], a[::-1] + a)
    k = round_trip(text)
    assert k.name == "k" and "double" not in str(k.body)
    wide = text.replace("k<float><<<", "k<double><<<").replace("(o, n)", "(d, n)").replace("4 * sizeof(float)", "32")
    np.testing.assert_array_equal(
        execute(wide, {"out": a.astype(np.float64), "n": 4})["out"], a[::-1].astype(np.float64) + a
    )


def test_the_conversion_that_is_wanted_is_taken(execute):
    text = """struct V { int n; __device__ operator int() const { return n; }
        __device__ operator float() const { return n + 0.5f; }
        __device__ explicit operator bool() const { return n > 2; } };
    __device__ float twice(float x) { return 2 * x; }
    __global__ void k(float* o, int* q) { V v{3}; o[0] = v; q[0] = v; o[1] = twice(v); q[1] = (int)v + 1;
        if ((bool)v) q[2] = 7; float y = v; o[2] = y; }"""
    got = execute(text, {"o": np.zeros(3, np.float32), "q": np.zeros(3, np.int32)})
    assert got["o"].tolist() == [3.5, 7.0, 3.5] and got["q"].tolist() == [3, 4, 7]


def test_member_classes_of_class_templates_are_types_of_their_own(execute, round_trip):
    text = """template <int W, typename T> class Window {
        template <bool CHECKED> struct Column { int offset; T last;
            __device__ void clear() { offset = 0; last = CHECKED ? -1 : 1; } };
        struct Step { __device__ void operator()(const T p, T& c) const { c += p * W; } };
        enum { STRIDE = W + 1 };
        template <bool C> __device__ void init(Column<C>& c, int i) { c.clear(); c.offset = i * STRIDE; }
        template <class F> __device__ void each(T* p, const F& f) { for (int i = 1; i < W; i++) f(p[i - 1], p[i]); }
       public:
        template <bool C> __device__ void go(T* p, int n) {
            Column<C> a; Column<!C> b; init(a, n); init(b, n + 1); each(p, Step());
            p[W] = a.offset + b.offset; p[W + 1] = a.last; p[W + 2] = b.last; } };
    template <int W> __global__ void k(int* p, int n) { Window<W, int> w;
        if (n > 0) w.template go<true>(p, n); else w.template go<false>(p, n); }
    void f(int* p, int n) { k<3><<<1, 1>>>(p, n); }"""
    got = execute(text, {"p": np.arange(1, 7, dtype=np.int32), "n": 2})["p"]
    assert got.tolist() == [1, 5, 18, 2 * 4 + 3 * 4, -1, 1]
    got = execute(text, {"p": np.arange(1, 7, dtype=np.int32), "n": 0})["p"]
    assert got.tolist() == [1, 5, 18, 4, 1, -1]
    round_trip(text)


def test_a_base_class_is_seen_through_its_own_methods(execute):
    text = """struct A { int x; __device__ int get() const { return x; }
        __device__ int both() const { return get() + x; } __device__ void set(int v) { x = v; } };
    struct B : A { int y; __device__ int get() const { return 100; } };
    __device__ int read(const A& a) { return a.get(); }
    __device__ void write(A& a, int v) { a.set(v); }
    __global__ void k(int* o) { B b; b.x = 3; b.y = 4; o[0] = read(b); o[1] = b.get(); write(b, 9); o[2] = b.x;
        A& r = b; o[3] = r.get(); A* p = &b; o[4] = p->get(); A c = b; b.x = 1; o[5] = c.get(); o[6] = b.both(); }"""
    assert execute(text, {"o": np.zeros(7, np.int32)})["o"].tolist() == [3, 100, 9, 9, 9, 9, 2]


def test_class_templates_and_aliases_are_template_arguments(execute):
    text = """template <class T> struct Add { __device__ T operator()(T a, T b) const { return a + b; } };
    template <class T> struct Mul { __device__ T operator()(T a, T b) const { return a * b; } };
    template <class T, template <class> class Op = Add> struct Fold {
        template <int N> __device__ static T run(const T* p) {
        Op<T> op; T t = p[0]; for (int i = 1; i < N; i++) t = op(t, p[i]); return t; } };
    struct Traits { template <class T> using type = T; template <class U> struct rebind { using other = U; }; };
    template <class TR> __device__ typename TR::template rebind<float>::other half_of(int x) { return x / 2.0f; }
    __global__ void k(float* o, const int* p) { o[0] = Fold<int>::run<4>(p); o[1] = Fold<int, Mul>::template run<4>(p);
        Traits::type<float> h = half_of<Traits>(p[2]); o[2] = h; }"""
    got = execute(text, {"o": np.zeros(3, np.float32), "p": np.array([1, 2, 3, 4], np.int32)})["o"]
    assert got.tolist() == [10, 24, 1.5]


def test_what_is_computed_from_a_variable_is_kept_when_the_variable_changes_by_another_name(execute):
    """By a reference, a callable's reference parameter, a reference parameter of the function itself, a method."""
    text = """struct Inc { int by; __device__ void apply(int& x) const { x += by; } };
    __device__ int late(const int* a, int& n) { const int* p = a + n; n = 0; return *p; }
    template <class F> __device__ int with(const int* a, F f) {
        int n = 1; const int* p = a + n; f(n); return *p * 10 + n; }
    __global__ void k(const int* a, int* o) {
        int x = 1; int& r = x; const int* p = a + x; r = 3; o[0] = *p;
        int y = 2; o[1] = late(a, y) + y;
        o[2] = with(a, [](int& n) { n = 3; });
        int z = 1; const int* q = a + z; Inc{2}.apply(z); o[3] = *q * 10 + z; }"""
    got = execute(text, {"a": np.array([5, 6, 7, 8], np.int32), "o": np.zeros(4, np.int32)})["o"]
    assert got.tolist() == [6, 7, 63, 63]


SHAPES = """struct Shape { int w; __device__ virtual int area() const { return 0; }
        __device__ int twice() const { return 2 * area(); } };
    struct Square : Shape { __device__ int area() const override { return w * w; } };
"""


def test_virtual_calls_go_to_the_objects_own_class(execute, refuses):
    text = (
        SHAPES
        + """__device__ int of(const Shape& s) { return s.area() + s.twice(); }
    __global__ void k(int* o) { Square q; q.w = 3; Shape s; s.w = 5; const Shape* p = &q;
        o[0] = of(q); o[1] = of(s); o[2] = p->area(); Shape cut = q; o[3] = cut.area(); }"""
    )
    assert execute(text, {"o": np.zeros(4, np.int32)})["o"].tolist() == [27, 0, 9, 0]
    refuses(SHAPES + "__global__ void k(Shape* s, int* o) { o[0] = s->area(); }", "E-UNSUPPORTED-VIRTUAL")


def test_a_class_that_does_not_parse_costs_nothing_behind_it(execute):
    """Its name is no longer that of the class being parsed; ``::f`` is the function of the file inside any class."""
    text = """class Bad { int a; template <int b> oops ( { } ) ; };
    template <class T> struct Pair { T a, b; Pair(T x); T nan(T x); T twice() { return ::twice(a); }; };
    template <class T> __device__ Pair<T>::Pair(T x) : a(x), b(x + 1) {}
    template <class T> __device__ T Pair<T>::nan(T x) { return x + ::nan(""); }
    __device__ float twice(float x) { return 2 * x; }
    __global__ void k(float* o) { Pair<float> p(3.0f); o[0] = p.b;
        o[1] = p.twice(); o[2] = p.nan(1.0f); o[3] = nanf(""); }"""
    got = execute(text, {"o": np.zeros(4, np.float32)})["o"]
    assert got[:2].tolist() == [4.0, 6.0] and np.isnan(got[2:]).all()


INHERITED = """\
struct Base {
  using index_t = unsigned short;
  enum { Ways = 3 };
  static constexpr int Scale = 5, Depth = 1;
  struct Pair { int a, b; };
  index_t stride;
};
struct Derived : public Base {
  int Depth;
  index_t more;
  Pair pair;
  __device__ index_t sum() const { return (index_t)(stride + more * Scale + Ways + Depth); }
};
template <typename T> struct Holder { using value = T; value held; };
template <typename T> struct Twice : Holder<T> { using typename Holder<T>::value; value more; };
struct Reader {
  int* from;
  __device__ Reader(int* p) : from(p) {}
  __device__ void into(int* y) { y[0] = from[0]; }
};
struct Traits { using R = Reader; };
template <typename T> __global__ void k(int* y, int* s, int depth) {
  Derived d;
  d.stride = 65000; d.more = 200; d.Depth = depth; d.pair.a = 4; d.pair.b = 6;
  Twice<float> t;
  t.held = 1.5f; t.more = 2.25f;
  y[0] = d.sum();
  y[1] = d.pair.a * d.pair.b + (int)(4 * (t.held + t.more));
  typename T::R(s).into(y + 2);
  typename T::R{s + 1}.into(y + 3);
}
void host(int* y, int* s, int depth) { k<Traits><<<1, 1>>>(y, s, depth); }
"""


def test_what_base_classes_name_is_known_in_their_derived_classes(execute) -> None:
    got = execute(INHERITED, {"y": np.zeros(4, np.int32), "s": np.array([8, 9], np.int32), "depth": 70})
    assert got["y"].tolist() == [(65000 + 200 * 5 + 3 + 70) % 65536, 24 + 15, 8, 9]


def test_reference_members_are_bound_by_the_constructor(execute, refuses):
    text = """struct Size { int n; };
    class View { const Size& size; int& last; float* at;
      public: __device__ View(const Size& s, int& l, float* p) : size(s), last(l), at(p) {}
      __device__ float sum() const { float t = 0; for (int i = 0; i < size.n; i++) t += at[i];
          last = size.n - 1; return t; } };
    __device__ float twice(const View& v) { return 2 * v.sum(); }
    __global__ void k(float* o, int* q, Size s) { Size own{2}; int last = 7; View a(s, q[0], o), b(own, last, o);
        const float x = a.sum(), y = twice(b); own.n = 1; o[1] = x; o[2] = y; o[3] = b.sum() + last; }"""
    args = {"o": np.array([1, 2, 4, 8], np.float32), "q": np.zeros(1, np.int32), "s_n": 4}
    got = execute(text, args)
    assert got["o"].tolist() == [1, 15, 6, 1] and got["q"].tolist() == [3]
    refuses("struct R { int& x; __device__ R() {} }; __global__ void k(int* o) { R r; r.x = 3; }", "E-SEMA-ASSIGN")


ASSIGNED = """\
struct X {
  int v;
  X() = default;
  X(const X& o) = default;
  X& operator=(const X& o) = default;
  __device__ X& operator=(int i) { v = i; return *this; }
};
struct B { int a; __device__ B& operator=(int i) { a = i; return *this; } };
struct D : B { int b; };
struct T { int a, n; __device__ T& operator=(const T& o) { a = o.a; n = o.n + 1; return *this; } };
__global__ void k(int* y) {
  X x, z;
  x = 3;
  z = x;
  X w = z;
  D d, e;
  d.a = 1; d.b = 2;
  e = d;
  T t, u;
  t.a = 5; t.n = 0;
  u = t;
  y[0] = w.v; y[1] = e.a; y[2] = e.b; y[3] = u.a; y[4] = u.n;
}
"""


def test_a_class_is_assigned_from_its_own_objects(execute, refuses) -> None:
    assert execute(ASSIGNED, {"y": np.zeros(5, np.int32)})["y"].tolist() == [3, 1, 2, 5, 1]
    own = "B& operator=(const B& o) { a = -o.a; return *this; }"
    refuses(ASSIGNED.replace("B& operator=(int i) { a = i; return *this; }", own), "E-UNSUPPORTED-MEMBER")


def test_an_object_is_not_made_from_one_of_an_unrelated_class(execute, refuses) -> None:
    text = """
struct A { int v; };
struct C { int v; };
struct B : A { int w; };
struct Group { unsigned size; __device__ Group(A a) : size(7u) {} };
__device__ int of(Group g) { return g.size; }
__global__ void k(int *y) { B b; b.v = 3; b.w = 4; A a(b); y[0] = of(b) + a.v; }
"""
    assert execute(text, {"y": np.zeros(1, np.int32)})["y"].tolist() == [10]
    made = "B b; b.v = 3; b.w = 4; A a(b); y[0] = of(b) + a.v;"
    refuses(text.replace(made, "C c; c.v = 3; y[0] = of(c);"), "E-SEMA-OVERLOAD")
    refuses(text.replace(made, "C c; c.v = 3; A a(c); y[0] = a.v;"), "E-SEMA-INIT")


BASES_FIRST = """
struct B { int x = 5; __device__ B() { x = 7; } __device__ explicit B(int v) : x(v) {} }; struct P { int c = 2; };
struct D : B { int y = x + 1; int z = y * 2; };
struct E : B, P { int y = x + c; __device__ E(int v) : B(v * 2) { y += 3; } };
struct F : D { int w = z + y; __device__ F() {} };
template <class A> struct H { A a; A b = a + A(1); __device__ H(A v) : a(v) {} };
template <class A> struct I : H<A> { int z = this->b + 1; __device__ I(A v) : H<A>(v) {} };
struct T { int n; int m = n * 2; };
"""


@pytest.mark.parametrize(
    "body, want",
    [
        ("D d; o[0] = d.y; o[1] = d.z; D e{}; o[2] = e.z;", [8, 16, 16]), ("E e(o[7]); o[0] = e.y;", [13]),
        ("F f; o[0] = f.w;", [24]), ("I<float> i(o[7]); o[0] = i.z;", [6]), ("T t{.n = 4}; o[0] = t.m;", [8]),
    ],
)  # fmt: skip
def test_members_begin_after_the_bases_that_their_initialisers_name(execute, body: str, want: list[int]) -> None:
    got = execute(BASES_FIRST + "__global__ void k(int* o) {" + body + "}", {"o": np.int32([0] * 7 + [4])})["o"]
    assert got[: len(want)].tolist() == want


def test_friends_stand_behind_qualifiers_too_and_everything_can_be_swapped(execute) -> None:
    text = """struct V { int x[2]; __device__ friend V operator+(V a, const V& b) { a.x[0] += b.x[0]; return a; }
        friend __device__ __forceinline__ bool operator<(const V& a, const V& b) { return a.x[0] < b.x[0]; } };
    __global__ void k(int* o) { V a{{1, 2}}, b{{3, 4}}; V c = a + b; o[0] = c.x[0]; o[1] = a < b; std::swap(a, b);
        o[2] = a.x[1]; int x[2] = {5, 6}, *p = x, *q = x + 1; std::swap(p, q); o[3] = *p; std::swap(x[0], x[1]);
        o[4] = x[0]; }"""
    assert execute(text, {"o": np.zeros(5, np.int32)})["o"].tolist() == [4, 1, 4, 6, 6]


def test_members_that_are_objects_with_references(execute) -> None:
    text = """
struct Tree { const float* at; int n; };
struct Walk {
  int i; const Tree& tree;
  __device__ Walk(const Tree& t) : tree(t) { i = 1; }
  __device__ float get() const { return tree.at[i]; }
};
struct Search {
  const Tree& tree; int by; Walk walk;
  __device__ Search(const Tree& t, int k) : tree(t), by(k), walk(t) {}
  __device__ float run() { walk.i += by; return walk.get() + tree.n; }
};
__global__ void k(const Tree tree, float* o) { Search s(tree, 2); o[0] = s.run(); }
void h(const float* at, float* o) { Tree t; t.at = at; t.n = 10; k<<<1, 1>>>(t, o); }
"""
    given = {"tree_at": np.arange(8, dtype=np.float32), "tree_n": 10, "o": np.zeros(1, np.float32)}
    assert execute(text, given)["o"].tolist() == [13]


def test_a_virtual_destructor_is_a_pointer_before_the_members(execute) -> None:
    text = """
template <typename T, int N> class Helper {
 public:
  Helper() = default;
  virtual ~Helper() = default;
  __device__ T at(T i) const { return stride_[0] * i + stride_[1]; }
 protected:
  T stride_[N];
};
struct Plain { char c; };
template <typename T, int N> class More : public Helper<T, N> { T more; };
class Late : public Plain { public: virtual ~Late() {} short s; };
__global__ void k(const Helper<int, 2> h, int* o) {
  o[0] = h.at(3); o[1] = sizeof(Helper<char, 3>); o[2] = sizeof(More<int, 1>); o[3] = sizeof(Late);
  o[4] = sizeof(More<char, 2>);
}
void host(Helper<int, 2> h, int* o) { k<<<1, 1>>>(h, o); }
"""
    given = {"h_stride__0": 10, "h_stride__1": 4, "o": np.zeros(5, np.int32)}
    assert execute(text, given)["o"].tolist() == [34, 16, 16, 16, 16]


def test_a_base_with_virtual_functions_is_the_first(refuses) -> None:
    text = """
struct Plain { int x; }; struct Dynamic { virtual ~Dynamic() {} int y; };
struct Both : Plain, Dynamic { int z; };
__global__ void k(Both b, int* o) { o[0] = b.z; }
"""
    refuses(text, "E-UNSUPPORTED-VIRTUAL")


def test_strings_are_true(execute) -> None:
    text = """
#define CHECK_ALL(...) check(__VA_ARGS__)
__device__ int check(bool holds) { return holds; }
__global__ void k(int* o, int n) {
  o[0] = CHECK_ALL(n > 0 && "there are none"); o[1] = CHECK_ALL(n > 5 && "few"); o[2] = "" ? 3 : 4;
}
"""
    assert execute(text, {"o": np.zeros(3, np.int32), "n": 3})["o"].tolist() == [1, 0, 3]
