"""How long the host allocates buffers: formulas in the sizes that it passes to the launch.

    cudaMalloc(&zeros, (K / group) * (N / 8) * sizeof(uint32_t));       // zeros: (K / group) x (N / 8) words

That is what the source says about shapes, of which probes show no more than how far a kernel happens to go. Where all
probes go about as far, it is the shape. A quotient of sizes in it says more: the one is a multiple of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError
from ktc.ir.nodes import Binary, Const, Expr, Load
from ktc.ir.types import I64, scalar_of
from ktc.ir.walk import used

from ..given_values import definitions, made_of
from ..inner_strides import accesses
from ..probe import Prober, Seen
from ..shapes import MOST_CHOSEN, SLACK, WORST, Extent
from ..windows import NAME, names_in, spelled
from .factors import factors_of


def allocated_extents(probe: Prober, names: Collection[str]) -> dict[str, Extent]:
    """The elements of buffers as the host allocates them, where they are a formula over ``names``, sizes."""
    k, out = probe.kernel, dict[str, Extent]()
    rows = {p.sym.name for p in k.params if p.rows}  # what is allocated for them are pointers
    given = definitions(k)
    chosen = {b for b, e in accesses(k) if any(isinstance(x, Load) for x in made_of([e], given))}
    for name, size in k.launch.allocated if k.launch is not None else ():
        if name in rows:
            continue
        elements = _over(size, max(scalar_of(k.param(name).sym.type).bits // 8, 1))
        length = _as_extent(elements, probe) if elements is not None else None
        try:
            if length is not None and name in chosen and length.times > MOST_CHOSEN:
                continue  # so many rows as the host has at most: which of them there are is for what is loaded to say
            if length is not None and {n for f in length.factors for n in names_in(f)} <= {*names}:
                length.value(dict.fromkeys(names, 1))
                out[name] = length
        except KtcError:
            continue
    return out


def as_allocated(
    probe: Prober, seen: Sequence[Seen], names: Collection[str], fitted: Mapping[str, Extent | None]
) -> dict[str, Extent]:
    """The shapes of buffers that the host's formula gives, where every probe stays within it and goes nearly as far, or
    where nothing better is ``fitted``."""
    found: dict[str, Extent] = {}
    for name, length in allocated_extents(probe, names).items():
        looks = [(length.value(s.sizes), s.extent(name)) for s in seen if s.extent(name)]
        if not length.factors or not looks or any(made < reached for made, reached in looks):
            continue
        known = fitted.get(name)
        loose = max(made / reached for made, reached in looks)
        if loose <= SLACK or (loose <= WORST and (known is None or not known.exact)):
            found[name] = length
    return found


def _as_extent(e: Expr, probe: Prober) -> Extent | None:
    """The product ``e`` as the extent of a buffer; None where a workload cannot say it."""
    params = {p.sym for p in probe.kernel.params}
    factors, times = list[str](), 1
    for f in factors_of(e):
        text = spelled(f, used(f)) if used(f) <= params else None
        if text is None:
            return None
        if isinstance(f, Const):
            times *= int(text)
        else:
            text = _in_sizes(text, probe)
            factors.append(text if text.isidentifier() or _is_one_group(text) else f"({text})")
    numbers = [f for f in factors if not names_in(f)]
    return Extent(tuple(factors), times=times, exact=True, told=True) if not numbers else None


def _is_one_group(text: str) -> bool:
    """Whether a text is one pair of parentheses with all that is in it."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return False
    return text.startswith("(")


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


__all__ = ["allocated_extents", "as_allocated"]
