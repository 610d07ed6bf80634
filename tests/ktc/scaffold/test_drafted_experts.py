"""Kernels of mixtures of experts and of beams: floats decide what is stored, blocks are counted by the beam."""

from __future__ import annotations

import ktc
from ktc.scaffold import Draft, draft

SENT = """
__global__ void send(const float* x, const float* score, float* to, int most, int n) {
  int expert = blockIdx.x, token = blockIdx.y, at = expert * most + token;
  if (score[at] > 0.f)
    for (int i = threadIdx.x; i < n; i += blockDim.x) to[at * n + i] = x[token * n + i];
}
void run(const float* x, const float* score, float* to, int experts, int tokens, int most, int n) {
  send<<<dim3(experts, tokens), 128>>>(x, score, to, most, n);
}
"""

BEAMS = """
__global__ void add(const float* x, const float* of_batch, float* y, int beams, int n) {
  int batch = blockIdx.x / beams;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] + of_batch[batch];
}
void run(const float* x, const float* of_batch, float* y, int rows, int beams, int n) {
  add<<<rows, 128>>>(x, of_batch, y, beams, n);
}
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def elements(d: Draft, sizes: dict[str, int]) -> dict[str, int]:
    return {n: e.value(sizes) for n, e in d.shapes.items() if e is not None}


def test_what_is_stored_for_some_numbers_alone_has_a_shape() -> None:
    d = drafted(SENT)
    assert not d.doubts
    sizes = {"experts": 3, "tokens": 5, "most": 5, "n": 7}
    assert elements(d, sizes) == {"x": 35, "score": 15, "to": 105}


def test_a_number_that_blocks_are_divided_by_is_smaller_than_their_number() -> None:
    d = drafted(BEAMS)
    assert not d.doubts
    assert elements(d, {"rows": 12, "beams": 4, "n": 10}) == {"x": 120, "of_batch": 3, "y": 120}
    assert all(s["beams"] < s["rows"] for name, s, _ in d.scenarios if name != "odd")
