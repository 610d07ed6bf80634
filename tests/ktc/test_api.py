"""The scripting API: chains, refusals as values, lowering, lazy imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ktc

SCALE = """
kernel scale(y: f32* restrict align 16, x: f32 const* restrict align 16, a: f32, n: i32)
  par i in 0..n @ [thread.x 256, block.x]
    y[i] = a * x[i]
"""

MAP = "[vec $V:(1,2,4), thread.x $T:(64,128), block.x]"


def test_a_chain_reads_like_its_script() -> None:
    p = ktc.loads(SCALE).distribute(loop="i", map=MAP).cache_hints(loads="x")
    assert p and p.refused is None
    assert p.script == f"distribute{{loop=i map={MAP}}} | cache-hints{{loads=x}}"
    assert [k.name for k in p.knobs] == ["V", "T"]
    assert ktc.loads(SCALE).apply(p.script).text() == p.text()


def test_lists_and_python_keywords_are_spelled_for_the_script() -> None:
    p = ktc.loads(SCALE).apply("fast-math", fns=["exp", "div"])
    assert p.refused or "fns=exp,div" in p.script


def test_a_refusal_is_a_value_and_ends_the_chain() -> None:
    start = ktc.loads(SCALE)
    p = start.distribute(loop="nothing", map=MAP)
    assert not p and p.refused is not None
    assert p.refused.code.startswith("E-") and "nothing" in p.refused.why
    assert p.kernel is start.kernel
    assert p.distribute(loop="i", map=MAP) is p
    with pytest.raises(ktc.KtcError, match="nothing"):
        p.lower("cuda")


def test_programs_are_immutable() -> None:
    start = ktc.loads(SCALE)
    before = start.text()
    start.distribute(loop="i", map=MAP)
    assert start.text() == before and start.trace == ()


@pytest.mark.parametrize(
    ("target", "mark"), [("cuda", "__global__"), ("hip", "hip_runtime"), ("opencl", "__kernel"), ("numba", "njit")]
)
def test_lower_binds_knobs(target: str, mark: str) -> None:
    p = ktc.loads(SCALE).distribute(loop="i", map=MAP)
    e = p.lower(target, V=4, T=64)
    assert mark in e.text
    assert e.kernel.knob_values == {"V": 4, "T": 64}
    with pytest.raises(ktc.KtcError) as error:
        p.lower(target, V=3)
    assert error.value.code == "E-KNOB-DOMAIN"


def test_template_mode_leaves_knobs_open() -> None:
    text = ktc.loads(SCALE).distribute(loop="i", map=MAP).lower("cuda", "template").text
    assert "template <int V, int T>" in text


def test_sites_are_ready_to_apply() -> None:
    p = ktc.loads(SCALE)
    for found in p.sites().values():
        for site in found:
            assert p.apply(site.step).refused is None, site.step


def test_unknown_names() -> None:
    p = ktc.loads(SCALE)
    with pytest.raises(AttributeError, match="frobnicate"):
        p.frobnicate()
    with pytest.raises(ktc.KtcError, match="frobnicate"):
        p.apply("frobnicate")
    with pytest.raises(ktc.KtcError, match="did you mean 'unroll'"):
        p.sites("unrol")
    with pytest.raises(AttributeError):
        _ = ktc.nothing


def test_text_in_any_language_that_files_may_be_in() -> None:
    text = ktc.loads(SCALE).lower("opencl").text
    assert ktc.loads(text, dialect="opencl").kernel.name == ktc.loads(SCALE).kernel.name
    assert "7.0f" in ktc.loads("__global__ void k(float* x) { x[0] = N; }", defines={"N": "7.0f"}).lower("cuda").text
    with pytest.raises(ktc.KtcError, match="empty"):
        ktc.loads("  ")


def test_without_a_workload_verifying_says_what_is_missing() -> None:
    with pytest.raises(ktc.KtcError, match="workload"):
        ktc.loads(SCALE).verify()


def test_import_is_free() -> None:
    code = (
        "import sys, ktc; print(sorted(m for m in sys.modules if m.startswith(('ktc.', 'numpy', 'lark', 'argparse'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
