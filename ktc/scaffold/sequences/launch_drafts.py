"""What is found out of each launch of a sequence by itself, put together: sizes, shapes, contents, roles of buffers.

Each launch is drafted as a kernel over the numbers of the sequence (:mod:`..draft`). What they say must hold for all:
a number that one of them uses as a size is a size, a buffer is as large as the launch that reaches furthest asks, and a
scenario has the smallest of the sizes that each launch would take.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Param
from ktc.ir.workload import LaunchSpec, Workload
from ktc.ir.workload.size_expressions import evaluate

from ..draft import draft
from ..model import Draft
from ..roles import buffers_of
from ..text import filled, plain
from ..windows import names_in
from .host_sheet import Sheet

USUAL = {"small": 64, "medium": 512, "large": 2048}
"""A size by the name of its scenario, where no launch asks for one."""


BLOCK = 256
"""Threads of a block, where the host code does not say."""


@dataclass
class JointDraft:
    """``sizes``: what scenarios give. ``tied``: numbers that are computed of sizes, as text, or constants; ``numbers``:
    values of the others. ``shapes``: elements of each buffer, '' where that is not known. ``roles``: in | out | inout |
    temp. ``contents``: lines of a workload that say what a buffer holds, and which of them are guesses."""

    sizes: list[str] = field(default_factory=list)
    tied: dict[str, str | int] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    contents: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    scenarios: list[tuple[str, dict[str, int], str]] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    final: set[str] = field(default_factory=set)
    """Buffers that the last launch writes."""

    launches: dict[int, LaunchSpec] = field(default_factory=dict)
    """Launches that follow the guards, where the source has so many blocks for one size, by their place."""


def joint_draft(sheet: Sheet, kernels: Sequence[Kernel]) -> JointDraft:
    """What is known of the launches of ``sheet`` together; ``kernels`` are they, over the sequence's parameters."""
    drafts: list[Draft | None] = []
    joint = JointDraft()
    for spec, k in zip(sheet.launches, kernels):
        used = k.with_(params=tuple(p for p in k.params if _is_mine(p, k, spec)))
        try:
            drafts.append(draft(used))
        except KtcError as e:
            joint.doubts.append(f"{k.name} could not be drafted: {e.message}")
            drafts.append(None)
    found = [d for d in drafts if d is not None]
    joint.launches = {i: d.launch for i, d in enumerate(drafts) if d is not None and d.launch is not None}
    _numbers(joint, sheet, found)
    _shapes(joint, sheet, found)
    _roles(joint, sheet, drafts)
    _scenarios(joint, sheet, found)
    for d in found:
        joint.doubts += [f"{d.kernel.name}: {x}" for x in d.doubts if f"{d.kernel.name}: {x}" not in joint.doubts]
    return joint


def _is_mine(p: Param, k: Kernel, spec: object) -> bool:
    from ktc.ir.walk import all_exprs, assigned, used, used_in

    launch = k.launch
    mine = used_in(k.body) | assigned(k.body)
    for e in (*launch.grid, *launch.block) if launch is not None else ():
        mine |= used(e)
    if launch is not None and launch.dynamic_shared is not None:
        mine |= used(launch.dynamic_shared)
    return p.sym in mine or any(p.sym in used(e) for e in all_exprs(k.body))


def _numbers(joint: JointDraft, sheet: Sheet, drafts: Sequence[Draft]) -> None:
    """Which integers are sizes, and what the others are."""
    names = {n for d in drafts for n in d.names}
    names |= {n for text in sheet.extents.values() for n in names_in(text)}
    blocks = {text for spec in sheet.launches for text in spec.block} & sheet.ints.keys()
    names -= blocks  # how many threads a block has is no size of the problem, and often has to be a power of two
    ties: dict[str, str | int] = {}
    for name in sheet.ints:
        for d in drafts:
            if name not in names | blocks and (tie := d.tied(name)) is not None:
                ties.setdefault(name, tie)
    extra = [n for d in drafts for n in d.names if n not in sheet.ints]
    joint.sizes = [n for n in (*sheet.ints, *dict.fromkeys(extra)) if n in names]
    joint.tied = {n: t if isinstance(t, int) else plain(t) for n, t in ties.items()}
    for name, root in (*sheet.ints.items(), *sheet.floats.items()):
        if name in joint.sizes or name in joint.tied:
            continue
        usual = BLOCK if name in blocks else None
        fixed = next((d.roles.fixed[name] for d in drafts if name in d.roles.fixed), usual)
        number = next((d.roles.numbers[name] for d in drafts if name in d.roles.numbers), 1)
        given = root.value if root.value is not None else fixed if fixed is not None else number
        joint.numbers[name] = given
        if root.value is None:
            joint.doubts.append(f"{name}: its value")
    for d in drafts:
        for n, step in ((n, step) for n, step in d.steps.items() if n in joint.sizes):
            joint.steps[n] = math.lcm(joint.steps.get(n, 1), step)


def _shapes(joint: JointDraft, sheet: Sheet, drafts: Sequence[Draft]) -> None:
    """Each buffer as its allocation says, else as large as any launch needs at the sizes of the scenarios."""
    known = {*joint.sizes}
    for buffer in sheet.buffers:
        told = sheet.extents.get(buffer, "")
        if names_in(told) and set(names_in(told)) <= known:
            joint.shapes[buffer] = (told,)
            continue
        found = [(e, d) for d in drafts if (e := d.shapes.get(buffer)) is not None]
        shapes = {tuple(plain(_spelled(x, d)) for x in e.shape): e for e, d in found}
        usable = {s: e for s, e in shapes.items() if {n for x in s for n in names_in(x)} <= known}
        sized = any(names_in(x) for shape in usable for x in shape)
        if told and not names_in(told) and not sized:  # as many elements as the source has, at all sizes
            joint.shapes[buffer] = (told,)
            continue
        if not usable:
            joint.doubts.append(f"{buffer}: its shape")
            continue
        joint.shapes[buffer] = _largest(list(usable), [s for d in drafts for _, s, _ in d.scenarios])
        if not any(e.plausible for e in usable.values()):
            joint.doubts.append(f"{buffer}: its shape is larger than what the launches touched")


def _spelled(text: str, d: Draft) -> str:
    from ..windows import NAME

    return NAME.sub(lambda m: m[0] if (t := d.tied(m[0])) is None else f"({t})", text)


def _largest(shapes: list[tuple[str, ...]], at: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """The shape that holds all the others at the sizes ``at``; the largest of all products where none does."""
    if len(shapes) == 1:
        return shapes[0]
    names = {n for s in shapes for x in s for n in names_in(x)}
    points = [{n: sizes.get(n, 97) for n in names} for sizes in at] or [dict.fromkeys(names, 97)]

    def counts(shape: tuple[str, ...]) -> list[int]:
        return [math.prod(evaluate(x, p) for x in shape) for p in points]

    every = [counts(s) for s in shapes]
    for s, mine in zip(shapes, every):
        if all(a >= b for other in every for a, b in zip(mine, other)):
            return s
    whole = [" * ".join(f"({x})" for x in s) for s in shapes]
    text = whole[0]
    for w in whole[1:]:
        text = f"max({text}, {w})"
    return (plain(text),)


def _roles(joint: JointDraft, sheet: Sheet, drafts: Sequence[Draft | None]) -> None:
    last = sheet.launches[-1]
    for buffer, passing in sheet.buffers.items():
        uses = [(i, d, p) for i, d in enumerate(drafts) if d is not None for p in buffers_of(d.kernel)
                if p.sym.name == buffer]  # fmt: skip
        roles = [d.role(p) for _, d, p in uses]
        written, read = any(r != "in" for r in roles), any(r != "out" for r in roles)
        whole = bool(roles) and roles[0] == "out" and None not in drafts
        joint.roles[buffer] = "in" if roles and not written else "out" if whole else "inout"
        final = uses and uses[-1][0] == len(drafts) - 1 and roles[-1] != "in"
        if final:
            joint.final.add(buffer)
        if whole and read and not final and passing.memory.own and not passing.read_later:
            joint.roles[buffer] = "temp"
        first = next(((d, p) for (_, d, p), r in zip(uses, roles) if r != "out"), None)
        if joint.roles[buffer] in ("in", "inout"):
            lines, guesses = filled(*first) if first is not None else (['init = "normal"'], [])
            joint.contents[buffer] = (['init = "zeros"'], []) if passing.zeroed else (lines, guesses)
            if not passing.filled:
                joint.doubts.append(f"{buffer}: what it holds before, for nothing that is seen has written it")
    if not any(r in ("out", "inout") for r in joint.roles.values()):
        raise KtcError("E-SCAFFOLD", "the launches write to no buffer: there is nothing to compare", last.loc)


def _scenarios(joint: JointDraft, sheet: Sheet, drafts: Sequence[Draft]) -> None:
    """By scenario, the sizes of the launch that has most of them, those of others for the rest; what is divided by
    another size is a multiple of it. And the sizes that the source gives."""
    titles = dict.fromkeys(t for d in drafts for t, _, _ in d.scenarios) or dict.fromkeys(USUAL)
    more = {t: m for d in drafts for t, _, m in d.scenarios}
    ratios = _ratios(sheet, joint)
    for title in titles:
        told = [s for d in drafts for t, s, _ in d.scenarios if t == title]
        sizes: dict[str, int] = {}
        for s in sorted(told, key=lambda s: -len({*s} & {*joint.sizes})):
            sizes |= {n: v for n, v in s.items() if n not in sizes}
        usual = USUAL.get(title, USUAL["small"])
        sizes = {n: sizes.get(n) or min([s[n] for d in drafts for _, s, _ in d.scenarios if n in s] or [usual])
                 for n in joint.sizes}  # fmt: skip
        for name, step in joint.steps.items():
            sizes[name] = max(sizes.get(name, step) // step, 1) * step
        for whole, part in ratios:
            sizes[whole] = sizes[part] * max(sizes[whole] // sizes[part], RATIO)
        if all(s != sizes for _, s, _ in joint.scenarios):
            joint.scenarios.append((title, sizes, more.get(title, "")))
    given = {n: int(r.value) for n, r in sheet.ints.items() if r.value is not None and n in joint.sizes}
    if given and all({**s, **given} != s for _, s, _ in joint.scenarios):
        like = next((s for t, s, _ in joint.scenarios if t == "medium"), joint.scenarios[0][1])
        joint.scenarios.append(("source", {**like, **given}, ""))


RATIO = 8
"""Elements of a part, at least, where one size is divided by another: of a head, or of a group."""


def _ratios(sheet: Sheet, joint: JointDraft) -> list[tuple[str, str]]:
    """Sizes that the host divides by other sizes, with these: ``C / NH``."""
    texts = [t for s in sheet.launches for t in (*map(str, s.passed.values()), *s.grid)]
    found = dict.fromkeys(m.groups() for t in texts for m in _QUOTIENT.finditer(t))
    return [(a, b) for a, b in found if a in joint.sizes and b in joint.sizes and (b, a) not in found]


_QUOTIENT = re.compile(r"\b([A-Za-z_]\w*) / ([A-Za-z_]\w*)\b")


def kernels_of(work: Workload) -> Iterator[Kernel]:
    """The launches of a workload's sequence, as kernels over its parameters, temporaries as buffers."""
    from ktc.ir.sequences import launch_kernels
    from ktc.ir.workload.sequence_kernel import sequence_of

    yield from launch_kernels(sequence_of(work, None))


__all__ = ["JointDraft", "joint_draft", "kernels_of"]
