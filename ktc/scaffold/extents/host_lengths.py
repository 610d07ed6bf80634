"""Buffers that the host makes longer than the sizes of the probes show: up to whole blocks, ``cdiv(n, 256) * 256``.

What a kernel touches at sizes that blocks divide is a product of sizes; at others it may go on to the end of the last
block, as far as the host's own formula says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Binary, Const, Expr
from ktc.ir.types import I64, scalar_of

from ..model import Draft
from ..probe import Prober, Seen
from ..shapes import Extent
from ..windows import NAME, names_in, spelled

ODD = (1, 3)
"""How much larger than those of a probe the sizes are at which buffers are looked at again."""


def lengthened(d: Draft, probe: Prober, seen: Sequence[Seen]) -> dict[str, Extent | None]:
    """The shapes of ``d``, with the host's own length for buffers that are not known, seem to be of a fixed length (one
    element for each block, in probes of one block) or are touched beyond their shape at odd sizes, where that is long
    enough in all runs."""
    out, told = dict(d.shapes), allocated_extents(d, probe)
    if not seen or not told:
        return out
    runs = [*seen, *_odd(d, probe, seen[0].sizes)]
    for name, length in told.items():
        known = d.shapes.get(name)
        short = known is None or not known.factors or any(s.extent(name) > known.value(s.sizes) for s in runs)
        if short and any(s.extent(name) for s in runs) and all(s.extent(name) <= length.value(s.sizes) for s in runs):
            out[name] = length
    return out


def _odd(d: Draft, probe: Prober, even: Mapping[str, int]) -> list[Seen]:
    own = {n for n in d.names if n in d.roles.sizes and n not in d.roles.windows}
    found: list[Seen] = []
    for more in ODD:
        sizes = {n: v + more * (n in own) for n, v in even.items()}
        if probe.launches(sizes):
            fills = d.fills(probe, sizes)
            found += [s] if (s := probe.look(sizes, fills)) is not None else []
    return found


def allocated_extents(d: Draft, probe: Prober) -> dict[str, Extent]:
    """The elements of buffers as the host allocates them, where they are a formula over sizes."""
    k, out = d.kernel, dict[str, Extent]()
    params = {p.sym for p in k.params}
    for name, size in k.launch.allocated if k.launch is not None else ():
        elements = _over(size, max(scalar_of(k.param(name).sym.type).bits // 8, 1))
        text = spelled(elements, params) if elements is not None else None
        if not text:
            continue
        text = _in_sizes(text, probe)
        factors = text.strip("()").split(" * ")
        whole = all(f.isidentifier() for f in factors)
        length = Extent(tuple(factors) if whole else (f"({text})",), exact=True)
        try:
            if {*names_in(text)} <= {*d.names}:
                length.value(dict.fromkeys(d.names, 1))
                out[name] = length
        except KtcError:
            continue
    return out


def _in_sizes(text: str, probe: Prober) -> str:
    """``text`` with what parameters are in the place of those that are no sizes of their own."""
    meaning = {n: str(probe.meaning(n)) for n in names_in(text)}
    return NAME.sub(lambda m: m[0] if meaning[m[0]] == m[0] else f"({meaning[m[0]]})", text)


def _over(e: Expr, width: int) -> Expr | None:
    """``e`` divided by ``width``, where one of its factors is a multiple of that."""
    match without_casts(e):
        case Const(int() as n) if n % width == 0:
            return Const(n // width, I64)
        case Binary("*", a, b):
            for x, y in ((a, b), (b, a)):
                if (part := _over(x, width)) is not None:
                    return y if isinstance(part, Const) and part.value == 1 else Binary("*", part, y)
        case x if width == 1:
            return x
    return None


__all__ = ["allocated_extents", "lengthened"]
