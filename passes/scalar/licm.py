"""licm: loop-invariant code motion.

before                                          after licm
    par i in 0..d @ [thread.x, seq]                 let scale: f32 = 1.0 / sqrt(s / d)
      let scale: f32 = 1.0 / sqrt(s / d)            par i in 0..d @ [thread.x, seq]
      out[i] = in[i] * scale                          out[i] = in[i] * scale

Declarations whose value does not change in the loop move in front of it, innermost loops first, as far out as they go.
Loads stay (the loop may not run, or may write what they read), and so does integer division by what might be zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, For, Par, Reduce, Stmt, Sym, While
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, map_body, used, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import places_of
from ktc.passes.core.refusals import Result

Loop: TypeAlias = For | While | Par | Reduce


@dataclass(frozen=True)
class Arguments:
    loop: Loops | None = option(None, "the loop; every loop of the kernel if left out")


class Licm(Pass[Arguments]):
    name = "licm"
    summary = "loop-invariant declarations move in front of their loop"
    refusals = ("E-PLACE",)

    def sites(self, kernel: Kernel) -> list[Site]:
        moved = [s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce) and invariant(s)]
        return [Site(self.step(loop=name), "less work per iteration") for name in places_of(kernel, moved)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        only: set[Sym] | None = None
        if args.loop is not None:
            only = {s.var for s in args.loop.find(kernel)}
        moved: list[str] = []

        def on(s: Stmt) -> Stmt | Body:
            if not isinstance(s, Loop) or (only is not None and getattr(s, "var", None) not in only):
                return s
            out = invariant(s)
            moved.extend(d.sym.name for d in out)
            return (*out, _without(s, out)) if out else s

        body = map_body(kernel.body, on)
        notes = (f"moved: {', '.join(moved)}",) if moved else ("nothing is loop-invariant",)
        return Result(kernel.with_(body=body) if moved else kernel, notes)


def invariant(loop: Loop) -> list[Decl]:
    """Declarations directly in ``loop`` that may move in front of it, in order."""
    changing = assigned(loop.body) | set(declared(loop.body)) | _own(loop)
    reassigned = assigned(loop.body)
    out: list[Decl] = []
    for s in loop.body:
        if not isinstance(s, Decl) or s.init is None or not isinstance(s.sym.type, Scalar) or s.sym in reassigned:
            continue
        if is_movable(s.init) and not used(s.init) & changing:
            out.append(s)
            changing.discard(s.sym)  # later declarations may build on it
    return out


def _own(loop: Loop) -> set[Sym]:
    return {loop.var} if isinstance(loop, For | Par | Reduce) else set()


def _without(loop: Loop, gone: list[Decl]) -> Loop:
    syms = {d.sym for d in gone}
    return replace(loop, body=tuple(s for s in loop.body if not (isinstance(s, Decl) and s.sym in syms)))
