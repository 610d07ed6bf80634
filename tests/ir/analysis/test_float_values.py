"""Whether floats are only values: then what a run in one domain shows of the order of accesses holds in every other."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.analysis.float_values import choices_by_floats, float_branches, floats_are_values
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel


def kernel_of(body: str) -> Kernel:
    return load(
        "__global__ void k(float* y, const float* x, int* at, int n, float limit) {\n"
        "  __shared__ float s[64];\n  const int t = threadIdx.x;\n"
        f"{body}\n}}\n"
        "void host(float* y, const float* x, int* at, int n, float a) { k<<<2, 64>>>(y, x, at, n, a); }\n",
        name="k.cu",
    )


@pytest.mark.parametrize(
    "body",
    [
        "s[t] = x[t] * limit; __syncthreads(); y[t] = s[63 - t];",
        "float sum = 0.f; for (int i = t; i < n; i += 64) sum += x[at[i]] * (float)i; y[t] = fmaxf(sum, limit);",
        "y[t] = t < n ? expf(x[t]) : 0.f; at[t] = t % 3;",
        "float v = x[t]; v += __shfl_xor_sync(0xffffffffu, v, 16); if (t % 32 == 0) atomicAdd(&y[t / 32], v);",
    ],
)
def test_floats_that_are_values(body: str) -> None:
    assert floats_are_values(kernel_of(body))


@pytest.mark.parametrize(
    "body",
    [
        "if (x[t] > limit) y[t] = 1.f;",
        "y[t] = x[t] > limit ? x[t] : y[t + 64];",
        "y[(int)x[t]] = 1.f;",
        "at[t] = __float_as_int(x[t]);",
        "at[t] = isnan(x[t]);",
        "at[t] = x[t];",
        "while (limit) { y[t] = 1.f; if (t < n) break; }",
        "for (float f = 0.f; f < limit; f += 1.f) y[t] += f;",
        "atomicExch(&y[0], x[t]); y[t + 1] = 1.f;",
        "if (__any_sync(0xffffffffu, x[t] > 0.f)) y[t] = 1.f;",
        "int sure = 1; if (x[t] != limit) sure = 0; y[t] = sure ? 1.f : 2.f;",
    ],
)
def test_floats_that_decide_something(body: str) -> None:
    assert not floats_are_values(kernel_of(body))


@pytest.mark.parametrize(
    ("body", "branches"),
    [
        ("y[t] = x[t] > limit ? x[t] : 0.f;", 0),
        ("float own[2]; own[0] = x[t]; own[1] = limit; y[t] = own[0] > limit ? own[0] : own[1];", 0),
        ("float v = x[t]; if (isnan(v)) v = s[t]; y[t] = v;", 1),
        ("if (x[t] > limit) y[t] = 1.f; else if (t < n) y[t] = 2.f;", 1),
        ("s[t] = x[t]; __syncthreads(); y[t] = x[t] > limit ? s[t] : 0.f;", None),
        ("y[t] = x[t] > limit ? (float)(t / n) : 0.f;", None),
        ("s[t] = x[t]; __syncthreads(); if (x[t] > limit && s[t] > 0.f) y[t] = 1.f;", None),
        ("int k = x[t] > limit ? 1 : 0; y[k] = 1.f;", None),
    ],
)
def test_branches_that_floats_decide(body: str, branches: int | None) -> None:
    """What is chosen between values is one; a branch is told; who reads what others write is neither."""
    found = float_branches(kernel_of(body))
    assert (None if found is None else len(found)) == branches


@pytest.mark.parametrize(("value", "chosen"), [("fmaxf(x[t], limit)", False), ("x[t] > limit ? x[t] : limit", True)])
def test_choices_that_floats_decide(value: str, chosen: bool) -> None:
    assert choices_by_floats(kernel_of(f"y[t] = {value};")) == chosen


def _arguments(x: np.ndarray) -> dict[str, object]:
    return {"y": np.zeros(256, np.float32), "x": x, "at": np.zeros(256, np.int32), "n": 40, "limit": 2.0}


def _kinds(kernel: Kernel, first: str, second: str, x: np.ndarray) -> tuple[set[str], set[str]]:
    before = run(kernel, _arguments(x), domain=first)
    after = run(kernel, _arguments(x), domain=second, before=before)
    return {f.kind for f in before.findings}, {f.kind for f in after.findings}


def test_a_race_is_found_in_every_domain() -> None:
    """What a run found is looked for again."""
    racing = kernel_of("s[t] = x[t]; y[blockIdx.x * 64 + t] = s[63 - t];")
    assert floats_are_values(racing)
    assert _kinds(racing, "int", "field", np.ones(256, np.float32)) == ({"race"}, {"race"})


def test_where_floats_decide_every_domain_is_looked_at() -> None:
    """No sine is below -1; in an exact domain it is any number, and threads store that do not otherwise."""
    kernel = kernel_of("if (sinf(x[t]) < -1.f) y[0] = (float)t;")
    first, second = _kinds(kernel, "float", "int", np.arange(256, dtype=np.float32))
    assert first == set() and "race" in second


def test_ordered_accesses_of_values_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.ir.interp.sanitizer.shadow import Shadow

    touched = list[str]()
    touch = Shadow.touch
    monkeypatch.setattr(Shadow, "touch", lambda self, *given: (touched.append(given[4]), touch(self, *given))[1])
    plain = kernel_of("s[t] = x[t]; __syncthreads(); y[blockIdx.x * 64 + t] = s[63 - t];")
    before = run(plain, _arguments(np.ones(256, np.float32)), domain="int")
    assert before.ok and touched == ["write", "read", "write"]
    after = run(plain, _arguments(np.ones(256, np.float32)), domain="field", before=before)
    alone = run(plain, _arguments(np.ones(256, np.float32)), domain="field")
    assert len(touched) == 6
    assert after.ok and (after.outputs["y"] == alone.outputs["y"]).all() and after.steps == alone.steps
