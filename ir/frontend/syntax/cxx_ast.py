"""Syntax nodes that C++ and CUDA add to pycparser's C ones. They live in the same tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pycparser import c_ast


class CxxNode(c_ast.Node):
    """A node whose fields are given by ``_fields``; ``coord`` is always the last argument."""

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        """An initialiser for the fields of the class, in plain assignments: parsing makes very many nodes."""
        scope: dict[str, Any] = {}
        body = "".join(f"    self.{name} = {name}\n" for name in (*cls._fields, "coord"))
        exec(f"def __init__(self, {', '.join(cls._fields)}, *, coord=None):\n{body}", scope)
        cls.__init__ = scope["__init__"]  # type: ignore[method-assign]

    if TYPE_CHECKING:

        def __init__(self, *values: Any, coord: Any = None) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__}.{name}")

    def children(self):
        for name in self._fields:
            v = getattr(self, name)
            if isinstance(v, c_ast.Node):
                yield name, v
            elif isinstance(v, list | tuple):
                for i, x in enumerate(v):
                    if isinstance(x, c_ast.Node):
                        yield f"{name}[{i}]", x

    def __iter__(self):
        for name in self._fields:
            v = getattr(self, name)
            if isinstance(v, c_ast.Node):
                yield v
            elif isinstance(v, list | tuple):
                yield from (x for x in v if isinstance(x, c_ast.Node))


class ScopedEnum(c_ast.Enum):
    """``enum class``: its enumerators are found through its name only, and are ints unless it says otherwise."""


class NamePart(CxxNode):
    """One component of a qualified name; ``args`` is a list of template arguments or None."""

    _fields = ("name", "args")


class QualName(CxxNode):
    """``A::B<x>::c`` as an expression or inside :class:`NamedType`. ``parts`` is a list of :class:`NamePart`."""

    _fields = ("parts", "absolute")

    @property
    def text(self) -> str:
        return "::".join(p.name for p in self.parts)


class NamedType(CxxNode):
    """A type given by a qualified name or template-id."""

    _fields = ("name",)


class AutoType(CxxNode):
    """``auto``, or ``decltype(expr)`` when ``expr`` is set."""

    _fields = ("expr",)


class TypeOf(AutoType):
    """``typeof(expr)``: the type of what ``expr`` names, without a reference to it."""


class RefDecl(c_ast.PtrDecl):
    """Reference declarator ``&`` (``rvalue`` false) or ``&&``; takes a pointer's place in a declarator chain."""

    def __init__(self, quals: list[str], type: Any, rvalue: bool, coord: Any = None) -> None:
        super().__init__(quals, type, coord)
        self.rvalue = rvalue


CONST_METHOD = "const this"
"""Among a function's ``specs``: it may be called on objects that are constant."""


class Function(CxxNode):
    """A function definition, or a declaration when ``body`` is None.

    ``decl`` is pycparser's Decl (its type is a FuncDecl); ``specs`` the CUDA qualifiers and storage classes;
    ``bounds`` the arguments of ``__launch_bounds__``; ``inits`` a constructor's member initialisers (name, args);
    ``kind`` is function | ctor | dtor | conversion; ``owner`` the qualifier parts of ``A::f``.
    """

    _fields = ("name", "decl", "body", "specs", "bounds", "inits", "kind", "owner")

    _body: Any
    constraints: tuple[Any, ...] = ()
    """What must hold of the template arguments (C++20)."""
    owner_args: list | None = None
    """The template arguments in ``A<int>::f``."""

    @property
    def body(self) -> Any:
        """The body; one that was passed over is parsed now."""
        if callable(self._body):
            self._body = self._body()
        return self._body

    @body.setter
    def body(self, value: Any) -> None:
        self._body = value

    @property
    def passed_over(self) -> bool:
        """Whether the body was not parsed yet: host code without a launch."""
        return callable(self._body)

    def words_passed_over(self) -> frozenset[str]:
        """The identifiers in a body that was passed over."""
        return self._body.words()


class CtorInit(CxxNode):
    """Initialiser ``(a, b)`` or ``{a, b}`` of a declaration."""

    _fields = ("args", "brace")


class TemplateParam(CxxNode):
    """``kind`` is 'type', 'value' or 'template'; ``type`` is the declared type of a value parameter."""

    _fields = ("name", "kind", "type", "default", "pack")


class Template(CxxNode):
    """``template <params> decl``; an empty list is a full specialisation, None an explicit instantiation."""

    _fields = ("params", "decl")


SPECIALISED = "specialised"
"""In the ``funcspec`` of a variable, with the template arguments that it is a specialisation for."""

OWNED = "owned"
"""In the ``funcspec`` of a static member defined outside its class, with the template arguments of the class."""


class Namespace(CxxNode):
    _fields = ("name", "items")


class Using(CxxNode):
    """``using namespace a::b`` (``namespace`` true) or ``using a::b``."""

    _fields = ("name", "namespace")


class UsingEnum(CxxNode):
    """``using enum a::Kind``: its enumerators are names of the scope it stands in."""

    _fields = ("name",)


class Alias(CxxNode):
    """``using name = type``."""

    _fields = ("name", "type")


class CxxCast(CxxNode):
    """``static_cast<T>(x)`` and its three sisters."""

    _fields = ("kind", "to_type", "expr")


class Construct(CxxNode):
    """``T(a, b)`` or ``T{a, b}``; ``to_type`` is a Typename."""

    _fields = ("to_type", "args", "brace")


class Launch(CxxNode):
    """``callee<<<config>>>(args)``."""

    _fields = ("callee", "config", "args")


class Lambda(CxxNode):
    """``captures`` are (mode, name, initialiser): ``=`` by copy, ``&`` by reference, no name for all the rest.

    ``result`` is the type after ``->``, or None; ``template`` its template parameters, if it has a list of them.
    ``mutable``: calls may change its copies.
    """

    _fields = ("captures", "params", "body", "result", "template", "mutable")


class RangeFor(CxxNode):
    _fields = ("decl", "range", "stmt")


class IfConstexpr(CxxNode):
    _fields = ("init", "cond", "iftrue", "iffalse")


class Asm(CxxNode):
    """Inline PTX: ``outputs``/``inputs`` are lists of (constraint, expression)."""

    _fields = ("text", "outputs", "inputs", "clobbers", "volatile")


class Bindings(CxxNode):
    """``auto [a, b] = init``; ``ref``: of ``auto& [a, b]``, whose names mean the members of ``init`` itself."""

    _fields = ("names", "init", "ref")


class PackExpansion(CxxNode):
    _fields = ("expr",)


class Fold(CxxNode):
    """``(pack op ...)`` (``right``) or ``(... op pack)``; ``init`` is the other operand of a binary fold or None.

    A pack and an initial value are told apart by which of them names a pack.
    """

    _fields = ("op", "pack", "init", "right")


class InScope(CxxNode):
    """An expression where ``names`` (a dict) have these meanings: one element of an expanded pack."""

    _fields = ("expr", "names")


class Record(CxxNode):
    """``struct``/``class``/``union`` with a body. ``items`` are declarations, FuncDefs, Templates and Aliases."""

    _fields = ("kind", "name", "bases", "items", "align", "spec_args")

    constraints: tuple[Any, ...] = ()
    alone = False
    """Nothing is declared with it: the members of an unnamed union are then names of the block around it."""


class Bad(CxxNode):
    """A declaration or host statement that did not parse; ``error`` says why, ``name`` is the function or the
    variable, if known, ``record`` the class, of which it may be one specialisation; ``is_kernel``: it defines a
    ``__global__`` function."""

    _fields = ("error", "name", "is_device", "record", "is_kernel")


def qualifiers(node: Any) -> list[str]:
    while not isinstance(node, c_ast.TypeDecl | c_ast.PtrDecl):
        node = node.type
    return list(node.quals or [])


def own_qualifiers(node: Any) -> list[str]:
    """The qualifiers of a type name itself, not of what it points or refers to: ``const`` of ``int* const``."""
    return [] if isinstance(node.type, RefDecl | c_ast.ArrayDecl) else qualifiers(node.type)


def is_const(node: Any) -> bool:
    """Whether the thing pointed or referred to is const."""
    return "const" in qualifiers(node)


def params_of(fn: Function) -> list:
    """Declared parameters, less a trailing ``...``."""
    return [p for p in fn.decl.type.args.params if not isinstance(p, c_ast.EllipsisParam)] if fn.decl.type.args else []
