"""What a device cannot launch is not in the space."""

from __future__ import annotations

from ktc.backends.base import DeviceInfo
from ktc.backends.launchers.launch_geometry import shared_bytes
from ktc.ir.kernel import Kernel, KnobDecl, Launch
from ktc.ir.nodes import Alloc, Binary, Knob, Var, fresh, i32
from ktc.ir.types import F16, F32, I32, Array, Vec
from ktc.search.space.device_limits import device_limits, space_of

DEVICE = DeviceInfo("cuda", "test", "cuda-sm90", 132, max_threads_per_block=1024, shared_per_block=49152)
X, Y, S = Knob("X"), Knob("Y"), Knob("S")
N = Var(fresh("n", I32))


def kernel(**launch) -> Kernel:
    tile = fresh("tile", Array(Vec(F16, S), (i32(64), Binary("*", X, i32(2))), "shared"))
    scratch = fresh("scratch", Array(F32, (i32(4096),), "local"))
    knobs = (KnobDecl("X", (32, 64, 128), 32), KnobDecl("Y", (1, 4, 16, 64), 1), KnobDecl("S", (1, 2, 4), 1))
    geometry = Launch(grid=(N, i32(1), i32(1)), block=(X, i32(1), Y), dynamic_shared=i32(1024))
    return Kernel("k", (), geometry, (Alloc(tile), Alloc(scratch)), knobs)


def test_threads_extents_and_shared_memory() -> None:
    space = space_of(kernel(), DEVICE, [{"n": 5, "eps": 1e-6}])
    expected = {
        (x, y, s)
        for x in (32, 64, 128)
        for y in (1, 4, 16, 64)
        for s in (1, 2, 4)
        if x * y <= 1024 and 1024 + 64 * 2 * x * s * 2 <= 49152
    }
    assert {tuple(c.values()) for c in space} == expected and 0 < len(expected) < 36


def test_shared_memory_counts_static_and_dynamic() -> None:
    from ktc.ir.fold import evaluate

    k = kernel()
    assert evaluate(shared_bytes(k), {"X": 32, "S": 4}) == 1024 + 64 * 64 * 4 * 2


def test_limits_that_always_hold_are_left_out() -> None:
    texts = [str(e) for e in device_limits(kernel(), DEVICE)]
    assert len(texts) == 5  # threads, shared, block x and z, grid x: the constant extents need no test


def test_grids_too_large_for_the_device() -> None:
    k = kernel()
    assert k.launch
    rows = k.with_(launch=Launch((i32(1), Binary("*", N, Y), i32(1)), k.launch.block, k.launch.dynamic_shared))
    assert {c["Y"] for c in space_of(rows, DEVICE, [{"n": 10_000}])} == {1, 4}


def test_unknown_limits_exclude_nothing() -> None:
    unknown = DeviceInfo("opencl", "cpu", "opencl-cl12", 2, max_threads_per_block=0, shared_per_block=0)
    assert space_of(kernel(), unknown).size == space_of(kernel(), None).size == 36
