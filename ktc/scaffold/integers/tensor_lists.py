"""Launches over lists of tensors: each block works on a chunk of one of them, as buffers of the block's number say.

    t = block_to_tensor[blockIdx.x]; c = block_to_chunk[blockIdx.x]; n = sizes[t] - c * chunk;
    float* x = addresses[0][t] + c * chunk;        for (i = threadIdx.x; i < n && i < chunk; ...) .. x[i] ..

A draft has a tensor of one chunk for each block: numbers of tensors that differ, as two blocks that work on one chunk
are a race, chunks that are all the first, and tensors that are no longer than a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, Load, Sym, Var
from ktc.ir.pointer_rows import row_pitches
from ktc.ir.support.memo import by_identity
from ktc.ir.types import scalar_of
from ktc.ir.walk import all_exprs, used

from ..contents import Content
from ..inner_strides import accesses, addends, moved
from ..model import Draft
from ..shapes import Extent


@dataclass(frozen=True)
class TensorLists:
    """The buffers that say for each block which tensor it works on and which chunk of it, and how long tensors are;
    ``length``: the parameter, or the number, that chunks are long."""

    tensors: str
    chunks: str
    sizes: frozenset[str]
    length: str


@by_identity(8)
def tensor_lists(k: Kernel) -> TensorLists | None:
    """What ``k`` is told of lists of tensors; None if it works on none."""
    pitches = {b.name: s for b, s in row_pitches(k).items()}
    sources = moved(k) if pitches else {}
    for buffer, index in accesses(k) if pitches else ():
        if buffer not in pitches:
            continue
        terms = list(addends(index, sources))
        rows = [x for t in terms if pitches[buffer] in used(t) for x in _factors(t, sources)]
        tensors = [x.buffer for x in rows if isinstance(x, Load) and _of_block(x, sources)]
        others = [f for t in terms if pitches[buffer] not in used(t) if len(f := _factors(t, sources)) == 2]
        chunks = [
            (x.buffer, by)
            for a, b in others
            for x, by in ((a, b), (b, a))
            if isinstance(x, Load) and _of_block(x, sources)
        ]
        if len({*tensors}) == len({b for b, _ in chunks}) == 1 and tensors[0] != chunks[0][0]:
            told = frozenset(_told_of(k, tensors[0], sources))
            return TensorLists(tensors[0].name, chunks[0][0].name, told, _named(chunks[0][1]))
    return None


def _named(e: Expr) -> str:
    return e.sym.name if isinstance(e, Var) else str(e.value) if isinstance(e, Const) else ""


def chunks_of(k: Kernel) -> str:
    """The buffer of the numbers of chunks; '' if there is none."""
    lists = tensor_lists(k)
    return lists.chunks if lists is not None else ""


def _factors(e: Expr, sources: Mapping[Sym, Expr]) -> list[Expr]:
    """What is multiplied in ``e``, variables spelled out; nothing for a single factor that is no product."""
    match _spelled(e, sources):
        case Binary("*", a, b):
            return [_spelled(a, sources), _spelled(b, sources)]
    return []


def _spelled(e: Expr, sources: Mapping[Sym, Expr]) -> Expr:
    e, left = without_casts(e), dict(sources)
    while isinstance(e, Var) and e.sym in left:
        e = without_casts(left.pop(e.sym))
    return e


def _of_block(x: Load, sources: Mapping[Sym, Expr]) -> bool:
    """Whether it is an integer that the number of a block chooses."""
    at = _spelled(x.index[0], sources)
    return scalar_of(x.buffer.type).is_int and isinstance(at, HwIndex) and at.level == "block"


def _told_of(k: Kernel, tensors: Sym, sources: Mapping[Sym, Expr]) -> set[str]:
    """The integer buffers of which the number of a tensor chooses an element."""
    found = set[str]()
    for e in all_exprs(k.body):
        if isinstance(e, Load) and scalar_of(e.buffer.type).is_int and e.buffer != tensors:
            at = _spelled(e.index[0], sources)
            found |= {e.buffer.name} if isinstance(at, Load) and at.buffer == tensors else set()
    return found


def with_tensor_lists(k: Kernel, contents: Sequence[Content]) -> list[Content]:
    """``contents`` with a tensor of its own for each block."""
    lists = tensor_lists(k)
    if lists is None:
        return list(contents)
    kept = [c for c in contents if c.buffer not in (lists.chunks, lists.tensors)]
    own = next((c for c in contents if c.buffer == lists.tensors), None)
    name = own.name if own is not None else f"{lists.tensors}_values"
    return [*kept, Content(lists.tensors, "distinct", name)]


def with_list_ties(d: Draft) -> tuple[dict[str, str | int], dict[str, Extent | None]]:
    """The ties of ``d`` and its shapes, where there are as many tensors as blocks, and each is as long as rows are at
    most."""
    k, lists = d.kernel, tensor_lists(d.kernel)
    if lists is None:
        return dict(d.ties), dict(d.shapes)
    names = {c.buffer: c.name for c in d.contents}
    lengths = {t for s in row_pitches(k).values() if (t := d.roles.tied.get(s.name))}
    ties = {names[lists.tensors]: blocks} if lists.tensors in names and (blocks := _blocks(k)) else {}
    shapes = {b: e and _in_place(e, ties) for b, e in d.shapes.items()}
    if len(lengths) == 1:
        (length,) = lengths
        ties |= {names[b]: f"{length} + 1" for b in lists.sizes if b in names}
    return {**d.ties, **ties}, shapes


def _in_place(shape: Extent, ties: Mapping[str, str]) -> Extent:
    for name, text in ties.items():
        shape = shape.with_factor(name, (text,))
    return shape


def most_tensors(k: Kernel) -> dict[str, int]:
    """How many blocks there are at most, each with a tensor of its own: as many as a number of a tensor has values, and
    no more than a struct that is passed by value has room for."""
    lists, blocks = tensor_lists(k), _blocks(k)
    if lists is None or not blocks:
        return {}
    return {blocks: min(MOST_TENSORS, scalar_of(k.param(lists.tensors).sym.type).extremes[1])}


MOST_TENSORS = 110
"""Tensors of one list of those that PyTorch and apex pass to a launch: two lists of 64, five of 30."""


def _blocks(k: Kernel) -> str:
    """The parameter that is the number of blocks; '' if none is."""
    extent = without_casts(k.launch.grid[0]) if k.launch is not None else None
    return extent.sym.name if isinstance(extent, Var) else ""


__all__ = ["TensorLists", "chunks_of", "most_tensors", "tensor_lists", "with_list_ties", "with_tensor_lists"]
