"""Kernels that a program launches one after the other on the same memory: what fusing them could give at most.

Of two launches in a row the second may read what the first has just written. As one kernel they need neither write nor
read it: what is counted as saved is that traffic, once out and once in at the device's rates, and one launch, and never
more than their time. Whether they may be fused the profile cannot say: it sees no copy and no code between them. The
host code that launches them does (:mod:`ktc.ir.frontend.host.sequences`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import deep_recursion
from ktc.ir.frontend.host.captured import spelled
from ktc.search.bounds.speed_of_light import datasheet

from .kernel_sources import SourceTree
from .profile_format import Process, Profile, Shape, Succession
from .ranking import overlap

LEAST_GAIN = 1.01
"""How many times as fast the program must be able to become for a pair to be named."""


@dataclass(frozen=True)
class Candidate:
    """Two kernels in a row: ``times`` often, ``shared`` bytes in each pair of launches at most, ``seconds`` of the
    device for all of them. ``savable``: seconds of the ``program``'s at most. ``command``: drafts their sequence, ''
    where no host code was found that launches them so."""

    first: str
    second: str
    times: int
    shared: int
    seconds: float
    savable: float
    program: float
    command: str = ""

    @property
    def gain(self) -> float:
        """How many times as fast the program can become by it, at most."""
        return self.program / (self.program - self.savable) if self.savable < self.program else float("inf")


def candidates(profile: Profile) -> list[Candidate]:
    """The pairs that could make the program :data:`LEAST_GAIN` times as fast, the one that can give most first."""
    found: dict[tuple[str, str], Candidate] = {}
    device = sum(s.times.total for p in profile.processes for f in p.launched for s in f.shapes)
    scale = overlap(profile.processes, device)
    for process in profile.processes:
        for c in _of_process(process, profile.seconds, scale):
            old = found.get((c.first, c.second))
            found[c.first, c.second] = c if old is None else _joined(old, c)
    worth = [c for c in found.values() if c.gain >= LEAST_GAIN]
    return sorted(worth, key=lambda c: (-c.savable, c.first, c.second))


def _joined(a: Candidate, b: Candidate) -> Candidate:
    return replace(a, times=a.times + b.times, shared=max(a.shared, b.shared), seconds=a.seconds + b.seconds,
                   savable=a.savable + b.savable)  # fmt: skip


def _of_process(p: Process, program: float, scale: float) -> Iterator[Candidate]:
    c = datasheet(p.device)
    for s in p.successions:
        f, g = p.launched[s.first[0]], p.launched[s.second[0]]
        a, b = f.shapes[s.first[1]], g.shapes[s.second[1]]
        reads = _only_reads(f.kernel, len(f.parameters))
        written = {offset for (offset, _), const in zip(f.parameters, reads) if not const}
        shared = _shared(s, a, b, written)
        if f.symbol == g.symbol or not shared or not (a.times.count and b.times.count):
            continue
        each = a.times.total / a.times.count + b.times.total / b.times.count
        traffic = c.moving(shared, shared) + c.launch_s if c.read and c.write else each
        saved = min(each, traffic)
        yield Candidate(f.kernel, g.kernel, s.count, shared, each * s.count, saved * s.count * scale, program)


def _shared(s: Succession, a: Shape, b: Shape, written: set[int]) -> int:
    """Bytes of the memory that the first may write and the second is passed: up to the end of its allocation, at
    most."""
    first, second = ({x.offset: x.bytes for x in shape.pointers} for shape in (a, b))
    sizes = {at: min(first.get(at, 0), second.get(offset, 0)) for at, offset in s.equal if at in written}
    return sum(max(0, n) for n in sizes.values())


def _only_reads(kernel: str, n: int) -> Sequence[bool]:
    """Of each parameter whether it is a pointer to what the kernel only reads, as its name says; where that has no
    types, none is."""
    try:
        params = spelled(kernel).params
    except KtcError:
        params = None
    if params is None or len(params) != n:
        return [False] * n
    return [re.search(r"\bconst\s*\*", p) is not None for p in params]


def with_commands(found: Sequence[Candidate], tree: SourceTree) -> list[Candidate]:
    """``found`` with the commands that draft their sequences, where host code of ``tree`` launches the two in a row
    with nothing in between that sees what they share."""
    return [replace(c, command=_command(c, tree)) for c in found]


def _command(c: Candidate, tree: SourceTree) -> str:
    from ktc.ir.frontend.host.sequences.host_sequences import sequences_of

    places = [*tree.places(c.first), *tree.places(c.second)]
    names = [spelled(k).name for k in (c.first, c.second)] if places else []
    for file in dict.fromkeys(u for p in places for u in p.units):
        try:
            with deep_recursion(file):
                sequences = [s for r in sequences_of(tree.unit(file).lowering()) for s in r.sequences]
        except KtcError:
            continue
        for s in sequences:
            launched = [re.split(r"[<(]", step.kernel)[0].split("::")[-1] for step in s.steps]
            at = next((i for i in range(len(launched) - 1) if launched[i : i + 2] == names), None)
            if at is not None:
                folders = [*tree.include_dirs, *sorted(tree.found_in)]
                more = "".join(f" -I {shlex.quote(d)}" for d in folders)
                span = f"{s.first + at}..{s.first + at + 1}"
                return f"ktc init {shlex.quote(file)} --function {s.function} --launches {span}{more}"
    return ""


__all__ = ["Candidate", "candidates", "with_commands"]
