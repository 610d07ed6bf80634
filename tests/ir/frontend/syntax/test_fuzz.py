"""A sample of the fuzzer (``tests.fuzz.frontend_texts``), and the cases that it has found."""

from __future__ import annotations

import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from tests.fuzz import frontend_texts


def test_a_sample_of_hostile_input() -> None:
    report = frontend_texts.campaign(cases=120, seed=7, jobs=2, chunk=60)
    assert report["cases"] == 120
    assert report["findings"] == []
    kinds = report["results"]
    assert isinstance(kinds, dict) and len(kinds) >= 6  # every generator took part


def test_the_fuzzer_sees_what_it_looks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded bug of each sort is a finding."""
    import ktc.ir.frontend

    def wrong(path: str) -> object:
        raise ValueError("seeded")

    monkeypatch.setattr(ktc.ir.frontend, "load", wrong)
    assert "seeded" in str(frontend_texts.check(0, 0)["finding"])

    def peeks(path: str) -> object:
        frontend_texts.OPENED.append("/etc/passwd")
        raise KtcError("E-X", "refused")

    monkeypatch.setattr(ktc.ir.frontend, "load", peeks)
    assert "/etc/passwd" in str(frontend_texts.check(0, 0)["finding"])


K = "__global__ void k(int *p) { p[0] = %s; }\n"


@pytest.mark.parametrize(
    "text, code",
    [
        ("void h() { f(1)); g(; }\n" + K % "1", None),  # a stray bracket in host code was skipped for ever
        (
            "template <typename... T> __device__ int f(T... t) { return f(t..., t...); }\n" + K % "f(1, 2)",
            "E-SEMA-SIZE",
        ),
        (K % ("S<" * 60 + "int" + ">" * 60), "E-PARSE-SYNTAX"),
        ("".join(f"#define M{i} " + f"M{i + 1} " * 8 + "\n" for i in range(8)) + K % "M0", "E-PP-EXPANSION"),
        (K % ("9" * 10_000), "E-SEMA-VALUE"),
        ("#define\n" + K % "1", "E-PP-DIRECTIVE"),
        (
            '__global__ void k(int *p) { auto f = [](int a) { return a; }; asm("mov.u32 %0, 1;" : "=r"(f)); }\n',
            "E-SEMA-ASSIGN",
        ),
        ("__global__ void k(int *p) { int a[(int)1e400]; p[0] = 1; }\n", "E-SEMA-CONSTANT"),
    ],
)
def test_what_it_found(text: str, code: str | None) -> None:
    if code is None:
        assert load(text, name="k.cu").name == "k"
        return
    with pytest.raises(KtcError) as e:
        load(text, name="k.cu")
    assert e.value.code == code


@pytest.mark.parametrize("body", ["y[0] = convert_int4(p[0]).x;", "y[0] = dot((float2)(1.f), (float4)(1.f));",
                                  "vstore4((float2)(1.f), 0, y);", "y[0] = cross(1.f, 2.f);"])  # fmt: skip
def test_wrong_numbers_of_components_are_refused(body: str) -> None:
    with pytest.raises(KtcError) as e:
        load(f"kernel void k(global float *y, global ulong *p) {{ {body} }}", name="k.cl")
    assert e.value.code in ("E-SEMA-CONVERT", "E-SEMA-OVERLOAD")
