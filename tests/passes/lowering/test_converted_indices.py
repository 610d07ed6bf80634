"""Indices that are converted to narrower types: ``s[(unsigned char)t]`` is not thread t's own element."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import LoweringError, materialise

KERNEL = """\
kernel k(y: i32* restrict, x: i32 const* restrict, m: i32)
  par b in 0..m @ [block.x]
    array s: {space} i32[512]
    par t in 0..512 @ [thread.x 512]
      s[t] = x[t]
    par t in 0..512 @ [thread.x 512]
      y[t] = s[(t as {narrow}) as i32]
"""


@pytest.mark.parametrize(("narrow", "barriers"), [("u8", 1), ("i64", 0)])
def test_another_threads_element_is_waited_for(narrow: str, barriers: int) -> None:
    kernel = parse_kernel(KERNEL.format(space="shared", narrow=narrow))
    lowered = materialise(kernel)
    assert print_kernel(lowered).count("barrier") == barriers
    args = {"y": np.zeros(512, np.int32), "x": np.arange(512, dtype=np.int32), "m": 1}
    first, second = (run(k, args, domain="int") for k in (kernel, lowered))
    assert second.ok and np.array_equal(first.outputs["y"], second.outputs["y"])


def test_another_threads_register_is_not_read() -> None:
    with pytest.raises(LoweringError) as caught:
        materialise(parse_kernel(KERNEL.format(space="local", narrow="u8")))
    assert caught.value.code == "E-LOWER-OWNER"
