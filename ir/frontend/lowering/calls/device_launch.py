"""A kernel that launches itself: ``k<<<grid, block, shared, stream>>>(args)`` in device code (dynamic parallelism).

The launch is a call with effects, ``launch("k", grid, block, shared, stream, arguments)``, whose arguments are those of
the kernel as it is lowered: one for each member of a structure. What it does to memory is beyond every analysis here,
so nothing is proved of such a kernel; it is printed for CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pycparser import c_ast

from ktc.ir.frontend.lowering.expressions.convert import lane_of
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer, RecordType, components, show
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.values import Dim3Val, NullVal, PtrVal, RecordVal, Value
from ktc.ir.frontend.syntax.cxx_ast import Launch, QualName
from ktc.ir.frontend.syntax.program import name_parts
from ktc.ir.nodes import Call, Cast, Const, Eval, Expr, Str, i32
from ktc.ir.types import U32, U64, VOID, Ptr, Scalar, Type, Vec

from .special import NO_VALUE

if TYPE_CHECKING:
    from ktc.ir.frontend.lowering.lower_kernel import KernelLowering


def device_launch(low: KernelLowering, node: Launch) -> Value:
    """The launch as a statement.

    Raises:
        KtcError: E-UNSUPPORTED-LAUNCH for another kernel, or another instance of a template.
    """
    entity, bindings, params = low.kernel
    name, targs = name_parts(node.callee)[1:] if isinstance(node.callee, c_ast.ID | QualName) else ("", None)
    given = low.template_args(targs, node) if targs else []
    same = all(bindings.get(p.name) == v for p, v in zip(entity.params or (), given))
    if name != entity.name or not same or len(node.args) != len(params_of(entity.node)):
        low.fail("E-UNSUPPORTED-LAUNCH", f"a launch of '{name}' from '{entity.name}'", node,
                 hint="only a kernel that launches itself is supported: launch others from the host")  # fmt: skip
    config = [*node.config, *[None] * (4 - len(node.config))]
    head = [*_dims(low, config[0], node), *_dims(low, config[1], node)]
    head += [_number(low, config[2], U32, node), _number(low, config[3], U64, node)]
    with low.scoped(namespace=entity.namespace, root=low.file_scope()) as scope:
        scope.names.update(bindings)
        types = [low.parameter_type(p) for p in params_of(entity.node)]
    values = low.arguments(node.args)
    flat = [e for t, v in zip(types, values) for e in _flat(low, t, v, node)]
    own = [p.sym.type for p in params if not p.host]
    if len(own) != len(flat):
        low.fail("E-UNSUPPORTED-LAUNCH", "a launch that passes a large array by value", node)
    args = [Cast(t, e, "c") if isinstance(t, Ptr) else e for t, e in zip(own, flat)]
    low.emit(Eval(Call("launch", (Str(entity.name), *head, *args), VOID, "write"), loc=low.loc))
    return NO_VALUE


def _dims(low: KernelLowering, node: Any, at: Any) -> tuple[Expr, Expr, Expr]:
    v = low.load(low.eval(node), at)
    if isinstance(v, Dim3Val):
        return v.x, v.y, v.z
    return _number(low, v, U32, at), i32(1), i32(1)


def _number(low: KernelLowering, node: Any, t: Scalar, at: Any) -> Expr:
    if node is None:
        return Const(0, t)
    v = low.load(low.eval(node), at)
    return Const(0, t) if isinstance(v, NullVal) else low.convert(low.rvalue(v, at, t), t, "implicit", at).expr


def _flat(low: KernelLowering, t: Type, v: Value, node: Any) -> Iterator[Expr]:
    """The arguments for a parameter of type ``t``, in the order of
    :class:`~ktc.ir.frontend.lowering.declarations.parameters.Parameters`."""
    if isinstance(t, Pointer):
        p = low.as_pointer(low.load(v, node), node, t)
        if isinstance(p, NullVal):
            yield Const(0, U64)
        elif isinstance(p, PtrVal):
            yield low.address_expr(p, node)
        else:
            yield low.address_bits(p, node).expr
    elif (parts := components("", t)) is not None:
        whole = low.temp(low.rvalue(low.initial_value(t, [v], False, node), node).expr)
        yield from (lane_of(whole, k) for k in range(len(parts)))
    elif isinstance(t, Scalar | Vec):
        yield low.convert(low.rvalue(low.load(v, node), node, t), t, "implicit", node).expr
    elif isinstance(t, RecordType) and t.decl[0].node.kind != "union":
        v = low.load(v, node)
        v = v if isinstance(v, RecordVal) and v.type == t else low.construct_record(t, [v], node)
        assert isinstance(v, RecordVal)
        for f in low.field_layout(t, node):
            yield from _flat(low, f.type, v.fields[f.name], node)
    elif isinstance(t, CArray) and t.n is not None:
        for k in range(t.n):
            yield from _flat(low, t.elem, low.subscript(v, i32(k), node), node)
    else:
        low.fail("E-UNSUPPORTED-LAUNCH", f"an argument of type '{show(t)}' in a launch", node)
