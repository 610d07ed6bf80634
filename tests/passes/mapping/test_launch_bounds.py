"""launch-bounds: a promise to the compiler, in the languages that have one."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.kernel import bind
from ktc.ir.text import parse_kernel
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, body_of, differs, refused

SPMD = parse_kernel("""\
kernel k(out: f32* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    out[i] = 1.0
""")
PAR = parse_kernel("""\
kernel k(out: f32* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  par i in 0..n @ [thread.x 64, block.x]
    out[i] = 1.0
""")


def test_before_and_after() -> None:
    text = body_of(applied(SPMD, "launch-bounds{blocks=$M:1,2}"))
    assert "  launch grid(cdiv(n, 64)) block(64) max_threads(64) min_blocks($M)\n" in text
    assert "where $M * 64 <= 2048" in text


@pytest.mark.parametrize(
    ("target", "bounds"),
    [
        ("cuda", "__launch_bounds__(64, M)"),
        ("hip", "__launch_bounds__(64, (M * 64 + 255) / 256)"),
        ("opencl", "reqd_work_group_size"),
    ],
)
def test_each_language_says_it_in_its_own_unit(target: str, bounds: str) -> None:
    k = materialise(bind(applied(PAR, "launch-bounds{blocks=$M:2,4}"), {"M": 4}))
    assert bounds in emit(k, target).text


def test_meaning_stays() -> None:
    assert differs(PAR, applied(PAR, "launch-bounds{blocks=2}"), [{"n": n} for n in (1, 63, 64, 65)]) is None


@pytest.mark.parametrize(
    ("text", "script", "code"),
    [
        ("  let i: i32 = threadIdx.x as i32\n  out[i] = 1.0\n", "launch-bounds{blocks=2}", "E-BOUNDS-LAUNCH"),
        ("  launch grid(1) block(64)\n  out[0] = 1.0\n", "launch-bounds{blocks=33}", "E-BOUNDS-BLOCKS"),
        ("  launch grid(1) block(n)\n  out[0] = 1.0\n", "launch-bounds{blocks=2}", "E-BOUNDS-THREADS"),
        ("  launch grid(1) block(64)\n  out[0] = 1.0\n", "launch-bounds{blocks=n}", "E-ARG-TYPE"),
    ],
)
def test_refusals(text: str, script: str, code: str) -> None:
    assert refused(parse_kernel("kernel k(out: f32*, n: i32)\n" + text), script).code == code


def test_a_promise_that_no_multiprocessor_keeps_is_infeasible() -> None:
    from ktc.ir.diagnostics import KtcError

    big = parse_kernel("kernel k(out: f32*)\n  launch grid(1) block(1024)\n  out[threadIdx.x] = 1.0\n")
    with pytest.raises(KtcError, match="violates"):
        bind(applied(big, "launch-bounds{blocks=$M:2,4}"), {"M": 4})


def test_a_block_whose_size_a_knob_divides_keeps_its_size() -> None:
    """The axes of one thread behind it made no threads of it, a promise that no launch keeps."""
    text = body_of(applied(SPMD, "coarsen{at=thread.x factor=$C:1,2} | launch-bounds{blocks=$M:1,2}"))
    assert "max_threads(64 / $C)" in text and "where $M * (64 / $C) <= 2048" in text
