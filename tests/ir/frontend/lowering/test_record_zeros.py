"""Braces that say less than a record holds: what is left out is zero, arrays and inner records included."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.interp import run

SOURCE = """
struct S { int a[2]; float b; };
__global__ void k(int* out) {
  S empty = {}, part = {{7}, 2.0f};
  out[0] = empty.a[0]; out[1] = empty.a[1]; out[2] = (int)empty.b;
  out[3] = part.a[0]; out[4] = part.a[1]; out[5] = (int)part.b;
  S many[2] = {{{1, 2}, 3.0f}, {}};
  out[6] = many[0].a[1]; out[7] = many[1].a[0]; out[8] = many[1].a[1]; out[9] = (int)many[1].b;
}
"""

NAMED = """
struct T { int k; struct { int a[2]; int c; } q; int last; };
union U { struct { int x, y; }; int v[2]; };
__global__ void k(int* out) {
  T t = {1, {{2, 3}, 4}, 5};
  out[0] = t.k; out[1] = t.q.a[0]; out[2] = t.q.a[1]; out[3] = t.q.c; out[4] = t.last;
  T z = {};
  out[5] = z.k; out[6] = z.q.a[0]; out[7] = z.q.a[1]; out[8] = z.q.c;
  U u; u.v[1] = 9;
  out[9] = u.y;
}
"""


def values(source: str) -> list[int]:
    kernel = load(source + "void go(int* out) { k<<<1, 1>>>(out); }\n", name="k.cu")
    result = run(kernel, {"out": np.full(10, -1, np.int32)})
    assert result.findings == []
    return result.outputs["out"].tolist()


def test_what_braces_leave_out_is_zero() -> None:
    assert values(SOURCE) == [0, 0, 0, 7, 0, 2, 2, 0, 0, 0]


def test_a_named_member_of_an_unnamed_struct_is_no_anonymous_one() -> None:
    assert values(NAMED) == [1, 2, 3, 4, 5, 0, 0, 0, 0, 9]
