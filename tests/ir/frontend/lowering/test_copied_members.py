"""Whole objects copied in and out: a member that comes back as it went is no write, and one nobody uses is no read."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text.printer import print_kernel

BODY = "struct Body { float x, f; };\n"
PULL = (
    BODY
    + """
__global__ void pull(Body* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Body me = p[i];
  float s = me.f;
  for (int j = 0; j < n; j++) { Body b = p[j]; s += b.x - me.x; }
  me.f = s;
  p[i] = me;
}
void run(Body* p, int n) { pull<<<(n + 255) / 256, 256>>>(p, n); }
"""
)


def stores(text: str, name: str = "p") -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith(f"{name}[")]


def test_members_are_looked_at_one_by_one(cu, execute) -> None:
    text = print_kernel(cu(PULL))
    assert stores(text) == ["p[i as.static i64 * 2_i64 + 1_i64] = me_f"] and "b_f" not in text
    p = np.arange(8, dtype=np.float32)
    got = execute(PULL, {"p": p, "n": 4})["p"]
    x = p[::2]
    assert np.array_equal(got[::2], x)
    assert np.array_equal(got[1::2], p[1::2] + [(x - a).sum() for a in x])


KERNEL = BODY + "__global__ void k(Body* p, float* q, int n) { int i = threadIdx.x; BODY }"


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("Body b = p[i]; b.f = 1; p[i] = b;", ["f"]),
        ("Body b = p[i]; if (n > 2) { b.f = 1; p[i] = b; }", ["f"]),
        ("for (; i < n; i += 32) { Body b = p[i]; b.x = 1; p[i] = b; }", ["x"]),
        # what may have changed in between is stored
        ("Body b = p[i]; b.f = 1; p[i + 1] = b;", ["x", "f"]),
        ("Body b = p[i]; i += n; b.f = 1; p[i] = b;", ["x", "f"]),
        ("Body b = p[i]; q[i] = 3; b.f = 1; p[i] = b;", ["x", "f"]),
        ("Body b = p[i]; p[n].x = 3; b.f = 1; p[i] = b;", ["x", "x", "f"]),
        ("Body b = p[i]; __syncthreads(); b.f = 1; p[i] = b;", ["x", "f"]),
        ("Body b = p[i]; b.f = atomicAdd(q, 1.f); p[i] = b;", ["x", "f"]),
        ("Body b = p[i]; while (((volatile float*)q)[0] == 0) {} b.f = 1; p[i] = b;", ["x", "f"]),
        ("Body b = p[i]; float t = b.x; b.x = b.f; b.f = t; p[i] = b;", ["x", "f"]),
    ],
)
def test_only_what_nobody_can_see_is_left_out(cu, body: str, kept: list[str]) -> None:
    found = stores(print_kernel(cu(KERNEL.replace("BODY", body))))
    assert ["f" if "+ 1_i64]" in s.split(" = ")[0] else "x" for s in found] == kept


def test_other_memory_is_known_by_its_promises(cu) -> None:
    body = "Body b = p[i]; q[i] = 3; b.f = 1; p[i] = b;"
    text = KERNEL.replace("BODY", body).replace("float* q", "float* __restrict__ q")
    assert len(stores(print_kernel(cu(text)))) == 1


def test_a_read_that_the_source_spells_out_stays(cu) -> None:
    """Only members that a copy of the whole object names are left out: a load by hand may be what is asked about."""
    assert "q[i" in print_kernel(cu(KERNEL.replace("BODY", "float unused = q[i]; p[i].x = 1;")))
