"""Vectors of one component, and methods called through pointers into memory."""

from __future__ import annotations

import numpy as np


def test_vectors_of_one_component(execute) -> None:
    text = """
template <typename Pixel> __global__ void k(const Pixel *in, int *y, float1 *f) {
  float1 v = make_float1(2.5f);
  if (threadIdx.x == 0) f[0] = v;
  y[threadIdx.x] = in[threadIdx.x].x * 3;
}
void launch(const uchar1 *in, int *y, float1 *f) { k<<<1, 4>>>(in, y, f); }
"""
    args = {"in": np.arange(100, 104, dtype=np.uint8), "y": np.zeros(4, np.int32), "f": np.zeros(1, np.float32)}
    found = execute(text, args)
    assert found["y"].tolist() == [300, 303, 306, 309] and found["f"].tolist() == [2.5]


def test_their_names_may_be_the_users(execute) -> None:
    text = """
struct uint1 { unsigned x, y; };
__global__ void k(int *y) { int int1 = 3, float1; float1 = 4; uint1 u; u.x = 1; u.y = 2; y[0] = int1 + float1 + u.y; }
"""
    assert execute(text, {"y": np.zeros(1, np.int32)})["y"].tolist() == [9]


METHODS = """
struct C { int re, im; };
struct P {
  int n, calls;
  __device__ int at(const C &c) const { return n * 100 + c.re * 10 + c.im; }
  __device__ int twice(int i) const { return 2 * i; }
  __device__ void up() { n += 1; }
};
__global__ void k(int *y, P *p, const P *q) {
  y[0] = q->at({q->twice(1), q->twice(2)});
  p->up();
  y[1] = p->n;
  for (P *r = p; r < p + 3; ++r) r->up();
  P *either = y[0] > 0 ? p + 2 : p;
  either->up();
  y[2] = either->twice(either->n);
}
"""


def test_methods_of_objects_in_memory_by_pointer(execute) -> None:
    args = {"y": np.zeros(3, np.int32), "p": np.array([5, 0, 6, 0, 7, 0], np.int32), "q": np.array([3, 0], np.int32)}
    found = execute(METHODS, args)
    assert found["y"].tolist() == [324, 6, 18] and found["p"].tolist() == [7, 0, 7, 0, 9, 0]
