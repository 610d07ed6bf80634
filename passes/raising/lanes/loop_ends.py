"""How many elements so many vectors are, and whether a launch reaches as far."""

from __future__ import annotations

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import polynomial, same_value
from ktc.ir.fold import cast, i32, is_const, mul, simplify, sub
from ktc.ir.nodes import Binary, Call, Expr
from ktc.ir.types import Scalar


def elements_of(hi: Expr, count: int, assuming: bool) -> tuple[Expr, Expr | None]:
    """The number of elements of ``hi`` vectors, and what is to be a multiple of ``count`` for it to be that."""
    bare = without_index_casts(hi)
    assert isinstance(hi.type, Scalar)
    if isinstance(bare, Call) and bare.fn == "min":
        ends = [elements_of(x, count, assuming) for x in bare.args]
        parts = [of for _, of in ends if of is not None]
        if len(parts) == 1 and all(of is not None or is_const(x) for x, (_, of) in zip(bare.args, ends)):
            a, b = (end for end, _ in ends)
            return cast(Call("min", (a, cast(b, a.type)), a.type), hi.type), parts[0]  # type: ignore[arg-type]
    quotient = (bare.a, bare.b) if isinstance(bare, Binary) and bare.op == "/" else None
    if isinstance(bare, Call) and bare.fn == "cdiv":
        quotient = bare.args[0], bare.args[1]
    if assuming and quotient is not None and is_const(quotient[1], count):
        return cast(quotient[0], hi.type), quotient[0]
    return simplify(mul(hi, cast(i32(count), hi.type))), None


def is_part(hi: Expr) -> bool:
    """Whether ``hi`` is a part of a number, which has room for all of it."""
    bare = without_index_casts(hi)
    return isinstance(bare, Binary) and bare.op == "/"


def reaches(hi: Expr, end: Expr, count: int) -> bool:
    """Whether ``hi`` is so many blocks of so many threads that there is one for each ``count`` elements of ``end``."""
    bare = without_index_casts(hi)
    parts = [(bare.a, bare.b), (bare.b, bare.a)] if isinstance(bare, Binary) and bare.op == "*" else []
    for threads, blocks in parts:
        blocks = without_index_casts(blocks)
        if is_const(threads) and isinstance(blocks, Binary) and blocks.op == "/" and blocks.b == threads:
            vectors = polynomial(sub(blocks.a, sub(threads, cast(i32(1), threads.type))))  # type: ignore[arg-type]
            part = next(iter(vectors), ())[0] if len(vectors) == 1 and [*vectors.values()] == [1] else None
            if isinstance(part, Binary) and part.op == "/" and is_const(part.b, count) and same_value(part.a, end):
                return True
    return False


__all__ = ["elements_of", "is_part", "reaches"]
