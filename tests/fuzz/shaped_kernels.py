"""Naive kernels of the shapes that whole families of passes are made for, as random CUDA C++.

Elements drawn one by one rarely add up to a matrix product with a loop to stage or a stencil to block in time. Here the
shape is given and everything else is drawn: types, operators, taps, epilogues, guards. Each source is
``fuzz(a, b, out0, m, n)`` with ``a`` and ``b`` of n m elements, free of races and in bounds for the sizes of its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel, Repeat

Pick = Callable[[Sequence[Any]], Any]

SIZES = {
    "square": ((1, 2, 17, 32, 40), (1, 8, 16, 33, 48)),
    "plane": ((1, 2, 3, 9, 18), (1, 3, 16, 33, 40)),
    "rows": ((1, 2, 3, 5), (1, 3, 8, 16, 33, 64, 100, 260)),
}
"""By family: the values of n and of m. ``square``: the output is n by n."""

_ELEMENT = {"float": "f", "int": "", "double": "", "__half": ""}


@dataclass(frozen=True)
class Shape:
    """``make`` draws (body, grid, block) of an element type; ``sizes`` a key of :data:`SIZES`.

    ``repeat``: launched again and again with ``a`` and ``out0`` swapped.
    """

    make: Callable[[Pick, str], tuple[str, str, str]]
    sizes: str
    elements: tuple[str, ...] = ("float", "float", "int", "double")
    repeat: bool = False


def _wide(t: str) -> str:
    """The type that sums of ``t`` are kept in."""
    return "float" if t == "__half" else t


def _read(t: str, place: str) -> str:
    return f"__half2float({place})" if t == "__half" else place


def _written(t: str, value: str) -> str:
    return f"__float2half({value})" if t == "__half" else value


def _product(pick: Pick, t: str) -> tuple[str, str, str]:
    """A matrix product: rows of a by columns (or rows) of b."""
    w, x, y = _wide(t), pick((16, 8)), pick((16, 8, 4))
    right = pick(("b[k * n + c]", "b[k * n + c]", "b[c * m + k]"))
    start = pick(("0", "0", "1"))
    step = pick((f"acc += {_read(t, 'a[r * m + k]')} * {_read(t, right)};",
                 f"acc += {_read(t, 'a[r * m + k]')} * {_read(t, right)};",
                 f"acc = acc + ({_read(t, 'a[r * m + k]')} - {_read(t, right)});"))  # fmt: skip
    end = pick(("acc", "acc", f"({w})2 * acc", f"acc + {_read(t, 'a[r * m]')}"))
    body = f"""
  int c = blockIdx.x * {x} + threadIdx.x, r = blockIdx.y * {y} + threadIdx.y;
  if (r < n && c < n) {{
    {w} acc = 0;
    for (int k = {start}; k < m; ++k) {{ {step} }}
    out0[r * n + c] = {_written(t, end)};
  }}"""
    return body, f"dim3((n + {x - 1}) / {x}, (n + {y - 1}) / {y})", f"dim3({x}, {y})"


def _stencil(pick: Pick, t: str) -> tuple[str, str, str]:
    """One sweep over the inside of a plane, or over all of it with clamped taps."""
    x, y = pick((16, 32)), pick((4, 8))
    one = "1.0f" if t == "float" else "1"
    if pick((True, True, False)):
        guard = "r >= 1 && r < n - 1 && j >= 1 && j < m - 1"
        taps = ["a[r * m + j - 1]", "a[r * m + j + 1]", "a[(r - 1) * m + j]", "a[(r + 1) * m + j]", "a[r * m + j]",
                "a[(r - 1) * m + j + 1]"]  # fmt: skip
    else:
        guard = "r < n && j < m"
        taps = ["a[max(r - 1, 0) * m + j]", "a[min(r + 1, n - 1) * m + j]", "a[r * m + max(j - 1, 0)]",
                "a[r * m + min(j + 1, m - 1)]", "a[r * m + j]"]  # fmt: skip
    terms = [pick(taps) for _ in range(pick((2, 3, 4)))] + pick(([], ["b[r * m + j]"]))
    value = "".join(pick((" + ", " - ")) + term for term in terms)
    body = f"""
  int j = blockIdx.x * {x} + threadIdx.x, r = blockIdx.y * {y} + threadIdx.y;
  if ({guard}) out0[r * m + j] = {one}{value};"""
    return body, f"dim3((m + {x - 1}) / {x}, (n + {y - 1}) / {y})", f"dim3({x}, {y})"


def _row_passes(pick: Pick, t: str) -> tuple[str, str, str]:
    """One thread or one block a row, which it reads two or three times: a maximum, a sum, a result."""
    top = {"int": "max", "double": "fmax"}.get(t, "fmaxf")
    block = pick((32, 64, 128))
    term = pick(("a[r * m + j] - top", "(a[r * m + j] - top) * b[r * m + j]", "a[r * m + j]"))
    last = pick(("(a[r * m + j] - top) * sum", "a[r * m + j] * b[r * m + j] - sum", "sum"))
    body = f"""
  int r = blockIdx.x * {block} + threadIdx.x;
  if (r < n) {{
    {t} top = a[r * m];
    for (int j = {pick(("0", "1"))}; j < m; ++j) top = {top}(top, a[r * m + j]);
    {t} sum = 0;
    for (int j = 0; j < m; ++j) sum += {term};
    for (int j = 0; j < m; ++j) out0[r * m + j] = {last};
  }}"""
    return body, f"(n + {block - 1}) / {block}", str(block)


def _running(pick: Pick, t: str) -> tuple[str, str, str]:
    """A running result along each row, before or after the element."""
    block = pick((32, 64))
    top = {"int": "max", "double": "fmax"}.get(t, "fmaxf")
    add = pick(("acc + $", "acc + $", f"{top}(acc, $)")).replace(
        "$", pick(("a[r * m + j]", "a[r * m + j] * b[r * m + j]"))
    )
    steps = [f"acc = {add};", f"out0[r * m + j] = {pick(('acc', 'acc', 'acc - b[r * m + j]'))};"]
    body = f"""
  int r = blockIdx.x * {block} + threadIdx.x;
  if (r < n) {{
    {t} acc = {pick(("0", "0", "3"))};
    for (int j = 0; j < m; ++j) {{ {" ".join(pick((steps, steps[::-1])))} }}
  }}"""
    return body, f"(n + {block - 1}) / {block}", str(block)


def _columns(pick: Pick, t: str) -> tuple[str, str, str]:
    """Sums down the columns, or one sum of everything by one thread a row."""
    block = pick((32, 64))
    top = {"int": "min", "double": "fmin"}.get(t, "fminf")
    step = pick(("acc += $;", "acc += $;", f"acc = {top}(acc, $);")).replace(
        "$", pick(("a[r * m + j]", "a[r * m + j] - b[j]"))
    )
    body = f"""
  int j = blockIdx.x * {block} + threadIdx.x;
  if (j < m) {{
    {t} acc = {pick(("0", "50"))};
    for (int r = 0; r < n; ++r) {{ {step} }}
    out0[j] = acc;
  }}"""
    return body, f"(m + {block - 1}) / {block}", str(block)


def _transpose(pick: Pick, t: str) -> tuple[str, str, str]:
    x, y = pick((16, 32)), pick((8, 4))
    value = pick(("a[r * m + j]", "a[r * m + j] + b[r * m + j]", "a[r * m + j] - b[j]"))
    body = f"""
  int j = blockIdx.x * {x} + threadIdx.x, r = blockIdx.y * {y} + threadIdx.y;
  if (j < m && r < n) out0[j * n + r] = {value};"""
    return body, f"dim3((m + {x - 1}) / {x}, (n + {y - 1}) / {y})", f"dim3({x}, {y})"


def _counters(pick: Pick, t: str) -> tuple[str, str, str]:
    """Updates of few places by all threads: histograms, counts, extremes."""
    block = pick((32, 64, 128))
    update = pick((
        "atomicAdd(&out0[a[i] & 15], 1);",
        "atomicAdd(&out0[(a[i] + b[i]) & 7], b[i]);",
        "atomicAdd(out0, a[i]);",
        "if (a[i] > 1) atomicAdd(out0, 1);",
        "if (a[i] > b[i]) atomicAdd(&out0[i % 3], 2);",
        "atomicMax(&out0[a[i] & 3], b[i]);",
        "atomicMin(out0, a[i] - b[i]);",
        "atomicOr(&out0[i & 1], 1 << (a[i] & 7));",
    ))  # fmt: skip
    loop = pick((True, False))
    grid = f"(n * m + {block - 1}) / {block}"
    at = f"blockIdx.x * {block} + threadIdx.x"
    head = f"for (int i = {at}; i < n * m; i += gridDim.x * {block})" if loop else f"int i = {at};\n  if (i < n * m)"
    return f"\n  {head} {{ {update} }}", pick(("2", grid)) if loop else grid, str(block)


SHAPES = {
    "product": Shape(_product, "square", ("float", "int", "__half", "__half", "double")),
    "stencil": Shape(_stencil, "plane", repeat=True),
    "row passes": Shape(_row_passes, "rows"),
    "running": Shape(_running, "rows"),
    "columns": Shape(_columns, "plane"),
    "transpose": Shape(_transpose, "plane"),
    "counters": Shape(_counters, "rows", ("int",)),
}


def shaped(pick: Pick) -> tuple[str, Kernel, tuple[tuple[int, ...], tuple[int, ...]]]:
    """A random shape's name, a random kernel of it, and the values of n and of m that suit it."""
    name = pick(tuple(SHAPES))
    shape = SHAPES[name]
    t = pick(shape.elements)
    body, grid, block = shape.make(pick, t)
    params = f"const {t}* __restrict__ a, const {t}* __restrict__ b, {t}* __restrict__ out0, int m, int n"
    source = (
        f"__global__ void fuzz({params}) {{{body}\n}}\n"
        f"void launch({params}) {{ fuzz<<<{grid}, {block}>>>(a, b, out0, m, n); }}\n"
    )
    kernel = load(source)
    if shape.repeat and pick((True, True, False)):
        kernel = kernel.with_(repeat=Repeat(("a", "out0")))
    return name, kernel, SIZES[shape.sizes]


__all__ = ["SHAPES", "Shape", "shaped"]
