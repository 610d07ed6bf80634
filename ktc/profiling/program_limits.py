"""What a profiled program is bound by, and what its profile could not see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.support.quantities import duration

from .profile_format import Process, Profile
from .ranking import GRAPHS, Ranked

IDLE = 0.5
"""Share of the time between first kernel and last from which on the device is said to wait."""

LAUNCH_GAP_S = 25e-6
"""Seconds without work for each launch up to which launching itself explains them: a launch takes the host 2 to 5 µs, a
framework around it up to 20."""

COPIES = 0.3
"""Share of the device's working time from which on copies are said to matter."""

START = 0.5
"""Share of the program's time outside of its launches from which on that is said."""


@dataclass(frozen=True)
class Verdict:
    """``kind``: kernels, launches, host, unknown. ``facts``: sentences with figures; ``advice``: what helps."""

    kind: str
    facts: tuple[str, ...]
    advice: tuple[str, ...]


def verdict(profile: Profile, rows: Sequence[Ranked]) -> Verdict:
    """What bounds the program: its kernels, launching them, or the host."""
    span, busy = sum(p.span for p in profile.processes), sum(p.busy for p in profile.processes)
    launches = sum(r.launches for r in rows) + sum(p.graphs for p in profile.processes)
    facts, advice = list(_outside(profile)), list[str]()
    kind = "kernels"
    if not span:
        facts.append("how long the device was idle is not known: events around each launch include the time until the "
                     "host submits it, so short kernels look longer than they are")  # fmt: skip
        return Verdict("unknown", tuple(facts), ("install CUPTI for exact times: pip install nvidia-cuda-cupti",))
    idle = max(0.0, span - busy)
    facts.append(f"from first kernel to last the device worked {busy / span:.0%} of {duration(span)}")
    if idle / span >= IDLE and launches:
        gap = idle / launches
        kind = "launches" if gap <= LAUNCH_GAP_S else "host"
        facts.append(f"{launches} launches leave it idle for {duration(gap)} each, on average")
        if kind == "launches":
            advice.append("bound by launching: fewer launches help (fuse kernels that follow each other, record the "
                          "sequence as a CUDA graph, larger batches), faster kernels hardly do: what the table "
                          "says they give is the most")  # fmt: skip
        else:
            advice.append("bound by the host: the device waits for code between the launches (files, synchronisation, "
                          "copies, Python), which no kernel makes faster: what the table says is the most")  # fmt: skip
    copying = sum(p.copy_seconds for p in profile.processes)
    if busy and copying / busy >= COPIES:
        facts.append(f"{copying / busy:.0%} of its work is {sum(p.copies for p in profile.processes)} copies")
        advice.append("copies: keep data on the device between kernels, copy from pinned memory while kernels run")
    return Verdict(kind, tuple(facts), tuple(advice))


def _outside(profile: Profile) -> Iterator[str]:
    whole = profile.seconds
    inside = max((p.launching for p in profile.processes), default=0.0)
    if len(profile.processes) == 1 and whole and 1 - inside / whole >= START:
        before = profile.processes[0].before
        yield (f"{duration(whole - inside)} of the program's {duration(whole)} lie outside of its launches, "
               f"{duration(before)} of them before the first")  # fmt: skip


def unseen(profile: Profile, rows: Sequence[Ranked], searched: bool) -> list[str]:
    """What the profile did not see or does not know, each with a count. ``searched``: sources were given."""
    found = [line for p in profile.processes for line in _of_process(p)]
    past = [r for r in rows if r.unseen]
    if past:
        found.append(f"{sum(r.unseen for r in past)} launches of {len(past)} kernels came past the functions that ktc "
                     f"watches: times and geometry are known, arguments are not ({_names(past)})")  # fmt: skip
    nodes = [r for r in rows if r.in_graphs and r.symbol != GRAPHS]
    if nodes:
        apart = sum(1 for r in nodes if not any(s.captured for s in r.shapes))
        why = f"; of {apart} of these kernels the arguments are not known" if apart else ""
        found.append(f"{sum(r.in_graphs for r in nodes)} kernels ran as nodes of CUDA graphs{why}")
    if blind := [r for r in rows if r.launched and not all(f.sized for f in r.launched)]:
        found.append(
            f"arguments of {len(blind)} kernels: the driver does not say their sizes (CUDA 12.4 or newer does)"
        )
    if many := [r for r in rows if any(s.others and s.launches for s in r.shapes)]:
        found.append(f"{len(many)} kernels had more than 4096 combinations of scalar arguments: the rest is one shape "
                     f"a geometry ({_names(many)})")  # fmt: skip
    without = [r for r in rows if not r.source and r.symbol != GRAPHS]
    if searched and without:
        share = sum(r.of_device for r in without)
        found.append(f"{len(without)} kernels with {share:.0%} of the device time have no source there "
                     f"(libraries, generated code): {_names(without)}")  # fmt: skip
    return found


def _of_process(p: Process) -> Iterator[str]:
    if p.clock == "events" and p.graphs:
        yield f"{p.graphs} launches of CUDA graphs are timed whole: without CUPTI their kernels are not told apart"
    if p.clock == "none":
        yield f"no times in process {p.pid}: {p.why or 'no clock works'}"
    elif p.clock == "events":
        yield f"CUPTI does not serve in process {p.pid} ({p.why}): times are those of events, which include gaps"
    if p.lost:
        yield f"CUPTI dropped {p.lost} records: so many times are missing"
    if not p.complete:
        yield f"process {p.pid} ended without its exit handlers: its last two seconds may be missing"
    shapes = [s for f in p.launched for s in f.shapes]
    if failed := sum(s.failed for s in shapes):
        yield f"{failed} launches failed in process {p.pid}: the driver refused them"
    missing = sum(s.launches - s.failed - s.times.count for s in shapes if not s.captured)
    if p.clock != "none" and missing > 0:
        yield f"the times of {missing} launches in process {p.pid} are missing"


def _names(rows: Sequence[Ranked]) -> str:
    return listed([r.kernel for r in rows])


def listed(kernels: Sequence[str], most: int = 3) -> str:
    """Names of kernels for a sentence: those of C++ libraries go on for lines."""
    shown = ", ".join(map(short_name, kernels[:most]))
    return f"{shown} and {len(kernels) - most} more" if len(kernels) > most else shown


def short_name(kernel: str, most: int = 40) -> str:
    """A kernel's name without result, namespaces of its file and parameters, cut in its middle to ``most`` letters."""
    text = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0 and i:
            text = text[:i]
            break
    if len(text) <= most:
        return text
    front = (most - 1) * 2 // 3
    return f"{text[:front]}…{text[front - most + 1 :]}"
