"""widen-accumulators: sums in half precision are added up in 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.domains.roundings import counts
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec, Scenario, Workload
from ktc.passes.core.catalogue import PASSES
from ktc.search.verification import verify
from tests.passes.checks import applied, body_of, differs, refused

REDUCED = """\
kernel dots(y: bf16* noalias, a: bf16 const* noalias, b: bf16 const* noalias, n: i32, rows: i32)
  launch grid(rows) block(32)
  flags reassociates
  par row in 0..rows @ [block.x]
    reduce(+) s: bf16 = 0.0_bf16 over k in 0..n @ [thread.x 32, seq]
      yield a[row * n + k] * b[k]
    y[row] = s + 1.0_bf16
"""
SERIAL = """\
kernel sums(y: f16* noalias, a: f16 const* noalias, n: i32, rows: i32)
  launch grid(rows) block(32)
  par row in 0..rows @ [thread.x 32, block.x]
    var s: f16 = 0.0_f16
    for k in 0..n
      s = fma(a[row * n + k], a[row * n + k], s)
    y[row] = s
"""
SIZES = [{"n": n, "rows": 3} for n in (1, 5, 33)]
NAME = "widen-accumulators"


def test_a_reduction_is_rounded_where_it_ends() -> None:
    k = parse_kernel(REDUCED)
    assert [str(s.step) for s in PASSES[NAME].sites(k)] == [NAME]
    after = applied(k, NAME)
    assert body_of(after).split("block.x]\n")[1] == (
        "    reduce(+) s_wide: f32 = 0.0 over k in 0..n @ [thread.x 32, seq]\n"
        "      yield a[row * n + k] * b[k] as f32\n"
        "    let s: bf16 = s_wide as.static bf16\n"
        "    y[row] = s + 1.0_bf16\n"
    )
    half = parse_kernel(REDUCED.replace("bf16", "f16"))
    assert differs(half, applied(half, NAME), SIZES) is None


def test_a_serial_sum_is_rounded_where_it_is_read() -> None:
    k = parse_kernel(SERIAL)
    after = applied(k, NAME)
    assert "var s_wide: f32 = 0.0" in body_of(after) and "s_wide = fma(" in body_of(after)
    assert "y[row] = s_wide as.static f16" in body_of(after)
    assert "reassociates" in after.flags and differs(k, after, SIZES) is None


def test_a_sum_that_is_read_on_its_way_is_rounded_for_that() -> None:
    running = SERIAL.replace("y: f16* noalias", "y: f16* noalias, z: f16* noalias")
    k = parse_kernel(running.replace("      s = ", "      z[row * n + k] = s\n      s = "))
    after = applied(k, NAME)
    assert body_of(after).count("s_wide as.static f16") == 2 and differs(k, after, SIZES) is None


@pytest.mark.parametrize("text", [
    REDUCED.replace("bf16", "f32").replace("_f32", ""),  # wide already
    REDUCED.replace("reduce(+)", "reduce(max)"),  # does not round
    SERIAL.replace("fma(a[row * n + k], a[row * n + k], s)", "a[row * n + k]"),  # no sum
])  # fmt: skip
def test_what_is_no_sum_in_half_precision_stays(text: str) -> None:
    k = parse_kernel(text)
    assert not PASSES[NAME].sites(k) and refused(k, NAME).code == "E-WIDEN-NONE"


# ------------------------------------------------------------------------------------------------------- verification


def _workload(kernel: Kernel, dtype: str, *inputs: str) -> Workload:
    n, rows = (ArgSpec(s, "i32", "scalar", value=s) for s in ("n", "rows"))
    shapes = {"a": ("rows", "n"), "b": ("n",)}
    args = (ArgSpec("y", dtype, "out", ("rows",)), *(ArgSpec(i, dtype, "in", shapes[i]) for i in inputs), n, rows)
    named = (Scenario("s", {"n": 512, "rows": 64}), Scenario("odd", {"n": 77, "rows": 5}))
    return Workload(Path("w.toml"), Path("k.cu"), kernel.name, args, named, {"": {}})


def test_verification_accepts_what_is_rounded_less_often() -> None:
    k = parse_kernel(REDUCED)
    lowered = applied(k, f"{NAME} | distribute{{loop=k map=[thread.x 32, seq]}}")
    verdict = verify(k, lowered, _workload(k, "bf16", "a", "b"))
    assert verdict.ok, verdict


def test_and_a_serial_sum_of_many_terms() -> None:
    k = parse_kernel(SERIAL)
    assert verify(k, applied(k, NAME), _workload(k, "f16", "a")).ok


def test_roundings_of_a_sum_in_half_precision_are_counted_where_they_are_asked_for() -> None:
    k = parse_kernel(SERIAL)
    x = np.full(8, 1.5, np.float16)
    for kernel, domain, rounded in ((k, "roundings", 0), (k, "roundings+f16", 8), (k, "roundings+bf16", 0),
                                    (applied(k, NAME), "roundings+f16", 1)):  # fmt: skip
        got = run(kernel, {"y": np.zeros(1, np.float16), "a": x, "n": 8, "rows": 1}, domain=domain)
        assert counts(got.outputs["y"])[0] == rounded, domain


def test_no_path_hides_what_is_rounded_on_another() -> None:
    """A sum in 32 bits beside arithmetic in half precision, of which a copy rounds the sum once more."""
    text = SERIAL.replace("s: f16 = 0.0_f16", "s: f32 = 0.0").replace(
        "fma(a[row * n + k], a[row * n + k], s)", "s + f32(a[row * n + k])"
    )
    text = text.replace("y[row] = s", "y[row] = f16(s * f32((a[row] * a[row + 1] + a[row]) * a[row + 1]))")
    k, worse = parse_kernel(text), parse_kernel(text.replace("f16(s * ", "f16(f32(f16(s)) * "))
    args = {"y": np.zeros(1, np.float16), "a": np.full(8, 1.5, np.float16), "n": 8, "rows": 1}
    for domain in ("roundings", "roundings+f16"):
        mine, theirs = (counts(run(x, args, domain=domain).outputs["y"])[0] for x in (worse, k))
        assert mine > theirs, domain
    assert verify(k, worse.with_(flags=frozenset({"reassociates"})), _workload(k, "f16", "a")).status == "REJECTED"


def test_verification_refuses_what_is_rounded_more_often_than_each_step() -> None:
    """A product in half precision, which goes through it twice more."""
    text = SERIAL.replace("s = fma(a[row * n + k], a[row * n + k], s)", "s = a[row * n + k] * a[row * n + k]")
    twice = "f16(f32(f16(f32(f16(f32(a[row * n + k]) * f32(a[row * n + k]))) * 0.75)) / 0.75)"
    k, worse = parse_kernel(text), parse_kernel(text.replace("a[row * n + k] * a[row * n + k]", twice))
    work = _workload(k, "f16", "a")
    assert verify(k, worse.with_(flags=frozenset({"reassociates"})), work).status == "REJECTED"
    once = parse_kernel(
        text.replace("a[row * n + k] * a[row * n + k]", "f16(f32(a[row * n + k]) * f32(a[row * n + k]))")
    )
    assert verify(k, once, work).ok


def test_nor_sums_of_which_an_element_is_left_out() -> None:
    k = parse_kernel(REDUCED)
    fewer = applied(parse_kernel(REDUCED.replace("0..n @", "0..n - 1 @")), NAME)
    assert verify(k, fewer, _workload(k, "bf16", "a", "b")).status == "REJECTED"
