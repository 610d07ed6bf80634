"""Searches: threads that return out of loops of their own."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Return
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.recognise.loop_returns import returns_to_breaks
from tests.passes.raising.raised_once import raised

SEARCH = """
__global__ void find(int* place, const int* keys, const int* wanted, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  BODY
}
void host(int* place, const int* keys, const int* wanted, int n, int m) {
  find<<<(n + 63) / 64, 64>>>(place, keys, wanted, n, m);
}
"""

FOUND = {
    "nothing-follows": """
      place[i] = -1;
      for (int k = 0; k < m; ++k)
        if (keys[k] == wanted[i]) { place[i] = k; return; }""",
    "else": """
      for (int k = 0; k < m; ++k)
        if (keys[k] == wanted[i]) { place[i] = k; return; }
      place[i] = -1;""",
    "in-a-branch": """
      if (wanted[i] > 2) {
        for (int k = 0; k < m; ++k)
          if (keys[k] == wanted[i]) { place[i] = k; return; }
        place[i] = -2;
      }
      place[i] -= 1;""",
    "two-loops": """
      for (int r = 0; r < 3; ++r) {
        for (int k = 0; k < m; ++k)
          if (keys[k] == wanted[i] + r) { place[i] = k; return; }
        if (wanted[i] == r) { place[i] = -2; return; }
        place[i] = r;
      }
      place[i] -= 1;""",
    "while": """
      int at = wanted[i] % m, tries = 0;
      while (true) {
        if (keys[at] == wanted[i] || ++tries == m) { place[i] = at; return; }
        at = (at + 1) % m;
      }""",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_search_is_a_parallel_loop(name: str) -> None:
    kernel, outcome = raised(SEARCH.replace("BODY", FOUND[name]))
    text = print_kernel(outcome.kernel)
    assert "par i in 0..n @ [thread.x 64, block.x]" in text, text
    assert ("done" in text) == (name in ("else", "in-a-branch", "two-loops")), text
    assert not any(isinstance(s, Return) for s in walk(outcome.kernel.body))
    assert Reference(kernel, instances=6, seed=31).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


@pytest.mark.parametrize(
    "body",
    [
        "for (int k = i; k < m; k += 64) if (keys[k] == 7) return;",
        "int at = i; for (int k = at; k < m; k += 64) if (keys[k] == 7) return;",
        "for (int k = 0; k < m; ++k) if (keys[k] == 7) return; __syncthreads();",
        "for (int k = 0; k < m; ++k) place[i] = k;",
    ],
    ids=["shared-out", "named", "waits", "no-return"],
)
def test_other_loops_are_left(body: str) -> None:
    kernel = load(SEARCH.replace("BODY", body), name="source.cu")
    assert returns_to_breaks(kernel.body) == kernel.body
