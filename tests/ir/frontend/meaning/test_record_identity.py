"""Classes are what they are by their definition, not by their name."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.nodes import Const, Store
from ktc.ir.walk import walk

TWO = """
namespace a { struct P { int x; }; }
namespace b { struct P { int x; int y; }; }
"""


def stored(text: str) -> list[object]:
    """The constants that the kernel stores, in order."""
    kernel = load(text, name="k.cu")
    return [s.value.value for s in walk(kernel.body) if isinstance(s, Store) and isinstance(s.value, Const)]


def test_classes_of_one_name_in_two_namespaces_choose_overloads() -> None:
    text = (
        TWO
        + """
__device__ int f(a::P p) { return 1; }
__device__ int f(b::P p) { return 2; }
__global__ void k(int *out) { a::P p{0}; b::P q{0, 0}; out[0] = f(p); out[1] = f(q); }
"""
    )
    assert stored(text) == [1, 2]


def test_classes_of_one_name_in_two_namespaces_are_not_the_same() -> None:
    text = (
        TWO
        + """
__global__ void k(int *out) {
  out[0] = std::is_same<a::P, b::P>::value ? 7 : 8;
  out[1] = std::is_same<a::P, a::P>::value ? 7 : 8;
}
"""
    )
    assert stored(text) == [8, 7]


def test_one_is_not_assigned_to_the_other() -> None:
    with pytest.raises(KtcError):
        load(TWO + "__global__ void k(int *out) { a::P p{1}; b::P q{2, 3}; q = p; out[0] = q.x; }", name="k.cu")


def test_templates_of_them_are_different_instances() -> None:
    text = (
        TWO
        + """
template <class T> struct Size { static const int value = sizeof(T); };
__global__ void k(int *out) { out[0] = Size<a::P>::value; out[1] = Size<b::P>::value; }
"""
    )
    assert stored(text) == [4, 8]


def test_local_classes_of_one_name() -> None:
    text = """
template <class A, class B> __device__ int same(A, B) { return std::is_same<A, B>::value ? 7 : 8; }
__global__ void k(int *out) {
  { struct S { int x; }; S s{1}; S t{2}; out[0] = same(s, t); out[1] = sizeof(S); }
  { struct S { int x, y; }; S s{1, 2}; out[2] = sizeof(S); out[3] = same(s, s); }
}
"""
    assert stored(text) == [7, 4, 8, 7]


LOCAL = """\
template <typename T> __device__ T seen_as(unsigned w) {
  union { T raw; unsigned word; } u;
  u.word = w;
  return u.raw;
}
template <typename T, int N> __device__ int twice(T x) {
  struct P { T v; int w[N]; };
  P p;
  p.v = x;
  return (int)(p.v * 2) + (int)sizeof(P);
}
template <typename T> __device__ void clear(T& to) {
  union { T raw; unsigned words[sizeof(T) / 4]; } u;
  for (int i = 0; i < (int)(sizeof(T) / 4); ++i) u.words[i] = 0u;
  to = u.raw;
}
__global__ void k(float* y) {
  y[0] = seen_as<float>(0x3f800000u);
  y[1] = seen_as<int>(7);
  y[2] = twice<float, 1>(1.75f);
  y[3] = twice<int, 3>(3);
  y[4] = twice<double, 2>(1.75);
  float a = 3;
  float4 b = make_float4(1, 2, 3, 4);
  clear(a);
  clear(b);
  y[5] = a + b.x + b.y + b.z + b.w;
}
"""


def test_a_class_in_a_function_template_is_another_one_in_each_instance(execute) -> None:
    got = execute(LOCAL, {"y": np.full(6, -1, np.float32)})
    assert got["y"].tolist() == [1, 7, 3 + 8, 6 + 16, 3 + 16, 0]


def test_members_of_local_classes_are_sized_by_local_constants() -> None:
    text = """
template <int A, int B> __device__ int size() {
  const int both = A * B;
  union Room { char bytes[both]; int words[both / 4]; };
  { const int both = 1; (void)both; }
  return sizeof(Room);
}
__global__ void k(int *out) { out[0] = size<4, 3>(); out[1] = size<8, 8>(); }
"""
    assert stored(text) == [12, 64]
