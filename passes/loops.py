"""Finding and editing the distributed loops of a kernel by the names a reader would use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Dist, Load, Par, Reduce, Stmt, Store, Sym
from ktc.ir.text import unique_names
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import map_body, stmt_exprs, walk, walk_expr

from .base import Arg, Refused

Loop = Par | Reduce


def loops(kernel: Kernel) -> list[Loop]:
    """Every ``par`` and ``reduce``, outermost first."""
    return [s for s in walk(kernel.body) if isinstance(s, Par | Reduce)]


def find_loops(kernel: Kernel, place: Arg | None) -> list[Loop] | Refused:
    """Loops called ``place``: ``i`` or ``loop:i`` (every loop over i), ``i.2`` (the second), ``i_1`` (as printed)."""
    if not isinstance(place, str):
        return Refused("E-PLACE", "name a loop, as in loop=i")
    name, _, nth = place.removeprefix("loop:").partition(".")
    found = [s for s in loops(kernel) if s.var.name == name]
    if not found:  # the name it prints with, when several share one
        printed = unique_names(kernel)
        found = [s for s in loops(kernel) if printed[s.var] == name]
    if nth.isdigit():
        found = found[int(nth) - 1 : int(nth)]
    if found:
        return found
    known = ", ".join(dict.fromkeys(s.var.name for s in loops(kernel)))
    if not known:
        return Refused("E-PLACE-SPMD", "the kernel has no parallel loops", hint="run raise first")
    return Refused("E-PLACE", f"no parallel loop named '{place}'", hint=f"the loops are: {known}")


def replace_loops(kernel: Kernel, targets: list[Loop], f: Callable[[Loop], Stmt | Body]) -> Kernel:
    """``kernel`` with each loop of ``targets`` (by identity) replaced by ``f`` of its rebuilt self."""
    wanted = {(t.var.id, type(t)) for t in targets}

    def on(s: Stmt) -> Stmt | Body:
        return f(s) if isinstance(s, Par | Reduce) and (s.var.id, type(s)) in wanted else s

    return kernel.with_(body=map_body(kernel.body, on))


def level_size(dist: Dist, kind: str) -> object:
    return next((lv.n for lv in dist if lv.kind == kind), None)


def narrowest_element(loop: Loop) -> int:
    """Bytes of the narrowest global element the loop touches: what bounds its vector width (16-byte accesses)."""
    sizes = [4]
    for s in walk((loop,)):
        buffers: list[Sym] = [s.buffer] if isinstance(s, Store) else []
        buffers += [x.buffer for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]
        sizes += [scalar_of(b.type).bytes for b in buffers if isinstance(b.type, Ptr)]
    return min(sizes)


def required(args: Mapping[str, Arg], *names: str) -> Refused | None:
    missing = [n for n in names if n not in args]
    return Refused("E-ARG-MISSING", f"missing argument: {', '.join(missing)}") if missing else None
