"""A sequence of a host function in the words of a workload: names for its buffers and numbers, expressions as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count

from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import simplify
from ktc.ir.frontend.host.sequences import HostSequence
from ktc.ir.frontend.host.sequences.host_memories import HostPointer, Root
from ktc.ir.frontend.host.sequences.host_runs import Passing
from ktc.ir.frontend.host.sequences.host_sequences import HostStep
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Select, Sym, Unary, Var, fresh
from ktc.ir.types import Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import substitute_expr, used

from ..text import plain

_WORD = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class SheetLaunch:
    """A table ``[[launch]]``: what is passed by parameter, as a workload writes it."""

    kernel: str
    template: Mapping[str, str]
    passed: Mapping[str, str | int | float]
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    loc: Loc | None


@dataclass
class Sheet:
    """``dtypes``: of the elements of each buffer; ``extents``: elements of those whose allocation was seen; ``ints``
    and ``floats``: numbers of the host that the launches depend on, with the constants that the source gives them."""

    name: str
    function: str
    launches: list[SheetLaunch] = field(default_factory=list)
    buffers: dict[str, Passing] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    extents: dict[str, str] = field(default_factory=dict)
    ints: dict[str, Root] = field(default_factory=dict)
    floats: dict[str, Root] = field(default_factory=dict)


def sheet_of(sequence: HostSequence, kernels: list[Kernel]) -> Sheet:
    """``sequence`` in names and text; ``kernels`` are those of its steps.

    Raises:
        KtcError: E-SEQUENCE-HOST, what is passed is nothing that a workload can say.
    """
    return _Writer(sequence, kernels).sheet()


class _Writer:
    def __init__(self, sequence: HostSequence, kernels: list[Kernel]) -> None:
        self.sequence, self.kernels = sequence, kernels
        self.fixed = dict(_fixed(sequence))
        self.names = {id(p.memory): p.memory.name for p in sequence.memories}
        self.made = Sheet(
            f"{sequence.function}_launches", sequence.function
        )  # the function itself has its name already
        self.renamed = dict(_named(sequence, {*self.names.values()}))
        self.computed: dict[str, Expr] = {}
        self.order = {r.sym: i for i, r in enumerate(sequence.roots.values())}
        self.roots = {self.renamed[r.sym]: r for r in sequence.roots.values() if r.sym in self.renamed}

    def sheet(self) -> Sheet:
        for p in self.sequence.memories:
            self.made.buffers[p.memory.name] = p
        for step, kernel in zip(self.sequence.steps, self.kernels):
            self.made.launches.append(self._launch(step, kernel))
        for p in self.sequence.memories:
            width = _bytes(self.made.dtypes[p.memory.name]) if p.memory.name in self.made.dtypes else 0
            if p.memory.bytes is not None and width:
                self.made.extents[p.memory.name] = self._text(_elements(p.memory.bytes, width), None)
        return self.made

    def _launch(self, step: HostStep, kernel: Kernel) -> SheetLaunch:
        passed: dict[str, str | int | float] = {}
        for p in kernel.params:
            given = step.passed.get(p.sym.name)
            if p.symbol and not p.init:
                what = f"{kernel.name} reads '{p.sym.name}', a variable at file scope that the host sets"
                raise KtcError(
                    "E-SEQUENCE-HOST", what, step.loc, "pass it as a parameter: no sequence sets such a variable"
                )
            if given is None:
                if p.init or p.symbol or p.host:
                    continue
                what = f"what the host makes the parameter '{p.sym.name}' of {kernel.name} of is not followed"
                raise KtcError("E-SEQUENCE-HOST", what, step.loc)
            text = self._passed(p, given, step, kernel)
            if text != p.sym.name:
                passed[p.sym.name] = text
        grid, block = (tuple(self._text(e, step.loc) for e in x) for x in (step.grid, step.block))
        shared = "0" if step.shared is None else self._text(step.shared, step.loc)
        return SheetLaunch(step.kernel, step.template, passed, _short(grid), _short(block), shared, step.loc)

    def _passed(self, p: Param, given: HostPointer | Expr, step: HostStep, kernel: Kernel) -> str | int | float:
        name = p.sym.name
        if isinstance(p.sym.type, Ptr) != isinstance(given, HostPointer):
            what = f"'{name}' of {kernel.name} is passed what is not seen to be {_kind(p)}"
            raise KtcError("E-SEQUENCE-HOST", what, step.loc)
        if isinstance(given, HostPointer):
            return self._pointer(p, given, step, kernel)
        e = simplify(substitute_expr(given, self.fixed))
        if isinstance(e, Const) and not isinstance(e.value, bool):
            value = float(e.value) if scalar_of(p.sym.type).is_float else int(e.value)
            return float(str(value)) if isinstance(value, float) else value
        if scalar_of(p.sym.type).is_float and not isinstance(without_casts(e), Var):
            return self._computed(name, e, p)
        return self._text(e, step.loc)

    def _computed(self, name: str, e: Expr, p: Param) -> str:
        """A number that the host computes in floating point: one of the sequence's own, whose value callers know."""
        known = next((n for n, other in self.computed.items() if other == e), None)
        if known is None:
            taken = {*self.computed, *self.roots, *self.names.values()}
            known = next(n for n in chain((name,), (f"{name}_{i}" for i in count(2))) if n not in taken)
            self.computed[known] = e
            self.made.floats[known] = Root(fresh(known, scalar_of(p.sym.type)))
        return known

    def _pointer(self, p: Param, given: HostPointer, step: HostStep, kernel: Kernel) -> str:
        buffer, elem = self.names[id(given.memory)], scalar_of(p.sym.type)
        known = self.made.dtypes.setdefault(buffer, elem.name)
        if known != elem.name:
            what = f"'{buffer}' holds {known} for an earlier launch, and {elem.name} for {kernel.name}"
            raise KtcError("E-SEQUENCE-HOST", what, step.loc, "a sequence has one type of elements for each buffer")
        offset = simplify(substitute_expr(given.offset, self.fixed))
        if isinstance(offset, Const) and offset.value == 0:
            return buffer
        t = p.sym.type
        lanes = t.elem.n if isinstance(t, Ptr) and isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else 1
        return f"{buffer} + {self._text(_elements(offset, _bytes(elem.name) * lanes), step.loc)}"

    def _text(self, e: Expr, at: Loc | None) -> str:
        """``e`` as a workload writes it; the numbers that it is made of are numbers of the sequence from here on."""
        e = simplify(substitute_expr(e, self.fixed))
        text = self._written(e)
        if text is None:
            raise KtcError("E-SEQUENCE-HOST", f"no workload can say what the host computes here: {e}", at)
        for s in sorted(used(e), key=self.order.__getitem__):
            name = self.renamed[s]
            whole = isinstance(s.type, Scalar) and s.type.is_int
            (self.made.ints if whole else self.made.floats).setdefault(name, self.roots[name])
        return plain(text)

    def _written(self, e: Expr) -> str | None:
        match e:
            case Const(int() as v, _):
                return str(int(v))
            case Const(float() as v, _):
                return repr(v)
            case Var(s):
                return self.renamed.get(s)
            case Cast(_, x):
                return self._written(x)
            case Unary("-", x):
                inner = self._written(x)
                return f"(-{inner})" if inner else None
            case Binary(op, a, b) if op in _OPERATORS:
                left, right = self._written(a), self._written(b)
                return f"({left} {op} {right})" if left and right else None
            case Call(fn="cdiv" | "min" | "max" as fn, args=args):
                parts = [self._written(a) for a in args]
                return f"{fn}({', '.join(p for p in parts if p)})" if all(parts) else None
            case Unary("!", x):
                inner = self._written(x)
                return f"(not {inner})" if inner else None
            case Select(cond, a, b):
                return self._chosen(cond, a, b)
        return None

    def _chosen(self, cond: Expr, a: Expr, b: Expr) -> str | None:
        """``x < y ? x : y`` and its like."""
        match cond:
            case Binary("<" | "<=" as op, x, y) | Binary(">" | ">=" as op, x, y) if {x, y} == {a, b}:
                fn = "min" if (op[0] == "<") == (a == x) else "max"
                left, right = self._written(a), self._written(b)
                return f"{fn}({left}, {right})" if left and right else None
        parts = [self._written(x) for x in (a, cond, b)]
        return f"({parts[0]} if {parts[1]} else {parts[2]})" if all(parts) else None


_OPERATORS = frozenset({"+", "-", "*", "/", "%", "<<", ">>", "<", "<=", ">", ">=", "==", "!="})


def _named(sequence: HostSequence, taken: set[str]) -> Iterator[tuple[Sym, str]]:
    """A name for each number that the launches depend on: that of its variable, where no other one has it."""
    exprs = [e for s in sequence.steps for e in (*s.grid, *s.block, *([s.shared] if s.shared is not None else []))]
    for passed in (p for s in sequence.steps for p in s.passed.values()):
        exprs.append(passed.offset if isinstance(passed, HostPointer) else passed)
    exprs += [p.memory.bytes for p in sequence.memories if p.memory.bytes is not None]
    mentioned = {s for e in exprs for s in used(e)}
    for r in sequence.roots.values():
        if r.sym in mentioned:
            name = next(n for n in chain((r.name,), (f"{r.name}_{i}" for i in count(2))) if n not in taken)
            taken.add(name)
            yield r.sym, name


def _fixed(sequence: HostSequence) -> Iterator[tuple[Sym, Const]]:
    """Constants of the source that a block has threads or shared memory by: no sizes of a problem."""
    shaped = [e for s in sequence.steps for e in (*s.block, *([s.shared] if s.shared is not None else []))]
    inside = {s for e in shaped for s in used(e)}
    for r in sequence.roots.values():
        if r.sym in inside and r.value is not None:
            yield r.sym, Const(r.value, r.sym.type)  # type: ignore[arg-type]


def _kind(p: Param) -> str:
    return "a pointer" if isinstance(p.sym.type, Ptr) else "a number"


def _short(dims: tuple[str, ...]) -> tuple[str, ...]:
    while len(dims) > 1 and dims[-1] == "1":
        dims = dims[:-1]
    return dims


def _bytes(dtype: str) -> int:
    from ktc.ir.types import SCALARS

    return max(1, SCALARS[dtype].bits // 8)


def _elements(size: Expr, width: int) -> Expr:
    """``size`` bytes in elements of ``width`` bytes, without a division where a factor of it says so."""
    less = _without_factor(size, width)
    return less if less is not None else Binary("/", size, Const(width, size.type))  # type: ignore[arg-type]


def _without_factor(e: Expr, width: int) -> Expr | None:
    match e:
        case Const(int() as v, t):
            return Const(v // width, t) if v % width == 0 else None
        case Cast(to, x, style):
            inner = _without_factor(x, width)
            return Cast(to, inner, style) if inner is not None else None
        case Binary("*", a, b):
            if (left := _without_factor(a, width)) is not None:
                return simplify(Binary("*", left, b))
            right = _without_factor(b, width)
            return simplify(Binary("*", a, right)) if right is not None else None
        case Binary("+" | "-" as op, a, b):
            left, right = _without_factor(a, width), _without_factor(b, width)
            return simplify(Binary(op, left, right)) if left is not None and right is not None else None
    return e if width == 1 else None


__all__ = ["Sheet", "SheetLaunch", "sheet_of"]
