"""Where a buffer lies, by its type."""

from __future__ import annotations

from .nodes import Sym
from .types import Array, Ptr


def is_shared(b: Sym) -> bool:
    """An array of a block's threads."""
    return isinstance(b.type, Array) and b.type.space == "shared"


def is_local_array(b: Sym) -> bool:
    """An array of one thread."""
    return isinstance(b.type, Array) and b.type.space == "local"


def is_visible(b: Sym) -> bool:
    """Memory that other threads of the block reach: a pointer's, or shared."""
    return isinstance(b.type, Ptr) or is_shared(b)


def is_private(b: Sym) -> bool:
    """A variable or array of one thread (not shared, not global)."""
    return not hasattr(b.type, "space") or is_local_array(b)
