"""What blocks tell each other while they run: one value for each place, given once a launch and waited for.

A place is *told* when its tag is this launch's: scratch memory need not be cleared between launches, whatever earlier
ones left has tags of theirs (they repeat after 2^32 launches). Nobody waits but by relaxed loads (``ld.relaxed.gpu``:
not ``ld.weak`` and not ``volatile``, which promise nothing of the kind or say so for no scope).

**Why it is right** (PTX memory model):

- :class:`Words`: value and tag are one 64-bit word, written and read by single accesses (:mod:`ktc.ir.analysis.words`).
  Who sees the tag has seen the value; nothing else is told by it, so nothing is fenced. A fence would make a block wait
  for all that it has in flight.
- :class:`Flags`, for values that fill no half of a word: the value by a weak store, a fence, and the tag by a relaxed
  atomic are a release pattern; relaxed loads of the tag and a fence, all by the thread that then reads the value, are
  an acquire pattern.
"""

from __future__ import annotations

from typing import Protocol

from ktc.ir.analysis.words import fits, tag_of, value_of, word
from ktc.ir.fold import simplify
from ktc.ir.nodes import Assign, Atomic, Binary, Body, Const, Decl, Expr, Fence, Load, Store, Sym, Var, While, fresh
from ktc.ir.types import U32, U64, Scalar

from .grid_reduce import Wanting, scratch


class Messages(Protocol):
    """Messages of type ``t``, one for each place."""

    def tell(self, place: Expr, value: Expr, tag: Expr) -> Body:
        """One thread's: ``value`` is there for all blocks."""
        ...

    def hear(self, place: Expr, tag: Expr, into: Sym) -> Body:
        """Wait for the message at ``place`` and put it in ``into``."""
        ...


class Words:
    """Values of 32 bits."""

    def __init__(self, st: Wanting, name: str, t: Scalar, places: Expr) -> None:
        self.t, self.name = t, name
        self.words = scratch(st, f"{name}_words", U64, simplify(places))

    def tell(self, place: Expr, value: Expr, tag: Expr) -> Body:
        return (Atomic("exch", self.words, (place,), word(tag, value)),)

    def hear(self, place: Expr, tag: Expr, into: Sym) -> Body:
        seen = fresh(f"{self.name}_word", U64)
        return (*_poll(self.words, place, seen, tag_of(Var(seen)), tag), Assign(into, value_of(Var(seen), self.t)))


class Flags:
    """Values of any size, beside their tags."""

    def __init__(self, st: Wanting, name: str, t: Scalar, places: Expr) -> None:
        self.name = name
        self.flags = scratch(st, f"{name}_flags", U32, simplify(places))
        self.values = scratch(st, f"{name}_told", t, simplify(places))

    def tell(self, place: Expr, value: Expr, tag: Expr) -> Body:
        return (Store(self.values, (place,), value), Fence("device"), Atomic("exch", self.flags, (place,), tag))

    def hear(self, place: Expr, tag: Expr, into: Sym) -> Body:
        seen = fresh(f"{self.name}_flag", U32)
        value = Load(self.values, (place,), cache="cg")
        return (*_poll(self.flags, place, seen, Var(seen), tag), Fence("device"), Assign(into, value))


def _poll(buffer: Sym, place: Expr, seen: Sym, told: Expr, tag: Expr) -> Body:
    """``seen`` is what stands at ``place``, looked at until ``told``, a part of it, is ``tag``."""
    t = seen.type
    assert isinstance(t, Scalar)
    look = Atomic("load", buffer, (place,), Const(0, t), dst=seen)
    return (Decl(seen, Const(0, t)), While(Binary("!=", told, tag), (look,), post=True))


def messages(st: Wanting, name: str, t: Scalar, places: Expr) -> Messages:
    """Messages of type ``t`` for ``places``, in scratch memory of the kernel named after ``name``."""
    return (Words if fits(t) else Flags)(st, name, t, places)


__all__ = ["Messages", "messages"]
