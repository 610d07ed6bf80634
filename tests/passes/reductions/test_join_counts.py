"""join-counts: few blocks count for many."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from tests.passes.checks import applied, body_of, differs, refused

COUNT = """\
kernel tally(sum: {t}* restrict, x: u32 const* restrict, n: i32, m: i32)
  par b in 0..m @ [block.x]
    array own: shared {t}[16]
    par k in 0..16 @ [thread.x 16]
      own[k] = {zero}
    par t in 0..16 @ [thread.x 16]
      if b * 16 + t < n
        atomic add own[(x[b * 16 + t] & 15_u32) as i32], {one}
    par j in 0..16 @ [thread.x 16]
      atomic add sum[j], own[j]
"""
KINDS = {"count": ("u32", "0_u32", "1_u32"), "sum": ("f32", "0.0", "b as f32")}
SIZES = [{"n": n, "m": m} for n, m in ((0, 1), (1, 1), (17, 2), (40, 3), (100, 7), (128, 8))]
SCRIPT = "join-counts{array=own blocks=3}"


def text(kind: str = "count") -> str:
    t, zero, one = KINDS[kind]
    return COUNT.format(t=t, zero=zero, one=one)


@pytest.mark.parametrize("kind", KINDS)
def test_meaning_stays(kind: str) -> None:
    kernel = parse_kernel(text(kind))
    done = applied(kernel, SCRIPT)
    assert ("reassociates" in done.flags) == (kind == "sum")
    assert differs(kernel, done, SIZES) is None


def test_each_thread_counts_without_waiting_for_the_others() -> None:
    assert (
        body_of(applied(parse_kernel(text()), SCRIPT))
        == """\
  par first in 0..min(m, 3) @ [block.x]
    array own: shared u32[16]
    par k in 0..16 @ [thread.x 16]
      own[k] = 0_u32
    par t in 0..16 @ [thread.x 16]
      for b in first..m step 3
        if b * 16 + t < n
          atomic add own[(x[b * 16 + t] & 15_u32) as i32], 1_u32
    par j in 0..16 @ [thread.x 16]
      atomic add sum[j], own[j]
"""
    )


def test_what_a_block_does_in_several_steps_it_does_for_one_after_another() -> None:
    counted = "    par j in 0"
    twice = text().replace(counted, "    par u in 0..4 @ [thread.x 16]\n      atomic add own[u + b], 1_u32\n" + counted)
    twice = twice.replace("[16]\n    par k in 0..16", "[32]\n    par k in 0..32").replace("j in 0..16", "j in 0..32")
    kernel = parse_kernel(twice)
    assert differs(kernel, applied(kernel, SCRIPT), [{"n": 40, "m": 3}, {"n": 128, "m": 8}]) is None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("atomic add sum[j]", "atomic add sum[j + b * 16]", "E-JOIN-COUNTS-BLOCK"),
        ("own[k] = 0_u32", "own[k] = b as u32", "E-UNPRIVATIZE-WHOLE"),
        (", own[j]\n", ", own[j]\n    x_seen[b] = 1_u32\n", "E-JOIN-COUNTS-BLOCK"),
        ("shared u32[16]\n", "shared u32[16]\n    let w: i32 = b + 1\n", ""),
    ],
)  # fmt: skip
def test_refusals(old: str, new: str, code: str) -> None:
    changed = text().replace(old, new).replace("n: i32, m", "x_seen: u32* restrict, n: i32, m")
    if code:
        assert refused(parse_kernel(changed), SCRIPT).code == code
    else:
        assert applied(parse_kernel(changed), SCRIPT) is not None
