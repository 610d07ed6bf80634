"""Values of an iteration as scalars that are assigned once: lanes of vectors, cells of small private arrays.

``x[i * 4 +: 4]`` has the lanes ``x[i * 4 + k]``, a variable those that it was given last, and the bits of a vector of
four ``u32`` seen as eight ``f16`` are those that they came from. An operation on vectors is one on each lane, the same.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ktc.ir.fields import with_children
from ktc.ir.fold import add, cast, evaluate, fold_node, i32, is_const, simplify
from ktc.ir.nodes import Binary, Call, Cast, Expr, Load, Select, Sym, Unary, Var, VecGet, VecMake, fresh
from ktc.ir.purity import is_removable
from ktc.ir.types import Array, Scalar, Type, Vec


class NotLanes(Exception):
    """The statements are no lanes: why."""


Known = Expr | list[Expr | None] | None


@dataclass
class LaneValues:
    """``known``: what variables of the source hold now: a scalar, or the scalars of a vector or a private array."""

    known: dict[Sym, Known] = field(default_factory=dict)

    def scalar(self, e: Expr) -> Expr:
        """The scalar expression ``e`` in terms of what is declared once."""
        if isinstance(e, Var):
            if e.sym not in self.known:
                return e
            value = self.known[e.sym]
            if not isinstance(value, Expr):
                raise NotLanes(f"'{e.sym.name}' has no value, or is a vector")
            return value
        if isinstance(e, Load) and e.buffer in self.known:
            at, n = self._cells(e.buffer, e.index, width_of(e.width))
            cell = self.known[e.buffer][at]  # type: ignore[index]
            if n != 1 or cell is None:
                raise NotLanes(f"'{e.buffer.name}' is read before it is written")
            return cell
        if isinstance(e, VecGet):
            lane = evaluate(simplify(self.scalar(e.lane)), {})
            if lane is None:
                raise NotLanes("a lane is chosen at run time")
            return self.lane(e.x, int(lane))
        if isinstance(e, Cast) and e.style == "bit" and isinstance(e.x, Load) and e.x.buffer not in self.known:
            whole = dataclasses.replace(e.x, index=tuple(map(self.scalar, e.x.index)))  # bytes that are one number
            return dataclasses.replace(e, x=whole)
        if isinstance(e.type, Vec):
            raise NotLanes("a vector as a whole")
        return fold_node(with_children(e, self.scalar))

    def vector(self, e: Expr, n: int) -> list[Expr]:
        """The lanes of the vector expression ``e``."""
        return [self.lane(e, k) for k in range(n)]

    def lane(self, e: Expr, k: int) -> Expr:
        """Lane ``k`` of the vector expression ``e``."""
        t = e.type
        if not isinstance(t, Vec):
            return self.scalar(e)
        if isinstance(e, Var | Load) and (e.sym if isinstance(e, Var) else e.buffer) in self.known:
            buffer, index = (e.sym, ()) if isinstance(e, Var) else (e.buffer, e.index)
            at, n = self._cells(buffer, index, width_of(e.width) if isinstance(e, Load) else 1)
            cell = self.known[buffer][at + k]  # type: ignore[index]
            if cell is None or k >= n:
                raise NotLanes(f"'{buffer.name}' is read before it is written")
            return cell
        if isinstance(e, Load):
            return dataclasses.replace(e, index=self._moved(e.index, k, isinstance(_element(e), Vec)), width=1)
        if isinstance(e, VecMake):
            return self.scalar(e.args[k])
        if isinstance(e, Cast) and e.style == "bit":
            return self._bits(e, t, k)
        if isinstance(e, Cast):
            return Cast(t.elem, self.lane(e.x, k), e.style)
        if isinstance(e, Select):
            return Select(self.scalar(e.cond), self.lane(e.a, k), self.lane(e.b, k))
        if isinstance(e, Binary | Unary):
            return with_children(e, lambda x: self.lane(x, k))
        if isinstance(e, Call) and is_removable(e) and isinstance(e.ty, Vec):
            return dataclasses.replace(e, args=tuple(self.lane(x, k) for x in e.args), ty=t.elem)
        raise NotLanes(f"lanes of {type(e).__name__.lower()}")

    def _bits(self, e: Cast, t: Vec, k: int) -> Expr:
        """Lane ``k`` of a vector that is another's bits: that of ``x``, where lanes are as wide, or were once."""
        x = e.x
        while isinstance(x, Cast) and x.style == "bit" and not (isinstance(x.type, Vec) and _same_width(x.type, t)):
            x = x.x
        own = x.type
        if own == t:
            return self.lane(x, k)
        if isinstance(own, Vec) and _same_width(own, t):
            return Cast(t.elem, self.lane(x, k), "bit")
        if (
            isinstance(x, VecGet)
            and isinstance(x.x.type, Vec)
            and isinstance(whole := x.x, Cast)
            and whole.style == "bit"
        ):
            lane = evaluate(simplify(self.scalar(x.lane)), {})
            inner = whole.x.type
            if lane is not None and isinstance(inner, Vec) and _same_width(inner, t):
                cell = self.lane(whole.x, int(lane) * count_of(t) + k)
                return cell if inner.elem == t.elem else Cast(t.elem, cell, "bit")
        raise NotLanes("bits of lanes of another width")

    # ------------------------------------------------------------------------------------------------------ places
    def _moved(self, index: tuple[Expr, ...], k: int, of_vectors: bool = False) -> tuple[Expr, ...]:
        """The index of lane ``k`` of the vector at ``index``."""
        given = tuple(map(self.scalar, index))
        if of_vectors:
            return (*given, i32(k))
        return given if k == 0 else (*given[:-1], add(given[-1], cast(i32(k), _int_type(given[-1]))))

    def _cells(self, buffer: Sym, index: tuple[Expr, ...], width: int) -> tuple[int, int]:
        """Where the cells of a private array (or vector) begin that ``index`` means, and how many it means."""
        t = buffer.type
        shape = [int(evaluate(n, {}) or 0) for n in t.shape] if isinstance(t, Array) else []
        elem = t.elem if isinstance(t, Array) else t
        lanes = count_of(elem) if isinstance(elem, Vec) else 1
        numbers = [evaluate(simplify(self.scalar(i)), {}) for i in index]
        if None in numbers or len(numbers) < len(shape) or (shape and not _inside(numbers, shape, lanes)):
            raise NotLanes(f"which element of '{buffer.name}' is meant is not known")
        at = 0
        for extent, i in zip(shape, numbers):
            at = at * extent + int(i)  # type: ignore[arg-type]
        whole = len(numbers) == len(shape)
        at = at * lanes + (0 if whole else int(numbers[-1]))  # type: ignore[arg-type]
        cells = self.known[buffer]
        n = width if width > 1 else lanes if whole else 1
        if not isinstance(cells, list) or not 0 <= at <= len(cells) - n:
            raise NotLanes(f"'{buffer.name}' has no such element")
        return at, n


def _inside(numbers: list[int | bool | None], shape: list[int], lanes: int) -> bool:
    extents = [*shape, lanes]
    return all(i is not None and 0 <= int(i) < n for i, n in zip(numbers, extents))


def renamed(sym: Sym, t: Type) -> Sym:
    """A symbol of ``sym``'s name and type ``t``, to take the name from."""
    return sym if sym.type == t else fresh(sym.name, t)


def _element(e: Load) -> Type:
    t = e.buffer.type
    return getattr(t, "elem", t)


def _int_type(e: Expr) -> Scalar:
    assert isinstance(e.type, Scalar)
    return e.type


def count_of(t: Type) -> int:
    if not isinstance(t, Vec) or not isinstance(t.n, int):
        raise NotLanes("a vector of open length")
    return t.n


def width_of(w: int | Expr) -> int:
    if isinstance(w, Expr):
        if not is_const(w):
            raise NotLanes("an access of open width")
        return int(w.value)  # type: ignore[attr-defined]
    return w


def _same_width(a: Vec, b: Vec) -> bool:
    return a.elem.bits == b.elem.bits and a.n == b.n


__all__ = ["Known", "LaneValues", "NotLanes", "count_of", "renamed", "width_of"]
