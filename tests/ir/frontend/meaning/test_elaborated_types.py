"""``struct S<N>``, ``struct ns::S``: a class that is named with its keyword, where it declares none."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text.printer import print_kernel

CLASSES = """
template <int N, typename T> struct Pack { T data[N]; };
struct Plain { int data[4]; };
namespace ns { struct In { int data[4]; }; template <int N> struct Of { int data[N]; }; }
"""


@pytest.mark.parametrize(
    "alias",
    [
        "using P = struct Pack<N, int>;", "typedef struct Pack<N, int> P;", "using P = struct Plain;",
        "typedef struct Plain P;", "using P = struct ns::In;", "using P = class ns::Of<N>;",
    ],
)  # fmt: skip
def test_an_elaborated_type_is_the_class(alias: str) -> None:
    kernel = "template <int N> __global__ void k(int* x) { %s P p; p.data[3] = 5; x[0] = p.data[3] + sizeof(P); }"
    text = print_kernel(load(CLASSES + kernel % alias, name="k.cu", template={"N": 4}))
    assert "16" in text and "5" in text


@pytest.mark.parametrize("parameter", ["struct Pack<4, int> p", "const struct Plain p", "struct ns::Of<4> p"])
def test_as_a_parameter(parameter: str) -> None:
    k = load(CLASSES + f"__global__ void k(int* x, {parameter}) {{ x[0] = p.data[1]; }}", name="k.cu")
    assert [p.sym.name for p in k.params] == ["x", "p_data_0", "p_data_1", "p_data_2", "p_data_3"]
