"""Random CUDA C++ kernels of the shapes that people write, from parts: guards, strides, trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from .spmd_idioms import idiom_source

Pick = Callable[[Sequence[Any]], Any]

ELEMENT = """
__global__ void fuzz(const {T}* __restrict__ a, const {T}* __restrict__ b, {T}* __restrict__ out0, int m, int n) {{
{body}
}}
void launch(const {T}* a, const {T}* b, {T}* out0, int m, int n) {{ fuzz<<<{grid}, {block}>>>(a, b, out0, m, n); }}
"""

GUARDED = (
    """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * m) out0[i] = {value};""",
    """  int i = threadIdx.x + blockIdx.x * {B};
  if (i >= n * m) return;
  {T} v = {value};
  out0[i] = v;""",
    """  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n * m; i += gridDim.x * blockDim.x) {{
    out0[i] = {value};
  }}""",
)
"""Element-wise bodies over n m elements."""

ROWS = (
    """  int r = blockIdx.x;
  for (int j = threadIdx.x; j < m; j += blockDim.x) {{
    int i = r * m + j;
    out0[i] = {value};
  }}""",
    """  int r = blockIdx.x;
  const {T}* row = a + r * m;
  for (int j = threadIdx.x; j < m; j += {B}) {{
    int i = r * m + j;
    {T} x = row[j];
    if (j % 2 == 0) x = {value};
    out0[i] = x;
  }}""",
)

REDUCED = """
__global__ void fuzz(const {T}* __restrict__ a, const {T}* __restrict__ b, {T}* __restrict__ out0, int m, int n) {{
  __shared__ {T} s[{B}];
  int r = blockIdx.x, t = threadIdx.x;
  {T} acc = {zero};
  for (int j = t; j < m; j += {B}) {{
    int i = r * m + j;
    acc = {step};
  }}
{tree}
  if (t == 0) out0[r] = s[0];
}}
void launch(const {T}* a, const {T}* b, {T}* out0, int m, int n) {{ fuzz<<<n, {B}>>>(a, b, out0, m, n); }}
"""

TREES = (
    """  s[t] = acc;
  __syncthreads();
  for (int d = {B} / 2; d > 0; d /= 2) {{
    if (t < d) s[t] = {join};
    __syncthreads();
  }}""",
    """  s[t] = acc;
  __syncthreads();
  for (int d = 1; d < {B}; d *= 2) {{
    if (t % (2 * d) == 0) s[t] = {join};
    __syncthreads();
  }}""",
)
JOINS = {
    "+": ("acc + ({value})", "s[t] + s[t + d]", "0"),
    "max": ("max(acc, ({value}))", "max(s[t], s[t + d])", "-100"),
}


FUNCTIONS = {"float": "f", "double": ""}
"""The suffix of the C library's functions of an element type."""


def expression(pick: Pick, depth: int, elem: str) -> str:
    """A C expression over ``a``, ``b``, ``i``, ``n``, ``m`` of type ``elem``, in bounds for 0 <= i < n m."""
    if depth <= 0:
        one, two = {"float": ("1.5f", "2.0f"), "double": ("1.5", "2.0")}.get(elem, ("3", "2"))
        return str(pick(("a[i]", "b[i]", "a[n * m - 1 - i]", one, f"({elem})(i % 5)", two)))
    x, y = expression(pick, depth - 1, elem), expression(pick, depth - 1, elem)
    form = pick(
        (
            "({x} + {y})",
            "({x} - {y})",
            "{x} * {y}",
            "(i % 3 == 1 ? {x} : {y})",
            "max({x}, {y})",
            "-({x})",
            "min({x}, {y})",
        )
    )
    text = form.format(x=x, y=y)
    return _typed(text, elem)


def _typed(text: str, elem: str) -> str:
    """``max`` and ``min`` as C calls them for ``elem``."""
    f = FUNCTIONS.get(elem)
    return re.sub(r"\b(max|min)\(", rf"f\1{f}(", text) if f is not None else text


def spmd_source(pick: Pick) -> str:
    """CUDA C++ with one kernel ``fuzz(a, b, out0, m, n)`` and its launch."""
    elem, block = pick(("float", "int", "float", "int", "double")), pick((32, 64, 128))
    fill = {"T": elem, "B": block, "value": expression(pick, pick((0, 1, 2)), elem)}
    kind = pick(("guarded", "rows", "reduced", "idiom", "idiom"))
    if kind == "idiom":
        return idiom_source(pick, elem, block, fill["value"])
    if kind == "reduced":
        op = pick(tuple(JOINS))
        step, join, zero = (t.format(**fill) for t in JOINS[op])
        if op == "max" and elem in FUNCTIONS:
            step, join = (_typed(s, elem) for s in (step, join))
        tree = pick(TREES).format(**fill, join=join)
        return REDUCED.format(**fill, step=step, tree=tree, zero=zero)
    body = pick(GUARDED if kind == "guarded" else ROWS).format(**fill)
    grid = "n" if kind == "rows" else f"(n * m + {block - 1}) / {block}"
    return ELEMENT.format(T=elem, body=body, grid=grid, block=block)
