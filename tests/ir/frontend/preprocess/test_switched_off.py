"""Names whose declarations a preprocessor condition leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.entry_points import why_no_instance

NARROW = """\
#ifndef GUARD
#define GUARD
namespace n {
%s
template <typename T> __device__ T narrow(float x) { return T(x * 2); }
%s
}
#endif
__global__ void k(float* y) { y[0] = n::narrow<float>(y[0]); }
"""


@pytest.mark.parametrize(
    ("begin", "end", "macro"),
    [
        ("#ifdef WITH_NARROW", "#endif", "WITH_NARROW"),
        ("#if defined(WITH_NARROW)", "#else\nint other();\n#endif", "WITH_NARROW"),
        ("#ifndef WITH_NARROW\nint other();\n#else", "#endif", "WITH_NARROW"),
        ("#ifdef __CUDACC__\n#ifdef WITH_NARROW", "#endif\n#endif", "WITH_NARROW"),
    ],
)
def test_the_macro_that_is_missing_is_said(begin: str, end: str, macro: str) -> None:
    text = NARROW % (begin, end)
    with pytest.raises(KtcError) as refused:
        load(text, name="k.cu")
    assert refused.value.code == "E-SEMA-CALL" and f"-D {macro}" in refused.value.hint
    load(text, name="k.cu", defines={macro: "1"})


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("#if VERSION > 3", "#endif"),  # not a matter of one macro
        ("#ifndef __CUDACC__", "#endif"),  # it would have to be undefined
        ("#ifdef A\n#ifdef B\n#ifdef C\n#ifdef D", "#endif\n" * 4),  # of so many some may be for other machines
    ],
)
def test_other_conditions_are_left_alone(begin: str, end: str) -> None:
    with pytest.raises(KtcError) as refused:
        load(NARROW % (begin, end), name="k.cu")
    assert "-D" not in refused.value.hint


def test_so_it_is_of_instances_that_nobody_asked_for(tmp_path: Path) -> None:
    text = NARROW % ("#ifdef WITH_NARROW", "#endif")
    text = text.replace("__global__ void k(float* y)", "template <int N> __global__ void k(float* y)")
    (tmp_path / "k.cu").write_text(text + "void go(float* y) { k<1><<<1, 1>>>(y); k<2><<<1, 1>>>(y); }\n")
    why = why_no_instance(str(tmp_path / "k.cu"))
    assert why is not None and "-D WITH_NARROW" in why.hint


@pytest.mark.parametrize(
    ("begin", "end"), [("#ifdef ONE\n#ifdef TWO", "#endif\n#endif"), ("#if defined(ONE) && defined(TWO)", "#endif")]
)
def test_several_conditions_are_told_together(begin: str, end: str) -> None:
    with pytest.raises(KtcError) as refused:
        load(NARROW % (begin, end), name="k.cu")
    assert refused.value.hint.endswith("where ONE and TWO are defined: give -D ONE -D TWO")


def test_a_macro_may_be_switched_off_too() -> None:
    text = (
        "#ifdef GPU\n#define BLOCK 64\n#endif\n__global__ void k(float* y) { __shared__ float t[BLOCK]; y[0] = t[0]; }"
    )
    with pytest.raises(KtcError) as refused:
        load(text, name="k.cu")
    assert refused.value.code == "E-SEMA-NAME" and "-D GPU" in refused.value.hint


def test_a_name_whose_declaration_does_not_parse_is_refused_there() -> None:
    text = "namespace u { constexpr float least = 1e-8_f; }\n__global__ void k(float* y) { y[0] = u::least; }"
    with pytest.raises(KtcError) as refused:
        load(text, name="k.cu")
    assert refused.value.loc is not None and refused.value.loc.line == 1


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("#if defined(GRID)\n#elif defined(BLOCK)\n#else\n#error choose\n#endif\n", "-D GRID or -D BLOCK"),
        ("#ifdef A\n#endif\n#ifndef TILE\n#error choose\n#endif\n", "-D TILE"),
        ("#if N == 0\n#error choose\n#endif\n", "-D NAME=VALUE"),
    ],
)
def test_what_leads_around_an_error_is_said(text: str, hint: str) -> None:
    with pytest.raises(KtcError) as refused:
        load(text + "__global__ void k(float* y) { y[0] = 1; }", name="k.cu")
    assert refused.value.hint.endswith(f"another branch with {hint}")
