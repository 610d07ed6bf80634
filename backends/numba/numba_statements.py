"""Statements of the IR as Python text for numba: straight code, one thread (or one iteration) at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager

from ktc.ir.atomic_ops import BIT_ORDERS, TAKEN
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Binary,
    Body,
    Break,
    Call,
    Cast,
    Continue,
    Decl,
    Eval,
    Expr,
    Fence,
    For,
    GridDependency,
    If,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    VecMake,
    While,
)  # fmt: skip
from ktc.ir.types import F32, F64, Array, Ptr, Scalar, Type, Vec, scalar_of

from .counted_ranges import range_of
from .local_arrays import ALL_BYTES, constant, stack_bytes
from .numba_expressions import ExprPrinter, scalar_type
from .numba_types import NARROW_FLOATS, unsupported, value_dtype, zero_of

ATOMICS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "min": "min({0}, {1})", "max": "max({0}, {1})", "and": "{0} & {1}",
    "or": "{0} | {1}", "xor": "{0} ^ {1}", "exch": "{1}", "cas": "{1} if {0} == {2} else {0}",
    "mul": "{0} * {1}", "load": "{0}", "inc": "0 if {0} >= {1} else {0} + 1",
    "dec": "{1} if {0} == 0 or {0} > {1} else {0} - 1",
    **{op: f"{{1}} if {taken.text('{1}', '{0}', ('not ', 'and'))} else {{0}}" for op, taken in TAKEN.items()},
}  # fmt: skip
"""New value from the old one ``{0}``, the operand ``{1}`` and the comparand ``{2}`` (CUDA's definitions)."""


class StmtPrinter:
    """Writes Python lines. ``leave`` is what ``return`` prints as (``continue`` inside a thread loop)."""

    def __init__(self, exprs: ExprPrinter) -> None:
        self.x = exprs
        self.lines: list[str] = []
        self.depth = 0
        self.leave = "return"
        self.held: dict[Sym, str] = {}
        """By buffer, where stores in the loop that is being written leave what is to go past the caches."""
        self._steps: list[str | None] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def block(self, header: str):
        """An indented suite under ``header``; an empty one gets ``pass``."""
        self.line(header)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before or all(t.lstrip().startswith("#") for t in self.lines[before:]):
            self.line("pass")
        self.depth -= 1

    def body(self, body: Body) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: Stmt) -> None:
        for c in s.comments:
            for row in c.strip().removeprefix("/*").removesuffix("*/").splitlines():
                self.line("# " + row.strip().lstrip("/").strip())
        method = _METHODS.get(type(s))
        if method is None:
            raise unsupported(f"{type(s).__name__} statements", s.loc)
        method(self, s)

    # ---------------------------------------------------------------------------------------------------- variables

    def _decl(self, s: Decl) -> None:
        if isinstance(s.sym.type, Vec):
            if s.init is not None:
                self.fill(s.sym, s.init)
        elif isinstance(s.sym.type, Array):
            pass  # arrays are allocated once, by whoever opens the region
        elif isinstance(s.sym.type, Scalar):
            self.line(f"{self.x.ref(s.sym)} = {self.x.text(s.init) if s.init is not None else zero_of(s.sym.type)}")
        else:
            raise unsupported(f"variables of type {s.sym.type}", s.loc)

    def _assign(self, s: Assign) -> None:
        if isinstance(s.sym.type, Vec):
            self.fill(s.sym, s.value)
            return
        ref, v = self.x.ref(s.sym), s.value
        fused = self._multiply_add(Var(s.sym), v)
        if fused is not None:
            self.line(f"{ref} = {fused}")
            return
        plain = isinstance(v, Binary) and v.op in "+-*" and v.a == Var(s.sym)
        if plain and self._in_place(v):  # type: ignore[arg-type]
            self.line(f"{ref} {v.op}= {self.x.text(v.b)}")  # type: ignore[attr-defined]
        else:
            self.line(f"{ref} = {self.x.text(v)}")

    def _multiply_add(self, old: Expr, new: Expr) -> str | None:
        """Text of ``new`` where it adds a product to ``old``: one instruction, as a GPU's compiler makes of it too."""
        if not isinstance(new, Binary) or new.op != "+" or new.type not in (F32, F64):
            return None
        total, product = (new.a, new.b) if new.a == old else (new.b, new.a)
        if total != old or not isinstance(product, Binary) or product.op != "*":
            return None
        return f"{self.x.need('muladd')}({self.x.text(product.a)}, {self.x.text(product.b)}, {self.x.text(old)})"

    def _in_place(self, v: Binary) -> bool:
        t = v.a.type
        return isinstance(t, Scalar) and t.name not in NARROW_FLOATS and (t.kind != "uint" or t.bits == 64)

    def fill(self, sym: Sym, value: Expr) -> None:
        """A vector variable from a vector expression, lane by lane."""
        t = sym.type
        assert isinstance(t, Vec)
        target = self.x.ref(sym)
        at = (lambda l: f"{target[:-1]}, {l}]") if target.endswith("]") else (lambda l: f"{target}[{l}]")
        self.lanes(t.n, value, lambda l, v: self.line(f"{at(l)} = {v}"))

    def lanes(self, n: int | Expr, value: Expr, put) -> None:
        """Call ``put(lane, text)`` for every lane: unrolled for a written-out vector, else in a loop."""
        if isinstance(value, VecMake):
            for i, a in enumerate(value.args):
                put(str(i), self.x.text(a))
            return
        lane = self.x.reserve("lane")
        with self.block(f"for {lane} in range({self.x.count(n)}):"):
            put(lane, self.x.lane(value, lane))

    # ------------------------------------------------------------------------------------------------------- memory

    def _store(self, s: Store) -> None:
        if isinstance(s.value.type, Vec):
            self.lanes(
                s.value.type.n,
                s.value,
                lambda l, v: self.line(f"{self.x.place(s.buffer, s.index, l)} = {self.x.stored(s.buffer, v, None)}"),
            )
            return
        fused = self._multiply_add(Load(s.buffer, s.index), s.value)
        place = self.held.get(s.buffer) or self.x.place(s.buffer, s.index)
        self.line(f"{place} = {fused or self.stored(s.buffer, s.value)}")

    def stored(self, buffer: Sym, value: Expr) -> str:
        """``value`` in the buffer's storage; the rounding of an outermost narrowing cast happens in the conversion."""
        inner = None
        if isinstance(value, Cast) and value.style != "bit" and (value.to, value.x.type) == (scalar_type(buffer), F32):
            inner = self.x.text(value.x)
        if inner is None:
            return self.x.stored(buffer, self.x.text(value), None)
        if isinstance(buffer.type, Ptr) and scalar_type(buffer).name in NARROW_FLOATS:
            return self.x.stored(buffer, "", inner)
        return self.x.text(value)

    def _atomic(self, s: Atomic) -> None:
        place, t = self.x.place(s.buffer, s.index), scalar_type(s.buffer)
        old, value = self.x.read(s.buffer, s.index), self.x.text(s.value, 12)
        rule = self._on_bits(s, t) if s.op in BIT_ORDERS or (s.op == "cas" and t.is_float) else ATOMICS[s.op]
        if t.is_float and s.op in ("min", "max"):
            rule = f"{self.x.need('f' + s.op)}({{0}}, {{1}})"
        keep = self.x.ref(s.dst) if s.dst is not None else self.x.reserve("old")
        self.line(f"{keep} = {old}")
        compare = self.x.text(s.compare, 12) if s.compare is not None else ""
        new = self.x.round(rule.format(keep, value, compare), 0, t)[0]
        self.line(f"{place} = {self.x.stored(s.buffer, new, None)}")

    def _on_bits(self, s: Atomic, t: Scalar) -> str:
        """The rule of an atomic that compares bits."""
        if s.op == "cas":
            return f"{{1}} if {self.x.to_bits('{0}', t)} == {self.x.to_bits('{2}', t)} else {{0}}"
        signed, better = BIT_ORDERS[s.op]
        old, new = (self.x.as_integer(x, t, signed) for x in ("{0}", "{1}"))
        return f"{{1}} if {new} {better} {old} else {{0}}"

    def _async_copy(self, s: AsyncCopy) -> None:
        def put(lane: str | None) -> None:
            self.line(f"{self.x.place(s.dst, s.dst_index, lane)} = {self.x.read(s.src, s.src_index, lane)}")

        if s.width == 1:
            put(None)
            return
        lane = self.x.reserve("lane")
        with self.block(f"for {lane} in range({self.x.count(s.width)}):"):
            put(lane)

    def _eval(self, s: Eval) -> None:
        if isinstance(s.value, Call) and s.value.fn == "printf":
            self.line("pass  # printf: prints nothing on the CPU")
            return
        self.line(self.x.text(s.value))

    def _nothing(self, s: Stmt) -> None:
        """Fences, and the bookkeeping of copies that are done at once."""

    # ------------------------------------------------------------------------------------------------------ control

    def _if(self, s: If) -> None:
        with self.block(f"if {self.x.text(s.cond)}:"):
            self.body(s.then)
        if s.orelse:
            with self.block("else:"):
                self.body(s.orelse)

    def _for(self, s: For) -> None:
        head = range_of(s, self.x)
        if head is not None:
            self._steps.append(None)
            with self.block(f"for {self.x.ref(s.var)} in {head}:"):
                self.body(s.body)
            self._steps.pop()
            return
        var = self.x.ref(s.var)
        self.line(f"{var} = {self.x.text(s.init)}")
        step = f"{var} = {self.x.text(s.step)}"
        self._steps.append(step)
        with self.block(f"while {self.x.text(s.cond)}:"):
            self.body(s.body)
            self.line(step)
        self._steps.pop()

    def _while(self, s: While) -> None:
        self._steps.append(None)
        if s.post:
            with self.block("while True:"):
                self._steps[-1] = f"if not ({self.x.text(s.cond)}): break"
                self.body(s.body)
                with self.block(f"if not ({self.x.text(s.cond)}):"):
                    self.line("break")
        else:
            with self.block(f"while {self.x.text(s.cond)}:"):
                self.body(s.body)
        self._steps.pop()

    def _break(self, s: Break) -> None:
        self.line("break")

    def _continue(self, s: Continue) -> None:
        if self._steps and self._steps[-1]:
            self.line(self._steps[-1])
        self.line("continue")

    def _return(self, s: Return) -> None:
        self.line(self.leave)

    def _barrier(self, s: Barrier) -> None:
        raise unsupported("a barrier inside sequential code", s.loc)

    # ---------------------------------------------------------------------------------------------------- allocation

    def allocate(self, sym: Sym, lead: str = "") -> None:
        """Memory for an array or vector variable: the stack's if it can be, else the heap's; ``lead`` is an extra
        leading dimension (one row a thread)."""
        on_stack = None if lead else self.on_stack(sym)
        self.line(f"{self.x.name(sym)} = {on_stack or self.on_heap(sym, lead)}")

    def on_stack(self, sym: Sym) -> str | None:
        """A small private array of constant shape on the stack, as an expression; None for any other."""
        shape, elem = _shape(sym.type)
        shared = isinstance(sym.type, Array) and sym.type.space != "local"
        size = None if shared else stack_bytes(shape, elem.bytes, self.x.knobs)
        if size is None or self.x.on_stack + size > ALL_BYTES:
            return None
        self.x.on_stack += size
        return self.local(self.x.name(sym), [self.x.count(n) for n in shape], value_dtype(elem))

    def on_heap(self, sym: Sym, lead: str = "") -> str:
        """Any array on the heap, as an expression."""
        shape, elem = _shape(sym.type)
        counts = _extents([*([lead] if lead else []), *(self.x.count(n) for n in shape)])
        return f"np.empty({counts}, {value_dtype(elem)})"

    def local(self, name: str, dims: Sequence[str], dtype: str) -> str:
        """An array on the stack (:mod:`.local_arrays`), as an expression."""
        return f"{self._maker(name, 'local_array', dims, dtype)}()"

    def given(self, sym: Sym) -> tuple[str, str]:
        """An array on the heap for a function that gets it from its caller: what the caller passes on under the array's
        name, and what the function makes of that: the array, of a shape that LLVM knows if it is constant."""
        shape, elem = _shape(sym.type)
        name, dtype = self.x.name(sym), value_dtype(elem)
        if any(constant(n, self.x.knobs) is None for n in shape):
            return self.on_heap(sym), name
        dims = [self.x.count(n) for n in shape]
        made = self._maker(name, "given_array", dims, dtype)
        return f"np.empty({' * '.join(dims)}, {dtype})", f"{made}({name})"

    def _maker(self, name: str, helper: str, dims: Sequence[str], dtype: str) -> str:
        """The function that makes the array ``name``, at the top of the module."""
        maker = self.x.reserve(f"{name}_array")
        self.x.at_top.append(f"{maker} = {self.x.need(helper)}({_extents(dims)}, {dtype})")
        return maker


def _extents(dims: Sequence[str]) -> str:
    """A tuple of ``dims``."""
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def _shape(t: Type) -> tuple[tuple[int | Expr, ...], Scalar]:
    """The extents of an array of scalars or vectors, or of a vector, and the type of its elements."""
    shape: tuple[int | Expr, ...] = ()
    while isinstance(t, Array | Vec):
        shape += t.shape if isinstance(t, Array) else (t.n,)
        t = t.elem
    return shape, scalar_of(t)


_METHODS: dict[type[Stmt], Callable[..., None]] = {
    Decl: StmtPrinter._decl, Assign: StmtPrinter._assign, Store: StmtPrinter._store, Atomic: StmtPrinter._atomic,
    AsyncCopy: StmtPrinter._async_copy, Eval: StmtPrinter._eval, If: StmtPrinter._if, For: StmtPrinter._for,
    While: StmtPrinter._while, Break: StmtPrinter._break, Continue: StmtPrinter._continue, Return: StmtPrinter._return,
    Barrier: StmtPrinter._barrier, Fence: StmtPrinter._nothing, GridDependency: StmtPrinter._nothing,
    AsyncCommit: StmtPrinter._nothing, AsyncWait: StmtPrinter._nothing, Alloc: StmtPrinter._nothing,
}  # fmt: skip
"""``Par`` and ``Reduce`` are added by numba_par, lane operations by numba_spmd."""
