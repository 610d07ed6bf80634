"""What OpenCL's text keeps in other types than the program that was printed, and the rules that undo it.

Kernels take no ``bool`` and no pointer to one: truth values arrive and are stored in bytes. Atomics that the language
lacks are loops over a word of the same bits. A rule applies to exactly what the emitter writes; a text that says
anything else stays as it is, and differs from the program.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from ktc.backends.opencl.opencl_collectives import LOOP_TYPES, SPACES, atomic_loop
from ktc.ir.fold import is_const
from ktc.ir.nodes import Binary, Cast, Const, Expr, Load, Stmt, Store, Sym, Var
from ktc.ir.types import BOOL, U8, Ptr, Scalar
from ktc.ir.walk import map_body

_CUDA_NAMES = {"sub": "atomicSub", "inc": "atomicInc", "dec": "atomicDec"}
"""What the front-end does not read as the atomic itself, where it is a loop."""


def with_atomics(text: str) -> str:
    """``text`` with the atomics that its loops are. A loop is one only if it is the emitter's, letter by letter."""
    for t in LOOP_TYPES:
        for op in _CUDA_NAMES:
            for space in (SPACES["global"].strip(), SPACES["shared"].strip()):
                name, loop = atomic_loop(op, t, space)
                if loop in text:
                    text = text.replace(loop, "").replace(f"{name}(", f"{_CUDA_NAMES[op]}(")
    return text


def is_flag(printed: Sym, read: Sym) -> bool:
    """Whether ``read`` is the byte, or the bytes, in which a kernel is given the truth values of ``printed``."""
    mine, other = printed.type, read.type
    if isinstance(mine, Ptr) and isinstance(other, Ptr):
        mine, other = mine.elem, other.elem
    return (mine, other) == (BOOL, U8)


def as_printed(body: tuple[Stmt, ...], flags: Set[Sym]) -> tuple[Stmt, ...]:
    """``body`` as it was read, without what OpenCL's spelling adds to the program; ``flags`` arrive in bytes."""

    def plain(e: Expr) -> Expr:
        read = e.buffer if isinstance(e, Load) else e.sym if isinstance(e, Var) else None
        return Cast(U8, e, "implicit") if read in flags and e.type == BOOL else _shifted(e)

    return map_body(body, _stored, plain)


def _stored(s: Stmt) -> Stmt:
    """A truth value that is stored as one: 0 or 1 as a byte has its bits."""
    if not (isinstance(s, Store) and isinstance(s.buffer.type, Ptr) and s.buffer.type.elem == BOOL):
        return s
    v = s.value
    if isinstance(v, Cast) and v.to == U8 and v.x.type == BOOL:
        return replace(s, value=v.x)
    if isinstance(v, Const) and v.type == U8 and v.value in (0, 1):
        return replace(s, value=Const(bool(v.value), BOOL))
    return s


def _shifted(e: Expr) -> Expr:
    """A shift without the ``& 31`` that the front-end reads into OpenCL's: the amount is modulo the width there."""
    if isinstance(e, Binary) and e.op in ("<<", ">>") and isinstance(e.b, Binary) and e.b.op == "&":
        t = e.a.type
        if isinstance(t, Scalar) and is_const(e.b.b, t.bits - 1):
            return replace(e, b=e.b.a)
    return e


__all__ = ["as_printed", "is_flag", "with_atomics"]
