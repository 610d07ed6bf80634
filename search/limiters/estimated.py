"""Limiters without counters: what the cost model expects, what the compiler reports, and the time that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktc.ir.analysis.memory_costs import Request
from ktc.ir.support.quantities import duration
from ktc.search.bounds.cost_model import Estimate

from .limiter import ESTIMATE, Limiter, Profile, strongest

UNEXPLAINED = 1.5
"""Measured over expected time from which on the rest is a limiter of its own."""

SPILLED = 0.5
"""Share that is put down to spills, whatever they cost: they are bytes a thread, and their trips are not known."""


def estimated(
    e: Estimate,
    *,
    seconds: float = 0.0,
    resources: Mapping[str, int] | None = None,
    requests: Sequence[Request] = (),
    why: str = "",
) -> Profile:
    """The profile of one launch by its estimate.

    Args:
        seconds: the measured time of the launch (0: none). Shares are then shares of it.
        resources: of the compiler's report or the loaded kernel: ``registers`` of a thread, ``local``, ``spill_stores``
            and ``spill_loads`` in bytes.
        requests: the accesses of a warp, which tell turns of shared memory from bank conflicts.
        why: why there are no counters.
    """
    report = dict(resources or {})
    whole = max(seconds, e.seconds)
    found = [Limiter(_called(n, requests), t / whole, _told(n, t, e, requests)) for n, t in e.terms.items() if t]
    found += _of_report(report)
    if e.waves and e.busy < 1:
        blocks = f"blocks keep {e.busy:.0%} of the multiprocessors busy ({e.waves:.2f} waves)"
        found.append(Limiter("parallelism", 1 - e.busy, blocks))
    if seconds > UNEXPLAINED * e.seconds:
        told = f"{duration(seconds)} measured, {duration(e.seconds)} expected"
        found.append(Limiter("unexplained", 1 - e.seconds / seconds, told))
    numbers = {"expected seconds": e.seconds, "occupancy": e.occupancy.fraction, "waves": e.waves}
    numbers |= {"seconds": seconds} if seconds else {}
    return Profile(ESTIMATE, strongest(found), numbers | {k: float(v) for k, v in report.items()}, why)


def _called(term: str, requests: Sequence[Request]) -> str:
    return "bank conflicts" if term == "shared" and _conflicts(requests) else term


def _conflicts(requests: Sequence[Request]) -> list[Request]:
    """Accesses to shared memory that take more turns than their width needs, the worst first."""
    found = [r for r in requests if r.space == "shared" and (r.conflict or 1) > 1]
    return sorted(found, key=lambda r: -(r.conflict or 1))


def _told(term: str, seconds: float, e: Estimate, requests: Sequence[Request]) -> str:
    if term == "shared" and (worst := _conflicts(requests)):
        return f"{duration(seconds)}, {worst[0].mode} of {worst[0].buffer}: {worst[0].conflict}-way"
    reason = next((w.partition(": ")[2] for w in e.why if w.startswith(f"{term} ")), "")
    return duration(seconds) + (f", {reason}" if reason else "")


def _of_report(report: Mapping[str, int]) -> Iterator[Limiter]:
    spilled = max(report.get("local", 0), report.get("spill_stores", 0) + report.get("spill_loads", 0))
    if spilled:
        told = f"{spilled} bytes a thread, at {report.get('registers', 0)} registers, by the compiler's report"
        yield Limiter("spills", SPILLED, told)
