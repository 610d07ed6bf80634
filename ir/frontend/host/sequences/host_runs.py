"""Runs of launches: what a host function launches one after the other in one stream, with nothing in between that could
see or change what they work on.

What happens between two launches of a run is moved before the run or behind it: that is done only where no launch that
it would pass is given the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ktc.ir.diagnostics import Loc

from .host_memories import Boundary, Event, Launching, Memory, Touching, Unseen


@dataclass(frozen=True)
class Passing:
    """What one memory is to a run. ``zeroed``: it is 0 everywhere when the run begins; ``filled``: the host or an
    earlier launch has written it; ``read_later``: somebody may read it when the run has ended."""

    memory: Memory
    zeroed: bool
    filled: bool
    read_later: bool


@dataclass
class HostRun:
    """Launches one after the other; ``ended`` says why the run goes no further, ``at`` where."""

    launches: list[Launching] = field(default_factory=list)
    memories: list[Passing] = field(default_factory=list)
    ended: str = ""
    at: Loc | None = None


def runs_of(events: Sequence[Event]) -> list[HostRun]:
    """The runs of a function, in order; those of one launch too."""
    return [_completed(run, events) for run in _split(events)]


def _split(events: Sequence[Event]) -> list[HostRun]:
    done: list[HostRun] = []
    run = HostRun()

    def end(why: str, at: Loc | None) -> None:
        nonlocal run
        if run.launches:
            run.ended, run.at = why, at
            done.append(run)
        run = HostRun()

    for e in events:
        if isinstance(e, Launching):
            if run.launches and (why := _apart(run.launches[-1], e)):
                end(why, e.loc)
            run.launches.append(e)
        elif run.launches and (why := _between(run, e)):
            end(why, e.loc)
    if run.launches:
        end("", None)
    elif done:  # what follows the last launch keeps nothing apart
        done[-1].ended, done[-1].at = "", None
    return done


def _apart(last: Launching, e: Launching) -> str:
    """Why ``e`` does not go on with the run that ``last`` is the end of."""
    if last.region != e.region:
        return f"{e.site.kernel} is launched in another branch or loop than {last.site.kernel}"
    if last.stream != e.stream:
        return f"{e.site.kernel} is launched in another stream than {last.site.kernel}"
    return ""


def _between(run: HostRun, e: Event) -> str:
    """Why ``e`` ends the run; '' for what can be moved out of it."""
    if isinstance(e, Boundary):
        return e.what
    passed = {id(m) for launch in run.launches for m in launch.memories}
    if isinstance(e, Unseen):
        seen = next((m for launch in run.launches for m in launch.memories if not m.own), None)
        return f"'{e.what}' is not seen here, and may know the memory that '{seen.name}' points to" if seen else ""
    if isinstance(e, Touching) and id(e.memory) in passed:
        return f"{e.what} {'writes' if e.writes else 'reads'} '{e.memory.name}' between the launches"
    return ""


def _completed(run: HostRun, events: Sequence[Event]) -> HostRun:
    first, last = events.index(run.launches[0]), events.index(run.launches[-1])
    before, behind = events[:first], events[last + 1 :]
    inside = [e for e in events[first : last + 1] if isinstance(e, Touching)]
    found = dict.fromkeys(m for launch in run.launches for m in launch.memories)
    run.memories = [_passing(m, run, [*before, *inside], behind) for m in found]
    return run


def _passing(m: Memory, run: HostRun, before: Sequence[Event], behind: Sequence[Event]) -> Passing:
    touched = [e for e in before if _mentions(e, m)]
    last = touched[-1] if touched else None
    loops = run.launches[0].loops
    zeroed = isinstance(last, Touching) and last.zero and last.loops == loops
    again = loops != m.loops[: len(loops)] or not m.own  # the next round of a loop, or code that is not seen
    later = any(_mentions(e, m) and not (isinstance(e, Touching) and e.writes and not e.reads) for e in behind)
    return Passing(m, zeroed, bool(touched) or m.kind != "allocated" or again, again or later)


def _mentions(e: Event, m: Memory) -> bool:
    if isinstance(e, Launching):
        return any(x is m for x in e.memories)
    return isinstance(e, Touching) and e.memory is m


__all__ = ["HostRun", "Passing", "runs_of"]
