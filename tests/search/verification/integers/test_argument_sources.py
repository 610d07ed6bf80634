"""What a value hangs on is the same whether threads or a loop's iterations compute it."""

from __future__ import annotations

from ktc.ir.nodes import Store
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.search.verification.integers.argument_sources import sources_of

HEAD = "kernel k(y: f32*, x: i32 const*, n: i32, width: i32)\n"
BY_THREADS = (
    HEAD
    + """\
  launch grid(cdiv(n, width)) block(width)
  let at: i32 = i32(blockIdx.x * blockDim.x) + i32(threadIdx.x)
  y[at] = f32(x[at] % 7)
"""
)
BY_LOOPS = (
    HEAD
    + """\
  launch grid(1) block(1)
  for block in 0..cdiv(n, width)
    for thread in 0..width
      let at: i32 = block * width + thread
      y[at] = f32(x[at] % 7)
"""
)


def test_threads_and_iterations_hang_on_what_places_them() -> None:
    found = []
    for text in (BY_THREADS, BY_LOOPS):
        k = parse_kernel(text)
        store = next(s for s in walk(k.body) if isinstance(s, Store))
        found.append(sources_of(k).of(store.value))
    assert found[0] == found[1] == {"x", "width"}
