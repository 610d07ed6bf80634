"""From a distribution to index arithmetic.

For levels l1 (fastest) ... ln of sizes s1 ... sn:  i = lo + x1 + s1*(x2 + s2*(x3 + ...)), where x is a hardware index,
a constant-trip *jam* variable (vec, unroll) or a loop variable (seq).
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, cdiv, mul, sub
from ktc.ir.nodes import Dist, Expr, HwIndex, Level, Par, Reduce, Sym, Var, fresh, i32
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import used
from ktc.passes.lowering.errors import LoweringError

AXIS = {"lane": "x", "warp": "y"}
"""Lanes are consecutive ``threadIdx.x``, warps are rows of 32 of them: blockDim = (lanes, warps)."""


@dataclass(frozen=True)
class Jam:
    """A constant-trip level carried inward, statement by statement. ``kind``: vec | unroll."""

    var: Sym
    extent: Expr
    kind: str
    owner: Sym  # the loop variable of the par it belongs to
    cut: bool = False  # whole rounds without guards, the rest with them


@dataclass(frozen=True)
class SeqLevel:
    """A counted loop over ``n`` positions of stride ``stride``; ``n is None``: takes the rest of the range."""

    n: Expr | None
    stride: Expr


@dataclass(frozen=True)
class HwTerm:
    """``stride * index`` of a thread or block axis of size ``n`` (None: a block axis that takes the rest)."""

    level: str  # thread | block
    axis: str
    n: Expr | None
    stride: Expr

    def expr(self, to: Scalar) -> Expr:
        return mul(cast(cast(HwIndex(self.level, self.axis), I32), to), cast(self.stride, to))


@dataclass(frozen=True)
class Plan:
    """One loop's levels sorted by how they are realised."""

    jams: tuple[tuple[Jam, Expr], ...]  # with strides
    seqs: tuple[SeqLevel, ...]
    hw: tuple[HwTerm, ...]
    covered: Expr | None  # product of all sizes; None when the last level is open and so covers any range
    unit: Expr  # stride of the open level (the product of all others)

    @property
    def rest(self) -> SeqLevel | None:
        return next((q for q in self.seqs if q.n is None), None)

    @property
    def thread_axes(self) -> frozenset[str]:
        return frozenset(h.axis for h in self.hw if h.level == "thread")

    @property
    def block_axes(self) -> frozenset[str]:
        return frozenset(h.axis for h in self.hw if h.level == "block")

    def offset(self, to: Scalar, level: str | None = None) -> Expr:
        """Sum of the hardware terms (of one level only, if given)."""
        out: Expr = cast(i32(0), to)
        for h in self.hw:
            if level is None or h.level == level:
                out = add(out, h.expr(to))
        return out

    def jam_offset(self, to: Scalar, zero_vec: bool = False) -> Expr:
        out: Expr = cast(i32(0), to)
        for j, stride in self.jams:
            if not (zero_vec and j.kind == "vec"):
                out = add(out, mul(cast(Var(j.var), to), cast(stride, to)))
        return out


@dataclass(frozen=True)
class Lowered:
    """A loop already entered: its levels, range and the variable that holds its index at jam 0."""

    plan: Plan
    lo: Expr
    hi: Expr
    base: Sym
    covered: bool  # the levels visit exactly the range: no guard


def in_order(dist: Dist) -> bool:
    """Whether each thread meets its iterations in ascending order: open loops around counted ones, unrolled inside.

    Only distributions with at most one level of each kind are looked at.
    """
    inside = [lv.kind for lv in dist if lv.kind in ("vec", "unroll", "seq")]
    return inside == [kind for kind in ("vec", "unroll", "seq") if kind in inside]


def plan(s: Par | Reduce, value: object) -> Plan:
    """Sort the levels of ``s``. ``value(expr) -> int | None`` drops vec/unroll/seq levels known to be 1, and an open
    ``seq`` where the levels before it are known to take the whole range.

    Raises:
        LoweringError: E-LOWER-LEVEL for a distribution that cannot be read.
    """
    jams: list[tuple[Jam, Expr]] = []
    seqs: list[SeqLevel] = []
    hw: list[HwTerm] = []
    stride: Expr = i32(1)
    rest = False
    extent = iterations(s.lo, s.hi)
    for lv in s.dist:
        if rest:
            raise LoweringError("E-LOWER-LEVEL", f"only the last level of '{s.var.name}' may be open-ended", s.loc)
        n = lv.n
        if lv.kind in ("vec", "unroll"):
            if n is None:
                raise LoweringError("E-LOWER-LEVEL", f"'{lv.kind}' of '{s.var.name}' needs a size", s.loc)
            if value(n) != 1:  # type: ignore[operator]
                name = "v" if lv.kind == "vec" else "u"
                jams.append((Jam(fresh(name, I32), n, lv.kind, s.var, lv.cut), stride))
        elif lv.kind == "seq":
            if n is None or value(n) != 1:  # type: ignore[operator]
                seqs.append(SeqLevel(n, stride))
            rest = n is None
        elif lv.kind in ("thread", "lane", "warp"):
            size = cdiv(extent, stride) if n is None else n
            hw.append(HwTerm("thread", AXIS.get(lv.kind, lv.axis or "x"), size, stride))
            rest = n is None
        elif lv.kind == "block":
            hw.append(HwTerm("block", lv.axis or "x", n, stride))
            rest = n is None
        else:
            raise LoweringError("E-LOWER-LEVEL", f"level '{lv.kind}' of '{s.var.name}' is not supported", s.loc)
        if n is not None:
            stride = mul(stride, _step(lv.kind, hw[-1].axis if hw else "x", n))
    if not s.dist:
        seqs.append(SeqLevel(None, i32(1)))
        rest = True
    elif s.dist[-1] == Level("seq") and _reaches(value(stride), value(extent)):  # type: ignore[operator]
        seqs.pop()  # one round takes all there is
        rest = False
    return Plan(tuple(jams), tuple(seqs), tuple(hw), None if rest else stride, stride)


def _reaches(stride: int | None, extent: int | None) -> bool:
    return stride is not None and extent is not None and stride >= extent


def iterations(lo: Expr, hi: Expr) -> Expr:
    """How many there are from ``lo`` to ``hi``: of ``t * 16..t * 16 + 16``, 16."""
    return difference(hi, lo) if used(lo) else sub(hi, lo)


def _step(kind: str, axis: str, n: Expr) -> Expr:
    """``n`` as a factor of outer strides; a run-time count reads ``blockDim`` or ``gridDim``, as people write it."""
    hardware = {"thread": "block_dim", "lane": "block_dim", "warp": "block_dim", "block": "grid_dim"}
    if kind in hardware and used(n):
        return cast(HwIndex(hardware[kind], axis), I32)
    return n
