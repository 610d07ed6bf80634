"""What a launch adds for a producer: descriptors of the matrices that it copies, and its threads."""

from __future__ import annotations

from dataclasses import dataclass

from .fold import add, simplify
from .kernel import Kernel, producer_threads
from .nodes import BulkCopy, Const, Expr, Sym
from .types import I32
from .walk import walk


@dataclass(frozen=True)
class TensorMap:
    """A matrix ``src`` of ``extent`` rows and columns, ``pitch`` elements a row, copied in boxes of ``rows`` rows."""

    src: Sym
    extent: tuple[Expr, Expr]
    pitch: Expr
    rows: int


def tensor_map_of(s: BulkCopy) -> TensorMap:
    return TensorMap(s.src, s.extent, s.pitch, s.rows // s.shared)


def tensor_maps(kernel: Kernel) -> tuple[TensorMap, ...]:
    """The descriptors that ``kernel`` takes after its own parameters, in order."""
    return tuple(dict.fromkeys(tensor_map_of(s) for s in walk(kernel.body) if isinstance(s, BulkCopy)))


def launched_block(kernel: Kernel) -> tuple[Expr, Expr, Expr]:
    """The block that is launched: the kernel's own threads, and those of its producer along x."""
    assert kernel.launch is not None
    x, y, z = kernel.launch.block
    beside = producer_threads(kernel)
    return (simplify(add(x, Const(beside, I32))) if beside else x, y, z)
