"""How long a schedule will take on a GPU, from plain counts, and why.

The least time of a kernel (:mod:`.speed_of_light`) is the same for all of its schedules; this is an estimate for one of
them. Each unit of the device gets the time that the schedule's counts (:mod:`ktc.ir.analysis.schedule_counts`) need of
it. Units work side by side, so that the slowest decides and the others add a little: the cube root of the sum of the
terms' cubes, a smooth maximum. Launch and barriers come on top.

* memory: bytes that miss the last-level cache, at the rates of reads and copies;
* cache: sectors that leave the multiprocessors; load-store: sectors that they ask for;
* latency: sectors that leave them, at the rate that the resident warps keep in flight (Little's law);
* shared: turns of shared memory; atomics: updates of memory; issue: instructions; special, matrix: those units.

Rates other than memory's are by multiprocessor and cycle, and a launch that does not fill the device, or leaves a last
wave of few blocks, has fewer of them. The estimate ranks schedules of one kernel; it is no promise of microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.backends.base import DeviceInfo
from ktc.backends.device_table import peaks_of
from ktc.ir.analysis.memory_costs import SECTOR
from ktc.ir.analysis.register_pressure import register_estimate
from ktc.ir.analysis.schedule_counts import AccessCounts, ScheduleCounts, schedule_counts
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.support.quantities import duration

from .measured_rates import Rates
from .occupancy import REGISTER_UNIT, TABLE, Occupancy, occupancy
from .speed_of_light import Ceilings, ceilings

LANES = {"7.0": 64, "7.5": 64, "8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128}
"""Lanes of 32-bit arithmetic of a multiprocessor, by compute capability (CUDA C++ Programming Guide, arithmetic
instructions: results per cycle)."""

ISSUED = 4
"""Instructions of warps that a multiprocessor issues per cycle (its four schedulers)."""

SECTORS_A_CYCLE = 4
"""Sectors that a multiprocessor's load-store units serve per cycle: 128 bytes (CUDA C++ Programming Guide, shared
memory and L1 share one array of that width)."""

CACHE_OVER_MEMORY = 2.0
"""Bytes a second of the last-level cache in units of the memory's."""

LATENCY_S = 6e-7
"""Of a load that misses the multiprocessor's cache: 500 to 800 cycles on devices of the table."""

IN_FLIGHT, MOST_IN_FLIGHT = 4, 16
"""Loads that a thread has under way at a time: what compilers hoist out of unrolled loops; and at most, where it makes
so many between two barriers."""

ATOMIC_TURNS_A_CYCLE = 4.0
"""Updates of memory that the last-level cache finishes per cycle where lanes wait for each other: 16.8 million of them
take 2.3 ms on an H100 (a layer norm's backward pass, a row a thread)."""

BARRIER_CYCLES = 30.0
"""What a barrier of a block costs beyond its instructions."""

ADDRESSING = 2.0
"""Instructions of a warp for each access: the access, and on average one for its address or its loop."""

SPILLS = 10.0
"""Instructions' time that an operation on a value takes which has no register: it is read from memory and written."""

SPECIAL_LANES = 16
CUBE = 3.0


@dataclass(frozen=True)
class Machine:
    """A GPU in numbers: ``units`` multiprocessors at ``clock`` cycles a second, ``cache`` bytes of last-level cache,
    ``first_level`` bytes of cache and shared memory of a multiprocessor, and its ceilings."""

    units: int
    clock: float
    cache: int
    first_level: int
    capability: str
    ceilings: Ceilings


MULTIPROCESSORS = {
    "H200": (132, "9.0"),
    "H100 NVL": (132, "9.0"),
    "H100 PCIe": (114, "9.0"),
    "H100": (132, "9.0"),
    "A100": (108, "8.0"),
    "L40S": (142, "8.9"),
    "V100": (80, "7.0"),
    "RTX 4090": (128, "8.9"),
    "RTX 3090": (82, "8.6"),
}
"""Multiprocessors and compute capability, by the names of the device table; from the datasheets it names. More specific
names first."""


def machine_of(name: str, units: int = 0, measured: Rates | None = None) -> Machine:
    """The machine called ``name``: by datasheet, or by what was ``measured`` on it and the multiprocessors counted.

    Raises:
        KeyError: it is not among :data:`MULTIPROCESSORS`.
    """
    rows = [n for n in MULTIPROCESSORS if all(w.upper() in name.upper() for w in n.split())]
    if not rows:
        raise KeyError(name)
    listed, capability = MULTIPROCESSORS[rows[0]]
    peaks = peaks_of(name)
    c = ceilings(DeviceInfo("cuda", name, "", units or listed, 0, 0), measured)
    return machine(units or listed, peaks.cache_bytes if peaks else 0, c, capability)


def machine(units: int, cache: int, ceilings: Ceilings, capability: str = "9.0") -> Machine:
    """The clock follows from the rate of 32-bit arithmetic: two operations a lane and cycle.

    Raises:
        KeyError: the compute capability is not in :data:`ktc.search.bounds.occupancy.TABLE`.
    """
    clock = ceilings.rates["f32"] / (2 * LANES[capability] * units)
    return Machine(units, clock, cache, TABLE[capability].shared, capability, ceilings)


@dataclass(frozen=True)
class Estimate:
    """``seconds`` of one launch; ``terms`` in seconds by unit; ``limiter`` the largest of them; ``why`` in words:
    what the numbers behind the largest terms are; ``busy``: the share of the multiprocessors that have work; ``whole``:
    every loop's trip count is known, else what it does counts once."""

    seconds: float
    limiter: str
    terms: Mapping[str, float]
    occupancy: Occupancy
    waves: float
    why: tuple[str, ...]
    busy: float = 1.0
    whole: bool = True


def estimate_of(lowered: Kernel, sizes: Mapping[str, int | float], m: Machine, registers: int = 0) -> Estimate | None:
    """The time of one launch of ``lowered`` at ``sizes``, from what is counted in its text; None where that is not
    known, or a block does not fit. ``registers`` of one thread, as a compiler reports them (0: estimated)."""
    counts = schedule_counts(lowered, sizes)
    return estimate(counts, registers or register_estimate(lowered), m) if counts is not None else None


def estimate(counts: ScheduleCounts, registers: int, m: Machine) -> Estimate | None:
    """The time of one launch; None where a block does not fit a multiprocessor. ``registers`` of one thread."""
    most = _registers(counts.threads * counts.min_blocks, m.capability)
    held = occupancy(counts.threads, max(16, min(registers, most)), counts.shared_bytes, m.capability)
    if held.blocks < 1 or not counts.blocks:
        return None
    waves = counts.blocks / (held.blocks * m.units)
    busy = _busy(counts.blocks, held.blocks, m.units)
    resident = min(held.warps, counts.warps / m.units)
    per_cycle = m.units * busy * m.clock
    read, written, left = _traffic(counts, m, resident)
    asked = sum(a.requested for a in counts.accesses)
    in_flight = m.units * resident * _under_way(counts) * _sectors_a_load(counts)
    instructions = _instructions(counts) * (1 + SPILLS * max(0.0, 1 - most / registers))
    c = m.ceilings
    terms = {
        "memory": c.moving(read, written),
        "cache": left * SECTOR / (CACHE_OVER_MEMORY * c.read),
        "load-store": asked / (SECTORS_A_CYCLE * per_cycle),
        "latency": left * LATENCY_S / max(1.0, in_flight),
        "shared": counts.shared_turns / per_cycle,
        "issue": instructions / (ISSUED * per_cycle),
        "special": counts.special * 32 / (SPECIAL_LANES * per_cycle),
        "atomics": counts.atomic_turns / (ATOMIC_TURNS_A_CYCLE * m.clock),
        "matrix": counts.matrix / (c.rates["matrix"] * busy) if counts.matrix else 0.0,
    }
    barriers = counts.barriers * BARRIER_CYCLES / m.clock * max(1.0, waves)
    smooth = sum(max(0.0, t) ** CUBE for t in terms.values()) ** (1 / CUBE)  # a launch of fewer than no blocks has none
    terms |= {"launch": c.launch_s, "barriers": barriers}
    limiter = max(terms, key=lambda k: terms[k])
    why = _reasons(counts, terms, held, waves, busy, left * SECTOR)
    return Estimate(c.launch_s + barriers + smooth, limiter, terms, held, waves, why, busy, not counts.unknown)


def _instructions(counts: ScheduleCounts) -> float:
    return counts.arithmetic + counts.integer + counts.special + ADDRESSING * counts.memory


def _registers(threads: int, capability: str) -> int:
    """Registers that each of so many ``threads`` of a multiprocessor may have: compilers are told the size of a block
    and how many are to fit, and spill what goes beyond."""
    per_warp = TABLE[capability].registers // -(-threads // WARP) // REGISTER_UNIT * REGISTER_UNIT
    return min(TABLE[capability].registers_per_thread, per_warp // WARP)


def _busy(blocks: int, held: int, units: int) -> float:
    """The mean share of the multiprocessors' time with work, where blocks take equally long: the last wave counts."""
    if blocks <= units:
        return blocks / units
    rounds = blocks / units  # blocks that the busiest multiprocessor works off
    most = -(-blocks // units)
    return rounds / most if most <= 4 * held else 1.0


def _traffic(counts: ScheduleCounts, m: Machine, resident: float) -> tuple[float, float, float]:
    """Bytes read from memory and written to it, and sectors that leave the multiprocessors."""
    first = max(0, m.first_level - counts.shared_bytes * max(1, int(resident * 32 // max(counts.threads, 1))))
    live = resident * SECTOR * sum(a.lines for a in counts.accesses if a.mode == "read")
    kept = min(1.0, first / live) if live else 1.0  # the share of lines that are still there an iteration later
    left = {id(a): a.requested - (a.requested - a.missed) * kept for a in counts.accesses}
    distinct: dict[tuple[str, str], float] = {}
    for a in counts.accesses:
        key = (a.buffer, "read" if a.mode == "read" else "write")
        distinct[key] = max(distinct.get(key, 0.0), float(a.footprint))
    read = written = 0.0
    for (buffer, mode), size in distinct.items():
        lost = max(0.0, 1 - m.cache / size) if size else 0.0  # of what is asked for again
        mine = [a for a in counts.accesses if a.buffer == buffer and (a.mode == "read") == (mode == "read")]
        moved = SECTOR * _once_a_family(mine, left)
        least = min(size / max(_used(mine), 1e-9) if lost else size, moved)
        bytes_ = least + lost * max(0.0, moved - least)
        read, written = (read + bytes_, written) if mode == "read" else (read, written + bytes_)
    return read, written, sum(left.values())


def _once_a_family(accesses: Sequence[AccessCounts], left: Mapping[int, float]) -> float:
    """Sectors of ``left`` that others did not ask for shortly before: neighbours of a stencil are in the last cache."""
    most: dict[int, float] = {}
    for n, a in enumerate(accesses):
        key = a.family if a.family >= 0 else -1 - n
        most[key] = max(most.get(key, 0.0), left[id(a)])
    return sum(most.values())


def _used(accesses: Sequence[AccessCounts]) -> float:
    return max((1.0 if a.used is None else a.used for a in accesses), default=1.0)


def _under_way(counts: ScheduleCounts) -> float:
    """Loads that a thread has under way: those of a round, or what a compiler hoists out of several."""
    return min(max(IN_FLIGHT, counts.at_once), MOST_IN_FLIGHT)


def _sectors_a_load(counts: ScheduleCounts) -> float:
    reads = [a for a in counts.accesses if a.mode == "read"] or list(counts.accesses)
    asked = sum(a.requested for a in reads)
    return sum(a.requested * a.lines for a in reads) / asked if asked else 1.0


def _reasons(
    counts: ScheduleCounts, terms: Mapping[str, float], held: Occupancy, waves: float, busy: float, left: float
) -> tuple[str, ...]:
    """One sentence a term, for the terms that are at least a third of the largest; then what is unusual about it."""
    top = max(terms.values())
    out = []
    asked = SECTOR * sum(a.requested for a in counts.accesses)
    texts = {
        "memory": "what misses the cache",
        "cache": f"{left / 1e6:.1f} MB leave the multiprocessors",
        "load-store": f"warps ask for {asked / 1e6:.1f} MB in sectors of 32 bytes",
        "latency": f"{held.warps} warps a multiprocessor keep too few loads in flight",
        "shared": f"{counts.shared_turns:.3g} turns of shared memory",
        "issue": f"{_instructions(counts):.3g} instructions of warps",
        "special": f"{counts.special:.3g} special functions of warps",
        "atomics": f"{counts.atomic_turns:.3g} atomic updates one after another",
        "matrix": f"{counts.matrix:.3g} operations on tensor cores",
        "launch": "a launch takes as long",
        "barriers": f"{counts.barriers:.0f} barriers one after another",
    }
    for name in sorted(terms, key=lambda k: -terms[k]):
        if terms[name] >= top / 3:
            out.append(f"{name} {duration(terms[name])}: {texts[name]}")
    wasteful = [a for a in counts.accesses if a.used is not None and a.used <= 0.5]
    for a in sorted(wasteful, key=lambda a: -a.requested)[:2]:
        out.append(f"{a.buffer}: a warp's {a.mode} uses {a.used:.0%} of its {a.lines} sectors")
    if busy < 0.8:
        out.append(f"{counts.blocks} blocks keep {busy:.0%} of the multiprocessors busy ({waves:.2f} waves)")
    if counts.unknown:
        out.append(f"at least: how often {', '.join(counts.unknown)} goes round is not known")
    if held.fraction < 0.25:
        out.append(f"occupancy {held.fraction:.0%}, limited by {held.limiter}")
    return tuple(out)
