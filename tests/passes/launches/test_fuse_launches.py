"""Two launches become one kernel where dependences allow it, and the reason is told where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.analysis.dependence import noalias
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import Store
from ktc.ir.sequences import launches
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import walk
from ktc.ir.workload import Workload
from ktc.passes.launches.overwritten import without_overwritten
from ktc.search.verification import verify
from tests.passes.checks import applied, body_of, refused
from tests.passes.launches.sequence_sources import ROWS, elementwise, of, rows, workload

FUSED_ROWS = """\
  launch grid(rows) block(64)
  flags reassociates
  par block_x in 0..rows @ [block.x]
    reduce(+) sum: f32 = 0.0 over i in 0..d @ [thread.x 64, seq]
      yield x[block_x * d as u32 + i]
    reduce(max) m: f32 = 0.0 over i_1 in 0..d @ [thread.x 64, seq]
      let y_1: f32 = x[block_x * d as u32 + i_1] - sum
      y[block_x * d as u32 + i_1] = y_1
      yield abs(y_1)
    top[block_x as u32] = m
    par i_3 in 0..d @ [thread.x 64, seq]
      q[block_x * d as u32 + i_3] = y[block_x * d as u32 + i_3] * 4.0 + m
"""


def accepted(work: Workload, k: Kernel) -> bool:
    """Whether ``k`` does what the launches do, in exact arithmetic and without a race."""
    return verify(of(work), k, work, count=4, layers=("verifier", "static", "exact")).ok


def listing(kernel: Kernel) -> str:
    """The printed kernel without its parameters and trace."""
    text = body_of(kernel)
    return text[text.index("  launch") :]


def test_element_wise_launches_become_one_loop_without_the_temporary(tmp_path: Path) -> None:
    work = elementwise(tmp_path)
    k = applied(of(work), "raise | fuse-launches")
    assert verify(of(work), k, work).status == "TESTED"
    assert listing(k) == (
        "  launch grid(cdiv(n, 64)) block(64)\n"
        "  par i in 0..n @ [thread.x 64, block.x]\n"
        "    let y: f32 = x[i] * 2.0\n"
        "    z[i] = y + 1.0\n"
    )
    assert not k.is_sequence and [p.sym.name for p in k.params] == ["x", "z", "n"]
    assert accepted(work, k)


def test_rows_of_one_launch_are_those_of_the_other(tmp_path: Path) -> None:
    """The loops over a row that the second has join those of the first, as far as one sweep may do both."""
    work = rows(tmp_path)
    k = applied(of(work), "raise | fuse-launches")
    assert listing(k) == FUSED_ROWS
    assert accepted(work, k)


@pytest.mark.parametrize("where", ["shared", "registers"])
def test_a_row_that_is_read_again_stays_on_the_chip(tmp_path: Path, where: str) -> None:
    work = rows(tmp_path)
    spread = "distribute{loop=i.* map=[thread.x 64, unroll 2]} | " if where == "registers" else ""
    k = applied(of(work), f"raise | fuse-launches | {spread}contract{{array=y where={where}}}")
    assert "y" not in [p.sym.name for p in k.params]
    assert ("y_row: shared f32[d] dynamic" if where == "shared" else "y_row: f32[d]") in body_of(k)
    assert accepted(work, bind(k, {}))


def test_flat_indices_are_taken_apart_into_the_rows_of_the_first_launch(tmp_path: Path) -> None:
    work = workload(
        tmp_path,
        ["x f32 rows,d in apart", "y f32 rows,d temp", "z f32 rows,d out apart"],
        [("normalise_rows", {}, "rows", "64"), ("shift", {"b": 1.0, "n": "rows * d"}, "cdiv(rows * d, 64)", "64")],
        ROWS,
    )
    k = applied(of(work), "raise | fuse-launches")
    assert "] = y + 1.0" in body_of(k), body_of(k)
    assert "y" not in [p.sym.name for p in k.params]
    assert accepted(work, k)


@pytest.mark.parametrize("reader", ["neighbours", "scale_rows"])
def test_what_is_read_elsewhere_is_computed_again(tmp_path: Path, reader: str) -> None:
    """A block reads what other blocks have written: it computes that itself."""
    flat = {"neighbours": ("z f32 n out apart", {}, "cdiv(n, 128)", "128", "n = 300", "n"),
            "scale_rows": ("top f32 rows out apart", {}, "rows", "32", ROWS, "rows * d")}  # fmt: skip
    out, passed, grid, block, sizes, n = flat[reader]
    shape = "n" if reader == "neighbours" else "rows,d"
    more = ["q f32 rows,d out apart"] if reader == "scale_rows" else []
    work = workload(
        tmp_path, [f"x f32 {shape} in apart", f"y f32 {shape} temp", out, *more],
        [("scale", {"s": 2.0, "n": n}, f"cdiv({n}, 64)", "64"), (reader, passed, grid, block)], sizes,
    )  # fmt: skip
    k = applied(of(work), "raise | fuse-launches{how=recompute}")
    assert "y" not in [p.sym.name for p in k.params]
    assert accepted(work, k)
    if reader == "neighbours":
        assert refused(of(work), "raise | fuse-launches{how=join}").code == "E-FUSE-DEPENDENCE"
    else:  # The rows a block reads are the rows it has written.
        assert accepted(work, applied(of(work), "raise | fuse-launches{how=join}"))


def test_a_value_under_a_condition_is_computed_under_it(tmp_path: Path) -> None:
    """``i + 1 < n ? y[i + 1] : 0`` must not read ``x[n]``."""
    k = applied(of(elementwise(tmp_path, second="neighbours")), "raise | fuse-launches")
    assert "? x[i_1 + 1] * 2.0 : 0.0" in body_of(k), body_of(k)


def test_blocks_never_read_what_other_blocks_write(tmp_path: Path) -> None:
    work = workload(
        tmp_path, ["x f32 rows,d in apart", "y f32 rows,d temp", "out f32 d out apart"],
        [("normalise_rows", {}, "rows", "64"), ("column_sums", {}, "cdiv(d, 64)", "64")], ROWS,
    )  # fmt: skip
    no = refused(of(work), "raise | fuse-launches")
    assert no.code == "E-FUSE-RANGE" and "'block_x'" in no.why and "sums up" in no.why, no


def test_buffers_that_may_overlap_are_taken_to(tmp_path: Path) -> None:
    no = refused(of(elementwise(tmp_path, apart="")), "raise | fuse-launches")
    assert no.code == "E-FUSE-DEPENDENCE" and "'x'" in no.why and "'z'" in no.why, no
    assert "noalias" in no.hint


def test_an_offset_into_one_buffer_is_seen(tmp_path: Path) -> None:
    """The second launch reads the first's output one element further on, through a pointer of its own."""
    work = workload(
        tmp_path, ["x f32 n in apart", "y f32 n+1 inout apart", "z f32 n out apart"],
        [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), ("shift", {"b": 1.0, "y": "y + 1"}, "cdiv(n, 64)", "64")],
    )  # fmt: skip
    no = refused(of(work), "raise | fuse-launches")
    assert no.code == "E-FUSE-DEPENDENCE" and "'y'" in no.why, no


def test_one_buffer_under_two_names_is_one_buffer(tmp_path: Path) -> None:
    """In place: the second launch overwrites what the first computes from."""
    work = workload(
        tmp_path, ["x f32 n inout apart", "y f32 n temp"],
        [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), ("neighbours", {"z": "x"}, "cdiv(n, 64)", "64")],
    )  # fmt: skip
    no = refused(of(work), "raise | fuse-launches")
    assert "it writes 'x' and 'y' is computed from that" in no.why, no


def test_a_temporary_with_another_reader_stays(tmp_path: Path) -> None:
    args = ["x f32 n in apart", "y f32 n temp", "z f32 n out apart", "w f32 n out apart"]
    steps = [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), ("shift", {"b": 1.0}, "cdiv(n, 64)", "64"),
             ("neighbours", {"z": "w"}, "cdiv(n, 64)", "64")]  # fmt: skip
    work = workload(tmp_path, args, steps)
    k = applied(of(work), "raise | fuse-launches{first=scale second=shift}")
    assert [s.kernel for s in launches(k)] == ["scale_shift", "neighbours"]
    assert "y[i] = y_1" in body_of(k)
    assert accepted(work, k)
    no = refused(of(work), "raise | fuse-launches{how=recompute first=scale}")
    assert no.code == "E-FUSE-ELSEWHERE" and "'neighbours' reads 'y' as well" in no.why


def test_a_temporary_that_is_not_all_written_is_not_computed_again(tmp_path: Path) -> None:
    work = workload(
        tmp_path, ["x f32 n in apart", "y f32 n+8 temp", "z f32 n out apart"],
        [("scale", {"s": 2.0}, "cdiv(n, 64)", "64"), ("neighbours", {}, "cdiv(n, 64)", "64")],
    )  # fmt: skip
    assert refused(of(work), "raise | fuse-launches{how=recompute}").code == "E-FUSE-COVERAGE"


def test_names_of_launches_are_checked(tmp_path: Path) -> None:
    k = of(elementwise(tmp_path))
    assert refused(k, "raise | fuse-launches{first=shift}").code == "E-FUSE-LAUNCH"
    assert "scale, shift" in refused(k, "raise | fuse-launches{first=scales}").hint
    assert refused(k, "fuse-launches").code == "E-FUSE-RAISE"
    assert refused(applied(k, "raise | fuse-launches"), "fuse-launches").code == "E-FUSE-SEQUENCE"


def test_a_wrong_fusion_is_caught(tmp_path: Path) -> None:
    """Had the dependence test let the neighbour through, the ladder would have said no."""
    work = elementwise(tmp_path, second="neighbours")
    right = applied(of(work), "raise | fuse-launches")
    wrong = parse_kernel(print_kernel(right).replace("x[i_1 + 1] * 2.0 : 0.0", "x[i_1] * 2.0 : 0.0"))
    assert verify(of(work), right, work, count=8).status == "TESTED"
    assert verify(of(work), wrong, work, count=8).status == "REJECTED"


IN_PLACE = """
__global__ void squared(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
__global__ void clipped(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { if (i % 3 == 0) y[i] = 1.0f; else y[i] = y[i] * 0.5f; }
}
"""


def test_what_the_second_launch_writes_over_is_stored_once(tmp_path: Path) -> None:
    """Whichever way the condition goes: the sanitizer calls a first store that nobody reads a defect."""
    grid = ("cdiv(n, 64)", "64")
    args = ["x f32 n in apart", "y f32 n out apart"]
    work = workload(tmp_path, args, [("squared", {}, *grid), ("clipped", {}, *grid)], kernels=IN_PLACE)
    k = applied(of(work), "raise | fuse-launches")
    assert listing(k) == (
        "  launch grid(cdiv(n, 64)) block(64)\n"
        "  par i in 0..n @ [thread.x 64, block.x]\n"
        "    let y_1: f32 = x[i] * x[i]\n"
        "    if i % 3 == 0\n"
        "      y[i] = 1.0\n"
        "    else\n"
        "      y[i] = y_1 * 0.5\n"
    )
    assert accepted(work, k)


@pytest.mark.parametrize(("promise", "stores"), [("", 2), (" noalias", 1)])
def test_a_store_that_another_name_may_read_stays(promise: str, stores: int) -> None:
    """Without a promise ``w`` may be ``y``."""
    k = parse_kernel(f"""
kernel k(y: f32*{promise}, w: f32 const*, z: f32* noalias, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  par i in 0..n @ [thread.x 64, block.x]
    y[i] = 1.0
    z[i] = w[i]
    y[i] = 2.0
""")
    body = without_overwritten(k.body, noalias(k))
    assert sum(isinstance(s, Store) and s.buffer.name == "y" for s in walk(body)) == stores
