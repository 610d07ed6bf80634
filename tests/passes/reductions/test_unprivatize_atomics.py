"""unprivatize-atomics: what blocks count for themselves and add to an array, as updates of the array."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.reductions import unprivatize_atomics
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel tally(sum: {t}* restrict, x: u32 const* restrict, n: i32, m: i32)\n"
BLOCKS = "  par b in 0..m @ [block.x]\n    array own: shared {t}[16]\n"
CLEAR = "    par k in 0..16 @ [thread.x 16]\n      own[k] = {zero}\n"
UPDATE = """\
    par t in 0..16 @ [thread.x 16]
      for i = t + b * 16; i < n; i + 16 * m
        atomic {op} own[(x[i] & 15_u32) as i32], {one}
"""
FLUSH = "    par j in 0..16 @ [thread.x 16]\n      atomic {op} sum[j], own[j]\n"
KINDS = {
    "count": {"t": "u32", "op": "add", "zero": "0_u32", "one": "1_u32"},
    "sum": {"t": "f32", "op": "add", "zero": "0.0", "one": "i as f32"},
    "largest": {"t": "i32", "op": "max", "zero": "-2147483648", "one": "i"},
}


def text(kind: str = "count", *parts: str) -> str:
    parts = parts or (CLEAR, UPDATE, FLUSH)
    return "".join(p.format(**KINDS[kind]) for p in (HEAD, BLOCKS, *parts))


COUNT = parse_kernel(text())
SCRIPT = "unprivatize-atomics{array=own}"
SIZES = [{"n": n, "m": m} for n, m in ((0, 1), (1, 2), (17, 1), (100, 3), (255, 4))]


def test_before_and_after() -> None:
    assert (
        body_of(applied(COUNT, SCRIPT))
        == """\
  par b in 0..m @ [block.x]
    par t in 0..16 @ [thread.x 16]
      for i in t + b * 16..n step 16 * m
        atomic add sum[(x[i] & 15_u32) as i32], 1_u32
"""
    )


@pytest.mark.parametrize("kind", KINDS)
def test_meaning_stays(kind: str) -> None:
    kernel = parse_kernel(text(kind))
    done = applied(kernel, SCRIPT)
    assert ("reassociates" in done.flags) == (kind == "sum")
    assert differs(kernel, done, SIZES) is None


@pytest.mark.parametrize("cond", ["own[j] != 0_u32", "own[j] > 0_u32"])
def test_what_is_added_may_be_left_out_where_it_is_nothing(cond: str) -> None:
    flush = f"    par j in 0..16 @ [thread.x 16]\n      if {cond}\n        atomic add sum[j + b], own[j]\n"
    kernel = parse_kernel(text("count", CLEAR, UPDATE, flush))
    done = applied(kernel, SCRIPT)
    assert "atomic add sum[(x[i] & 15_u32) as i32 + b], 1_u32" in body_of(done)
    assert differs(kernel, done, SIZES) is None


ADDED = "      atomic add sum[j], "


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((CLEAR, UPDATE, FLUSH.replace("0..16", "0..15")), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR.replace("0..16", "0..15"), UPDATE, FLUSH), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR.replace("{zero}", "1_u32"), UPDATE, FLUSH), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR.replace("own[k]", "own[15 - k]"), UPDATE, FLUSH), "E-UNPRIVATIZE-WHOLE"),
        ((UPDATE, FLUSH), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR, UPDATE, FLUSH.replace("own[j]", "own[j] + 1_u32")), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR, UPDATE, FLUSH.replace("      at", "      if own[j] > 3_u32\n        at")), "E-UNPRIVATIZE-WHOLE"),
        ((CLEAR, UPDATE, CLEAR, FLUSH), "E-UNPRIVATIZE-USED"),
        ((CLEAR, UPDATE.replace("{op}", "max"), FLUSH), "E-UNPRIVATIZE-USED"),
        ((CLEAR, UPDATE.replace("{one}", "own[3]"), FLUSH), "E-UNPRIVATIZE-USED"),
        ((CLEAR, UPDATE, "    par z in 0..1 @ [thread.x 16]\n      sum[z] = 0_u32\n", FLUSH), "E-UNPRIVATIZE-TARGET"),
        ((CLEAR, UPDATE, FLUSH.replace("sum[j]", "sum[x[j] as i32]")), "E-UNPRIVATIZE-TARGET"),
    ],
)  # fmt: skip
def test_refusals(parts: tuple[str, ...], code: str) -> None:
    assert refused(parse_kernel(text("count", *parts)), SCRIPT).code == code


def test_no_array_of_a_block() -> None:
    assert refused(COUNT, "unprivatize-atomics{array=sum}").code == "E-UNPRIVATIZE-NONE"
    other = text().replace("sum: u32*", "sum: u64*").replace("own[j]", "own[j] as u64")
    assert refused(parse_kernel(other), SCRIPT).code == "E-UNPRIVATIZE-WHOLE"


def test_sites() -> None:
    (site,) = unprivatize_atomics.UnprivatizeAtomics().sites(COUNT)
    assert str(site.step) == SCRIPT
    assert unprivatize_atomics.UnprivatizeAtomics().sites(parse_kernel(text("count", UPDATE, FLUSH))) == []


def test_counts_that_are_lost_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is never added up must be seen by the comparison that every candidate goes through."""
    monkeypatch.setattr(unprivatize_atomics, "_covers", lambda s, t: True)
    kernel = parse_kernel(text("count", CLEAR, UPDATE, FLUSH.replace("0..16", "0..15")))
    assert differs(kernel, applied(kernel, SCRIPT), SIZES) is not None
