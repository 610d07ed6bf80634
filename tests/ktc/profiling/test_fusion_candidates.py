"""Kernels in a row on the same memory: what a profile notes of them, and the command that drafts their sequence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktc.profiling import Profile
from ktc.profiling.fusion_candidates import candidates, with_commands
from ktc.profiling.kernel_sources import SourceTree
from ktc.profiling.profile_format import Geometry, Launched, PointerArgument, Process, Shape, Succession, Times

MIB = 1 << 20


def shape(seconds: float, *pointers: int) -> Shape:
    held = tuple(PointerArgument(8 * i, 0x7F0000000000, 0x7F0000000000, n) for i, n in enumerate(pointers))
    return Shape(Geometry((1, 1, 1), (32, 1, 1)), 10, 0, bytes(8 * len(pointers)), held, Times(10, 10 * seconds))


def kernel(name: str, *shapes: Shape) -> Launched:
    parameters = tuple((8 * i, 8) for i in range(len(shapes[0].pointers)))
    return Launched(name.partition("(")[0], name, "", 10, True, parameters, {}, frozenset(), shapes)


def made(first: str, device: str = "NVIDIA H100 80GB HBM3", seconds: float = 1.0, us: float = 200.0) -> Profile:
    launched = (kernel(first, shape(us * 1e-6, MIB, 64 * MIB)), kernel("ns::shift(float const*, float*)",
                shape(us * 1e-6, 64 * MIB, MIB)))  # fmt: skip
    s = Succession((0, 0), (1, 0), 10, ((8, 0),))
    p = Process(1, "", True, "cupti", "", device, seconds, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0, 0, 0, Times(), launched, (),
                (s,))  # fmt: skip
    return Profile(Path("p"), (), 0, seconds, (p,))


SCALE = "scale(float const*, float*)"


def test_what_is_shared_and_written_counts_by_its_traffic() -> None:
    (c,) = candidates(made(SCALE, seconds=0.004))
    assert (c.times, c.shared, c.seconds) == (10, 64 * MIB, pytest.approx(0.004))
    traffic = 10 * 2 * 64 * MIB / 3.35e12  # the data sheet's rate
    assert c.savable == pytest.approx(traffic, rel=0.3) and 1 < c.gain < 2
    (unknown,) = candidates(made(SCALE, device="a new device", seconds=0.005))
    assert unknown.savable == pytest.approx(unknown.seconds)


def test_pairs_that_give_nothing_are_not_named() -> None:
    assert candidates(made(SCALE, seconds=100.0)) == []  # Amdahl
    assert candidates(made("scale(float*, float const*)", seconds=0.004)) == []  # both only read it
    assert candidates(made("ns::shift(float const*, float*)", seconds=0.004)) == []  # one kernel, again and again


HOST = """\
__global__ void scale(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
namespace ns { __global__ void shift(const float* y, float* z) { z[threadIdx.x] = y[threadIdx.x]; } }
void go(const float* x, float* y, float* z) {
  scale<<<1, 32>>>(x, y);
  scale<<<1, 32>>>(x, y);
  BETWEEN
  ns::shift<<<1, 32>>>(y, z);
}
"""


@pytest.mark.parametrize(("between", "drafted"), [("", True), ("cudaMemcpy(z, y, 4, cudaMemcpyDeviceToHost);", False)])
def test_the_command_is_there_where_host_code_launches_them_so(tmp_path: Path, between: str, drafted: bool) -> None:
    file = tmp_path / "layers.cu"
    file.write_text(HOST.replace("BETWEEN", between))
    (c,) = with_commands(candidates(made(SCALE, seconds=0.004)), SourceTree((str(tmp_path),)))
    assert c.command == (f"ktc init {file} --function go --launches 2..3" if drafted else "")


def test_older_profiles_have_none() -> None:
    (process,) = made(SCALE).processes
    assert candidates(replace(made(SCALE, seconds=0.004), processes=(replace(process, successions=()),))) == []
