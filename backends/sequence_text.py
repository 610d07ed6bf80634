"""A sequence of launches as texts: each launch is printed as the kernel that it is, in the order in which they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Launched, Sym
from ktc.ir.sequences import alone, launches
from ktc.ir.types import Ptr
from ktc.ir.verifier.launch_rules import launch_exprs
from ktc.ir.walk import assigned, rename, used, used_in

from .base import Emitted, unit_of


def printable(kernel: Kernel) -> list[Kernel]:
    """The launches of a sequence as kernels that take what they use: ``restrict`` as their sources have it, and
    ``const`` what they only read."""
    apart = renamed(kernel, "")
    return [_trimmed(alone(apart, s), s) for s in launches(apart)]


def _trimmed(kernel: Kernel, launched: Launched) -> Kernel:
    written = assigned(kernel.body)
    inside = used_in(kernel.body) | written
    outside = {s for e in (*launch_exprs(kernel), *(a.expr for a in kernel.assumptions)) for s in used(e)}
    params = [_seen(p, inside) for p in kernel.params if p.sym in inside | outside]
    typed: dict[Sym, Sym] = {}
    for p in params:
        t = p.sym.type
        if isinstance(t, Ptr):
            restrict, const = t.restrict or p.sym in launched.restrict, t.const or p.sym not in written
            typed[p.sym] = dataclasses.replace(p.sym, type=dataclasses.replace(t, restrict=restrict, const=const))
    params = [dataclasses.replace(p, sym=typed.get(p.sym, p.sym)) for p in params]
    return kernel.with_(params=tuple(params), body=rename(kernel.body, typed))


def _seen(p: Param, inside: set[Sym]) -> Param:
    """``p`` as the kernel has it: what only its launch needs stays with the host."""
    return p if p.sym in inside or isinstance(p.sym.type, Ptr) else dataclasses.replace(p, host=True)


def renamed(kernel: Kernel, ending: str) -> Kernel:
    """The sequence with ``ending`` after the names of its kernels, each of which is another one."""
    names: list[str] = []
    for s in launches(kernel):
        name = f"{s.kernel}{ending}"
        names.append(name if name not in names else f"{name}_{len(names) + 1}")
    new = dict(zip(map(id, launches(kernel)), names))
    body = tuple(
        dataclasses.replace(s, kernel=new[id(s)]) if isinstance(s, Launched) else s for s in kernel.body
    )  # fmt: skip
    return kernel.with_(name=f"{kernel.name}{ending}", body=body)


def emitted_sequence(kernel: Kernel, steps: Sequence[Emitted]) -> Emitted:
    """The texts of the launches of ``kernel``, in order, as one translation unit, which has what several need once."""
    first = steps[0]
    options = tuple(dict.fromkeys(o for s in steps for o in s.options))
    notes = tuple(dict.fromkeys(n for s in steps for n in s.notes))
    sections = tuple(dict.fromkeys(part for s in steps for part in s.sections))
    text = unit_of(sections) if sections else "\n".join(s.text for s in steps)
    return Emitted(text, kernel.name, first.target, kernel, options, notes, tuple(steps), sections)


__all__ = ["emitted_sequence", "printable", "renamed"]
