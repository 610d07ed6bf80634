"""Launches that the host chooses by sizes: a draft for one of them has sizes for which the source comes to it."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.text import print_expr
from ktc.scaffold import Draft, draft

LADDER = """
template <int N> __global__ void rows(float* y, const float* x, int n) {
  float kept[N];
  float most = -1e30f;
  for (int k = 0; k < N; ++k) {
    int i = k * 128 + threadIdx.x;
    kept[k] = i < n ? x[(long long)blockIdx.x * n + i] : -1e30f;
    most = fmaxf(most, kept[k]);
  }
  for (int k = 0; k < N; ++k) {
    int i = k * 128 + threadIdx.x;
    if (i < n) y[(long long)blockIdx.x * n + i] = kept[k] - most;
  }
}
void go(float* y, const float* x, int count, int n, bool quiet) {
  if (n <= 0 || quiet) return;
  const int rounds = (n + 127) / 128;
  const bool few = rounds == 1;
  if (few) rows<1><<<count, 128>>>(y, x, n);
  else if (rounds == 2) rows<2><<<count, 128>>>(y, x, n);
  else if (n <= 1536 && rounds > 8) rows<12><<<count, 128>>>(y, x, n);
  else if (rounds <= 8) rows<8><<<count, 128>>>(y, x, n);
}
"""
REST = """
__global__ void by_4(float4* y, int n) { y[blockIdx.x * 128 + threadIdx.x].x = n; }
__global__ void by_1(float* y, int n) { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) y[i] = 1.0f; }
void fill(float* y, int n) {
  if (n % 512 == 0) by_4<<<n / 512, 128>>>((float4*)y, n);
  else by_1<<<(n + 127) / 128, 128>>>(y, n);
}
"""


def sizes(d: Draft, name: str) -> list[int]:
    return [at[name] for _, at, _ in d.scenarios]


@pytest.mark.parametrize(("rounds", "first", "last"), [(1, 1, 128), (2, 129, 256), (8, 257, 1024), (12, 1025, 1536)])
def test_sizes_are_those_that_lead_to_the_launch(rounds: int, first: int, last: int) -> None:
    d = draft(ktc.loads(LADDER, template={"N": rounds}).kernel)
    assert {b: e and e.shape for b, e in d.shapes.items()} == dict.fromkeys("yx", ("count", "n"))
    assert (d.least.get("n", 1), d.most["n"], d.steps.get("n", 1)) == (first, last, 1) and d.most["count"] >= 1 << 20
    assert len(d.scenarios) > 2 and all(first <= n <= last for n in sizes(d, "n")) and not d.doubts


def test_what_leads_to_a_launch_is_said_of_parameters() -> None:
    launch = ktc.loads(LADDER, template={"N": 2}).kernel.launch
    assert launch is not None
    assert [print_expr(e) for e in launch.reached] == [
        "!(n <= 0)", "!((n + 127) / 128 == 1)", "(n + 127) / 128 == 2"
    ]  # fmt: skip


def test_sizes_of_whole_vectors_are_for_one_launch_and_all_for_that_of_the_rest() -> None:
    whole, rest = (draft(ktc.loads(REST, kernel=k).kernel) for k in ("by_4", "by_1"))
    assert whole.steps["n"] == 512 and all(n % 512 == 0 for n in sizes(whole, "n"))
    assert rest.steps.get("n", 1) == 1 and max(sizes(rest, "n")) >= 1 << 20


def test_conditions_that_no_size_meets_are_passed_over() -> None:
    source = REST.replace("n % 512 == 0", "n > 9 && n < 8")
    assert max(sizes(draft(ktc.loads(source, kernel="by_4").kernel), "n")) >= 1 << 20


POWERS = """
inline int up(const int n) { int v = n - 1; v |= v >> 1; v |= v >> 2; v |= v >> 4; v |= v >> 8; SHIFT return v + 1; }
template <int N> __global__ void parts(float* y, int n, int width) {
  for (int i = threadIdx.x; i < n; i += N * width) y[blockIdx.x * n + i] = width;
}
void go(float* y, int count, int n) {
  const int steps = up((n + 3) / 4);
  const int width = steps < 64 ? steps : 64;
  const int rounds = steps / width;
  if (rounds == 1) parts<1><<<count, 32>>>(y, n, width);
  else if (rounds == 4) parts<4><<<count, 32>>>(y, n, width);
}
"""


@pytest.mark.parametrize(("rounds", "first", "last"), [(1, 1, 256), (4, 513, 1024)])
def test_what_the_host_computes_for_a_parameter_is_it_in_conditions_too(rounds: int, first: int, last: int) -> None:
    d = draft(ktc.loads(POWERS.replace("SHIFT", "v |= v >> 16;"), template={"N": rounds}).kernel)
    whole = "next_pow2((((n + 3)) / 4))"
    assert d.roles.tied["width"].replace("(", "").replace(")", "") in (
        f"{whole} if {whole} < 64 else 64".replace("(", "").replace(")", ""),
    )
    assert d.names == ["n", "count"] and all(first <= n <= last for n in sizes(d, "n")) and d.most["n"] == last


@pytest.mark.parametrize("shift", ["v |= v >> 3;", "v &= 255;", "v |= 1;"])
def test_other_bits_are_no_power_of_two(shift: str) -> None:
    source = POWERS.replace("v |= v >> 4;", "").replace("SHIFT", shift)
    assert "width" not in draft(ktc.loads(source, template={"N": 1}).kernel).roles.tied


def test_a_size_that_leads_to_a_launch_as_it_grows_has_no_end() -> None:
    source = LADDER.replace("rounds == 1", "n > 0 && count != 7")
    d = draft(ktc.loads(source, template={"N": 1}).kernel)
    assert d.most["n"] == d.most["count"] and (1 << 14) <= d.most["n"] < 1 << 20
