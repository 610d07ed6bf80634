"""The order in which threads take precedence where several hold the extreme, as trees of comparisons leave it.

A tree that keeps what it has unless the other is better leaves, of equal elements, the one that came first by the order
in which its steps were taken: halves first (16, 8, 4, 2, 1) compare even lanes with odd ones last, so that the least
lane with its bits reversed wins; neighbours first (1, 2, 4, ...) leave the least lane; trees in warps and then between
them one after the other. The order is read off runs of the exchange: all threads tied, then those that differ from the
winner in one bit, the loser of which is the one whose bit is compared last.

    rank(t): the bits of t in that order, those compared last in front; the thread of the least rank wins
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ktc.ir.fold import binary, cast
from ktc.ir.nodes import Binary, Call, Const, Expr
from ktc.ir.types import U32, scalar_of


@dataclass(frozen=True)
class Chunk:
    """``size`` bits from ``low`` on, which go to those from ``to`` on; ``backwards``: the lowest to the highest."""

    low: int
    size: int
    to: int
    backwards: bool


@dataclass(frozen=True)
class Order:
    """``bits`` of a thread's number, the most significant one of its rank first, after ``first`` is taken out of it."""

    first: int
    bits: tuple[int, ...]

    def ranks(self, threads: int) -> np.ndarray:
        """The rank of each of ``threads``."""
        t = np.arange(threads) ^ self.first
        return sum(((t >> b) & 1) << (len(self.bits) - 1 - k) for k, b in enumerate(self.bits))  # type: ignore[return-value]

    def rank(self, t: Expr) -> Expr:
        """The rank of thread ``t``."""
        return _permuted(_flipped(t, self.first), self._chunks())

    def thread(self, rank: Expr) -> Expr:
        """The thread that has ``rank``."""
        back = (dataclasses.replace(c, low=c.to, to=c.low) for c in self._chunks())
        return _flipped(_permuted(rank, back), self.first)

    def _chunks(self) -> Iterator[Chunk]:
        n, k = len(self.bits), 0
        while k < n:
            size, step = 1, 0
            while k + size < n and (move := self.bits[k + size] - self.bits[k + size - 1]) in (1, -1):
                if step not in (0, move):
                    break
                size, step = size + 1, move
            yield Chunk(min(self.bits[k], self.bits[k + size - 1]), size, n - k - size, step == 1)
            k += size


def order_of(threads: int, winner: Callable[[np.ndarray], int | None]) -> Order | None:
    """The order in which ``winner`` decides between ``threads``; None where it decides by no such order.

    ``winner``: which thread is taken where those of a mask hold the extreme; None for none of them.
    """
    n = threads.bit_length() - 1
    first = winner(np.ones(threads, bool)) if threads == 1 << n else None
    if first is None:
        return None
    left, bits = set(range(n)), list[int]()
    while left:  # each of them differs from the first in one bit: the least significant one of the rank wins
        tied = np.zeros(threads, bool)
        tied[[first ^ (1 << b) for b in left]] = True
        found = winner(tied)
        bit = None if found is None else next((b for b in left if found == first ^ (1 << b)), None)
        if bit is None:
            return None
        left.discard(bit)
        bits.insert(0, bit)
    order = Order(first, tuple(bits))
    ranks, rng = order.ranks(threads), np.random.default_rng(17)
    for share in (2, 4, 8):
        tied = rng.integers(0, share, threads) == 0
        tied[rng.integers(threads)] = True
        if winner(tied) != int(np.where(tied, ranks, threads).argmin()):
            return None
    return order


def _flipped(t: Expr, by: int) -> Expr:
    return t if not by else binary("^", t, Const(by, scalar_of(t.type)))


def _permuted(t: Expr, chunks: Iterable[Chunk]) -> Expr:
    """``t`` with its bits in other places."""
    return reduce(lambda a, b: binary("|", a, b), (_moved(t, c) for c in chunks))


def _moved(t: Expr, c: Chunk) -> Expr:
    ty = scalar_of(t.type)
    mask = Const(((1 << c.size) - 1) << c.low, ty)
    own = binary("&", t, mask)
    if not c.backwards:
        return _shifted(own, c.to - c.low)
    whole: Expr = Call("brev", (cast(own, U32),), U32)
    return cast(_shifted(whole, c.to - (32 - c.low - c.size)), ty)


def _shifted(e: Expr, by: int) -> Expr:
    return e if not by else Binary("<<" if by > 0 else ">>", e, Const(abs(by), scalar_of(e.type)))


__all__ = ["Order", "order_of"]
