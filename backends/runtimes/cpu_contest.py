"""Which of the ways to run kernels on this processor is the faster one: a small test decides, once.

numba and each OpenCL runtime bring a compiler of their own, and how well that knows the processor differs by factors.
So where several of them work, one kernel in the form in which ktc prints them for a CPU is timed on each: rows of a
product, then a polynomial of every element. Each runs in a process of its own, which may die of it. What came out is
kept by what :mod:`.device_trial` keeps devices by: the processor, the packages' versions and the switches.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ktc.backends.base import DeviceInfo, Emitted, Runtime
from ktc.ir.support.child_python import python_environment, python_module
from ktc.ir.text import parse_kernel

from .device_trial import fingerprint
from .file_cache import cache_root, key_of, write_atomic

ROWS, TERMS, COLUMNS = 512, 64, 1024
ROUNDS = 30
SECONDS = 60
"""What takes longer than this has lost."""

KERNEL = """
kernel rows(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(n) block(1)
  y[blockIdx.x as i32 * 1024] = x[0]
"""
"""The signature and the launch; what it does is in the texts."""

COEFFICIENTS = tuple(1.0 / k for k in range(2, 18))


def _polynomial(literal: str) -> str:
    """Of ``v``; ``literal``: how a number of single precision is written."""
    text = literal.format(COEFFICIENTS[0])
    for c in COEFFICIENTS[1:]:
        text = f"({text} * v + {literal.format(c)})"
    return text


TEXTS = {
    "opencl": f"""__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rows(__global float* restrict y, __global const float* restrict x, int n) {{
  const int row = get_group_id(0);
  float acc[{COLUMNS}];
  for (int c = 0; c < {COLUMNS}; ++c) acc[c] = 0.0f;
  for (int k = 0; k < {TERMS}; ++k)
    for (int c = 0; c < {COLUMNS}; ++c) acc[c] += x[row + k] * x[k * {COLUMNS} + c];
  for (int c = 0; c < {COLUMNS}; ++c) {{
    const float v = acc[c];
    y[row * {COLUMNS} + c] = {_polynomial("{!r}f")};
  }}
}}
""",
    "numba": f"""import numpy as np
from numba import njit, prange

f32 = np.float32


@njit(error_model="numpy", fastmath={{"contract"}})
def one_row(y, x, row):
    acc = np.zeros({COLUMNS}, np.float32)
    for k in range({TERMS}):
        for c in range({COLUMNS}):
            acc[c] += x[row + k] * x[k * {COLUMNS} + c]
    for c in range({COLUMNS}):
        v = acc[c]
        y[row * {COLUMNS} + c] = {_polynomial("f32({!r})")}


@njit(parallel=True, error_model="numpy", fastmath={{"contract"}})
def all_rows(y, x, n):
    for row in prange(n):
        one_row(y, x, row)


def rows(y, x, n):
    all_rows(y, x, int(n))
""",
}
"""The test in each language, written out as the printers do it."""


@dataclass(frozen=True)
class Timed:
    """A device by the name that opens it, what it is called to users, its seconds a launch (None: it did not end)."""

    name: str
    called: str
    seconds: float | None


@dataclass(frozen=True)
class Contest:
    """The devices, the fastest first; ``took``: seconds that the test took, all of it."""

    order: tuple[Timed, ...]
    took: float

    @property
    def line(self) -> str:
        """Who won, by how much, and how to get the other one."""
        first, second = self.order[:2]
        other = f"--device {second.name} chooses the other"
        if first.seconds is None:
            return f"cpu target: {first.called}; none ran a small test of speed; {other}"
        if second.seconds is None:
            return f"cpu target: {first.called}; {second.called} did not run a small test of speed; {other}"
        ratio = f"{second.seconds / first.seconds:.1f}"
        times = f"as fast as {second.called}" if ratio == "1.0" else f"{ratio}x faster than {second.called}"
        return f"cpu target: {first.called}, {times} in a test of {self.took:.1f} s; {other}"


def contest(devices: Mapping[str, DeviceInfo]) -> Contest:
    """The devices (by the names that open them) in the order of their speed; those of equal speed as they came."""
    place = cache_root() / "devices" / f"contest-{key_of(*(fingerprint(d) for d in devices.values()))[:32]}.json"
    try:
        kept = json.loads(place.read_text("utf-8"))
        seconds: dict[str, float | None] = {name: kept["seconds"][name] for name in devices}
        took = float(kept["took"])
    except (OSError, ValueError, KeyError, TypeError):
        began = time.perf_counter()
        seconds = {name: in_a_child(name) for name in devices}
        took = time.perf_counter() - began
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(place, json.dumps({"seconds": seconds, "took": took}).encode())
        except OSError:
            pass  # tested again next time
    timed = [Timed(name, called(d), seconds[name]) for name, d in devices.items()]
    return Contest(tuple(sorted(timed, key=lambda t: float("inf") if t.seconds is None else t.seconds)), took)


PLATFORMS = {"Portable Computing Language": "PoCL"}
"""Platforms that people know by another name."""


def called(device: DeviceInfo) -> str:
    """``numba``, or ``OpenCL (PoCL 6.0)``."""
    if device.backend == "numba":
        return "numba"
    platform = PLATFORMS.get(device.extra.get("platform", ""), device.extra.get("platform", device.name))
    return f"OpenCL ({platform} {device.extra.get('driver', '')})".replace(" )", ")")


def in_a_child(name: str) -> float | None:
    """Seconds of a launch on the device ``name``, measured by a process of its own; None where it did not do it."""
    command = python_module("ktc.backends.runtimes.contest_process", name)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              env=python_environment(), timeout=SECONDS)  # fmt: skip
        return float(json.loads(done.stdout.splitlines()[-1])["seconds"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, IndexError, TypeError):
        return None


def seconds_of(runtime: Runtime, rounds: int = ROUNDS) -> float:
    """Seconds of a launch of the test on ``runtime``, the shortest of ``rounds``: the rest had to share the cores."""
    code = Emitted(TEXTS[runtime.device.backend], "rows", runtime.device.backend, parse_kernel(KERNEL))
    exe = runtime.compile(code)
    x = np.random.default_rng(1).random(TERMS * COLUMNS, np.float32) / TERMS
    args = {"y": runtime.full(ROWS * COLUMNS, np.float32(0)), "x": runtime.to_device(x), "n": ROWS}
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        exe.launch(args)
        runtime.synchronize()
        best = min(best, time.perf_counter() - began)
    return best


__all__ = ["Contest", "Timed", "called", "contest", "seconds_of"]
