"""Sizes at which an argument has no value are no calls: a factor ``1.0 / (n - 1)`` where n is 1."""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.frontend import load
from ktc.ir.workload import ArgSpec
from ktc.ir.workload.scenario_facts import is_launched, runnable, unmet
from ktc.search.verification.instances.instances import instances, told_sizes
from tests.search.verification.gate_samples import _workload, scalar

SOURCE = """
__global__ void slopes(const float* x, float* y, int n, float scale) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n - 1) y[i] = (x[i + 1] - x[i]) * scale;
}
void go(const float* x, float* y, int n) { slopes<<<(n + 255) / 256, 256>>>(x, y, n, 1.f / (n - 1)); }
"""
WORKLOAD = _workload(
    "slopes",
    (
        ArgSpec("x", "f32", "in", ("n",)),
        ArgSpec("y", "f32", "out", ("n",)),
        scalar("n", "n"),
        ArgSpec("scale", "f32", "scalar", value="1.0 / (n - 1)"),
    ),
    {"n": 4096},
)


def test_instances_are_where_each_argument_has_a_value() -> None:
    kernel, workload = load(SOURCE, name="k.cu"), WORKLOAD
    assert runnable(kernel, workload, {"n": 2}) and is_launched(kernel, workload, {"n": 2})
    assert not runnable(kernel, workload, {"n": 1})
    assert unmet(kernel, workload, {"n": 1}).startswith("a value of every argument ('1.0 / (n - 1)'")
    sizes = [i.sizes["n"] for i in instances(kernel, kernel, workload, count=8)]
    assert 1 not in sizes and any(n % 2 for n in sizes)  # what is missing says nothing of the others


STRIDED = """
__global__ void every_second(const float* x, float* y, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < m) y[i] = x[2 * i];
}
void launch(const float* x, float* y, int n, int m) { every_second<<<(m + 31) / 32, 32>>>(x, y, n, m); }
"""


def test_a_size_that_others_tell_is_what_they_tell() -> None:
    """Hardly any two sizes that are drawn keep to an equation between them."""
    args = (ArgSpec("x", "f32", "in", ("n",)), ArgSpec("y", "f32", "out", ("m",)), scalar("n", "n"), scalar("m", "m"))
    work = replace(_workload("every_second", args, {"n": 100, "m": 50}), assume=("m == (n + 1) / 2",))
    kernel = load(STRIDED)
    found = instances(kernel, kernel, work)
    assert len(found) > 12 and all(i.sizes["m"] == (i.sizes["n"] + 1) // 2 for i in found)
    assert len({tuple(i.sizes.values()) for i in found}) == len(found)
    assert told_sizes(replace(work, assume=("m == n and n > 3", "m <= 7")), {"n": 9, "m": 2}) == {"n": 9, "m": 2}
