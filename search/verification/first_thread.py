"""One thread followed with numbers: what it does is known wherever it depends on sizes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.memo import by_identity
from ktc.ir.nodes import Assign, Binary, Body, Const, Decl, Expr, For, HwIndex, If, fresh
from ktc.ir.text import unique_names
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, keep, map_body, rename, walk

BLOCKS: dict[str, Callable[[Expr], Expr]] = {
    "last": lambda blocks: _less_one(blocks),
    "middle": lambda blocks: Binary("/", _less_one(blocks), _of_type(2, blocks)),
}
"""The index of a block from their number; that of the first one is 0."""


class FirstThread:
    """The first thread of the first block (or another one, of :data:`BLOCKS`), as far as it depends on integer
    arguments alone."""

    def __init__(self, kernel: Kernel, block: str = "first", rounds: int | None = None) -> None:
        launch, self._rounds = kernel.launch, rounds or (2 if block == "first" else 1)

        def known(e: Expr) -> Expr:
            if not isinstance(e, HwIndex):
                return e
            if e.level == "thread" or (e.level == "block" and block == "first"):
                return Const(0, e.type)  # type: ignore[arg-type]
            extents = {"block_dim": launch.block, "grid_dim": launch.grid, "block": launch.grid} if launch else {}
            if e.level not in extents:
                return e
            n = extents[e.level]["xyz".index(e.axis)]
            return BLOCKS[block](n) if e.level == "block" else n

        self.loops = [s for s in walk(kernel.body) if isinstance(s, For)]
        body = map_body(kernel.body, keep, known)
        named = {s: fresh(name, s.type) for s, name in unique_names(kernel).items() if s.name != name}
        self._body = rename(body, named)  # what is known is kept by name, and loops inside loops may share one
        self._followed: dict[tuple[tuple[str, int], ...], dict[int, bool]] = {}
        self._index = {id(s): k for k, s in enumerate(s for s in walk(self._body) if isinstance(s, For))}

    def reaches(self, k: int, arguments: Mapping[str, int]) -> bool:
        """Whether the first thread goes round the ``k``-th loop twice when it first meets it (that of another block:
        once, unless ``rounds`` says 2); False where that is not known."""
        return self._all(arguments).get(k, False)

    def comes(self, k: int, arguments: Mapping[str, int]) -> bool:
        """Whether the thread is known to come to the ``k``-th loop at all."""
        return k in self._all(arguments)

    def _all(self, arguments: Mapping[str, int]) -> dict[int, bool]:
        """Of every loop that the thread comes to, whether it goes round often enough."""
        key = tuple(arguments.items())
        if key not in self._followed:
            self._followed[key] = self._follow(self._body, dict(arguments))
        return self._followed[key]

    def _follow(self, body: Body, env: dict[str, int]) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for s in body:
            if isinstance(s, Decl | Assign) and isinstance(s.sym.type, Scalar) and s.sym.type.is_int:
                value = s.init if isinstance(s, Decl) else s.value
                _put(env, s.sym.name, evaluate(value, env) if value is not None else None)
            if isinstance(s, For):
                found |= self._loop(s, dict(env))
            elif isinstance(s, If):
                taken = evaluate(s.cond, env)
                if taken is not None:
                    found |= self._follow(s.then if taken else s.orelse, dict(env))
            for sym in assigned((s,)) if isinstance(s, For | If) else ():
                env.pop(sym.name, None)
        return found

    def _loop(self, s: For, env: dict[str, int]) -> dict[int, bool]:
        name = s.var.name
        _put(env, name, evaluate(s.init, env))
        first = dict(env)
        once = evaluate(s.cond, env)
        _put(env, name, evaluate(s.step, env))
        twice = name in env and bool(once) and bool(evaluate(s.cond, env))
        enough = twice if self._rounds == 2 else bool(once)
        return {self._index[id(s)]: enough, **self._follow(s.body, first)}


FIRST, LAST, LATE, MIDDLE = ("first", None), ("last", None), ("last", 2), ("middle", None)
"""The threads that are asked about: see :class:`FirstThread`. The late one is the last block's, twice round a loop."""


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


__all__ = ["FIRST", "LAST", "LATE", "MIDDLE", "FirstThread", "followed"]
