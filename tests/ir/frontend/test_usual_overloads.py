"""Overloads that are one kernel for several types of elements: where the name is all that is given, that for float."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.frontend.usual_overloads import usual_overload

CLAMP = """
__global__ void clamp(int n, const {0}* x, {0}* y, {0} low) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] < low ? low : x[i];
}}
"""


def test_the_one_for_float_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(CLAMP.format("double") + CLAMP.format("float") + CLAMP.format("int"))
    found = usual_overload(str(file), "clamp")
    assert found is not None and found[0] == "clamp(int, const float*, float*, float)"
    assert found[1] == ("clamp(int, const double*, double*, double)", "clamp(int, const int*, int*, int)")


def test_of_templates_of_the_same_parameters_the_one_for_float_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("".join("template <int STEP>" + CLAMP.format(t) for t in ("__half", "float")))
    found = usual_overload(str(file), "clamp")
    assert found is not None and found[0] == "clamp(int, const float*, float*, float)"


def test_the_template_is_taken_where_another_is_written_for_one_type(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("template <typename T>" + CLAMP.format("T") + CLAMP.format("half"))
    found = usual_overload(str(file), "clamp")
    assert found is not None and found[0] == "clamp(int, const T*, T*, T)"


@pytest.mark.parametrize(
    "other",
    [
        "__global__ void clamp(int n, const float** x, float* y, float low) { y[n] = x[n][0]; }",  # another form
        "__global__ void clamp(int n, const double* x, float* y, float low) { y[n] = x[n]; }"
        "__global__ void clamp(int n, const int* x, double* y, float low) { y[n] = x[n]; }",  # in different places
        "__global__ void clamp(int n, const float* x, float* y) { y[n] = x[n]; }",
        "template <typename T> __global__ void clamp(int n, const T* x, T* y, T low) { y[n] = x[n]; }",
        "struct Box { float v; }; __global__ void clamp(int n, const Box* x, Box* y, Box low) { y[n] = x[n]; }",
        "namespace a { __global__ void clamp(int n, const double* x, double* y, double low) { y[n] = x[n]; } }",
    ],
)
def test_kernels_that_differ_in_more_stay_several(tmp_path: Path, other: str) -> None:
    file = tmp_path / "k.cu"
    file.write_text(CLAMP.format("float") + other)
    assert usual_overload(str(file), "clamp") is None
