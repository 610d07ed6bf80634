"""Which narrow types hold what a kernel keeps, and proofs that hang on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ktc.ir.text import canonical, parse_kernel
from ktc.ir.workload.input_data import numpy_dtype
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.zeros.formats import EVERY, exactly, formats

KERNEL = """
kernel k(y: f32* noalias, h: f16 const* noalias readonly, b: bf16 const* noalias readonly,
    e: e4m3 const* noalias readonly, d: e5m2 const* noalias readonly, z: f32 const* noalias readonly)
  launch grid(1) block(32)
  array kept: shared f32[32]
  var a: f32 = {first}
  a = {then}
  kept[threadIdx.x] = a
  barrier
  y[threadIdx.x] = kept[0]
"""

VALUES = [
    ("0.0", "max(a, f32(h[0]))", {"f16"}),
    ("0.0", "max(a, f32(b[0]))", {"bf16"}),
    ("0.0", "max(a, f32(e[0]))", {"e4m3", "f16", "bf16"}),
    ("0.0", "f32(d[0])", {"f16", "bf16"}),
    ("0.0", "f32(e5m2(z[0]))", {"e5m2", "f16", "bf16"}),
    ("0.0", "max(f32(e[0]), f32(h[0]))", {"f16"}),
    ("0.0", "max(f32(b[0]), f32(h[0]))", set()),
    ("0.0", "max(f32(e[0]), f32(e5m2(z[0])))", {"f16", "bf16"}),
    ("0.0", "f32(f16(f32(e[0])))", {"e4m3", "f16", "bf16"}),
    ("0.0", "f32(e4m3(f32(h[0])))", {"e4m3", "f16", "bf16"}),
    ("0.0", "f32(f64(f32(h[0])))", {"f16"}),
    ("-inf", "max(a, f32(e[0]))", {"f16", "bf16"}),
    ("65504.0", "a", {"f16"}),
    ("448.0", "-a", {"e4m3", "e5m2", "f16", "bf16"}),
    ("480.0", "-a", {"f16", "bf16"}),
    ("0.1", "a", set()),
    ("0.0", "f32(h[0]) + f32(h[1])", set()),
    ("0.0", "f32(h[0] + h[1])", {"f16"}),
]


@pytest.mark.parametrize(("first", "then", "names"), VALUES)
def test_a_value_is_held_by_the_types_that_hold_all_it_is_made_of(first: str, then: str, names: set[str]) -> None:
    kernel = parse_kernel(KERNEL.format(first=first, then=then))
    known = {s.name: held for s, held in formats(kernel).items()}
    assert known["a"] == known["kept"] == names


def test_what_a_type_holds_is_not_changed_by_rounding_to_it() -> None:
    rng = np.random.default_rng(7)
    values = [*rng.normal(0, 100, 50), *np.arange(-260.0, 260.0), 65504.0, 57344.0, 448.0, 2.0**-24, 2.0**-16, 2.0**-9]
    for v in map(float, values):
        assert exactly(v) == {n for n in EVERY if float(numpy_dtype(n).type(v)) == v}
    assert exactly(math.inf) == exactly(-math.inf) == {"f16", "bf16"}  # the others saturate
    assert exactly(-0.0) == EVERY


def test_what_others_may_write_has_its_own_type_alone() -> None:
    text = KERNEL.format(first="0.0", then="a").replace("  barrier\n", "  atomic add kept[1], z[0]\n  barrier\n")
    known = {s.name: held for s, held in formats(parse_kernel(text)).items()}
    assert known["a"] == EVERY and not known["kept"]


STARTS = """
kernel k(y: f32* noalias, e: e4m3 const* noalias readonly, d: e5m2 const* noalias readonly, c: i32)
  launch grid(1) block(1)
  var m: f32 = {first}
  if c > 0
    m = f32(e[0])
  y[0] = f32({narrow}(m))
"""


@pytest.mark.parametrize(
    ("first", "narrow", "holds"),
    [("0.0", "e4m3", True), ("-inf", "e4m3", False), ("-inf", "f16", True), ("f32(d[0])", "e5m2", False),
     ("f32(e5m2(f32(e[0])))", "e5m2", False), ("f32(d[0])", "f16", True), ("384.0", "e4m3", True),
     ("480.0", "e4m3", False)],
)  # fmt: skip
def test_a_rounding_may_be_left_out_where_the_type_holds_the_value(first: str, narrow: str, holds: bool) -> None:
    text = STARTS.format(first=first, narrow=narrow)
    one, other = (canonical(parse_kernel(t)) for t in (text, text.replace(f"f32({narrow}(m))", "m")))
    assert bool(equivalent(one, other)) is holds


OTHERS = """
kernel k(y: f32* noalias, h: f16 const* noalias readonly, z: f32 const* noalias readonly, n: i32 range 1..100)
  launch grid(1) block(1)
  var m: f32 = {first}
  for i = 0; i < n; i + 1
    m = max(m, f32(h[i]))
  y[0] = f32(f16(m)) - m
"""


def test_what_a_mutant_gives_a_variable_counts_as_well() -> None:
    """Held against the candidate's types alone, both differences would be zero."""
    one, other = (canonical(parse_kernel(OTHERS.format(first=f))) for f in ("0.0", "z[0]"))
    assert not equivalent(*(k.with_(flags=frozenset({"reassociates"})) for k in (one, other)))


THROUGH_MEMORY = """
kernel k(y: f32* noalias, h: f16 const* noalias readonly, z: f32 const* noalias readonly,
    parts: f32* noalias {kind}(32))
  launch grid(1) block(32)
  parts[threadIdx.x] = {value}
  barrier
  y[threadIdx.x] = parts[0]
"""


@pytest.mark.parametrize("kind", ["scratch", "temporary"])
@pytest.mark.parametrize(("value", "names"), [("f32(h[0])", {"f16"}), ("z[0]", set())])
def test_working_memory_holds_what_the_kernel_stores_there(kind: str, value: str, names: set[str]) -> None:
    known = formats(parse_kernel(THROUGH_MEMORY.format(kind=kind, value=value)))
    assert {s.name: held for s, held in known.items()}["parts"] == names
