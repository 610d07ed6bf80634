"""What threads do between two barriers, read as the code of their block.

before                                                   after
    par tx in 0..256 @ [thread.x 256]                      if whole
      if whole                                               par i in 0..n / 4 @ [thread.x 256, seq] ...
        for i in tx..n / 4 step 256 ...                    else
      else                                                   par i in 0..n @ [thread.x 256, seq] ...
        for i in tx..n step 256 ...

A loop over threads keeps the shape of the block. Where all of its threads take one way, and their loops are dealt out
over them, its iterations are those of the loops. What is no such loop stays one over threads, by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.uniformity import Uniformity, uniformity_of
from ktc.ir.fold import cast, fold_node, i32
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Body,
    Break,
    Continue,
    Decl,
    For,
    HwIndex,
    If,
    Level,
    Par,
    Reduce,
    Return,
    Stmt,
    Sym,
    Var,
    bodies,
    fresh,
)
from ktc.ir.storage import is_local_array
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, keep, map_body, substitute, used_in, walk

from .block import Blocked, raise_block
from .coordinates import hw_indices, inline_thread_values
from .statement_kinds import plain, with_hardware
from .strided_loops import strided


def opened(body: Body, launch: Launch, *, parts: bool) -> Body:
    """``body`` with such loops over threads as the loops in them; ``parts``: also those that are so in part."""

    def on(s: Stmt) -> Stmt | Body:
        if not isinstance(s, Par) or s.dist != (Level("thread", launch.block[0], "x"),) or not _has_ways(s.body):
            return s
        t = s.var.type
        assert isinstance(t, Scalar)
        inner = substitute(s.body, {s.var: cast(HwIndex("thread", "x"), t)})
        inner, coordinates = inline_thread_values(map_body(inner, keep, fold_node), launch)
        if coordinates:
            return s
        found = _read(inner, launch)
        if found is None and parts:
            found = _Parts(s.var, launch, uniformity_of(inner)).of(inner)
        return s if found is None else found

    return map_body(body, on)


def _has_ways(body: Body) -> bool:
    """Whether some loop of ``body`` stands under a condition, or with other things: one by itself is opened as it is
    (``tidy``)."""
    loops = any(isinstance(x, For) for x in walk(body))
    return (loops and sum(not isinstance(s, Decl) for s in body) > 1) or any(
        isinstance(x, For) for s in walk(body) if isinstance(s, If) for x in walk((s,))
    )


def _read(body: Body, launch: Launch) -> Body | None:
    """``body`` as the code of its block; None if some of it is a thread's own, such as a sum of its iterations."""
    try:
        found = next(raise_block(body, launch))
    except Blocked:
        return None
    own = any(h.level == "thread" for h in hw_indices(found)) or any(isinstance(s, Reduce) for s in walk(found))
    return None if own else found


@dataclass
class _Parts:
    """One loop over the threads of a block, taken apart."""

    thread: Sym
    launch: Launch
    facts: Uniformity

    def of(self, body: Body) -> Body | None:
        """``body`` with what is a loop by itself as that, the rest as loops over threads; None where a thread's own
        value goes from one to the next, or where nothing is gained."""
        out: list[Stmt] = []
        own: list[Stmt] = []
        gained = False
        for k, s in enumerate(body):
            found = (s,) if plain(s, self.facts) else self._loops(s)
            if found is None:
                own.append(s)
                continue
            gained |= found != (s,)
            if not self._closed(own, body[k:]):
                return None
            out += (*self._alone(own), *found)
            own.clear()
        return (*out, *self._alone(own)) if gained and self._closed(own, ()) else None

    def _loops(self, s: Stmt) -> Body | None:
        found = _read((s,), self.launch)
        if found is None and isinstance(s, For) and strided(s, self.launch) is not None and self._is_closed((s,), ()):
            return self._alone((s,))
        if found is not None or not isinstance(s, If) or not self.facts.is_uniform(s.cond):
            return found
        ways = self.of(s.then), self.of(s.orelse)
        if ways == (None, None) or not all(w is not None or self._closed(b, ()) for w, b in zip(ways, bodies(s))):
            return None
        then, orelse = (self._alone(b) if w is None else w for w, b in zip(ways, bodies(s)))
        return (dataclasses.replace(s, then=then, orelse=orelse),)

    def _closed(self, own: Sequence[Stmt], after: Body) -> bool:
        """Whether what threads keep in ``own`` is of no use ``after`` it, and none of its loops is dealt out as those
        that are opened: it keeps more than it shows."""
        if any(isinstance(x, For) and strided(x, self.launch) is not None for x in walk(tuple(own))):
            return False
        return self._is_closed(own, after)

    @staticmethod
    def _is_closed(own: Sequence[Stmt], after: Body) -> bool:
        """Whether all that ``own`` leaves behind is in memory, but for what nothing ``after`` it asks for."""
        mine = set(declared(tuple(own)))
        kept = {v for v in assigned(tuple(own)) if not hasattr(v.type, "space") or is_local_array(v)}
        leaves = any(isinstance(x, Break | Continue | Return) for x in own)
        return not (leaves or kept - mine or mine & (used_in(after) | assigned(after)))

    def _alone(self, own: Sequence[Stmt]) -> Body:
        if not own:
            return ()
        v, n = fresh(self.thread.name, self.thread.type), self.launch.block[0]
        body = with_hardware(tuple(own), {HwIndex("thread", "x"): Var(v)})
        loc = next((s.loc for s in own if s.loc), None)
        zero, hi = cast(i32(0), self.thread.type), cast(n, self.thread.type)  # type: ignore[arg-type]
        return (Par(v, zero, hi, (Level("thread", n, "x"),), body, loc=loc, tags=frozenset({f"loop:{v.name}"})),)


__all__ = ["opened"]
