"""Mutations of lowered programs: what a faulty pass, or a faulty lowering, would leave behind.

Each is the smallest change that turns right into wrong at one place: the mistakes that people and compilers make with
tiles, tails, strides, barriers, lanes and accumulators. ``STATEMENTS`` and ``EXPRESSIONS`` are the tables; those in
``BLIND`` were written before the checks they must trip, and no check was tuned to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ktc.ir.nodes import (
    Assign,
    AsyncWait,
    Atomic,
    Barrier,
    Binary,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    VecGet,
    VecMake,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import F16, F32, I32, U32, Scalar
from ktc.ir.walk import walk_expr

from .operators import Operator

Change = Callable[[Any], Any]
Fits = Callable[[Any], bool]


def on(cls: type, new: Change, fits: Fits = lambda node: True) -> Change:
    """``new`` on instances of ``cls`` that fit; everything else stays itself."""
    return lambda node: new(node) if isinstance(node, cls) and fits(node) else node


def set_to(**changes: Any) -> Change:
    return lambda node: replace(node, **changes)


def is_int(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_int


def is_float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float


def operation(op: str, new: Change, of: Fits = is_int) -> Change:
    """``new`` on the binary operation ``op`` whose operands are integers (or ``of`` something else)."""
    return on(Binary, new, lambda e: e.op == op and of(e.a))


def plus(e: Expr, n: int) -> Expr:
    assert isinstance(e.type, Scalar)
    return Binary("+" if n > 0 else "-", e, Const(abs(n), e.type))


def halved(e: Expr) -> Expr:
    assert isinstance(e.type, Scalar)
    return Binary("/", e, Const(2, e.type))


def moved(by: int) -> Change:
    """An access ``by`` elements further along its last dimension."""
    return lambda s: replace(s, index=(*s.index[:-1], plus(s.index[-1], by)))


def transposed(s: Any) -> Any:
    return replace(s, index=(s.index[1], s.index[0]))


def two_dimensional(s: Any) -> bool:
    return len(s.index) == 2 and s.index[0] != s.index[1]


def updates_itself(s: Assign) -> bool:
    return any(isinstance(x, Var) and x.sym == s.sym for x in walk_expr(s.value))


def updates_memory(s: Store) -> bool:
    return any(isinstance(x, Load) and x.buffer == s.buffer for x in walk_expr(s.value))


def counts_up(s: For) -> bool:
    return isinstance(s.cond, Binary) and s.cond.op in ("<", "<=") and isinstance(s.step, Binary) and s.step.op == "+"


def lost_last(s: Any) -> For:
    return replace(s, cond=replace(s.cond, b=plus(s.cond.b, -1)))


def double_step(s: Any) -> For:
    return replace(s, step=replace(s.step, b=Binary("*", s.step.b, Const(2, s.step.b.type))))


def plain(s: Atomic) -> Stmt:
    """The read, the operation and the write of an atomic as three steps."""
    op = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}.get(s.op)
    old = Load(s.buffer, s.index)
    return Store(s.buffer, s.index, Binary(op, old, s.value) if op else Call(s.op, (old, s.value), old.type))


def through_half(e: Expr) -> Expr:
    return Cast(F32, Cast(F16, e, "c"), "c")


def other_identity(s: Decl) -> Decl:
    assert isinstance(s.init, Const)
    return replace(s, init=Const(1.0 if s.init.value == 0.0 else 0.0, s.init.ty))


def literal(by: int) -> Change:
    return on(Const, lambda e: replace(e, value=e.value + by, spelling=""), lambda e: is_int(e) and e.value + by >= 0)


def calls(names: dict[str, str]) -> Change:
    return on(Call, lambda e: replace(e, fn=names[e.fn]), lambda e: e.fn in names)


def delta(new: Callable[[Expr], Expr]) -> Change:
    return on(WarpOp, lambda e: replace(e, arg=new(e.arg)), lambda e: e.arg is not None)


NEXT_AXIS = {"x": "y", "y": "x", "z": "x"}
OTHER_LEVEL = {"thread": "block", "block": "thread", "block_dim": "grid_dim", "grid_dim": "block_dim"}
OTHER_ATOMIC = {"add": "max", "sub": "add", "max": "min", "min": "max", "and": "or", "or": "and", "xor": "or"}
OTHER_SHUFFLE = {"shfl_down": "shfl_up", "shfl_up": "shfl_down", "shfl_xor": "shfl_down", "shfl": "shfl_xor"}
OTHER_CALL = {"rsqrt": "sqrt", "sqrt": "rsqrt", "exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log",
              "floor": "ceil", "ceil": "floor", "rint": "trunc", "trunc": "ceil", "round": "trunc"}  # fmt: skip
FASTER = {"exp": "fast_exp", "exp2": "fast_exp2", "log": "fast_log", "sin": "fast_sin", "cos": "fast_cos",
          "tanh": "fast_tanh", "pow": "fast_pow"}  # fmt: skip
UNROUNDED = ("cas", "exch", "inc", "dec")


def block_wide(s: Barrier) -> bool:
    return s.scope == "block"


def one_thread_only(s: Barrier) -> Stmt:
    return If(Binary("<", HwIndex("thread", "x"), Const(1, U32)), (s,))


def names_lane(e: VecGet) -> bool:
    return isinstance(e.lane, Const)


STATEMENTS: dict[str, tuple[str, Change]] = {
    "drop-barrier": ("sync", on(Barrier, lambda s: None)),
    "barrier-to-warp": ("sync", on(Barrier, set_to(scope="warp"), block_wide)),
    "barrier-in-branch": ("sync", on(Barrier, one_thread_only, block_wide)),
    "atomic-to-plain": ("sync", on(Atomic, plain, lambda s: s.op not in UNROUNDED and s.dst is None)),
    "atomic-operation": (
        "sync", on(Atomic, lambda s: replace(s, op=OTHER_ATOMIC[s.op]), lambda s: s.op in OTHER_ATOMIC)),
    "atomic-to-block": ("sync", on(Atomic, set_to(scope="block"), lambda s: s.scope != "block")),
    "drop-wait": ("sync", on(AsyncWait, lambda s: None)),
    "wait-too-little": (
        "sync", on(AsyncWait, lambda s: replace(s, pending=s.pending + 1), lambda s: isinstance(s.pending, int))),
    "drop-guard": ("bounds", on(If, lambda s: s.then, lambda s: not s.orelse)),
    "negate-guard": ("bounds", on(If, lambda s: replace(s, cond=Unary("!", s.cond)))),
    "drop-branch": ("bounds", on(If, lambda s: s.orelse, lambda s: bool(s.then))),
    "start-one-later": ("loops", on(For, lambda s: replace(s, init=plus(s.init, 1)), lambda s: is_int(s.init))),
    "end-one-earlier": ("loops", on(For, lost_last, counts_up)),
    "double-step": ("loops", on(For, double_step, counts_up)),
    "drop-loop": ("loops", on(For, lambda s: None)),
    "loop-twice": ("loops", on(For, lambda s: (s, s))),
    "store-one-further": ("index", on(Store, moved(1))),
    "store-transposed": ("index", on(Store, transposed, two_dimensional)),
    "other-identity": (
        "values", on(Decl, other_identity, lambda s: isinstance(s.init, Const) and is_float(s.init) and not s.const)),
    "drop-initialisation": ("values", on(Decl, set_to(init=None), lambda s: s.init is not None and not s.const)),
    "accumulate-twice": ("values", on(Assign, lambda s: (s, s), updates_itself)),
    "drop-assignment": ("values", on(Assign, lambda s: None)),
    "overwrite-accumulator": (
        "values", on(Assign, lambda s: replace(s, value=s.value.b),
                     lambda s: isinstance(s.value, Binary) and s.value.a == Var(s.sym))),
    "accumulate-in-half": (
        "values", on(Assign, lambda s: replace(s, value=through_half(s.value)),
                     lambda s: s.sym.type == F32 and updates_itself(s))),
    "drop-store": ("values", on(Store, lambda s: None)),
    "store-twice": ("values", on(Store, lambda s: (s, s), updates_memory)),
}  # fmt: skip

EXPRESSIONS: dict[str, tuple[str, Change]] = {
    "lt-to-le": ("bounds", operation("<", set_to(op="<="))),
    "le-to-lt": ("bounds", operation("<=", set_to(op="<"))),
    "gt-to-ge": ("bounds", operation(">", set_to(op=">="))),
    "ge-to-gt": ("bounds", operation(">=", set_to(op=">"))),
    "eq-to-ne": ("bounds", operation("==", set_to(op="!="))),
    "drop-conjunct": ("bounds", operation("&&", lambda e: e.a, lambda e: True)),
    "and-to-or": ("bounds", operation("&&", set_to(op="||"), lambda e: True)),
    "load-one-further": ("index", on(Load, moved(1))),
    "load-one-before": ("index", on(Load, moved(-1))),
    "load-transposed": ("index", on(Load, transposed, two_dimensional)),
    "drop-addend": ("index", operation("+", lambda e: e.a)),
    "drop-first-addend": ("index", operation("+", lambda e: e.b)),
    "drop-stride": ("index", operation("*", lambda e: e.a)),
    "plus-to-minus": ("index", operation("+", set_to(op="-"))),
    "minus-to-plus": ("index", operation("-", set_to(op="+"))),
    "div-to-mod": ("index", operation("/", set_to(op="%"))),
    "mod-to-div": ("index", operation("%", set_to(op="/"))),
    "drop-modulo": ("index", operation("%", lambda e: e.a)),
    "literal-up": ("index", literal(1)),
    "literal-down": ("index", literal(-1)),
    "next-axis": ("index", on(HwIndex, lambda e: replace(e, axis=NEXT_AXIS[e.axis]))),
    "thread-for-block": ("index", on(HwIndex, lambda e: replace(e, level=OTHER_LEVEL[e.level]))),
    "narrow-index": (
        "index", on(Binary, lambda e: Cast(e.type, Binary(e.op, Cast(I32, e.a, "c"), Cast(I32, e.b, "c")), "c"),
                    lambda e: e.op in "+*" and e.type == Scalar("int", 64))),
    "round-through-half": ("values", on(Load, through_half, lambda e: e.type == F32)),
    "add-to-sub": ("values", operation("+", set_to(op="-"), is_float)),
    "mul-to-add": ("values", operation("*", set_to(op="+"), is_float)),
    "swap-operands": ("values", on(Binary, lambda e: replace(e, a=e.b, b=e.a), lambda e: e.op in "-/%" and e.a != e.b)),
    "drop-factor": ("values", on(Binary, lambda e: e.a, lambda e: e.op in "*/" and is_float(e))),
    "min-to-max": ("values", calls({"min": "max", "max": "min"})),
    "other-function": ("values", calls(OTHER_CALL)),
    "first-arm": ("values", on(Select, lambda e: e.a, lambda e: e.a != e.b)),
    "second-arm": ("values", on(Select, lambda e: e.b, lambda e: e.a != e.b)),
    "drop-negation": ("values", on(Unary, lambda e: e.x, lambda e: e.op == "-")),
    "other-shuffle": (
        "lanes", on(WarpOp, lambda e: replace(e, kind=OTHER_SHUFFLE[e.kind]), lambda e: e.kind in OTHER_SHUFFLE)),
    "half-delta": ("lanes", delta(halved)),
    "delta-plus-one": ("lanes", delta(lambda e: plus(e, 1))),
    "half-width": (
        "lanes", on(WarpOp, lambda e: replace(e, width=halved(e.width)), lambda e: e.kind.startswith("shfl"))),
    "narrow-mask": ("lanes", on(WarpOp, set_to(mask=Const(0xFFFF, U32)))),
    "drop-shuffle": ("lanes", on(WarpOp, lambda e: e.value, lambda e: e.kind.startswith("shfl"))),
    "other-lane": ("lanes", on(VecGet, lambda e: replace(e, lane=Const(int(e.lane.value) ^ 1, I32)), names_lane)),
    "swap-lanes": (
        "lanes", on(VecMake, lambda e: replace(e, args=(e.args[1], e.args[0], *e.args[2:])),
                    lambda e: len(e.args) > 1 and e.args[0] != e.args[1])),
}  # fmt: skip

BLIND = frozenset({
    "barrier-in-branch", "atomic-operation", "atomic-to-block", "drop-wait", "drop-branch", "drop-loop", "loop-twice",
    "store-transposed", "drop-initialisation", "overwrite-accumulator", "store-twice", "gt-to-ge", "ge-to-gt",
    "eq-to-ne", "and-to-or", "load-one-before", "drop-first-addend", "plus-to-minus", "drop-modulo", "literal-down",
    "thread-for-block", "round-through-half", "mul-to-add", "drop-factor", "other-function", "second-arm",
    "delta-plus-one", "narrow-mask", "swap-lanes", "half-grid", "swap-axes", "private-array", "smaller-array",
    "other-variable",
})  # fmt: skip
"""Half of all operators."""

PROGRAM: tuple[Operator, ...] = tuple(
    Operator(name, family, kind, change, name in BLIND)
    for kind, table in (("stmt", STATEMENTS), ("expr", EXPRESSIONS))
    for name, (family, change) in table.items()
)
