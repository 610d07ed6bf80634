"""Which narrow float type holds every value that a variable or array of a kernel ever has.

Optimistic and flow-insensitive: everything starts as held by all types, and each assignment takes away what its value
may need. A maximum of f16 elements, kept in f32, shuffled and stored to shared memory, is an f16 value all the way.
"""

from __future__ import annotations

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Call, Cast, Const, Decl, Expr, Load, Select, Store, Sym, Unary, Var, VecGet, WarpOp
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, walk

from .terms import common

KEEPING = frozenset({"min", "max", "abs"})


def formats(kernel: Kernel) -> dict[Sym, str]:
    """'' for no narrow type, '*' for a variable that no value reaches; parameters have their own type."""
    found: dict[Sym, str] = {}
    for p in kernel.params:
        found[p.sym] = _own(p.sym)
    plain: set[Sym] = set()
    writes: list[tuple[Sym, Expr]] = []
    for s in walk(kernel.body):
        if isinstance(s, Decl) and s.init is not None:
            writes.append((s.sym, s.init))
        elif isinstance(s, Assign):
            writes.append((s.sym, s.value))
        elif isinstance(s, Store):
            writes.append((s.buffer, s.value))
        else:
            plain |= {x for x in assigned((s,)) if not hasattr(s, "body") and not hasattr(s, "then")}
    for sym in plain:
        found[sym] = _own(sym)
    for _ in range(8):
        before = dict(found)
        for sym, value in writes:
            if sym not in plain and not isinstance(sym.type, Ptr):
                found[sym] = common([found.get(sym, "*"), of(value, found)])
        if found == before:
            return found
    return {sym: _own(sym) for sym in found}


def of(e: Expr, known: dict[Sym, str]) -> str:
    """The narrow type that holds the value of ``e``."""
    if isinstance(e, Const):
        return "*" if e.value in (0.0, 1.0) or e.value in (float("inf"), float("-inf")) else _name(e.ty)
    if isinstance(e, Var):
        return known.get(e.sym, _own(e.sym))
    if isinstance(e, Load):
        return known.get(e.buffer, _own(e.buffer))
    if isinstance(e, VecGet):
        return of(e.x, known) if isinstance(e.x, Var | Load) else _name(scalar_of(e.type))
    if isinstance(e, Cast) and e.style != "bit" and _float(e.to) and _float(e.x.type):
        return of(e.x, known) if scalar_of(e.to).bits > scalar_of(e.x.type).bits else _name(scalar_of(e.to))
    if isinstance(e, Select):
        return common([of(e.a, known), of(e.b, known)])
    if isinstance(e, Call) and e.fn in KEEPING:
        return common([of(a, known) for a in e.args])
    if isinstance(e, Unary) and e.op == "-":
        return of(e.x, known)
    if isinstance(e, WarpOp) and e.kind.startswith("shfl"):
        return of(e.value, known)
    return _name(scalar_of(e.type)) if isinstance(e.type, Scalar) else ""


def _float(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_float


def _own(sym: Sym) -> str:
    return _name(scalar_of(sym.type))


def _name(t: Scalar) -> str:
    return t.name if t.is_float and t.bits < 32 else ""
