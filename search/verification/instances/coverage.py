"""What the instances of a candidate have not exercised, and sizes at which they would.

Three things must have happened somewhere: every branch was entered, every loop that can go round twice did (a wrong
stride, or a block too few behind a persistent loop, changes nothing before), and along every axis of the grid or of a
block that ever has several blocks, or threads, there were several. Sizes for a loop come from following the first
thread of the first block with numbers: what it does is known wherever it depends on sizes alone, and the least size
that makes it go round twice is found by bisection.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ktc.ir.interp import RunResult
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, If, Stmt, asks_for_nan
from ktc.ir.walk import used, walk
from ktc.ir.workload import Workload
from ktc.search.verification.integers.first_thread import ENTERING, FIRST, LAST, LATE, MIDDLE, FirstThread, followed
from ktc.search.verification.integers.ranges import Interval, single_rounds
from ktc.search.verification.integers.reaching import Does, arguments, least_value, rounds

from .instances import LARGER, MAX_ELEMENTS, Instance, Maker, extents, larger_instances, open_axes, single_axes
from .sizes import BEYOND
from .together import least_together, somewhat_larger

LARGEST_SIZE = 1 << 31

MIDDLES = 3
"""How many instances are repeated with longer rows for loops in branches of blocks in the middle."""

SECOND_ROUND = 192
"""How much costlier the least instance in which a loop goes round twice may be than a usual one."""


@dataclass
class Coverage:
    """What is still missing after some runs of ``candidate``."""

    candidate: Kernel
    workload: Workload
    tried: list[Instance] = field(default_factory=list)
    unreached: dict[int, Stmt] | None = None
    once: dict[int, Stmt] | None = None
    """Loops that no thread ran twice."""
    outcomes: dict[int, int] = field(default_factory=dict)
    """How conditions and integer choices came out (see :class:`ktc.ir.interp.RunResult`)."""
    meaningless: dict[int, int] = field(default_factory=dict)
    """The same of runs at sizes for which the kernel means nothing."""
    several: set[int] = field(default_factory=set)
    """The :data:`AXES` along which there have been several elsewhere than in what was ``tried``."""

    @property
    def loops(self) -> list[For]:
        """The loops of the candidate, in its order."""
        return list(self._first.loops)

    @property
    def _first(self) -> FirstThread:
        return followed(self.candidate, *FIRST)

    @property
    def _last(self) -> FirstThread:
        return followed(self.candidate, *LAST)

    @property
    def _late(self) -> FirstThread:
        return followed(self.candidate, *LATE)

    def note(self, instance: Instance | None, result: RunResult) -> None:
        """One run; ``instance`` is None where its sizes have been noted before."""
        if instance is not None:
            self.tried.append(instance)
        self.unreached = _still(self.unreached, result.unreached)
        self.once = _still(self.once, tuple(s for s in result.once if id(s) not in self._singles))
        for k, seen in result.outcomes.items():
            self.outcomes[k] = self.outcomes.get(k, 0) | seen

    def leave_out(self, body: Body) -> None:
        """Nothing reaches ``body``: nothing of it is missing."""
        gone = {id(s) for s in walk(body)}
        self.unreached, self.once = (
            missing and {k: s for k, s in missing.items() if k not in gone} for missing in (self.unreached, self.once)
        )

    def note_meaningless(self, result: RunResult) -> None:
        """A run at sizes for which the kernel means nothing: no caller asks for what comes out otherwise there."""
        for k, seen in result.outcomes.items():
            self.meaningless[k] = self.meaningless.get(k, 0) | seen

    @cached_property
    def _singles(self) -> set[int]:
        """Loops that go round once at most, whatever the arguments: over as many parts as there are blocks, say, which
        the launch has a number of."""
        return {id(s) for s in single_rounds(self.candidate, promised(self.workload))}

    @property
    def axes(self) -> set[int]:
        """The :data:`AXES` along which no run had a second block, or thread, though usual sizes give one."""
        return single_axes(self.candidate, self.workload, self.tried) - self.several

    def sizes_for_loops(self, maker: Maker) -> Iterator[Instance]:
        """For every loop that no thread has run twice yet, the least sizes at which the first thread does; where all
        blocks together are enough for one round of the longest, the least at which the last block has something to do.
        """
        base = maker.few()
        for (k, s), follow in itertools.product(enumerate(self._first.loops), (self._first, self._last)):
            for name in maker.names if base else ():
                if not self._is_missing(s):
                    break
                if self._reached(follow, k, base, name):
                    continue

                least = self._least(follow.reaches, k, maker, base, name)
                beyond = BEYOND * maker.step[name]
                half = maker.near(name, least // 2) + beyond  # the second round is not over at once
                made = next(
                    (m for n in (half, beyond, 0) if least and (m := maker.make({**base, name: least + n}))), None
                )
                if made is not None:
                    yield made
                if made is not None and follow is self._last and not self._reached(self._first, k, base, name):
                    yield from maker.largest(
                        {**base, name: maker.longest(name)}, name
                    )  # no size has a second round: all of the first
        yield from self._sizes_together(maker, base)
        yield from self._sizes_for_last(maker, base)

    def _is_missing(self, s: For) -> bool:
        """Whether ``s`` never went round twice, and sizes may be all that is missing for it."""
        return id(s) in (self.once or {}) and id(s) not in self._for_no_number

    @property
    def unreached_by_sizes(self) -> bool:
        """Whether something was not reached that other sizes may reach."""
        return any(k not in self._for_no_number for k in self.unreached or {})

    @cached_property
    def _for_no_number(self) -> set[int]:
        """What is in branches for what is no number: exact arithmetic has none, so no sizes enter them, only data."""
        branches = (s.then for s in walk(self.candidate.body) if isinstance(s, If) and asks_for_nan(s.cond))
        return {id(x) for body in branches for x in walk(body)}

    def _sizes_for_last(self, maker: Maker, base: Mapping[str, int]) -> Iterator[Instance]:
        """For every loop that the last block's thread comes to and the first one never does, as behind rows that were
        peeled off, the least sizes at which that thread goes round twice, beside those that bring it there."""
        if not base:
            return
        longest = self._scalars({n: maker.longest(n) for n in base})
        for k, s in enumerate(self._first.loops):
            if not self._is_missing(s) or self._first.comes(k, longest):
                continue
            for outer, name in itertools.permutations(base, 2):
                comes = self._least(self._last.comes, k, maker, base, outer)
                there = {**base, outer: max(comes, base[outer])}
                least = self._least(self._late.reaches, k, maker, there, name)
                if least and self._is_missing(s):
                    yield from self._one_of(maker, there, name, least + BEYOND * maker.step[name], least)

    def _sizes_together(self, maker: Maker, base: Mapping[str, int]) -> Iterator[Instance]:
        """For every loop that no size alone makes go round twice, behind a guard about another one, or in tiles that no
        edge touches, the least at which all of them together do, for the first thread or else the last block's; before
        it what is cheaper, with more than a second round."""
        for k, s in enumerate(self._first.loops if base else ()):
            for follow in (self._first, self._last):

                def reaches(sizes: Mapping[str, int], k: int = k, follow: FirstThread = follow) -> bool:
                    return follow.reaches(k, self._scalars(sizes))

                if not self._is_missing(s) or any(reaches(i.sizes) for i in self.tried):
                    continue
                least = least_together(reaches, maker, base)
                if least is None:
                    continue
                made = (maker.make({n: v + more * maker.step[n] for n, v in least.items()}) for more in (BEYOND, 0))
                found = next((m for m in made if m is not None), None)
                for other in somewhat_larger(reaches, maker, least, base):
                    if self._is_missing(s) and (found is None or other.cost < found.cost):
                        yield other
                if found is not None and self._is_missing(s):
                    yield found
                break

    def sizes_below_rounds(self, maker: Maker) -> Iterator[Instance]:
        """For every loop, sizes of which its first round leaves almost nothing: what the later copies of a thread's
        work start with lies on the edge there. A little more than a round has one thread's first copy there alone.
        A loop of which no size has a second round has the most that is promised for its first, and a little less."""
        base = maker.few()
        for name in maker.names if base else ():
            step, found = maker.step[name], rounds(self.candidate, maker, name)
            longest = maker.longest(name) if self._within_one_round(maker, name) else 0
            ends = {longest + step, longest + 2 * step} if longest else set()
            for least in sorted({*found, *ends}):
                almost = least - 2 * step
                if almost > step and not any(almost <= i.sizes[name] < least - step for i in self._beside(base, name)):
                    yield from self._one_of(maker, base, name, almost)

    def _within_one_round(self, maker: Maker, name: str) -> bool:
        """Whether the first thread goes round a loop up to a size, and no value of that size takes it round twice. A
        loop that is over at once where the size is largest, as one up to a quotient by it, has less to show there."""
        longest = self._scalars({**maker.few(), name: maker.longest(name)})
        enters = followed(self.candidate, *ENTERING).reaches
        return any(
            self._ends_at(s, name) and enters(k, longest) and not self._first.reaches(k, longest)
            for k, s in enumerate(self._first.loops)
        )

    def _ends_at(self, s: For, name: str) -> bool:
        """Whether the end of a loop is told by the argument that a size is passed as."""
        own = {a.name for a in self.workload.args if a.role == "scalar" and a.value == name}
        return bool(own & {v.name for v in used(s.cond)})

    def sizes_for_middles(self, maker: Maker) -> Iterator[Instance]:
        """For loops that neither the first nor the last block comes to, such as those of rows between peeled ones, or
        of tiles that no edge touches: the least sizes at which the block in the middle goes round twice. Where that is
        not enough, what makes other loops go round twice, or the most that is promised, beside the costliest sizes so
        far; and as much as fits beside the least number of blocks of which the one in the middle comes there."""
        longest = {n: maker.longest(n) for n in maker.names}
        for k in range(len(self._first.loops)):
            least = self._least_middle(k, maker, longest) if self._middle(k, longest) else None
            beyond = {n: v + BEYOND * maker.step[n] for n, v in (least or {}).items()}
            made = (maker.make(sizes) for sizes in (beyond, least) if sizes)
            yield from itertools.islice((m for m in made if m is not None), 1)
        for name in maker.names if self._middles(longest) else ():
            found = [v + BEYOND * maker.step[name] for v in rounds(self.candidate, maker, name)] or [longest[name]]
            for more in sorted(set(found)):
                for i in sorted(self.tried, key=lambda i: -i.cost)[:MIDDLES]:
                    if self._middles(longest) and more > i.sizes[name]:
                        yield from self._one_of(maker, i.sizes, name, more)

        base = maker.few()
        for k, s in enumerate(self._first.loops if base else ()):
            for outer, name in itertools.permutations(base, 2) if self._middle(k, longest) else ():
                comes = self._least(followed(self.candidate, *MIDDLE).comes, k, maker, base, outer)
                if comes and self._ends_at(s, name) and self._middle(k, longest):
                    there = {**base, outer: max(comes, base[outer])}
                    yield from maker.largest({**there, name: longest[name]}, name)

    def _least_middle(self, k: int, maker: Maker, longest: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes none of which can be smaller if the block in the middle is to go round its ``k``-th loop twice."""
        sizes, reaches = dict(longest), followed(self.candidate, *MIDDLE).reaches
        for name in maker.names:
            sizes[name] = self._least(reaches, k, maker, sizes, name)
            if not sizes[name]:
                return None
        return sizes

    def _middles(self, sizes: Mapping[str, int]) -> bool:
        """Whether a loop that no thread ran twice is none of the first or last thread's even at ``sizes``."""
        return any(self._middle(k, sizes) for k in range(len(self._first.loops)))

    def _middle(self, k: int, sizes: Mapping[str, int]) -> bool:
        never = self._is_missing(self._first.loops[k])
        return never and not any(f.comes(k, self._scalars(sizes)) for f in (self._first, self._last))

    def sizes_for_axes(self, maker: Maker) -> Iterator[Instance]:
        """For every axis along which no run had a second block, or thread, the least sizes that give one; and the
        largest of which one is all: the last copy of its work is needed there, which a little more shares out again."""
        base = maker.few()
        for axis, name in itertools.product(sorted(open_axes(self.candidate)), maker.names if base else ()):
            least = least_value(maker, base, name, lambda sizes, k=axis: self._extents(sizes)[k] > 1)  # type: ignore[misc]
            if not least:
                continue
            full, step = least - maker.step[name], maker.step[name]
            wide = self._beside(base, name)
            if full and not any(self._fills(i.sizes, axis, name, step) for i in wide):
                yield from self._one_of(maker, base, name, full)
            if axis in self.axes or not any(self._extents(i.sizes)[axis] > 1 for i in wide):
                beyond = least + BEYOND * step
                broken = beyond - step * self._fills({**base, name: beyond}, axis, name, step)
                yield from self._one_of(maker, base, name, broken, least)

    def _one_of(self, maker: Maker, base: Mapping[str, int], name: str, *values: int) -> Iterator[Instance]:
        """The first of ``values`` of a size that can be made an instance of."""
        made = (maker.make({**base, name: v}) for v in values)
        yield from itertools.islice((m for m in made if m is not None), 1)

    def _extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        return extents(self.candidate, self._scalars(sizes))

    def _fills(self, sizes: Mapping[str, int], axis: int, name: str, step: int) -> bool:
        """Whether a size fills its blocks along ``axis``."""
        more = {**sizes, name: sizes[name] + step}
        return self._extents(more)[axis] > self._extents(sizes)[axis]

    def never_twice(self) -> list[Stmt]:
        """Loops that go round twice at some scenario's sizes, and did in no run."""
        usual = [self._scalars(s.sizes) for s in self.workload.scenarios]
        missing = [(k, s) for k, s in enumerate(self._first.loops) if id(s) in (self.once or {})]
        return [s for k, s in missing if any(self._first.reaches(k, u) for u in usual)]

    @property
    def lacks_a_second(self) -> bool:
        """Whether a loop has not gone round twice, or no second block or thread has come along an axis, that usual
        sizes have one of."""
        return bool(self.never_twice() or self.axes)

    def _least(self, does: Does, k: int, maker: Maker, sizes: Mapping[str, int], name: str) -> int:
        """The least value of a size, beside the other ``sizes``, at which a thread ``does`` its ``k``-th loop; 0 if
        none."""
        return least_value(maker, sizes, name, lambda at: does(k, self._scalars(at)))

    def _reached(self, follow: FirstThread, k: int, base: Mapping[str, int], name: str) -> bool:
        return any(follow.reaches(k, self._scalars(i.sizes)) for i in self._beside(base, name))

    def _beside(self, base: Mapping[str, int], name: str) -> list[Instance]:
        """What was tried with all sizes but one at least as in ``base``: more than a halo."""
        return [i for i in self.tried if all(i.sizes[n] >= v for n, v in base.items() if n != name)]

    def _scalars(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return arguments(self.workload, sizes, self.candidate)


def promised(workload: Workload) -> dict[str, Interval]:
    """What is known of the integer arguments and truths: their ranges or numbers, and that sizes are at least one.

    Not of the integers in arrays: what they are drawn from is no promise that nothing else is ever passed."""
    out: dict[str, Interval] = {}
    sizes = {n for s in workload.scenarios for n in s.sizes}
    for a in workload.args:
        if a.role != "scalar" or a.dtype.startswith(("f", "bf", "e")):
            continue
        if a.range is not None and all(isinstance(v, int) for v in a.range):
            out[a.name] = (int(a.range[0]), int(a.range[1]))
        elif isinstance(a.value, int):
            out[a.name] = (int(a.value), int(a.value))
        elif a.value in sizes:
            out[a.name] = (1, LARGEST_SIZE - 1)
    return out


def missing_instances(coverage: Coverage, original: Kernel) -> Iterator[Instance]:
    """Instances that may show what ``coverage`` has not seen; it is asked again after each."""
    if not coverage.candidate.is_spmd:
        return
    kernels = original, coverage.candidate
    large = Maker(kernels, coverage.workload, SECOND_ROUND * MAX_ELEMENTS)
    yield from coverage.sizes_for_loops(large)
    yield from coverage.sizes_for_axes(large)
    yield from coverage.sizes_below_rounds(large)
    yield from coverage.sizes_for_middles(large)
    if coverage.unreached_by_sizes:
        for instance in larger_instances(Maker(kernels, coverage.workload, LARGER * MAX_ELEMENTS)):
            if not coverage.unreached_by_sizes:
                return
            yield instance


def _still(known: dict[int, Stmt] | None, missed: tuple[Stmt, ...]) -> dict[int, Stmt]:
    now = {id(s): s for s in missed}
    return now if known is None else {k: s for k, s in known.items() if k in now}


__all__ = ["Coverage", "missing_instances", "promised"]
