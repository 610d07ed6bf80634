"""share-array: a private array that every thread fills alike, in shared memory, filled once a block."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.memory import share_array
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(y: f32* restrict, c: i32 const* restrict, b: f32, n: i32 range 0..40, m: i32 range 0..40)\n"
TABLE = (
    f"{HEAD}  par r in 0..m @ [thread.x 32, block.x]\n"
    "    array w: f32[6, 2]\n    let scale: f32 = b * 2.0\n    w[5, 0] = 1.0\n    w[5, 1] = b\n"
    "    for i in 0..5\n      let e: f32 = exp(f32(i) * scale)\n      w[i, 0] = e\n      w[i, 1] = 1.0 - e\n"
    "    y[r] = w[c[r], 0] + w[(c[r] + 1) % 6, 1]\n"
)
TILED = "tile{loops=r sizes=8} | distribute{loop=r map=[thread.x 8]}"
SIZES = [{"n": n, "m": m, "b": 0.5} for n, m in ((0, 3), (1, 1), (16, 8), (17, 9), (33, 15))]
STEP = "share-array{array=w}"


def test_before_and_after() -> None:
    body = body_of(applied(parse_kernel(TABLE), f"{TILED} | {STEP}"))
    assert """\
    array w: shared f32[6, 2] align 16
    par one in 0..1 @ [thread.x 8, seq]
      w[5, 0] = 1.0
    par one_1 in 0..1 @ [thread.x 8, seq]
      w[5, 1] = b
    par i in 0..5 @ [thread.x 8, seq]
      let e: f32 = exp(f32(i) * (b * 2.0))
      w[i, 0] = e
      w[i, 1] = 1.0 - e
    par r in r_tile * 8..min(r_tile * 8 + 8, m) @ [thread.x 8]
""" in body  # fmt: skip
    assert "y[r] = w[c[r], 0] + w[(c[r] + 1) % 6, 1]" in body


def test_meaning_stays() -> None:
    before = parse_kernel(TABLE)
    assert differs(before, applied(before, f"{TILED} | {STEP}"), SIZES) is None


def test_a_loop_whose_iterations_depend_on_each_other_is_one_thread_s() -> None:
    running = TABLE.replace("    for i in 0..5\n", "    for i in 0..5\n      w[i / 2, 1] = f32(i)\n")
    before = parse_kernel(running)
    after = applied(before, f"{TILED} | {STEP}")
    assert "    par one_2 in 0..1 @ [thread.x 8, seq]\n      for i in 0..5\n" in body_of(after)
    assert differs(before, after, SIZES) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("exp(f32(i) * scale)", "exp(f32(i + r))", "'r', which each thread has of its own"),
        ("exp(f32(i) * scale)", "y[i]", "come from memory"),
        ("exp(f32(i) * scale)", "f32(100 / n)", "division that may be one by zero"),
        ("exp(f32(i) * scale)", "w[5, 0]", "read where it is written"),
        ("      w[i, 1] = 1.0 - e\n", "      w[i, 1] = 1.0 - e\n      y[r + i] = e\n", "something else, too"),
        ("    w[5, 1] = b\n", "    y[r] = w[5, 0]\n    w[5, 1] = b\n", "written after it was read"),
        ("    for i in 0..5\n", "    for i in 0..r % 5\n", "'r', which"),
    ],
)
def test_what_threads_do_not_share(old: str, new: str, said: str) -> None:
    kernel = applied(parse_kernel(TABLE.replace(old, new)), TILED).with_(trace=())
    found = refused(kernel, STEP)
    assert found.code == "E-SHARE-VALUES" and said in str(found)


def test_places_and_sizes() -> None:
    assert refused(parse_kernel(TABLE), STEP).code == "E-SHARE-PLACE"
    large = applied(parse_kernel(TABLE.replace("f32[6, 2]", "f32[6000, 2]")), TILED).with_(trace=())
    assert refused(large, STEP).code == "E-SHARE-ARRAY"
    tiled = applied(parse_kernel(TABLE), TILED).with_(trace=())
    assert refused(tiled, "share-array{array=y}").code == "E-SHARE-ARRAY"


def test_sites() -> None:
    found = share_array.ShareArray().sites(applied(parse_kernel(TABLE), TILED))
    assert [str(s.step) for s in found] == [STEP]
    assert share_array.ShareArray().sites(parse_kernel(TABLE)) == []
