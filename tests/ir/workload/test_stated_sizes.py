"""Equalities between sizes that a workload states: as an assumption, and as the values of its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError, render
from ktc.ir.text import print_expr
from ktc.ir.workload import Workload

SOURCE = """
__global__ void scale(float* y, const float* x, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) y[r] = 2.0f * x[r];
}
"""
HOST = """
void run(float* y, const float* x, int batch, int length) {
  scale<<<(batch * length + 63) / 64, 64>>>(y, x, batch * length);
}
"""
HEAD = """
[kernel]
source = "k.cu"
name = "scale"
"""
LAUNCH = """
[launch]
grid = ["cdiv(batch * length, 64)"]
block = ["64"]
"""
SIZES = "{ b = 3, l = 5, n = 15 }"


def arguments(rows: str) -> str:
    buffers = "".join(
        f'[[args]]\nname = "{n}"\ndtype = "f32"\nshape = ["{rows}"]\nrole = "{r}"\n'
        for n, r in (("y", "out"), ("x", "in"))
    )
    numbers = (("rows", rows), ("batch", "b"), ("length", "l"))
    return buffers + "".join(
        f'[[args]]\nname = "{n}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{v}"\n' for n, v in numbers
    )


def workload(tmp_path: Path, text: str, source: str = SOURCE, sizes: str = SIZES) -> Workload:
    (tmp_path / "k.cu").write_text(source)
    (tmp_path / "workload.toml").write_text(f'{text}\n[[scenario]]\nname = "one"\nsizes = {sizes}\n')
    return Workload.load(tmp_path)


def passed(w: Workload) -> list[tuple[str, str]]:
    kernel = w.load_kernel()
    assert kernel.launch is not None
    return [(name, print_expr(e)) for name, e in kernel.launch.passed]


@pytest.mark.parametrize(
    "head",
    [
        'assume = ["rows == batch * length"]' + HEAD,
        HEAD + '[assume]\nfacts = ["rows == batch * length"]\n',
    ],
)
def test_an_assumption_is_a_list_above_the_tables_or_in_one_of_its_own(tmp_path: Path, head: str) -> None:
    kernel = workload(tmp_path, head + arguments("n") + LAUNCH).load_kernel()
    assert [(print_expr(a.expr), a.origin) for a in kernel.assumptions] == [("rows == batch * length", "declared")]


@pytest.mark.parametrize(
    ("head", "line", "what"),
    [
        ('assume = "rows == b"' + HEAD, 1, "assume is a list of conditions"),
        (HEAD + "[assume]\nfacts = 3\n", 6, "facts is a list of conditions"),
        ('assume = ["rows == b +"]' + HEAD, 1, "is not an expression"),
        (HEAD + '[assume]\nfacts = ["rows == b +"]\n', 6, "is not an expression"),
    ],
)
def test_another_form_is_told_the_right_one(tmp_path: Path, head: str, line: int, what: str) -> None:
    with pytest.raises(KtcError) as e:
        workload(tmp_path, head + arguments("n") + LAUNCH)
    assert e.value.loc is not None and e.value.loc.line == line and what in e.value.message
    assert "expression" in what or 'assume = ["rows == batch * length"]' in render(e.value)


def test_a_value_made_of_sizes_is_one_of_the_parameters_that_carry_them(tmp_path: Path) -> None:
    assert passed(workload(tmp_path, HEAD + arguments("b * l") + LAUNCH)) == [("rows", "batch * length")]


def test_a_value_of_a_size_that_nothing_carries_states_nothing(tmp_path: Path) -> None:
    assert passed(workload(tmp_path, HEAD + arguments("b * n") + LAUNCH)) == []


def test_what_a_scenario_has_otherwise_is_no_equality(tmp_path: Path) -> None:
    """The launch in the source is that of another program, then."""
    text = HEAD + arguments("n")
    assert passed(workload(tmp_path, text, SOURCE + HOST)) == [("rows", "batch * length")]
    assert passed(workload(tmp_path, text, SOURCE + HOST, "{ b = 3, l = 5, n = 14 }")) == []


def test_the_launch_of_the_source_comes_first(tmp_path: Path) -> None:
    w = workload(tmp_path, HEAD + arguments("l * b"), SOURCE + HOST)
    assert passed(w) == [("rows", "batch * length")]


def test_extents_of_a_block_that_only_the_host_knows_are_passed_as_their_values_say(tmp_path: Path) -> None:
    host = "void run(float* y, const float* x, int rows, int g, int b) { scale<<<g, b>>>(y, x, rows); }\n"
    extents = "".join(
        f'[[args]]\nname = "{n}"\ndtype = "i32"\nrole = "scalar"\nvalue = {v}\n' for n, v in (("g", 7), ("b", 64))
    )
    kernel = workload(tmp_path, HEAD + arguments("n") + extents, SOURCE + host).load_kernel()
    assert kernel.launch is not None and kernel.launch.given == (("b", 64),)


def test_a_size_is_the_parameter_that_is_called_so_before_others_that_are_as_large(tmp_path: Path) -> None:
    source = SOURCE.replace("int rows", "int pitch, int rows")
    host = "void run(float* y, const float* x, int pitch, int rows, int g) { scale<<<g, 64>>>(y, x, pitch, rows); }\n"
    numbers = (("pitch", "rows"), ("rows", "rows"), ("g", "cdiv(rows, 64)"))
    scalars = "".join(f'[[args]]\nname = "{n}"\ndtype = "i32"\nrole = "scalar"\nvalue = "{v}"\n' for n, v in numbers)
    buffers = arguments("rows").split('[[args]]\nname = "rows"')[0]
    found = workload(tmp_path, HEAD + buffers + scalars, source + host, "{ rows = 15 }")
    assert passed(found) == [("g", "cdiv(rows, 64)")]
