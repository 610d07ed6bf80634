"""Sizes that are numbers of the source: smaller ones stand for them, in the original and the candidate alike."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, For
from ktc.ir.text import parse_kernel
from ktc.ir.types import I32
from ktc.ir.walk import map_body
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import Verdict, verify
from ktc.search.verification.defects import defects
from ktc.search.verification.members import other_sizes
from ktc.search.verification.members.literal_sizes import General, generalised, takes_long

ROWS = """
kernel row_sums(y: f32* restrict noalias, x: f32 const* restrict readonly)
  launch grid(16) block(128)
  let i: i32 = i32(blockIdx.x) * i32(blockDim.x) + i32(threadIdx.x)
  if i < 2048
    var s: f32 = 0.0
    for k in 0..1024
      s += x[i * 1024 + k]
    y[i] = s
"""
STEPS = "raise | distribute{loop=i map=[thread.x 64, block.x]}"


def large(text: str) -> str:
    """With more rows than any check runs as they are."""
    return text.replace("grid(16)", "grid(256)").replace("i < 2048", "i < 32768")


def workload(y: str = "2048", x: str = "2097152", *more: ArgSpec) -> Workload:
    args = (ArgSpec("y", "f32", "out", (y,)), ArgSpec("x", "f32", "in", (x,)), *more)
    return Workload(Path("w.toml"), Path("k.cu"), "row_sums", args, (Scenario("one", {}),), {"": {}})


def made(original: Kernel, script: str = STEPS) -> Kernel:
    applied = apply_script(original, parse_script(script))
    assert not applied.refused
    return materialise(applied.kernel)


def judged(text: str, work: Workload | None = None, script: str = STEPS) -> Verdict:
    original = parse_kernel(text)
    return verify(original, made(original, script), work or workload())


def general(text: str, work: Workload | None = None) -> General:
    found = generalised(parse_kernel(text), work or workload(), None, 0)
    assert isinstance(found, General), found
    return found


def test_smaller_numbers_stand_for_those_of_the_source():
    verdict = judged(ROWS)
    assert verdict.status == "TESTED", verdict
    assert "with 1024 and 2048 of the source taken for sizes" in verdict.reason and "size_2048=" in verdict.reason


def test_blocks_may_be_counted_in_any_type():
    """``(N + 127) / 128`` of ``const size_t N``, which the front-end has computed."""
    assert general(ROWS.replace("grid(16)", "grid(16_u64)")).numbers == general(ROWS).numbers


def test_at_its_own_numbers_the_source_is_what_it_was():
    found = general(ROWS)
    assert found.numbers == {"size_2048": 2048, "size_1024": 1024}
    shapes = {a.name: a.shape for a in found.workload.args if a.shape}
    assert shapes == {"y": ("(size_2048)",), "x": ("(size_2048 * size_1024)",)}
    smaller = found.at({"size_2048": 96, "size_1024": 7})
    assert "i < 96" in str_of(smaller) and "i * 7 + k" in str_of(smaller) and "grid(1)" in str_of(smaller)


def str_of(kernel: Kernel) -> str:
    from ktc.ir.text import print_kernel

    return print_kernel(kernel)


def test_of_two_products_the_one_that_the_source_touches_is_the_shape():
    """2048 rows of 2048: one number of the source alone, and as many elements as 1024 rows of 4096 have."""
    text = ROWS.replace("0..1024", "0..4096").replace("i * 1024", "i * 4096").replace("i < 2048", "i < 1024")
    text = text.replace("y[i] = s", "for j in 0..2048\n      y[j * 2048 + i] = s")
    found = general(text.replace("grid(16)", "grid(8)"), workload("4194304", "4194304"))
    shapes = [a.shape for a in found.workload.args if a.shape]
    assert shapes == [("(size_2048 * size_2048)",), ("(size_4096 * size_1024)",)]


def test_a_number_that_is_a_tile_as_well_stays_one():
    """128 is an eighth of 1024, and the threads of a block: at other sizes it has to stay what it is."""
    text = ROWS.replace("i32(blockDim.x)", "128")
    verdict = judged(text, script="raise | distribute{loop=i map=[thread.x 64, block.x]}")
    assert verdict.status == "TESTED", verdict
    assert "* 128 +" in str_of(general(text).at({"size_2048": 96, "size_1024": 8}))


GATHER = """
kernel gather(y: f32* restrict noalias, x: f32 const* restrict readonly, at: i32 const* restrict readonly)
  launch grid(16) block(128)
  let i: i32 = i32(blockIdx.x) * i32(blockDim.x) + i32(threadIdx.x)
  if i < 2048
    var s: f32 = 0.0
    for k in 0..1024
      s += x[i * 1024 + at[k]]
    y[i] = s
"""


def test_a_number_that_data_know_too_is_no_size():
    """Places up to 1023 lie in rows of 1024, and of no fewer."""
    places = ArgSpec("at", "i32", "in", ("1024",), range=(0, 1023))
    verdict = judged(large(GATHER), workload("32768", "33554432", places))
    assert verdict.status == "UNKNOWN" and "no smaller numbers mean anything to the source" in verdict.reason
    assert "is outside its" in verdict.reason


def test_a_buffer_that_smaller_numbers_do_not_make_smaller_is_not_tried():
    """Of a number of elements that is no product of the sizes."""
    found = generalised(parse_kernel(ROWS), workload(x="5000011"), None, 0)
    assert found == "'x' has 5,000,011 elements with smaller numbers, too"


def test_many_numbers_are_not_told_apart():
    more = "".join(f"    for k{n} in 0..{n}\n      s += x[k{n}]\n" for n in (300, 500, 700))
    verdict = judged(large(ROWS.replace("    y[i] = s", more + "    y[i] = s")), workload("32768", "33554432"))
    assert verdict.status == "UNKNOWN" and "too many numbers of the source may be sizes" in verdict.reason


def test_what_no_script_makes_is_not_known():
    original = parse_kernel(large(ROWS))
    other = parse_kernel(large(ROWS).replace("0..1024", "1..1024")).with_(trace=made(original).trace)
    verdict = verify(original, other, workload("32768", "33554432"))
    assert verdict.status == "UNKNOWN" and "its script does not make the candidate" in verdict.reason


@pytest.mark.parametrize("first", [1, 2])
def test_what_passes_get_wrong_at_all_sizes_is_not_accepted(monkeypatch, first):
    """Passes that leave out the first terms of every sum, whatever its size."""

    def cut(kernel: Kernel) -> Kernel:
        def on(s):
            return dataclasses.replace(s, init=Const(first, I32)) if isinstance(s, For) else s

        lowered = materialise(kernel)
        return lowered.with_(body=map_body(lowered.body, on))

    monkeypatch.setattr(other_sizes, "materialise", cut)
    original = parse_kernel(ROWS)
    applied = apply_script(original, parse_script(STEPS))
    verdict = verify(original, cut(applied.kernel), workload())
    assert not verdict.ok and "wrong result" in verdict.reason


PAIRS = """
kernel near(y: f32* restrict noalias, x: f32 const* restrict readonly)
  launch grid(64) block(128)
  let i: i32 = i32(blockIdx.x) * i32(blockDim.x) + i32(threadIdx.x)
  if i < 8192
    var s: f32 = 0.0
    for k in 0..8192
      let d: f32 = x[k] - x[i]
      let near: f32 = d * d
      if near < 4.0
        s += near
    y[i] = s
"""
FEW_ELEMENTS = workload("8192", "8192")


def test_long_loops_over_few_elements_are_too_much_to_run_as_well() -> None:
    """Buffers are small, and so few elements that any check would take them; 8192 rounds of 8192 threads are not."""
    verdict = judged(PAIRS, FEW_ELEMENTS)
    assert verdict.status == "TESTED" and "members of the candidate's family" in verdict.reason, verdict
    original = parse_kernel(PAIRS)
    shorter = made(original).with_(body=map_body(made(original).body, _one_round_less))
    assert shorter.body != made(original).body and not verify(original, shorter, FEW_ELEMENTS).ok


def _one_round_less(s: object) -> object:
    if isinstance(s, For) and isinstance(s.cond, Binary) and s.cond.b == Const(8192, I32):
        return dataclasses.replace(s, cond=dataclasses.replace(s.cond, b=Const(8191, I32)))
    return s


def test_what_is_wrong_with_a_long_source_is_found_at_smaller_numbers() -> None:
    """Whatever its numbers are it reads one element too many; without that there is nothing to run it whole for."""
    sound = parse_kernel(PAIRS)
    assert takes_long(sound, FEW_ELEMENTS, {}) and not defects(sound, FEW_ELEMENTS)
    found = defects(parse_kernel(PAIRS.replace("0..8192", "0..8193")), FEW_ELEMENTS)
    assert [d.finding.kind for d in found] == ["out-of-bounds"] and found[0].fatal


UNGUARDED = """
kernel row_sums(y: f32* restrict noalias, x: f32 const* restrict readonly)
  launch grid(32) block(128)
  let i: i32 = i32(blockIdx.x) * i32(blockDim.x) + i32(threadIdx.x)
  var s: f32 = 0.0
  for k in 0..4096
    s += x[i * 4096 + k]
  y[i] = s
"""


def test_without_a_guard_smaller_numbers_make_whole_blocks() -> None:
    """Of fewer rows than a block has threads the source would reach beyond its buffers."""
    work = workload("4096", "16777216")
    found = general(UNGUARDED, work)
    (rows,) = found.numbers
    assert found.workload.arg(rows).divisible_by == found.original.param(rows).divisible_by == 128
    assert not defects(found.original, found.workload)
    assert judged(UNGUARDED, work).status == "TESTED"
    short = UNGUARDED.replace("grid(32)", "grid(31)")
    assert not verify(parse_kernel(UNGUARDED), made(parse_kernel(short)), work).ok
