"""The first thread of each launch of a sequence, by what that launch is."""

from __future__ import annotations

from ktc.ir.text import parse_kernel
from ktc.search.verification.integers.first_thread import FirstThread

PAIR = """\
kernel pair(y: f32* noalias temporary(n), z: f32* noalias, n: i32)
  launch "wide" grid(1) block(256)
    for i = threadIdx.x as i32; i < n; i + (blockDim.x as i32)
      y[i] = 1.0
  launch "narrow" grid(1) block(32)
    for j = threadIdx.x as i32; j < n; j + (blockDim.x as i32)
      z[j] = y[j]
"""


def test_each_launch_has_its_own_threads() -> None:
    """From 33 elements on a thread of the narrow block goes round twice, from 257 on one of the wide block."""
    thread = FirstThread(parse_kernel(PAIR))
    twice = [[n for n in (32, 33, 256, 257) if thread.reaches(k, {"n": n})] for k in range(2)]
    assert twice == [[257], [33, 256, 257]]
