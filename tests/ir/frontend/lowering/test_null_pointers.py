"""Pointers that may be ``nullptr``: a use is reported where it is, and never becomes one of another buffer."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Launch
from ktc.ir.nodes import i32
from ktc.ir.text import print_kernel
from ktc.search.verification.rungs.parse_back import parse_back

HEAD = """\
__device__ int* either(int* p, int c) { return c ? p : nullptr; }
__global__ void k(int* a, int* b, int* y, int c) { const int i = threadIdx.x;"""


def kernel(body: str):
    one = (i32(1), i32(1), i32(1))
    return load(f"{HEAD}\n{body} }}", name="k.cu", kernel="k").with_(launch=Launch(one, (i32(4), *one[1:])))


def ran(body: str, c: int = 0, **args: np.ndarray | None):
    given = {n: np.arange(8, dtype=np.int32) for n in "aby"}
    return run(kernel(body), {**given, **args, "c": c})


@pytest.mark.parametrize(
    "body",
    [
        "int* p = c ? a : nullptr; y[i] = p[i];",
        "int* p = c ? a : nullptr; p[i] = 1;",
        "int* p = c ? a : nullptr; atomicAdd(p + i, 1);",
        "int* p = either(a, c); y[i] = *p;",
        "int* p = 0; if (c) p = a; else if (c > 1) p = b; y[i] = p[i];",
        "int* p = c > 1 ? a : c > 0 ? b : nullptr; y[i] = p[i] + p[i + 1];",
        "int* p = b; for (int n = 0; n < 2; n++) { y[i] += p[i]; if (p) p = nullptr; }",
        "int* p = c ? a : nullptr; if (p || i == 9) ; y[i] = c == 0 ? p[i] : 0;",
    ],
)
def test_a_use_of_null_is_reported_and_nothing_else_happens_to_other_buffers(body: str) -> None:
    got = ran(body)
    (found,) = [f for f in got.findings if f.kind == "null-pointer"]
    assert found.loc is not None and found.loc.line == 3 and found.count >= 4
    assert not ran(body.replace("nullptr", "b"), c=1).findings


def test_a_parameter_that_is_null_is_reported_by_its_name() -> None:
    (found,) = ran("y[i] = a[i];", a=None).findings
    assert found.kind == "null-pointer" and found.buffer == "a"


@pytest.mark.parametrize(
    "body",
    [
        "int* p = c ? a : nullptr; if (p) y[i] = p[i];",
        "int* p = c ? a : nullptr; if (p == nullptr) return; y[i] = p[i]; p[i] = 1;",
        "int* p = c ? a : nullptr; y[i] = p ? p[i] : 0;",
        "int* p = c ? a : nullptr; y[i] = c ? p[i] : 0;",
        "int* p = c ? a : nullptr; if (p != nullptr && p[i] > 0) y[i] = 1;",
        "int* p = c ? a : nullptr; if (c && i < 4) { for (int n = 0; n < 2; n++) y[i] += p[n]; }",
        "int* p = nullptr; if (c) p = a; while (p) { y[i] = p[i]; p = p == a ? b : nullptr; }",
        "int* p = a; int* q = b; for (int n = 0; n < c; n++) { q[i] = p[i]; int* t = p; p = q; q = t; }",
        "int* p = nullptr; for (int n = 0; n < 2; n++) { p = a + n; y[i] += *p; }",
        "int* p = either(a, c); if (!p || i > 3) { y[i] = 0; } else { y[i] = p[i]; }",
    ],
)
def test_what_was_asked_before_is_not_asked_again(body: str) -> None:
    k = kernel(body.replace("p == a", "i < 0"))
    assert "null_access" not in print_kernel(k)
    for c in (0, 1):
        assert not [f for f in run(k, {n: np.arange(8, dtype=np.int32) for n in "aby"} | {"c": c}).findings
                    if f.kind == "null-pointer"]  # fmt: skip


def test_one_of_two_parameters_is_null_where_that_parameter_is() -> None:
    body = "int* p = c ? a : b; y[i] = p ? p[i] : 7;"
    assert ran(body, c=1, a=None).outputs["y"][:4].tolist() == [7, 7, 7, 7]
    assert ran(body, c=0, a=None).outputs["y"][:4].tolist() == [0, 1, 2, 3]


def test_a_pointer_without_a_value_is_none_of_those_it_may_become() -> None:
    body = "int* p; if (c) p = a; else if (c > 1) p = b; y[i] = p[i];"
    assert "uninitialised" in {f.kind for f in ran(body).findings} and not ran(body, c=1).findings


def test_every_language_stops_at_it_and_its_text_reads_back() -> None:
    k = kernel("int* p = c ? a : nullptr; y[i] = p[i];")
    for target, spelled in (("cuda", "__trap();"), ("hip", "__builtin_trap();"), ("opencl", "null_access();")):
        assert spelled in emit(k, target).text
    assert parse_back(k, "cuda").status == "pass"


def test_an_argument_that_is_not_used_is_read() -> None:
    text = """__device__ void drop(PARAM) {}
    __global__ void k(int* a) { a[threadIdx.x] = 1; drop(a[threadIdx.x + 1]); }"""
    one = (i32(1), i32(1), i32(1))
    for param in ("int", "int x", "const float x"):
        k = load(text.replace("PARAM", param), name="k.cu", kernel="k").with_(launch=Launch(one, (i32(4), *one[1:])))
        assert [f.kind for f in run(k, {"a": np.zeros(8, np.int32)}).findings] == ["race"], param
        assert parse_back(k, "cuda").status == "pass"
