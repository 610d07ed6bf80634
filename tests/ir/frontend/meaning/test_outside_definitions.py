"""Members that are defined outside their class: which class template, or which partial specialisation, each is of."""

from __future__ import annotations

import numpy as np

VECTORS = """
enum order { first, second };
template <int L, typename T, order Q = first> struct vec;
template <typename T, order Q> struct vec<2, T, Q> {
    T x, y;
    template <typename U, order P> __device__ explicit vec(vec<3, U, P> const& v);
    __device__ explicit vec(T s);
    __device__ vec<2, T, Q>& operator+=(T s);
    __device__ T sum() const;
};
template <typename T, order Q> struct vec<3, T, Q> {
    T x, y, z;
    template <order P> __device__ vec(vec<3, T, P> const& v);
    template <typename U, order P> __device__ explicit vec(vec<2, U, P> const& v);
    __device__ explicit vec(T s);
    __device__ vec<3, T, Q>& operator+=(T s);
    __device__ T& operator[](int i);
    __device__ T operator[](int i) const;
    __device__ T sum() const;
};
template <typename T, order Q> __device__ vec<2, T, Q>::vec(T s) : x(s), y(s + 1) {}
template <typename S, order O> __device__ vec<3, S, O>::vec(S s) : x(s), y(s + 2), z(s + 3) {}
template <typename T, order Q> template <typename V, order R> __device__ vec<2, T, Q>::vec(vec<3, V, R> const& v)
    : x(v.y), y(v.z) {}
template <typename T, order Q> template <order P> __device__ vec<3, T, Q>::vec(vec<3, T, P> const& v)
    : x(v.x), y(v.y), z(v.z) {}
template <typename T, order Q> template <typename U, order P> __device__ vec<3, T, Q>::vec(vec<2, U, P> const& v)
    : x(v.x), y(v.y), z(7) {}
template <typename T, order Q> __device__ vec<2, T, Q>& vec<2, T, Q>::operator+=(T s) { x += s; return *this; }
template <typename T, order Q> __device__ vec<3, T, Q>& vec<3, T, Q>::operator+=(T s) { z += s; return *this; }
template <typename T, order Q> __device__ T vec<3, T, Q>::operator[](int i) const { return i ? z + 100 : x + 100; }
template <typename T, order Q> __device__ T& vec<3, T, Q>::operator[](int i) { return z; }
template <typename T, order Q> __device__ T vec<2, T, Q>::sum() const { return x + y; }
template <typename T, order Q> __device__ T vec<3, T, Q>::sum() const { return x + y + z; }
"""


def run(execute, body: str, n: int) -> list[float]:
    text = f"{VECTORS}__global__ void k(float* o) {{ {body} }} void h(float* o) {{ k<<<1, 1>>>(o); }}"
    return execute(text, {"o": np.zeros(n, np.float32)})["o"].tolist()


def test_a_definition_is_of_the_partial_specialisation_whose_arguments_it_names(execute):
    body = "vec<2, float> a(1.f); vec<3, float> b(1.f); a += 10; b += 10; o[0] = a.sum(); o[1] = b.sum();"
    assert run(execute, body, 2) == [13, 18]


def test_constructor_templates_are_told_apart_by_class_and_parameters(execute):
    body = """vec<3, float, second> b(1.f); vec<2, float> a(b); vec<3, float> c(b); vec<3, float> d(a);
        o[0] = a.x; o[1] = a.y; o[2] = c.z; o[3] = d.y; o[4] = d.z;"""
    assert run(execute, body, 5) == [3, 4, 4, 4, 7]


def test_the_method_of_constant_objects_has_the_body_that_says_const(execute):
    body = "vec<3, float> b(1.f); const vec<3, float> c(1.f); b[0] = 5; o[0] = b.z; o[1] = c[0]; o[2] = c[1];"
    assert run(execute, body, 3) == [5, 101, 104]


def test_a_class_with_a_constructor_template_still_names_its_instances(execute):
    text = """template <typename T> struct Pair { T x, y;
        template <typename U> __device__ Pair(U a, U b) : x(a), y(b) {}
        __device__ Pair<T>& operator=(Pair<T> const& p) { x = p.y; y = p.x; return *this; } };
    __global__ void k(int* o) { Pair<int> a(1, 2), b(3, 4); b = a; o[0] = b.x; o[1] = b.y; }
    void h(int* o) { k<<<1, 1>>>(o); }"""
    assert execute(text, {"o": np.zeros(2, np.int32)})["o"].tolist() == [2, 1]


def test_a_type_of_the_class_makes_objects_in_members_defined_outside(execute):
    text = """template <int N> struct matrix {
        struct column { int a, b; __device__ column(int p, int q) : a(p), b(q) {} };
        typedef int number; column first; __device__ matrix(int p); __device__ int last() const; };
    template <int N> __device__ matrix<N>::matrix(int p) : first(column(p, N)) {}
    template <int N> __device__ int matrix<N>::last() const { return number(first.b) + column(N, N + 1).b; }
    __global__ void k(int* o) { matrix<5> m(o[1]); o[0] = m.first.a * 100 + m.last(); }
    void h(int* o) { k<<<1, 1>>>(o); }"""
    assert execute(text, {"o": np.int32([0, 7])})["o"].tolist() == [711, 7]


def test_constructors_that_copy_and_that_move_are_told_apart(execute):
    text = """
template <typename U> struct plain { typedef U* pointer; };
template <typename T, int N, template <typename U> class Traits> class View {
 public:
  __device__ View(View<T, N, Traits>& v);
  __device__ View(View<T, N, Traits>&& v);
  __device__ View(typename Traits<T>::pointer p);
  typename Traits<T>::pointer at; int how;
};
template <typename T, int N, template <typename U> class Traits>
__device__ View<T, N, Traits>::View(View<T, N, Traits>& v) : at(v.at), how(1) {}
template <typename T, int N, template <typename U> class Traits>
__device__ View<T, N, Traits>::View(View<T, N, Traits>&& v) : at(v.at + 1), how(2) {}
template <typename T, int N, template <typename U> class Traits>
__device__ View<T, N, Traits>::View(typename Traits<T>::pointer p) : at(p), how(0) {}
__global__ void k(float* o) {
  View<float, 2, plain> a(o); View<float, 2, plain> b(a); View<float, 2, plain> c(std::move(a));
  b.at[0] = b.how; c.at[0] = c.how;
}
void h(float* o) { k<<<1, 1>>>(o); }
"""
    assert execute(text, {"o": np.zeros(2, np.float32)})["o"].tolist() == [1, 2]


def test_conversions_are_told_apart_by_what_they_convert_to(execute):
    text = """
template <class T> struct Row {
  T* p; int n;
  __device__ operator T*();
  __device__ operator const T*() const;
  __device__ operator int() const;
  __device__ operator double() const;
};
template <class T> __device__ Row<T>::operator T*() { return p; }
template <class U> __device__ Row<U>::operator const U*() const { return p + 1; }
template <class T> __device__ Row<T>::operator int() const { return n; }
template <class T> __device__ Row<T>::operator double() const { return n + 0.5; }
__global__ void k(float* o) {
  Row<float> a; a.p = o; a.n = 5;
  float* p = a; const Row<float> b = a; const float* q = b; int n = b; double d = b;
  p[1] = 7; o[0] = q[0]; o[2] = n; o[3] = d;
}
void h(float* o) { k<<<1, 1>>>(o); }
"""
    assert execute(text, {"o": np.zeros(4, np.float32)})["o"].tolist() == [7, 7, 5, 5.5]
