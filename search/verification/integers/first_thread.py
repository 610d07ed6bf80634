"""One thread followed with numbers: what it does is known wherever it depends on sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Const, Decl, Expr, For, HwIndex, If, Launched, Stmt, Var, fresh
from ktc.ir.support.memo import by_identity
from ktc.ir.text import unique_names
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, keep, map_body, map_expr, rename, substitute_expr, walk

from .formulas import increment

BLOCKS: dict[str, Callable[[Expr], Expr]] = {
    "last": lambda blocks: _less_one(blocks),
    "middle": lambda blocks: Binary("/", _less_one(blocks), _of_type(2, blocks)),
}
"""The index of a block from their number; that of the first one is 0."""

Meets = Callable[[Stmt, Mapping[str, int]], None]
"""Is told each statement that a thread comes to, before it is run, with the values known there by name."""


Known = Callable[[Expr], Expr]
"""An expression with the thread's index, and what is known of its launch, in place."""

Extents = tuple[Expr, Expr, Expr]


def _known(grid: Extents | None, threads: Extents | None, block: str) -> Known:
    """What is known of the first thread of a ``block`` of a launch."""
    extents = {"block_dim": threads, "grid_dim": grid, "block": grid} if grid and threads else {}

    def known(e: Expr) -> Expr:
        if not isinstance(e, HwIndex):
            return e
        if e.level == "thread" or (e.level == "block" and block == "first"):
            return Const(0, e.type)  # type: ignore[arg-type]
        dims = extents.get(e.level)
        if dims is None:
            return e
        n = dims["xyz".index(e.axis)]
        return BLOCKS[block](n) if e.level == "block" else n

    return known


def _nothing(s: Stmt, env: Mapping[str, int]) -> None:
    pass


class FirstThread:
    """The first thread of the first block (or another one, of :data:`BLOCKS`), as far as it depends on integer
    arguments alone."""

    def __init__(self, kernel: Kernel, block: str = "first", rounds: int | None = None) -> None:
        self._rounds = rounds or (2 if block == "first" else 1)
        self.loops = [s for s in walk(kernel.body) if isinstance(s, For)]
        launch = kernel.launch
        self._alone = _known(launch.grid if launch else None, launch.block if launch else None, block)
        self._within: dict[int, Known] = {}
        if kernel.is_sequence:
            body = tuple(self._launched(s, block) for s in kernel.body)
        else:
            body = map_body(kernel.body, keep, self._alone)
        named = {s: fresh(name, s.type) for s, name in unique_names(kernel).items() if s.name != name}
        self._body = rename(body, named)  # what is known is kept by name, and loops inside loops may share one
        self._followed: dict[tuple[tuple[str, int], ...], dict[int, bool]] = {}
        self._index = {id(s): k for k, s in enumerate(s for s in walk(self._body) if isinstance(s, For))}
        self._named = {s: Var(own) for s, own in named.items()}
        self._followed_as = {id(s): id(mine) for s, mine in zip(walk(kernel.body), walk(self._body))}

    def _launched(self, s: Stmt, block: str) -> Stmt:
        """A launch of a sequence, with what is known in it of its own threads."""
        if not isinstance(s, Launched):
            return s
        known = _known(s.grid, s.block, block)
        self._within |= {id(x): known for x in walk(s.body)}
        return replace(s, body=map_body(s.body, keep, known))

    def reaches(self, k: int, arguments: Mapping[str, int]) -> bool:
        """Whether the first thread goes round the ``k``-th loop twice when it first meets it (that of another block:
        once, unless ``rounds`` says 2); False where that is not known."""
        return self._all(arguments).get(k, False)

    def comes(self, k: int, arguments: Mapping[str, int]) -> bool:
        """Whether the thread is known to come to the ``k``-th loop at all."""
        return k in self._all(arguments)

    def holds(self, s: Stmt, e: Expr, arguments: Mapping[str, int]) -> bool:
        """Whether the condition ``e``, in the statement ``s`` of the kernel, is known to hold when the thread meets it,
        in the first rounds of the loops around it, or in their last ones."""
        mine = substitute_expr(map_expr(e, self._within.get(id(s), self._alone)), self._named)
        target = self._followed_as[id(s)]
        seen: list[int | bool | None] = []

        def meets(t: Stmt, env: Mapping[str, int]) -> None:
            if id(t) == target:
                seen.append(evaluate(mine, env))

        self._follow(self._body, dict(arguments), meets)
        return any(seen)

    def _all(self, arguments: Mapping[str, int]) -> dict[int, bool]:
        """Of every loop that the thread comes to, whether it goes round often enough."""
        key = tuple(arguments.items())
        if key not in self._followed:
            self._followed[key] = self._follow(self._body, dict(arguments))
        return self._followed[key]

    def _follow(self, body: Body, env: dict[str, int], meets: Meets = _nothing) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for s in body:
            meets(s, env)
            if isinstance(s, Decl | Assign) and isinstance(s.sym.type, Scalar) and not s.sym.type.is_float:
                value = s.init if isinstance(s, Decl) else s.value
                _put(env, s.sym.name, evaluate(value, env) if value is not None else None)
            if isinstance(s, For):
                found |= self._loop(s, dict(env), meets)
            elif isinstance(s, Launched):
                found |= self._follow(s.body, dict(env), meets)
            elif isinstance(s, If):
                taken = evaluate(s.cond, env)
                if taken is not None:
                    found |= self._follow(s.then if taken else s.orelse, dict(env), meets)
            for sym in assigned((s,)) if isinstance(s, For | If) else ():
                env.pop(sym.name, None)
        return found

    def _loop(self, s: For, env: dict[str, int], meets: Meets) -> dict[int, bool]:
        name = s.var.name
        _put(env, name, evaluate(s.init, env))
        first = dict(env)
        once = evaluate(s.cond, env)
        _put(env, name, evaluate(s.step, env))
        twice = name in env and bool(once) and bool(evaluate(s.cond, env))
        enough = twice if self._rounds == 2 else bool(once)
        last = _last_value(s, first) if meets is not _nothing else None
        if last is not None:
            self._follow(s.body, {**first, name: last}, meets)
        return {self._index[id(s)]: enough, **self._follow(s.body, first, meets)}


def _last_value(s: For, env: Mapping[str, int]) -> int | None:
    """Of the variable of a loop that counts up to a number; None if it does not, or has one round."""
    by, first = increment(s), env.get(s.var.name)
    if by is None or first is None or not isinstance(s.cond, Binary) or (s.cond.op, s.cond.a) != ("<", Var(s.var)):
        return None
    step, end = evaluate(by, env), evaluate(s.cond.b, env)
    if step is None or end is None or step <= 0 or end <= first + step:
        return None
    return first + (end - 1 - first) // step * step


FIRST, LAST, LATE, MIDDLE = ("first", None), ("last", None), ("last", 2), ("middle", None)
"""The threads that are asked about: see :class:`FirstThread`. The late one is the last block's, twice round a loop."""

ENTERING = ("first", 1)
"""The first thread, once round a loop."""


@by_identity(32)
def followed(kernel: Kernel, block: str, rounds: int | None) -> FirstThread:
    return FirstThread(kernel, block, rounds)


def _less_one(e: Expr) -> Expr:
    return Binary("-", e, _of_type(1, e))


def _of_type(value: int, e: Expr) -> Const:
    return Const(value, e.type)  # type: ignore[arg-type]


def _put(env: dict[str, int], name: str, value: int | bool | None) -> None:
    if value is None:
        env.pop(name, None)
    else:
        env[name] = int(value)


__all__ = ["ENTERING", "FIRST", "LAST", "LATE", "MIDDLE", "FirstThread", "followed"]
