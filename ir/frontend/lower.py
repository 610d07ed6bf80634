"""Lowering one ``__global__`` function to a kernel in SPMD form."""

from __future__ import annotations

import dataclasses

from ..diagnostics import KtcError
from ..fold import evaluate
from ..kernel import Kernel, Launch, Param
from ..nodes import Alloc, Const, Expr, HwIndex, Stmt, Sym, Var, fresh, i32
from ..types import I32, Array, Ptr, Scalar, Type, Vec
from ..walk import all_exprs, rename, used_in
from .context import Frame
from .cxx_types import CArray, Pointer, Reference, show, size_of
from .inline import params_of
from .loops import Loops
from .preprocess import Preprocessed
from .program import Entity, Program
from .resolve import qualifiers
from .values import ArrayVal, PtrVal, PtrVar, RVal, Value, VarPlace


class KernelLowering(Loops):
    """Lowers one kernel for given template bindings and, if known, a launch."""

    def __init__(self, program: Program, source: Preprocessed, file: str) -> None:
        super().__init__(program, source, file)
        self._facts = {}
        self._starts: list[list[Stmt]] = []
        self._use_scope = self.scope
        self.hoisted: list[Alloc] = []
        self.tables: dict[str, Value] = {}
        self.references = {}
        self.shared_bytes: Expr | None = None
        self.dynamic: dict[Sym, Type] = {}

    def lower(
        self, entity: Entity, bindings: dict[str, Value], params: tuple[Param, ...], launch: Launch | None
    ) -> Kernel:
        """The kernel's body over the parameters ``params`` (see :meth:`parameters`)."""
        fn = entity.node
        self.shared_bytes = launch.dynamic_shared if launch is not None else None
        facts = self.facts_for(fn)
        self.loc = self.place(fn)
        with self.scoped(namespace=entity.namespace) as scope, self.capture() as out:
            scope.names.update(bindings)
            self.frame = Frame(fn.name, True, None, facts)
            self._local_parameters(entity, params)
            for p in params:
                if not p.host:
                    scope.names[p.sym.name] = self._parameter_value(p, p.sym.name in facts.mutated)
            comments = self.take_comments(self.loc)
            self._starts.append([])
            self.items(fn.body.block_items or [])
            self._starts.pop()
            bounds = self._bounds(fn.bounds.get("__launch_bounds__", []))
        body = (*self.hoisted, *out)
        body = self._retyped(body)
        if launch is not None:
            launch = dataclasses.replace(launch, **bounds)  # type: ignore[arg-type]
        used = used_in(body)
        kept = tuple(p for p in params if not p.host or p.sym in used or _in_launch(p.sym, launch))
        kept = (*kept, *self.texture_params())
        return Kernel(fn.name, kept, launch, body, loc=self.place(fn), comments=comments)

    def parameters(self, entity: Entity, bindings: dict[str, Value]) -> tuple[Param, ...]:
        """The kernel's own parameters."""
        out = []
        local = [p for p in params_of(entity.node) if "local pointer" in (getattr(p, "funcspec", None) or [])]
        with self.scoped(namespace=entity.namespace) as scope:
            scope.names.update(bindings)
            for i, node in enumerate(params_of(entity.node)):
                name = getattr(node, "name", None) or f"unnamed{i}"
                t = self.resolve(node.type)
                if node in local:
                    out.append(Param(fresh(f"{name}_elems", I32), host=len(local) == 1))
                    continue
                if isinstance(t, Pointer):
                    if not isinstance(t.elem, Scalar | Vec):
                        self.fail("E-UNSUPPORTED-PARAM", f"parameter '{name}' of type '{show(t)}' is not supported",
                        node,
                                  hint="pass flat arrays of numbers")  # fmt: skip
                    ptr = Ptr(t.elem, "global", t.const, t.restrict, t.volatile)
                    size = size_of(t.elem) or 1
                    align = size if isinstance(t.elem, Vec) else 0
                    out.append(Param(fresh(name, ptr), align=align, noalias=t.restrict, readonly=t.const))
                elif isinstance(t, (Scalar, Vec)):
                    out.append(Param(fresh(name, t)))
                else:
                    kind = "a reference" if isinstance(t, Reference) else f"of type '{show(t)}'"
                    self.fail("E-UNSUPPORTED-PARAM", f"parameter '{name}' {kind} is not supported", node,
                              hint="pass its members as separate parameters")  # fmt: skip
        return tuple(out)

    def _local_parameters(self, entity: Entity, params: tuple[Param, ...]) -> None:
        """OpenCL's ``__local T *p`` arguments: dynamic shared memory of ``p_elems`` elements.

        Of several, the kernel must know the sizes to find where each starts, so they become parameters of its own.
        """
        sizes = {p.sym.name: p.sym for p in params}
        for node in params_of(entity.node):
            if "local pointer" not in (getattr(node, "funcspec", None) or []):
                continue
            t = self.resolve(node.type)
            if not isinstance(t, Pointer) or not isinstance(t.elem, Scalar | Vec):
                self.fail("E-UNSUPPORTED-PARAM", f"parameter '{node.name}' of type '{show(t)}' is not supported", node)
            sym = fresh(node.name, Array(t.elem, (Var(sizes[f"{node.name}_elems"]),), "shared"))
            self.emit(Alloc(sym, dynamic=True, loc=self.place(node)))
            self.scope.names[node.name] = ArrayVal(sym, (), CArray(t.elem, None))

    def _parameter_value(self, p: Param, mutated: bool) -> Value:
        from ..nodes import Decl
        from ..types import I64

        t = p.sym.type
        if isinstance(t, Ptr):
            start = PtrVal(p.sym, (), None, t.elem, t.const)
            if not mutated:
                return start
            sym = fresh(f"{p.sym.name}_offset", I64)
            self.emit(Decl(sym, Const(0, I64), loc=self.loc))
            return PtrVar(sym, start, self.frame)
        if not mutated:
            return VarPlace(p.sym)
        sym = fresh(p.sym.name, t)
        self.emit(Decl(sym, Var(p.sym), loc=self.loc))
        return VarPlace(sym)

    def _bounds(self, args: list) -> dict[str, Expr]:
        names = ("max_threads", "min_blocks")
        return {n: i32(self.const_int(a, "a launch bound")) for n, a in zip(names, args)}

    # ------------------------------------------------------------------ dynamic shared memory
    def dynamic_extent(self, elem: Type) -> Expr:
        """Elements of dynamic shared memory: the launch's bytes over the element size (1 if not known)."""
        size = size_of(elem) or 1
        if self.shared_bytes is None:
            return i32(1)
        known = evaluate(self.shared_bytes, {})
        if known is not None:
            return i32(max(1, int(known) // size))
        return elements_of(self.shared_bytes, size)

    def retype_dynamic(self, buffer: Sym, elem: Type) -> None:
        """Remember as what type dynamic shared memory is used: if only one, it is declared as that."""
        t = buffer.type
        if isinstance(t, Array) and any(v.buffer == buffer for v in self.shared.values()):  # type: ignore[attr-defined]
            self.dynamic.setdefault(buffer, elem)

    def _retyped(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Declare byte-typed dynamic shared memory with the one element type it is accessed as."""
        from .retype import retype_bytes

        return retype_bytes(body, set(self.dynamic), self.dynamic_extent)

    def constant_of(self, v: RVal) -> int | None:
        c = self.constant(v.expr)
        return None if c is None else int(c.value)


def elements_of(bytes_: Expr, size: int) -> Expr:
    """``bytes / size``, cancelling a factor ``size`` that is visible."""
    from ..nodes import Binary, Cast

    e = bytes_
    while isinstance(e, Cast) and e.style != "bit":
        e = e.x
    if isinstance(e, Binary) and e.op == "*":
        for x, y in ((e.a, e.b), (e.b, e.a)):
            if isinstance(y, Const) and int(y.value) % size == 0:
                while isinstance(x, Cast) and x.style == "implicit":
                    x = x.x
                n = int(y.value) // size
                return x if n == 1 else Binary("*", x, Const(n, x.type))  # type: ignore[arg-type]
    return Binary("/", e, Const(size, e.type))  # type: ignore[arg-type]


def _in_launch(sym: Sym, launch: Launch | None) -> bool:
    from ..walk import used

    if launch is None:
        return False
    parts = [*launch.grid, *launch.block, *([launch.dynamic_shared] if launch.dynamic_shared is not None else [])]
    return any(sym in used(e) for e in parts)


__all__ = ["HwIndex", "KernelLowering", "KtcError", "all_exprs", "elements_of", "qualifiers", "rename"]
