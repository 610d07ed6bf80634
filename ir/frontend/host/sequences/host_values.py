"""What the variables of a host function hold at one place of it: numbers as expressions, addresses, dimensions.

Numbers are expressions over *roots*: parameters of the function, what a call returns, variables that a loop or a branch
has changed. A variable that is given a constant is a root with that value, so that what is computed of it stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pycparser import c_ast

from ktc.ir.arith.integer_casts import without_implicit_integers
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add, evaluate, simplify
from ktc.ir.frontend.host.followed_values import followed
from ktc.ir.frontend.host.host_calls import ADDRESSES, with_named_calls
from ktc.ir.frontend.host.launches.launch_math import as_written, integer_form
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import DIM3, Auto, Pointer, Reference
from ktc.ir.frontend.meaning.name_meanings import TypeVal
from ktc.ir.frontend.meaning.values import Dim3Val, RVal, Value
from ktc.ir.frontend.syntax.cxx_ast import Alias, Construct, CxxCast, Lambda, RefDecl
from ktc.ir.frontend.syntax.syntax_walk import children, descendants
from ktc.ir.frontend.syntax.variable_uses import init_args
from ktc.ir.nodes import Binary, Cast, Const, Expr, Load, Var, fresh, i32
from ktc.ir.types import I32, I64, Scalar, Type, Vec
from ktc.ir.walk import substitute_expr, used, walk_expr

from .host_memories import HostPointer, Memory, Root
from .host_syntax import called, is_pointer, path_of, uncast

NULL = frozenset({"NULL", "nullptr", "0"})
ONE = i32(1)
SIZES = ("x", "y", "z")


class HostValues:
    """The variables of a function, and of those that it calls. ``types``: template arguments and what else names mean
    besides. ``fixed``: variables that are constants of the program, and no sizes that somebody may choose."""

    def __init__(
        self,
        lowering: KernelLowering,
        namespace: tuple[str, ...],
        types: Mapping[str, Value],
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        self.lowering, self.namespace, self.fixed = lowering, namespace, fixed
        self.types: dict[str, Any] = dict(types)
        self.numbers: dict[str, Value | None] = {}
        self.pointers: dict[str, HostPointer | None] = {}
        self.widths: dict[str, int] = {}
        """Bytes of what the pointers point to."""

        self.shared_names: set[str] = set()
        """Variables at file scope among the numbers."""

        self.roots: dict[str, Root] = {}
        self.memories: list[Memory] = []

    # ---------------------------------------------------------------------------------------------------------- state
    def saved(self) -> tuple[dict[str, Any], ...]:
        """What holds now, to come back to."""
        return dict(self.numbers), dict(self.pointers), dict(self.widths), dict(self.types)

    def restore(self, state: tuple[dict[str, Any], ...]) -> None:
        self.numbers, self.pointers, self.widths, self.types = (dict(x) for x in state)

    def forget(self, names: Iterable[str]) -> None:
        """``names`` hold something that is not known from here on."""
        for name in names:
            if name in self.numbers:
                old = self.numbers[name]
                self.numbers[name] = self._root(name, old.type if isinstance(old, RVal) else I32)
            for path in [p for p in self.pointers if p == name or p.startswith(f"{name}_at_")]:
                if (held := self.pointers[path]) is not None:
                    held.memory.escaped = True  # another variable may have it from here on
                self.pointers[path] = self.unknown(path)

    # --------------------------------------------------------------------------------------------------------- names
    def declare(self, node: Any) -> None:
        """A declaration, with what it is initialised with."""
        if isinstance(node, Alias | c_ast.Typedef):
            self._declare_type(node)
            return
        t = self.type_of(node.type)
        args = init_args(node.init)
        if isinstance(node.type, RefDecl) and isinstance(t, Pointer):
            raise KtcError("E-SEQUENCE-HOST", f"'{node.name}' is a reference to a pointer", self.lowering.place(node))
        if isinstance(t, Pointer) or is_pointer(node.type):
            self.widths[node.name] = self.width(t)
            self.numbers.pop(node.name, None)
            array = isinstance(node.type, c_ast.ArrayDecl)
            if array:
                self.let_out(node.init)
            self.pointers[node.name] = self.pointer(args[0]) if args and not array else None
            return
        self.pointers.pop(node.name, None)
        self.numbers[node.name] = self._initial(node, t, args)
        if node.name not in self.pointers:
            self.let_out(node.init)

    def _declare_type(self, node: Any) -> None:
        try:
            with self._here():
                self.types[node.name] = TypeVal(self.lowering.resolve(node.type))
        except KtcError:
            self.types.pop(node.name, None)

    def _initial(self, node: Any, t: Type, args: list[Any]) -> Value | None:
        if t == DIM3 or (isinstance(t, Vec) and t.n == 3):
            return self._dim3(args)
        if isinstance(t, Auto) and len(args) == 1:
            found = self.value(args[0])
            if isinstance(found, Dim3Val):
                return found
            t = found.type if isinstance(found, RVal) else t
            if not isinstance(t, Scalar):
                p = self.pointer(args[0])
                if p is not None:
                    self.pointers[node.name] = p
                return None
        if not isinstance(t, Scalar):
            return None
        value = self.number(args[0], t) if len(args) == 1 else None
        if isinstance(value, Const) and node.name not in self.fixed:
            return RVal(Var(self._new_root(node.name, t, value.value).sym))
        return RVal(value) if value is not None else self._root(node.name, t)

    def assign(self, node: c_ast.Assignment) -> None:
        """An assignment to a variable, a member or an element."""
        target = node.lvalue
        if isinstance(target, c_ast.StructRef) and isinstance(target.name, c_ast.ID):
            dims = self.numbers.get(target.name.name)
            if isinstance(dims, Dim3Val) and target.field.name in SIZES:
                given = {a: getattr(dims, a) for a in SIZES}
                given[target.field.name] = self.number(node.rvalue) or self._root("dim", I32).expr
                self.numbers[target.name.name] = Dim3Val(**given)
                return
        path = path_of(target)
        if path is None:
            return
        old = self.numbers.get(path)
        if node.op == "=" and isinstance(old, Dim3Val):
            self.numbers[path] = self._dim3([node.rvalue])
        elif node.op == "=" and isinstance(old, RVal) and isinstance(old.type, Scalar):
            e = self.number(node.rvalue, old.type)
            self.numbers[path] = RVal(e) if e is not None else self._root(path, old.type)
        elif path in self.numbers:
            e = self.number(c_ast.BinaryOp(node.op[:-1], target, node.rvalue, node.coord)) if node.op != "=" else None
            t = old.type if isinstance(old, RVal) else I32
            self.numbers[path] = RVal(e) if e is not None else self._root(path, t)
        elif node.op == "=" and (path in self.pointers or self.pointer(node.rvalue, quiet=True) is not None):
            self.pointers[path] = self.pointer(node.rvalue)
        elif path in self.pointers:
            self.pointers[path] = self.unknown(path)

    def unknown(self, name: str, kind: str = "unknown", loops: tuple[int, ...] = ()) -> HostPointer:
        """The address of some memory that nothing is known of, to be called after ``name``."""
        taken = {m.name for m in self.memories}
        label, k = name.replace("_at_", "_"), 1
        while label in taken:
            k += 1
            label = f"{name.replace('_at_', '_')}_{k}"
        self.memories.append(Memory(label, kind, loops))
        return HostPointer(self.memories[-1], i32(0))

    def _root(self, name: str, t: Type) -> RVal:
        return RVal(Var(self._new_root(name, t, None).sym))

    def _new_root(self, name: str, t: Type, value: Any) -> Root:
        label, k = name, 1
        while label in self.roots:
            k += 1
            label = f"{name}_{k}"
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        self.roots[label] = Root(fresh(label, t if isinstance(t, Scalar) else I32), number, name)  # type: ignore[arg-type]
        return self.roots[label]

    # -------------------------------------------------------------------------------------------------------- numbers
    def type_of(self, node: Any) -> Type:
        """The type that a declaration says, ``auto`` where it cannot be told."""
        try:
            with self._here():
                t = self.lowering.resolve(node)
        except KtcError:
            return Auto()
        return t.elem if isinstance(t, Reference) else t

    def width(self, t: Type) -> int:
        """Bytes of what a pointer of type ``t`` points to, 1 where that is not known."""
        elem = t.elem if isinstance(t, Pointer) else None
        if isinstance(elem, Scalar):
            return max(1, elem.bits // 8)
        if isinstance(elem, Vec) and isinstance(elem.n, int) and isinstance(elem.elem, Scalar):
            return elem.n * max(1, elem.elem.bits // 8)
        return 8 if isinstance(elem, Pointer) else 1

    def number(self, node: Any, to: Scalar | None = None) -> Expr | None:
        """A scalar as an expression over roots, in the type ``to``; None for what cannot be followed."""
        v = self.value(node)
        if not isinstance(v, RVal) or not isinstance(v.type, Scalar):
            return None
        try:
            e = self.lowering.convert(v, to).expr if to is not None else v.expr
        except KtcError:
            return None
        e = simplify(integer_form(e) if isinstance(e.type, Scalar) and e.type.is_int else e)
        return without_implicit_integers(e)

    def value(self, node: Any) -> Value | None:
        """A number, or dimensions, as an expression over roots; None for what cannot be followed."""
        calls: set[str] = set()
        try:
            return self._evaluated(node)
        except KtcError:
            pass
        try:
            named = with_named_calls(node, calls, self.numbers)
            for name in calls - self.numbers.keys():
                self.numbers[name] = self._root(name, I64 if name.endswith("numel") else I32)
            found = self._file_scope(named)
            return self._evaluated(named) if calls or found else None
        except KtcError:
            return None

    def _file_scope(self, node: Any) -> bool:
        """Whether ``node`` mentions variables at file scope that change, which are numbers from here on."""
        found = False
        for n in descendants(node):
            declared = self.lowering.program.variables.get(n.name) if isinstance(n, c_ast.ID) else None
            if not declared or n.name in self.numbers or n.name in self.pointers:
                continue
            t = self.type_of(declared[0].node.type)
            if isinstance(t, Scalar):
                self.numbers[n.name] = self._root(n.name, t)
                self.shared_names.add(n.name)
                found = True
        return found

    def forget_shared(self) -> None:
        """A function has been called that may change variables at file scope."""
        own = self.widths.keys()
        self.forget({*self.shared_names, *(p for p in self.pointers if p.partition("_at_")[0] not in own)})

    def _evaluated(self, node: Any) -> Value | None:
        low = self.lowering
        with self._here(), low.capture() as effects:
            v = low.load(low.eval(node))
            known = followed(tuple(effects), {})
            effects.clear()
        if isinstance(v, Dim3Val):
            return Dim3Val(*(self._plain(e, known) for e in (v.x, v.y, v.z)))
        return RVal(self._plain(v.expr, known)) if isinstance(v, RVal) else None

    def _plain(self, e: Expr, known: Mapping[Any, Expr]) -> Expr:
        e = substitute_expr(e, known)
        roots = {r.sym for r in self.roots.values()}
        if any(isinstance(x, Load) for x in walk_expr(e)) or not used(e) <= roots:
            raise KtcError("E-LAUNCH-EXPR", "this depends on what the host computes in a way that is not followed")
        return e

    def _here(self) -> Any:
        return _Scoped(self)

    def dims(self, node: Any) -> tuple[Expr, Expr, Expr] | None:
        """A grid or a block; None for what cannot be followed."""
        args = init_args(node) if not isinstance(node, Construct) else list(node.args)
        v = self._dim3(args)
        return (v.x, v.y, v.z) if v is not None else None

    def _dim3(self, args: list[Any]) -> Dim3Val | None:
        if len(args) == 1:
            v = self.value(args[0])
            if isinstance(v, Dim3Val):
                x, y, z = (simplify(integer_form(as_written(e))) for e in (v.x, v.y, v.z))
                return Dim3Val(x, y, z)
        parts = [self.number(a) for a in args]
        if any(p is None for p in parts):
            return None
        x, y, z = ([p for p in parts if p is not None] + [ONE] * 3)[:3]
        return Dim3Val(x, y, z)

    # ------------------------------------------------------------------------------------------------------- pointers
    def pointer(self, node: Any, quiet: bool = False) -> HostPointer | None:
        """The address that ``node`` is; None for a null pointer and, with ``quiet``, for what is not known to be one.
        Memory that nothing is known of is made up where a name of it is mentioned first."""
        node, width = uncast(node), self._width_of(node)
        path = path_of(node)
        if path is not None and path in NULL:
            return None
        if isinstance(node, c_ast.Constant):
            return None
        if path is not None:
            if path not in self.pointers and not quiet and path not in self.numbers:
                self.pointers[path] = self.unknown(path)
            return self.pointers.get(path)
        if isinstance(node, c_ast.BinaryOp) and node.op in "+-":
            return self._moved(node.left, node.right, node.op, width, quiet)
        if isinstance(node, c_ast.UnaryOp) and node.op == "&" and isinstance(node.expr, c_ast.ArrayRef):
            return self._moved(node.expr.name, node.expr.subscript, "+", self._width_of(node.expr.name), quiet)
        if isinstance(node, c_ast.FuncCall) and called(node) in ADDRESSES:
            return self._address_of(node, quiet)
        if quiet:
            return None
        self.let_out(node)
        return self.unknown("unknown")

    def let_out(self, node: Any) -> None:
        """The addresses in ``node``, which is not followed, may be anywhere from here on: those in calls apart.

        Raises:
            KtcError: E-SEQUENCE-HOST, the address of a pointer variable is taken, through which it may change.
        """
        left = [node]
        while left:
            n = left.pop()
            path = path_of(n)
            if isinstance(n, c_ast.UnaryOp) and n.op == "&" and path_of(n.expr) in self.pointers:
                what = f"the address of the pointer '{path_of(n.expr)}' is taken: it may change unseen"
                raise KtcError("E-SEQUENCE-HOST", what, self.lowering.place(n))
            if path is not None and (held := self.pointers.get(path)) is not None:
                held.memory.escaped = True
            elif isinstance(n, Lambda):
                left += children(n.body)
            elif n is not None and not isinstance(n, c_ast.FuncCall):
                left += children(n)

    def _moved(self, base: Any, by: Any, op: str, width: int, quiet: bool) -> HostPointer | None:
        start, n = self.pointer(base, quiet), self.number(by)
        if start is None or n is None:
            if quiet:
                return None
            self.let_out(base)
            return self.unknown("unknown")
        step = simplify(Binary("*", Cast(I64, n, "implicit"), Const(width, I64)))
        old = Cast(I64, start.offset, "implicit")
        return HostPointer(start.memory, simplify(add(old, step) if op == "+" else Binary("-", old, step)))

    def _address_of(self, node: c_ast.FuncCall, quiet: bool) -> HostPointer | None:
        """``x.data_ptr<float>()``, ``thrust::raw_pointer_cast(x.data())``."""
        if isinstance(node.name, c_ast.StructRef):
            return self.pointer(node.name.name, quiet)
        return self.pointer(node.args.exprs[0], quiet) if node.args is not None else None

    def _width_of(self, node: Any) -> int:
        """Bytes of what a pointer expression points to."""
        if isinstance(node, c_ast.Cast | CxxCast):
            return self.width(self.type_of(node.to_type.type if hasattr(node.to_type, "type") else node.to_type))
        if isinstance(node, c_ast.BinaryOp):
            return self._width_of(node.left)
        return self.widths.get(path_of(node) or "", 1)


class _Scoped:
    """The scope in which expressions of the host are evaluated."""

    def __init__(self, values: HostValues) -> None:
        self.values = values
        self.scope = values.lowering.scoped(namespace=values.namespace)

    def __enter__(self) -> None:
        scope = self.scope.__enter__()
        scope.names.update(self.values.types)
        scope.names.update({n: v for n, v in self.values.numbers.items() if v is not None})

    def __exit__(self, *raised: Any) -> None:
        self.scope.__exit__(*raised)


def constant_of(e: Expr | None) -> int | None:
    """The integer that ``e`` is, whatever the roots are."""
    value = evaluate(e, {}) if e is not None else None
    return int(value) if isinstance(value, int) else None


__all__ = ["HostValues", "constant_of"]
