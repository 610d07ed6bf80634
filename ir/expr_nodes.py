"""Expressions of the IR. The conventions are those of ``nodes``."""

from __future__ import annotations

from dataclasses import field

from ktc.ir.support.frozen import frozen

from .symbols import Sym
from .types import BOOL, I8, I32, U32, Array, Ptr, Scalar, Type, Vec, scalar_of


@frozen
class Expr:
    """Base class; every expression has a ``type``."""

    @property
    def type(self) -> Type:
        raise NotImplementedError


@frozen
class Const(Expr):
    """A literal. ``spelling`` keeps the source's text (``1e-6f``) and does not take part in equality."""

    value: int | float | bool
    ty: Scalar
    spelling: str = field(default="", compare=False)

    @property
    def type(self) -> Scalar:
        return self.ty


@frozen
class Var(Expr):
    sym: Sym

    @property
    def type(self) -> Type:
        return self.sym.type


KNOB_MARK = "$"
"""In an environment ``$T`` is a knob, where ``T`` may be a parameter: see :meth:`ktc.ir.kernel.Kernel.environment`."""


@frozen
class Knob(Expr):
    """A named tunable constant of type ``i32``, declared in ``Kernel.knobs``."""

    name: str

    @property
    def type(self) -> Scalar:
        return I32


@frozen
class HwIndex(Expr):
    """``threadIdx | blockIdx | blockDim | gridDim``: level ``thread|block|block_dim|grid_dim``, axis x|y|z (u32)."""

    level: str
    axis: str

    @property
    def type(self) -> Scalar:
        return U32


@frozen
class Unary(Expr):
    """``- ~ !``. ``!`` yields bool."""

    op: str
    x: Expr

    @property
    def type(self) -> Type:
        return BOOL if self.op == "!" else self.x.type


COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
"""The comparison of integers that holds where one does not."""
ORDERINGS = frozenset({"<", "<=", ">", ">="})
"""Comparisons that say which operand is the larger one."""
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
"""The comparison that says the same with its operands exchanged."""
LOGICAL = frozenset({"&&", "||"})
_TRUTHS = COMPARISONS | LOGICAL


@frozen
class Binary(Expr):
    """``+ - * / % << >> & | ^``, comparisons and lazy ``&& ||`` (both yield bool)."""

    op: str
    a: Expr
    b: Expr

    @property
    def type(self) -> Type:
        e: Expr = self
        while type(e) is Binary:  # a loop: sums can be very long
            if e.op in _TRUTHS:
                return BOOL
            e = e.a
        return e.type


@frozen
class Select(Expr):
    """``cond ? a : b``, lazy."""

    cond: Expr
    a: Expr
    b: Expr

    @property
    def type(self) -> Type:
        return self.a.type


@frozen
class Cast(Expr):
    """Value conversion (``style`` c | static | implicit), or same-size ``bit`` reinterpretation of the bits."""

    to: Type
    x: Expr
    style: str = "c"

    @property
    def type(self) -> Type:
        return self.to


@frozen
class Load(Expr):
    """``buffer[index...]``. ``cache``: '' | ldg (read-only) | cs (streaming) | cg | ca | lu | volatile.

    ``volatile``: an access that stays one of the machine, where it is, though the buffer's type does not say so.
    """

    buffer: Sym
    index: tuple[Expr, ...]
    width: int | Expr = 1
    cache: str = ""

    @property
    def type(self) -> Type:
        t = accessed_type(self.buffer, len(self.index))
        return t if self.width == 1 else Vec(scalar_of(t), self.width)


@frozen
class AddrOf(Expr):
    """A pointer to ``buffer[index...]``, as an argument of a call."""

    buffer: Sym
    index: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        t = self.buffer.type
        return Ptr(accessed_type(self.buffer, len(self.index)), getattr(t, "space", "local"))


@frozen
class Member(Expr):
    """Field of a struct value."""

    x: Expr
    name: str
    ty: Type

    @property
    def type(self) -> Type:
        return self.ty


@frozen
class VecMake(Expr):
    """A vector from its lanes."""

    ty: Vec
    args: tuple[Expr, ...]

    @property
    def type(self) -> Vec:
        return self.ty


@frozen
class VecGet(Expr):
    """One lane of a vector value."""

    x: Expr
    lane: Expr

    @property
    def type(self) -> Type:
        return scalar_of(self.x.type)


@frozen
class Call(Expr):
    """A built-in or device function by canonical name. ``effects``: pure | read | write | sync."""

    fn: str
    args: tuple[Expr, ...]
    ty: Type
    effects: str = "pure"

    @property
    def type(self) -> Type:
        return self.ty


def asks_for_nan(e: Expr) -> bool:
    """Whether ``e`` holds for what is no number alone: for no data that anybody means, and in no exact arithmetic."""
    return isinstance(e, Call) and e.fn == "isnan"


SHUFFLES = frozenset({"shfl", "shfl_up", "shfl_down", "shfl_xor"})
VOTES: dict[str, Scalar] = {"ballot": U32, "any": BOOL, "all": BOOL, "active": U32}
MATCHES = frozenset({"match_any", "match_all"})
WARP_REDUCTIONS = {f"reduce_{op}": op for op in ("add", "min", "max", "and", "or", "xor")}
WARP_KINDS = (*sorted(SHUFFLES), *VOTES, *sorted(MATCHES), *WARP_REDUCTIONS)


@frozen
class WarpOp(Expr):
    """Warp collective. ``mask`` names the lanes that take part (u32); ``width`` is the logical segment of a shuffle.

    shuffles
        shfl | shfl_up | shfl_down | shfl_xor: the value of another lane; ``arg`` is source lane / delta / lane mask.
    votes
        ballot | any | all over the predicate ``value``; ``active``: the lanes that are here now, whatever the mask says
        (``value`` is true), as converged as the hardware happens to be.
    matches
        match_any: the lanes of ``mask`` whose ``value`` has the same bits; match_all: ``mask`` if all have, else 0.
    reductions
        reduce_add | reduce_min | ...: of ``value`` (a 32-bit integer) over the lanes of ``mask``.
    """

    kind: str
    value: Expr
    arg: Expr | None
    width: Expr
    mask: Expr

    @property
    def type(self) -> Type:
        return U32 if self.kind in MATCHES else VOTES.get(self.kind, self.value.type)


@frozen
class Raw(Expr):
    """Source text carried through for a backend of the same language; ``uses`` are the symbols it mentions."""

    text: str
    uses: tuple[Sym, ...]
    ty: Type

    @property
    def type(self) -> Type:
        return self.ty


@frozen
class Str(Expr):
    """A string literal, as an argument of ``printf``: ``text`` is what stands between the quotes, escapes and all."""

    text: str

    @property
    def type(self) -> Type:
        return Ptr(I8, "const", const=True)


def accessed_type(buffer: Sym, n_indices: int) -> Type:
    """Type of ``buffer`` subscripted with ``n_indices`` indices."""
    t = buffer.type
    if isinstance(t, Ptr):
        return t.elem if n_indices == 1 or type(t.elem) is Scalar else scalar_of(t.elem)
    if isinstance(t, Array):
        return t.elem if n_indices <= len(t.shape) else scalar_of(t.elem)
    if isinstance(t, Vec):
        return t.elem
    raise TypeError(f"{buffer.name} of type {t} cannot be subscripted")


def i32(value: int) -> Const:
    return Const(value, I32)
