"""Operands of tensor cores that are cut off a little too late: seen where they are read behind the buffer's end."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.search.verification import verify
from tests.mutation.subjects import replayed

GUARD = "k * 16 + tx0 * 2 < K"


@pytest.mark.parametrize("element", [0, 2])
def test_every_pair_of_a_fragment_ends_with_the_depth(element: int) -> None:
    made = replayed("dense/hgemm", None, "raise | tensorize{loop=k} [WM=1 WN=1 FM=1 FN=1]")
    lines = print_kernel(made.candidate).splitlines()
    at = next(k for k, line in enumerate(lines) if line.lstrip().startswith(f"a[{element}] = "))
    assert GUARD in lines[at]
    lines[at] = lines[at].replace(GUARD, GUARD.replace("16", "15"))
    verdict = verify(made.original, parse_kernel("\n".join(lines)), made.workload)
    assert verdict.status == "REJECTED" and verdict.failure is not None and verdict.failure.kind == "out-of-bounds"
