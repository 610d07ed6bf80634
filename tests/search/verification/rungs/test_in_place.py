"""What a source calls with one memory for several buffers is compared so too."""

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import with_draft

SCALE = """
__global__ void scale(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { BODY }
}
"""
HOST = "void go(float* v, float* w, int n) { scale<<<(n + 255) / 256, 256>>>(v, PASSED, 3.0f, n); }"
ONCE = "y[i] = a * x[i] + 1.0f;"
TWICE = "y[i] = 1.0f; y[i] = a * x[i] + y[i];"
NEIGHBOUR = "y[i] = a * x[n - 1 - i];"


@pytest.mark.parametrize(
    ("passed", "original", "other", "status", "says"),
    [
        ("w", ONCE, TWICE, "TESTED", ""),
        ("v", ONCE, TWICE, "REJECTED", "with one memory for y, x, as the source passes it: wrong result"),
        ("v", ONCE, "y[i] = a * x[i] - (-1.0f);", "TESTED", "also with one memory for y, x"),
        ("v", NEIGHBOUR, NEIGHBOUR + " y[i] *= 1.0f;", "UNKNOWN", "the original means nothing then"),
    ],
)
def test_a_rewrite_is_right_in_place(
    tmp_path: Path, passed: str, original: str, other: str, status: str, says: str
) -> None:
    (tmp_path / "k.cu").write_text(SCALE.replace("BODY", original) + HOST.replace("PASSED", passed))
    program, told = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert any("the source passes the same memory" in t for t in told) == (passed == "v")
    assert any("that no caller passes the same memory" in t for t in told) == (passed == "w")
    verdict = program.rewritten_as(ktc.loads(SCALE.replace("BODY", other))).verify(device="none")
    assert verdict.status == status and says in verdict.reason
