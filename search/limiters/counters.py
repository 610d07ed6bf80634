"""Hardware counters as Nsight Compute (``ncu --csv``) prints them, and the limiters that follow.

Names of metrics are those of the Nsight Compute documentation (Kernel Profiling Guide, "Metrics reference"; the units
of "GPU Speed of Light Throughput", the reasons of "Warp State Statistics"). Both of ncu's tables are read: one row a
metric (``--page details``), and one row a launch with a row of units above it (``--page raw``).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .limiter import COUNTERS, Limiter, Profile, strongest

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

METRICS: dict[str, str] = {
    "seconds": "gpu__time_duration.sum",
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "cache": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "load-store": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "matrix": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "special": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "active lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "bytes read": "dram__bytes_read.sum",
    "bytes written": "dram__bytes_write.sum",
    "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "shared turns": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "local bytes read": "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
    "local bytes written": "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
    "global bytes": "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum",
    "registers": "launch__registers_per_thread",
    "waves": "launch__waves_per_multiprocessor",
    "cycles an instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "stalled on loads": _STALL.format("long_scoreboard"),
    "stalled on shared memory": _STALL.format("short_scoreboard"),
    "stalled on barriers": _STALL.format("barrier"),
    "stalled on load-store queues": _STALL.format("lg_throttle"),
}
"""Name here -> metric of ncu. What a version or a device does not know is left out."""

SCALES = {
    "%": 0.01,
    "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0,
    "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9,
}  # fmt: skip
"""Unit as ncu prints it, in lower case -> factor to shares, seconds and bytes. Others count as they are."""

WARP_LANES = 32
SATURATED = 0.6
"""Share of its peak from which on a unit, and no latency, limits a kernel (Nsight Compute's guided analysis)."""

_GROUPED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


@dataclass(frozen=True)
class Launch:
    """Counters of one launch, by metric of ncu, in shares, seconds, bytes and plain numbers."""

    kernel: str
    values: Mapping[str, float]


def parse(text: str) -> list[Launch]:
    """The launches in what ncu printed; lines of other kinds (``==PROF==``, the program's own) are passed over."""
    rows = [r for r in csv.reader(text.splitlines()) if len(r) > 2]
    at = next((i for i, r in enumerate(rows) if "Kernel Name" in r), None)
    if at is None:
        return []
    header, body = rows[at], [r for r in rows[at + 1 :] if len(r) == len(rows[at])]
    return list(_by_metric(header, body) if "Metric Name" in header else _by_launch(header, body))


def _by_metric(header: list[str], body: list[list[str]]) -> Iterator[Launch]:
    """Tables with a row a metric."""
    launches: dict[tuple[str, str], dict[str, float]] = {}
    for row in (dict(zip(header, r)) for r in body):
        value = number(row.get("Metric Value", ""), row.get("Metric Unit", ""))
        if value is not None:
            launches.setdefault((row.get("ID", ""), row["Kernel Name"]), {})[row["Metric Name"]] = value
    yield from (Launch(kernel, values) for (_, kernel), values in launches.items())


def _by_launch(header: list[str], body: list[list[str]]) -> Iterator[Launch]:
    """Tables with a row a launch, and a row of units first (without an ID)."""
    place = {name: i for i, name in enumerate(header)}
    with_units = bool(body) and not body[0][0].strip()
    units = body[0] if with_units else [""] * len(header)
    for row in body[with_units:]:
        known = {m: number(row[place[m]], units[place[m]]) for m in METRICS.values() if m in place}
        yield Launch(row[place["Kernel Name"]], {m: v for m, v in known.items() if v is not None})


def number(text: str, unit: str = "") -> float | None:
    """A value as ncu prints it, in base units; None for what is none (``n/a``)."""
    text = text.strip()
    text = text.replace(",", "") if _GROUPED.fullmatch(text) else text.replace(",", ".")
    try:
        return float(text) * SCALES.get(unit.strip().lower().partition("/")[0], 1.0)
    except ValueError:
        return None


def profile_of(launch: Launch) -> Profile:
    """What limits the kernel, by its counters. Units near their peak come before what warps wait for: a warp waits for
    loads in every kernel that the memory limits."""
    n = {name: launch.values[m] for name, m in METRICS.items() if m in launch.values}
    units = [Limiter(name, n[name], _numbers(name, n)) for name in UNITS if name in n]
    wasted = list(_wasted(n))
    busy = strongest(x for x in (*units, *wasted) if x.share >= SATURATED)
    waits = {x.name: x for x in _waits(n)}
    rest = strongest(waits.pop(x.name, x) for x in (*units, *wasted) if x not in busy)
    rest = strongest((*rest, *(w for w in waits.values() if w.name not in {x.name for x in busy})))
    return Profile(COUNTERS, (*busy, *rest), n)


UNITS = ("memory", "cache", "load-store", "issue", "matrix", "special")
WAITS = {
    "latency": "stalled on loads",
    "barriers": "stalled on barriers",
    "shared": "stalled on shared memory",
    "load-store": "stalled on load-store queues",
}
"""Limiter -> the counter of cycles that warps spend waiting for it."""


def _numbers(name: str, n: Mapping[str, float]) -> str:
    said = f"{n[name]:.0%} of its peak"
    if name == "memory" and "bytes read" in n:
        said += f", {n['bytes read'] / 1e6:.4g} MB read and {n.get('bytes written', 0.0) / 1e6:.4g} MB written"
    if name in ("load-store", "cache") and n.get("load requests"):
        said += f", {n.get('load sectors', 0.0) / n['load requests']:.1f} sectors a load of a warp"
    return said


def _wasted(n: Mapping[str, float]) -> Iterator[Limiter]:
    """What units are busy with to no avail: the wasted share of their work, times their share of the peak."""
    if n.get("shared turns"):
        share = n.get("bank conflicts", 0.0) / n["shared turns"]
        told = f"{share:.0%} of the turns of shared memory are conflicts"
        yield Limiter("bank conflicts", share * n.get("load-store", 1.0), told)
    spilled = n.get("local bytes read", 0.0) + n.get("local bytes written", 0.0)
    if spilled:
        share = spilled / (spilled + n.get("global bytes", 0.0))
        told = f"{spilled / 1e6:.4g} MB of private arrays and spilled registers, {n.get('registers', 0):.0f} registers"
        yield Limiter("spills", share * max(n.get("load-store", 1.0), n.get("cache", 0.0)), told)
    if "active lanes" in n:
        share = 1 - n["active lanes"] / WARP_LANES
        told = f"{n['active lanes']:.1f} of {WARP_LANES} lanes work on average"
        yield Limiter("divergence", share * n.get("issue", 1.0), told)


def _waits(n: Mapping[str, float]) -> Iterator[Limiter]:
    """What warps wait for: shares of the cycles from one instruction of a warp to its next."""
    cycles = n.get("cycles an instruction", 0.0)
    resident = f"{n['occupancy']:.0%} of the warps resident" if "occupancy" in n else ""
    for name, counted in WAITS.items():
        share = min(1.0, n.get(counted, 0.0) / cycles) if cycles else 0.0
        if share > n.get(name, 0.0):  # else the unit of that name says more
            told = f"{n[counted]:.1f} of {cycles:.1f} cycles between instructions of a warp"
            yield Limiter(name, share, f"{told}, {resident}".rstrip(", "))
    if "waves" in n and n["waves"] < 1:
        yield Limiter("parallelism", 1 - n["waves"], f"{n['waves']:.2f} waves of blocks")
