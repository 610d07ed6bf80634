"""The speed of light: the least time a kernel can take on a device, from what it must move and compute.

bound = the largest of the terms, each the time of one unit of the device; fraction = bound / time. A fraction beyond 1
is an alarm: either the count, the device's ceiling or the measurement is wrong, or the kernel does not do its work.

* memory: bytes that the source touches on the workload's own arguments (:mod:`.compulsory_work`), read and written at
  the rates that reads and copies attain;
* f32, f64, f16, matrix, special: operations of the source at the rate of the unit that each needs at least;
* issue: all of them together, at one instruction a lane (two operations where they may be fused);
* launch: a kernel that does nothing.

Ceilings are what was measured on the very device, never above the datasheet; where nothing was measured, the datasheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktc.backends.base import DeviceInfo
from ktc.backends.device_table import LAUNCH_FLOOR_S, peaks_of
from ktc.ir.support.quantities import duration

from .compulsory_work import Work
from .rates import Rates

ALARM = 1.02
"""A fraction above this is reported: 2 % allows for the error of the measured ceiling."""

LANES_PER_SPECIAL = 8
"""Lanes of 32-bit arithmetic per lane of the special unit: 128 to 16 on every NVIDIA device since compute capability
5.0 (CUDA C++ Programming Guide, arithmetic instructions), 4 to 1 on AMD's, for which 8 is an upper count."""


ISSUED_BY_CORES = 2
"""Vector instructions that a core issues in the time of one fused multiplication and addition: today's processors have
units for as many others beside those (Intel's ports 0, 1 and 5; AMD's pipes for additions)."""

INTEGER_PRODUCTS = {"cuda-sm80": 1.0, "cuda": 0.5}
"""Products of 32-bit integers, with an addition, for each fused multiplication and addition of floats, by profile or
language: 64 and 128 a multiprocessor and cycle of NVIDIA's GPUs of compute capability 8.6 and up, 64 and 64 of 8.0
(CUDA C++ Programming Guide, arithmetic instructions)."""


@dataclass(frozen=True)
class Ceilings:
    """Attainable rates (0: unknown) and where they come from.

    ``read``, ``write``: bytes/s; a copy of N bytes read and N written takes N / read + N / write. ``fill``: bytes/s of
    what is written beyond as much as is read, as memory need not turn around. ``rates``: operations a second
    by unit: f32, f64, f16, matrix (additions and multiplications), special, issue (instructions of a lane).
    ``launch_s``: seconds of the least launch; ``trip_s``: of the least that reads what it computes with.
    """

    read: float
    write: float
    rates: Mapping[str, float] = field(default_factory=dict)
    launch_s: float = 0.0
    source: str = ""
    trip_s: float = 0.0
    fill: float = 0.0

    def moving(self, read: float, written: float) -> float:
        """Seconds to read and write so many bytes; 0 where the rates are not known."""
        if not self.read or not self.write:
            return 0.0
        beyond = max(written - read, 0.0)
        return read / self.read + (written - beyond) / self.write + beyond / (self.fill or self.write)


_UNITS = {
    "launch": "a launch",
    "memory": "the memory",
    "f32": "32-bit arithmetic",
    "f64": "64-bit arithmetic",
    "f16": "16-bit arithmetic",
    "matrix": "the matrix units",
    "integer": "the multiplication of integers",
    "special": "the special-function unit",
    "issue": "the rate of instructions",
}


@dataclass(frozen=True)
class Bound:
    """Seconds, the term that decides, and every term. ``whole``: all work was counted; else the bound may be higher.
    ``amounts``: what each term is the time of, in bytes or operations."""

    seconds: float
    limiter: str
    terms: Mapping[str, float]
    whole: bool = True
    amounts: Mapping[str, float] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What sets the bound, in words."""
        return _UNITS.get(self.limiter, self.limiter)

    def fraction(self, seconds: float) -> float:
        """bound / time: 1 is the speed of light."""
        return self.seconds / seconds if seconds > 0 else float("inf")

    def alarm(self, seconds: float) -> str:
        """Why a measured time cannot be right, or ''."""
        f = self.fraction(seconds)
        if f <= ALARM:
            return ""
        return (
            f"{duration(seconds)} cannot be: {self.unit} needs {duration(self.seconds)} for this work, "
            f"{f:.2f} times as long"
        )


def ceilings(device: DeviceInfo, measured: Rates | None = None, footprint: int = 0) -> Ceilings:
    """The ceilings of ``device``: what was measured, never above the datasheet; the table alone without.

    ``footprint``: bytes that launches go through in turn, which a cache may hold (0: more than any holds).
    """
    m = measured or Rates()
    peaks = peaks_of(device.name)
    table = peaks.dram_bytes_per_s if peaks else device.dram_bytes_per_s
    if footprint and m.near:
        m, table = m.within(footprint), 0.0
    flops = _lower(m.f32_flops, peaks.f32_flops if peaks else device.f32_flops)
    copy = _lower(m.copy_bytes, table)
    read = max(copy, _lower(m.read_bytes, table) if m.read_bytes else copy)
    slower = 2 / copy - 1 / read if copy else 0.0
    write = 1 / slower if slower else 0.0
    fill = max(write, _lower(m.fill_bytes, table)) if m.fill_bytes else write
    issue = flops / 2 * (ISSUED_BY_CORES if device.is_cpu else 1)
    rates = {"f32": flops, "f16": 2 * flops, "special": flops / 2 / LANES_PER_SPECIAL, "issue": issue}
    products = INTEGER_PRODUCTS.get(device.profile, INTEGER_PRODUCTS.get(device.backend, 0.0))
    rates |= {"integer": flops / 2 * products} if products else {}
    rates |= {"f64": peaks.f64_flops, "matrix": max(peaks.f16_matrix_flops, flops)} if peaks else {"matrix": flops}
    source = (peaks.source if peaks else "no datasheet entry") + ("; measured" if m.copy_bytes else "")
    launch = m.launch_s or _launch_floor(device)
    return Ceilings(read, write, rates, launch, source, m.trip_s, fill)


def _launch_floor(device: DeviceInfo) -> float:
    """Seconds of an empty launch, where none was timed; a processor's OpenCL times one from its first work-group to its
    last."""
    return 0.0 if device.is_cpu and device.backend == "opencl" else LAUNCH_FLOOR_S.get(device.backend, 0.0)


def datasheet(name: str) -> Ceilings:
    """The ceilings of the device of the table that is called so."""
    return ceilings(DeviceInfo("cuda", name, "", 0, 0, 0))


def bound(work: Work, c: Ceilings) -> Bound:
    """The least time for ``work`` under ``c``. Terms whose rate is unknown are left out."""
    o = work.operations
    terms = {"launch": max(c.launch_s, c.trip_s) if work.bytes_in else c.launch_s}
    if c.read and c.write:
        terms["memory"] = c.moving(work.bytes_in, work.bytes_out)
    counts = {name: getattr(o, name) for name in ("f32", "f64", "f16", "matrix", "special", "integer")}
    counts["issue"] = o.f32 / 2 + o.special + o.compare / 2 + o.integer
    for name, n in counts.items():
        if n and c.rates.get(name):
            terms[name] = n / c.rates[name]
    limiter = max(terms, key=lambda k: terms[k])
    counts["memory"] = work.bytes_in + work.bytes_out
    return Bound(terms[limiter], limiter, terms, work.whole, {n: float(counts[n]) for n in terms if n in counts})


def _lower(measured: float, table: float) -> float:
    return min(measured, table) if measured and table else measured or table
