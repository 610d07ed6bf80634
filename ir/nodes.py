"""Expressions and statements of the IR: immutable trees, typed, with explicit statement order.

Conventions that every producer and consumer keeps:

* **Symbols** are compared by ``id``; names are made unique only when printing. ``Sym.type`` is the declared type.
* **Buffers**: pointers are resolved to (buffer symbol, index) pairs. A ``Load``/``Store`` names a symbol whose type is
  ``Ptr``, ``Array`` or ``Vec``. A ``Ptr`` takes one flat element index; an ``Array`` one index per dimension (one more
  to pick a lane of an ``Array`` of ``Vec``); a ``Vec`` variable one lane index. ``width > 1`` moves that many
  consecutive elements, starting at the index, as one access of type ``Vec(elem, width)``.
* **Arithmetic** has C's meaning on already-converted operands: both sides of a ``Binary`` have one type, conversions
  are explicit ``Cast`` nodes (``style='implicit'`` when the source had none, so printers may drop them). Integer
  division truncates; shifts by >= width shift everything out; float -> int saturates at 32 or
  64 bits, of which narrower types keep the lower ones (CUDA). ``&& || ?:`` are lazy.
* **Functions** are called by canonical names (``exp``, ``rsqrt``, ``fma``, ``min``, ``fast_exp``), see ``builtins.py``.
* ``loc`` and ``comments`` do not take part in equality.
"""

from __future__ import annotations

from .device_nodes import (
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    BulkCopy,
    GroupCopy,
    GroupWait,
    MatrixLoad,
    Mma,
    Produce,
    TileMma,
    TileMmaWait,
)
from .expr_nodes import (
    COMPARISONS,
    KNOB_MARK,
    LOGICAL,
    MATCHES,
    SHUFFLES,
    VOTES,
    WARP_KINDS,
    WARP_REDUCTIONS,
    AddrOf,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    HwIndex,
    Knob,
    Load,
    Member,
    Raw,
    Select,
    Str,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
    accessed_type,
    i32,
)
from .loop_nodes import LEVELS, Acc, Dist, Level, Par, Reduce, Scan, bodies, has_bodies, is_cooperative
from .stmt_nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Body,
    Break,
    Continue,
    Decl,
    Eval,
    Fence,
    For,
    If,
    InlineAsm,
    RawStmt,
    Return,
    Stmt,
    Store,
    While,
)
from .symbols import Sym, fresh
from .types import VOID

__all__ = [
    "COMPARISONS",
    "KNOB_MARK",
    "LEVELS",
    "LOGICAL",
    "MATCHES",
    "SHUFFLES",
    "VOID",
    "VOTES",
    "WARP_KINDS",
    "WARP_REDUCTIONS",
    "Acc",
    "AddrOf",
    "Alloc",
    "Assign",
    "AsyncCommit",
    "AsyncCopy",
    "AsyncWait",
    "Atomic",
    "Barrier",
    "Binary",
    "Body",
    "Break",
    "BulkCopy",
    "Call",
    "Cast",
    "Const",
    "Continue",
    "Decl",
    "Dist",
    "Eval",
    "Expr",
    "Fence",
    "For",
    "GroupCopy",
    "GroupWait",
    "HwIndex",
    "If",
    "InlineAsm",
    "Knob",
    "Level",
    "Load",
    "MatrixLoad",
    "Member",
    "Mma",
    "Par",
    "Produce",
    "Raw",
    "RawStmt",
    "Reduce",
    "Return",
    "Scan",
    "Select",
    "Stmt",
    "Store",
    "Str",
    "Sym",
    "TileMma",
    "TileMmaWait",
    "Unary",
    "Var",
    "VecGet",
    "VecMake",
    "WarpOp",
    "While",
    "accessed_type",
    "bodies",
    "fresh",
    "has_bodies",
    "i32",
    "is_cooperative",
]  # fmt: skip
