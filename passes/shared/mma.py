"""Reductions that are done by tensor-core instructions."""

from __future__ import annotations

from ktc.ir.fragments import FRAGMENTS
from ktc.ir.nodes import Reduce, Stmt


def is_mma(s: Stmt) -> bool:
    """Whether ``s`` is a product of fragments: a reduction whose strategy names a tensor-core instruction."""
    return isinstance(s, Reduce) and s.strategy in FRAGMENTS
