"""Ideas for products of floats: every layout of the factors and of what is stored, whatever things are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.embedded.thread_products import BY_COPIES, SECOND, TURNED_BY_COPIES, staged_products
from ktc.agent.planner import Proposal
from ktc.ir.kernel import bind
from ktc.ir.workload import Workload
from ktc.search.verification import verify
from tests.agent.embedded.test_rules import GPU, observe

KERNEL = """\
kernel product(z: f32* restrict align 16 noalias, p: f32 const* restrict align 16 noalias readonly,
    q: f32 const* restrict align 16 noalias readonly, h: i32, v: i32, t: i32)
  launch grid((v + 15) / 16, (h + 15) / 16) block(16, 16)
  let y: i32 = i32(blockIdx.y) * 16 + i32(threadIdx.y)
  let x: i32 = i32(blockIdx.x) * 16 + i32(threadIdx.x)
  if y < h && x < v
    var s: f32 = 0.0
    for c in 0..t
      s += p[{p}] * q[{q}]
    z[{z}] = s * 0.5
"""
LEFT = {"N": "y * t + c", "T": "c * h + y"}
RIGHT = {"N": "c * v + x", "T": "x * t + c"}
STORED = {"rows": "y * v + x", "columns": "x * h + y"}
SIZES = {"h": 2048, "v": 2048, "t": 512}


def kernel(left: str, right: str, stored: str = "rows") -> str:
    return KERNEL.format(p=LEFT[left], q=RIGHT[right], z=STORED[stored])


def ideas(source: str, sizes: dict[str, int] = SIZES) -> list[str]:
    builder, o = observe(source, sizes)
    assert o.raised is not None
    able = lambda steps: builder.attempt(f"raise | {steps}") is None  # noqa: E731
    return [steps for steps, _, _ in staged_products(o.raised, GPU.compute_units, o.facts, able)]


LAYOUTS = [(left, right, stored) for stored in STORED for left in LEFT for right in RIGHT]


@pytest.mark.parametrize(
    ("left", "right", "stored"),
    [pytest.param(*x, marks=pytest.mark.campaign if x[2] == "columns" and x[0] != x[1] else ()) for x in LAYOUTS],
)
def test_every_layout_is_tiled_and_staged(left: str, right: str, stored: str) -> None:
    found = ideas(kernel(left, right, stored))
    along_the_sum = {name for name, turned in (("p", left == "N"), ("q", right == "T")) if turned}
    assert len(found) == (len(TURNED_BY_COPIES) + SECOND if len(along_the_sum) == 2 else len(BY_COPIES))
    for steps in found:
        turned = {
            n for n in "pq" if f"array={n} " in steps and "transpose=yes" in steps.split(f"array={n} ")[1].split("}")[0]
        }
        assert turned == along_the_sum and steps.count("stage-shared") == 2
        assert ("async-copy" in steps) != ("prefetch" in steps)
        assert "multi-buffer" in steps, "tiles come while others are used"
        across = "x" if stored == "rows" else "y"
        assert f"{across}=[vec 4, thread.x" in steps, "what is stored is contiguous along the lanes"


def test_small_products_begin_with_tiles_that_give_every_unit_a_block() -> None:
    large, small = (
        ideas(kernel("N", "T"), {"h": 4096, "v": 4096, "t": 512})[0],
        ideas(kernel("N", "T"), {"h": 256, "v": 256, "t": 256})[0],
    )
    assert "sizes=256,128" in large and "sizes=16,32" in small


@pytest.mark.parametrize(("left", "right"), [("N", "T"), ("T", "N"), ("N", "N")])
def test_the_smallest_tile_computes_the_product(tmp_path, left: str, right: str) -> None:
    work = workload(tmp_path, kernel(left, right))
    builder, _ = observe(kernel(left, right), SIZES)
    built = builder.build(Proposal(f"raise | {ideas(kernel(left, right), {'h': 256, 'v': 256, 't': 256})[0]}", ""))
    tuned = bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs})
    assert verify(work.load_kernel(), tuned, work).ok


def workload(tmp_path, source: str, v: str = "v", factors: str = "f32", most: int = 64) -> Workload:
    """``source`` with matrices of 64 rows and columns, and of ``most`` at most; ``v``: the size that the columns are,
    ``factors``: the type of the factors' elements."""
    (tmp_path / "k.ktir").write_text(source)
    shapes = {"z": ("h", v), "p": ("h", "t"), "q": ("t", v)}
    roles = {"z": "out", "p": "in", "q": "in"}
    lines = ['[kernel]\nsource = "k.ktir"\nname = "product"']
    for name, (a, b) in shapes.items():
        dtype = "f32" if name == "z" else factors
        lines.append(
            f'[[args]]\nname = "{name}"\ndtype = "{dtype}"\nrole = "{roles[name]}"\nshape = ["{a}", "{b}"]\nalign = 16'
        )
    for name in "hvt":
        lines.append(
            f'[[args]]\nname = "{name}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{name}"\nrange = [1, {most}]'
        )
    lines.append('[[scenario]]\nname = "main"\nsizes = { h = 64, v = 64, t = 64 }')
    (tmp_path / "workload.toml").write_text("\n".join(lines))
    return Workload.load(tmp_path)


UPDATED = """\
kernel update(z: f32* restrict align 16 noalias, p: f32 const* restrict align 16 noalias readonly,
    q: f32 const* restrict align 16 noalias readonly, s: f32, h: i32, v: i32, t: i32)
  launch grid((v + 15) / 16, (h + 15) / 16) block(16, 16)
  let y: i32 = i32(blockIdx.y) * 16 + i32(threadIdx.y)
  let x: i32 = i32(blockIdx.x) * 16 + i32(threadIdx.x)
  if y < h && x < v
    z[y * v + x] *= s
    for c in 0..t
      z[y * v + x] += s * p[y * t + c] * q[c * v + x]
"""


def test_rows_that_end_with_a_part_of_a_vector_are_stored_one_by_one(tmp_path) -> None:
    source = kernel("N", "N")
    odd = ideas(source, {"h": 256, "v": 255, "t": 256})[0]
    assert "y=[vec " in odd and "x=[unroll " in odd and "x=[vec " not in odd
    work = workload(tmp_path, source)
    built = observe(source, SIZES)[0].build(Proposal(f"raise | {odd}", ""))
    tuned = bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs})
    assert verify(work.load_kernel(), tuned, work).ok


def test_ways_that_do_not_suit_the_sizes_make_room_for_those_that_do() -> None:
    """Copies of whole vectors need rows of whole vectors: where these have none, elements are copied one by one."""
    _, o = observe(kernel("N", "N"), SIZES)
    o = replace(o, runs=lambda script: "vec=4" not in script)
    first = Rules().propose(o, 1)[0].script
    assert "stage-shared" in first and "vec=4" not in first


def test_what_is_updated_in_memory_is_summed_in_registers_first() -> None:
    """A tile of products that stores a term at a time is no faster than the source."""
    _, o = observe(UPDATED, SIZES)
    proposals = Rules().propose(o, 6)
    assert proposals and all(p.script.startswith("raise | promote{loop=c} | ") for p in proposals)
    assert "register-tile" in proposals[0].script


MASKED = """\
kernel scores(z: f32* restrict align 16 noalias, p: f32 const* restrict align 16 noalias readonly, g: i32 range 1..8,
    h: i32 range 1..8, v: i32 range 1..512, t: i32 range 1..256)
  launch grid((g * h * v * v + 255) / 256) block(256)
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < g * h * v * v
    let x: i32 = i % v
    let y: i32 = i / v % v
    if x > y
      z[i] = 0.0
    else
      let b: i32 = i / (h * v * v)
      let a: i32 = i / (v * v) % h
      var s: f32 = 0.0
      for c in 0..t
        s += p[((b * v + y) * 2 * h + a) * t + c] * p[((b * v + x) * 2 * h + h + a) * t + c]
      z[i] = s * 0.5
"""
MASKED_SIZES = {"g": 8, "h": 8, "v": 128, "t": 64}


def test_a_masked_batch_of_products_by_flat_indices_is_tiled() -> None:
    """Both factors lie in one array, and the batch goes over two digits of the index."""
    builder, o = observe(MASKED, MASKED_SIZES)
    found = [p.script for p in Rules().propose(o, 6)]
    first = "raise | delinearise{loop=i loops=3} | unmask{loop=c} | tile{loops=y,x sizes=64,64} | "
    assert found[0].startswith(first)
    assert found[0].endswith(" | skip-masked{loop=x_tile}") and found[1] == found[0].removesuffix(
        " | skip-masked{loop=x_tile}"
    )
    assert found[0].count("stage-shared{array=p") == 1 and "tile{loops=c sizes=16 tail=exact}" in found[0]
    assert all(builder.attempt(s) is None for s in found)


def test_the_smallest_tile_computes_the_masked_products(tmp_path) -> None:
    (tmp_path / "k.ktir").write_text(MASKED)
    lines = ['[kernel]\nsource = "k.ktir"\nname = "scores"']
    for name, role, shape in (("z", "out", '["g", "h", "v", "v"]'), ("p", "in", '["g", "v", "2", "h", "t"]')):
        lines.append(f'[[args]]\nname = "{name}"\ndtype = "f32"\nrole = "{role}"\nshape = {shape}\nalign = 16')
    for name, most in (("g", 8), ("h", 8), ("v", 512), ("t", 256)):
        lines.append(
            f'[[args]]\nname = "{name}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{name}"\nrange = [1, {most}]'
        )
    lines.append('[[scenario]]\nname = "main"\nsizes = { g = 8, h = 8, v = 128, t = 64 }')
    (tmp_path / "workload.toml").write_text("\n".join(lines))
    work = Workload.load(tmp_path)
    builder, o = observe(MASKED, MASKED_SIZES)
    tiled = next(p.script for p in Rules().propose(o, 12) if "sizes=16,32" in p.script)
    built = builder.build(Proposal(tiled, ""))
    tuned = bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs})
    assert verify(work.load_kernel(), tuned, work).ok


TWO = KERNEL.replace("x < v", "x < h").replace(
    "s += p[{p}] * q[{q}]", "s += 3.0 * p[y * t + c] * q[x * t + c] - q[y * t + c] * p[x * t + c]"
)


def test_a_sum_of_two_products_is_two_sums_in_one_tile(tmp_path) -> None:
    source = TWO.format(z="y * h + x")
    builder, o = observe(source, {"h": 256, "v": 256, "t": 256})
    found = [p.script for p in Rules().propose(o, 6)]
    assert found[0].startswith("raise | part-sums{loop=c} | tile{loops=y,x sizes=16,32}")
    assert "tile{loops=c_1 sizes=16" in found[0] and "tile{loops=c sizes=16" in found[0]
    assert found[0].count("transpose=yes") == 2
    work = workload(tmp_path, source, v="h")
    built = builder.build(Proposal(found[0], ""))
    tuned = bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs})
    assert verify(work.load_kernel(), tuned, work).ok


COMBINED = {
    "whole numbers": ("i32", "0", "s + p[y * t + c] * q[c * v + x]"),
    "doubles": ("f64", "0.0", "s + p[y * t + c] * q[c * v + x]"),
    "fused": ("f32", "0.0", "fma(p[y * t + c], q[c * v + x], s)"),
    "squared distances": ("f32", "0.0", "s + (p[y * t + c] - q[c * v + x]) * (p[y * t + c] - q[c * v + x])"),
    "shortest paths": ("f32", "3.0", "min(s, p[y * t + c] + q[c * v + x])"),
    "greatest": ("f32", "-3.0", "max(p[y * t + c] * q[c * v + x], s)"),
}


def combined(kind: str) -> str:
    """A kernel whose results each combine a row with a column."""
    scalar, start, update = COMBINED[kind]
    text = KERNEL.replace("f32", scalar).replace("s: " + scalar + " = 0.0", f"s: {scalar} = {start}")
    return text.replace("s += p[{p}] * q[{q}]", f"s = {update}").replace("z[{z}] = s * 0.5", "z[y * v + x] = s")


@pytest.mark.parametrize("kind", COMBINED)
def test_whatever_combines_two_elements_is_tiled_like_a_product(kind: str) -> None:
    lanes = 2 if kind == "doubles" else 4
    found = ideas(combined(kind))
    assert found and all(f"stage-shared{{array=q loop=c_tile.* vec={lanes}}}" in steps for steps in found)


BYTES = (
    KERNEL.replace("q: f32", "q: i8").replace("p: f32", "p: i8").replace("var s: f32 = 0.0", "var s: i32 = 0")
    .replace("s += p[{p}] * q[{q}]", "s += (i32(p[y * t + c]) - h) * i32(q[c * v + x])")
    .replace("z[{z}] = s * 0.5", "z[y * v + x] = f32(s)")
)  # fmt: skip


def test_bytes_are_multiplied_like_words_and_wide_copies_leave_no_terms_behind(tmp_path) -> None:
    found = ideas(BYTES)
    assert found and all("array=p loop=c_tile transpose=yes vec=16" in steps for steps in found if "sizes=16 " in steps)
    assert all("tail=exact" in steps for steps in found if "sizes=16 " in steps)
    work = workload(tmp_path, BYTES, factors="i8", most=256)
    builder, _ = observe(BYTES, SIZES)
    steps = ideas(BYTES, {"h": 64, "v": 64, "t": 64})[0]
    built = builder.build(Proposal(f"raise | {steps}", ""))
    assert verify(work.load_kernel(), bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs}), work).ok


def test_the_smallest_tile_keeps_the_least_of_all_terms(tmp_path) -> None:
    work = workload(tmp_path, combined("shortest paths"))
    builder, _ = observe(combined("shortest paths"), SIZES)
    steps = ideas(combined("shortest paths"), {"h": 256, "v": 256, "t": 256})[0]
    built = builder.build(Proposal(f"raise | {steps}", ""))
    assert verify(work.load_kernel(), bind(built.kernel, {k.name: min(k.domain) for k in built.kernel.knobs}), work).ok


@pytest.mark.parametrize(
    "value", ["p[y * t + c] * q[c * v + x] * p[c]", "p[y * t + c] * f32(c)", "p[y * t + c] * p[y * t]"]
)
def test_what_combines_more_or_less_is_no_product(value: str) -> None:
    assert ideas(KERNEL.replace("p[{p}] * q[{q}]", value).format(z="y * v + x")) == []
