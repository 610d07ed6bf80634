"""temporal-block: several sweeps in one launch, against as many launches of one sweep."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Binary, Const, Expr, If, Stmt
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.walk import map_body, map_expr
from ktc.ir.workload import Workload
from ktc.passes.loops import temporal_block
from ktc.passes.loops.stencils import merged
from ktc.passes.lowering import materialise
from ktc.search.verification import verify
from tests.passes.checks import applied, body_of, refused

LINE = parse_kernel("""\
kernel sweep(b: f32* restrict, a: f32 const* restrict, n: i32)
  repeat swap a, b
  par i in 1..n - 1 @ [thread.x 4, block.x]
    b[i] = a[i - 1] + a[i + 1] * 2.0
""")
PLANE = parse_kernel("""\
kernel sweep(b: f32* restrict, a: f32 const* restrict, c: f32 const* restrict, ny: i32, nx: i32)
  repeat swap a, b
  par y in 2..ny - 1 @ [block.y]
    par x in 1..nx - 1 @ [thread.x 4, block.x]
      let at: i32 = y * nx + x
      b[at] = c[at] * (a[at - 1] + a[at + 1 + nx]) + a[at - 2 * nx] - a[(y + 1) * nx + x]
""")
CLAMPED = parse_kernel("""\
kernel sweep(b: f32* restrict, a: f32 const* restrict, ny: i32, nx: i32)
  repeat swap a, b
  par y in 0..ny @ [block.y]
    par x in 0..nx @ [thread.x 4, block.x]
      let up: i32 = max(y - 1, 0)
      let right: i32 = min(x + 2, nx - 1)
      b[y * nx + x] = a[up * nx + x] + a[y * nx + right] * 3.0
""")
SIZES = [
    {"n": 1, "ny": 1, "nx": 1},
    {"n": 3, "ny": 3, "nx": 4},
    {"n": 9, "ny": 7, "nx": 9},
    {"n": 41, "ny": 17, "nx": 13},
]


def arguments(kernel: Kernel, sizes: dict[str, int]) -> dict[str, object]:
    rng = np.random.default_rng(3)
    count = sizes["n"] if kernel is LINE else sizes["ny"] * sizes["nx"]
    out: dict[str, object] = dict(sizes)
    for p in kernel.params:
        if p.sym.name in "abc":
            out[p.sym.name] = rng.integers(-4, 5, count).astype(np.float32)
    return out


def disagrees(source: Kernel, after: Kernel) -> str:
    """Where one launch of ``after`` and as many launches of ``source`` differ or misbehave, in an exact domain."""
    assert source.repeat is not None
    steps = after.sweeps
    often = source.with_(repeat=dataclasses.replace(source.repeat, launches=steps))
    for sizes in SIZES:
        args = arguments(source, sizes)
        want = run(often, args, domain="int")
        for form in (after, materialise(bind(after, {}))):
            got = run(form, args, domain="int")
            if got.findings:
                return f"{sizes}: {got.findings[0]}"
            if not (want.outputs["b"] == got.outputs["b"]).all() or set(got.outputs) != {"b"}:
                return f"{sizes}: {want.outputs['b']} {got.outputs['b']}"
    return ""


def test_before_and_after() -> None:
    assert (
        body_of(applied(LINE, "temporal-block{steps=3 tile=4}"))
        == """\
  repeat swap a, b sweeps 3
  stems a_0: a_0, a_1: a_1
  par i_tile in 0..cdiv(n - 2, 4) @ [block.x]
    array a_0: shared f32[10] align 16
    array a_1: shared f32[10] align 16
    let i0: i32 = 1 + i_tile * 4 - 3
    let whole: bool = i0 >= 1 && i0 <= n - 11
    par i_t in 0..10 @ [thread.x 256, seq]
      let i: i32 = i0 + i_t
      if whole || (i >= 0 && i < n - 2 || i >= 2 && i < n)
        a_0[i_t] = a[i]
    par i_t_1 in 0..10 @ [thread.x 256, seq]
      let i_1: i32 = i0 + i_t_1
      if i_t_1 >= 1 && i_t_1 < 9
        if whole || i_1 >= 1 && i_1 < n - 1
          a_1[i_t_1] = a_0[i_t_1 + -1] + a_0[i_t_1 + 1] * 2.0
        elif i_1 >= 0 && i_1 < n - 2 || i_1 >= 2 && i_1 < n
          a_1[i_t_1] = b[i_1]
    par i_t_2 in 0..10 @ [thread.x 256, seq]
      let i_2: i32 = i0 + i_t_2
      if i_t_2 >= 2 && i_t_2 < 8
        if whole || i_2 >= 1 && i_2 < n - 1
          a_0[i_t_2] = a_1[i_t_2 + -1] + a_1[i_t_2 + 1] * 2.0
    par i_t_3 in 0..10 @ [thread.x 256, seq]
      let i_3: i32 = i0 + i_t_3
      if i_t_3 >= 3 && i_t_3 < 7
        if whole || i_3 >= 1 && i_3 < n - 1
          b[i_3] = a_0[i_t_3 + -1] + a_0[i_t_3 + 1] * 2.0
"""
    )


@pytest.mark.parametrize(
    ("source", "tiles"), [(LINE, ("4", "$T=8", "1")), (PLANE, ("4,4", "1,8")), (CLAMPED, ("3,5", "$A=2,$B=8"))]
)
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_one_launch_is_as_many_of_the_source(source: Kernel, tiles: tuple[str, ...], steps: int) -> None:
    for tile in tiles[: 1 if steps == 5 else None]:
        after = applied(source, f"temporal-block{{steps={steps} tile={tile}}}")
        assert after.sweeps == steps
        assert disagrees(source, after) == ""


@pytest.mark.parametrize("steps", [2, 4])
def test_an_even_number_where_everything_is_written(steps: int) -> None:
    assert disagrees(CLAMPED, applied(CLAMPED, f"temporal-block{{steps={steps} tile=4,4}}")) == ""


def test_loops_of_all_sweeps_are_spread_by_one_name() -> None:
    after = applied(PLANE, "temporal-block{steps=3 tile=4,4} | distribute{loop=y_t.* map=[unroll 2, thread.y 2, seq]}")
    assert disagrees(PLANE, after) == ""


def test_a_halo_too_small_is_caught() -> None:
    """A seeded wrong version: the first sweep computes the region of the second."""
    after = materialise(bind(applied(LINE, "temporal-block{steps=3 tile=4}"), {}))

    def later(e: Expr) -> Expr:
        begins = isinstance(e, Binary) and e.op == ">=" and e.b == Const(1, e.b.type)
        return dataclasses.replace(e, b=Const(2, e.b.type)) if begins else e

    def narrower(s: Stmt) -> Stmt:
        return dataclasses.replace(s, cond=map_expr(s.cond, later)) if isinstance(s, If) else s

    wrong = after.with_(body=map_body(after.body, narrower))
    assert wrong.body != after.body
    assert disagrees(LINE, wrong) != ""


def test_the_gate_compares_with_launches_of_the_source(tmp_path) -> None:
    source = tmp_path / "sweep.ktir"
    source.write_text(print_kernel(LINE.with_(repeat=None)))
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    work = Workload.load(tmp_path)
    original = work.load_kernel()
    assert original.repeat is not None and original.repeat.swap == ("a", "b")
    after = applied(original, "temporal-block{steps=3 tile=8}")
    assert verify(original, after, work).ok
    claims = after.with_(repeat=dataclasses.replace(after.repeat, sweeps=5))
    assert verify(original, claims, work).status == "REJECTED"
    alone = original.with_(repeat=None)
    assert verify(alone, after, work).layer == "sweeps"


WORKLOAD = """\
[kernel]
source = "sweep.ktir"
name = "sweep"

[[args]]
name = "b"
dtype = "f32"
shape = ["n"]
role = "inout"

[[args]]
name = "a"
dtype = "f32"
shape = ["n"]
role = "in"

[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 100000]

[repeat]
swap = ["a", "b"]

[[scenario]]
name = "small"
sizes = { n = 100 }
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('swap = ["a", "a"]', "two buffers"),
        ('swap = ["a", "n"]', "two buffers"),
        ('swap = ["b", "a"]', "has to be an input"),
        ('swap = ["a", "b"]\nfoo = 1', "unknown key"),
    ],
)
def test_errors_of_the_workload(tmp_path, line: str, told: str) -> None:
    from ktc.ir.diagnostics import KtcError

    (tmp_path / "workload.toml").write_text(WORKLOAD.replace('swap = ["a", "b"]', line))
    with pytest.raises(KtcError, match=told):
        Workload.load(tmp_path)


def test_the_text_says_how_to_launch_it() -> None:
    after = bind(applied(LINE, "temporal-block{steps=3 tile=8}"), {})
    text = emit(materialise(after), "cuda").text
    assert "a launch does 3 sweeps of the source, swap a and b after each launch" in text
    assert canonical(parse_kernel(print_kernel(after))).repeat == after.repeat


def test_sites_only_where_the_kernel_is_repeated() -> None:
    assert [str(s.step) for s in temporal_block.TemporalBlock().sites(PLANE)] == [
        "temporal-block{steps=3 tile=$TY,$TX}"
    ]
    assert temporal_block.TemporalBlock().sites(PLANE.with_(repeat=None)) == []


def test_boxes_that_touch_become_one() -> None:
    star = [((0, 0), (0, 0)), ((1, 1), (0, 0)), ((-1, -1), (0, 0)), ((0, 0), (1, 1)), ((0, 0), (-1, -1))]
    assert set(merged(star)) == {((-1, 1), (0, 0)), ((0, 0), (-1, 1))}
    square = [((i, i), (j, j)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    assert merged(square) == (((-1, 1), (-1, 1)),)
    assert set(merged([((0, 0),), ((2, 2),)])) == {((0, 0),), ((2, 2),)}


TAKEN = "temporal-block{steps=3 tile=4}"


@pytest.mark.parametrize(
    ("old", "new", "script", "code"),
    [
        ("  repeat swap a, b\n", "", TAKEN, "E-TEMPORAL-REPEAT"),
        ("", "", TAKEN.replace("3", "11"), "E-TEMPORAL-STEPS"),
        ("", "", TAKEN.replace("3", "2"), "E-TEMPORAL-PARITY"),
        ("", "", TAKEN.replace("=4", "=4,4"), "E-TEMPORAL-TILE"),
        ("", "", f"{TAKEN} | {TAKEN}", "E-TEMPORAL-REPEAT"),
        ("a[i - 1]", "a[i * 2]", TAKEN, "E-TEMPORAL-TAP"),
        ("a[i - 1]", "b[i - 1]", TAKEN, "E-TEMPORAL-FORM"),
        ("a[i - 1] +", "a[n - i] +", TAKEN, "E-TEMPORAL-TAP"),
        ("    b[i] =", "    b[2 * i] =", TAKEN, "E-TEMPORAL-FORM"),
    ],
)
def test_refusals(old: str, new: str, script: str, code: str) -> None:
    text = print_kernel(LINE)
    assert old in text
    kernel = parse_kernel(text.replace(old, new) if old else text)
    if " | " in script:  # the first step is fine
        kernel, script = applied(kernel, script.split(" | ")[0]), script.split(" | ")[1]
    assert refused(kernel, script).code == code


def test_a_row_that_runs_into_the_next_is_refused() -> None:
    """``x`` from 0 reads the end of the row before: that element is inside the sweep, not at a boundary."""
    text = print_kernel(PLANE).replace("par x in 1..nx - 1", "par x in 0..nx - 1")
    assert refused(parse_kernel(text), "temporal-block{steps=3 tile=4,4}").code == "E-TEMPORAL-WRAP"
    text = print_kernel(PLANE).replace("par x in 1..nx - 1", "par x in 1..nx")
    assert refused(parse_kernel(text), "temporal-block{steps=3 tile=4,4}").code == "E-TEMPORAL-WRAP"
