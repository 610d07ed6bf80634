"""An index of the declarations of a file: functions, records, aliases, constants, by name and namespace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.dialects.dialect import CUDA, Dialect

from .cxx_ast import (
    SPECIALISED,
    Alias,
    Bad,
    Function,
    NamedType,
    Namespace,
    QualName,
    Record,
    ScopedEnum,
    Template,
    TemplateParam,
    Using,
    UsingEnum,
)
from .syntax_walk import telling


@dataclass(frozen=True, eq=False)
class Entity:
    """A declaration with its namespace and template parameters.

    ``params`` is None for a non-template. ``spec_args`` are the arguments of a specialisation (syntax nodes).
    """

    name: str
    node: Any
    namespace: tuple[str, ...]
    params: tuple[TemplateParam, ...] | None = None
    spec_args: list | None = None

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.node, Function) and "__global__" in self.node.specs


@dataclass
class Members:
    """What the syntax of a class says about the names in it."""

    aliases: list[Any] = field(default_factory=list)
    enums: list[Any] = field(default_factory=list)
    used_enums: list[UsingEnum] = field(default_factory=list)
    statics: list[Any] = field(default_factory=list)
    variables: set[str | None] = field(default_factory=set)
    """Static and other ones."""
    classes: dict[str, list[Entity]] = field(default_factory=dict)
    """Classes, class templates and alias templates."""


@dataclass
class Program:
    """Everything declared in one translation unit."""

    functions: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    records: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    declared: dict[tuple[tuple[str, ...], str], tuple[TemplateParam, ...]] = field(default_factory=dict)
    """Template parameters of classes that are declared without a definition, by namespace and name."""
    aliases: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    variables: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    enumerators: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    """``node`` is (enumeration, its namespace, position); ``namespace`` is one that it is found in."""
    enums: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    bad: list[Bad] = field(default_factory=list)
    using: set[str] = field(default_factory=set)
    brought_in: list[tuple[tuple[str, ...], QualName]] = field(default_factory=list)
    """``using a::b`` in a namespace: what it names is a member of that namespace too."""
    std_names: dict[str, list[Entity]] = field(default_factory=lambda: defaultdict(list))
    """Names of the standard library by the namespaces that ``using std::name`` makes them members of."""
    enums_brought_in: list[tuple[tuple[str, ...], QualName]] = field(default_factory=list)
    """``using enum a::b`` in a namespace: its enumerators are members of that namespace too."""
    by_reference: dict[str, set[int]] | None = None
    """Argument positions that functions take by non-const reference, worked out once when first asked for."""
    dialect: Dialect = CUDA
    instantiated: list[Entity] = field(default_factory=list)
    """Explicit instantiations: declarations of functions and classes with ``spec_args``."""
    host_functions: list | None = None
    """The functions that run on the host, worked out once when first asked for."""
    host_words: dict[int, frozenset[str]] = field(default_factory=dict)
    """The identifiers in the bodies of host functions, by the function's id, worked out when asked for."""
    host_mutated: dict[int, tuple[Any, frozenset[str]]] = field(default_factory=dict)
    """Statements of host functions by id, each with the variables it assigns, worked out when asked for."""
    host_launching: dict[str, list] | None = None
    """The functions that launch a kernel which they are passed, by name, worked out once when first asked for."""
    _telling: dict[Function, list[Any]] = field(default_factory=dict)

    def telling(self, fn: Function) -> list[Any]:
        """The nodes of a function that can say something about its variables: found once, asked for often."""
        if fn not in self._telling:
            self._telling[fn] = telling(fn)
        return self._telling[fn]

    _members: dict[Entity, Members] = field(default_factory=dict)

    def members(self, entity: Entity) -> Members:
        """The members of a class by kind: found once, asked for whenever its scope is entered."""
        if entity not in self._members:
            self._members[entity] = members_of(entity)
        return self._members[entity]

    @property
    def kernels(self) -> list[Entity]:
        """``__global__`` functions that have a definition, in source order; of a template that itself has none, but
        specialisations, its declaration. No specialisations."""
        defined = [e for e in self._global if e.node.body is not None and e.spec_args is None]
        known = {(e.namespace, e.name) for e in defined}
        special = {(e.namespace, e.name) for e in self.specialised_kernels} - known
        for e in self._global:
            if (e.namespace, e.name) in special and e.params is not None:
                special.discard((e.namespace, e.name))
                defined.append(e)
        return sorted(defined, key=_in_source)

    @property
    def specialised_kernels(self) -> list[Entity]:
        """Explicit specialisations of kernel templates that have a body, in source order."""
        found = [e for e in self._global if e.node.body is not None and e.spec_args is not None]
        return sorted(found, key=_in_source)

    @property
    def _global(self) -> list[Entity]:
        return [e for es in self.functions.values() for e in es if e.is_kernel]

    def types_named(self, name: str) -> list[Entity]:
        """What ``name`` is declared as that is a type, in any namespace: aliases, classes, enumerations."""
        return [*self.aliases.get(name, ()), *self.records.get(name, ()), *self.enums.get(name, ())]

    def bad_function(self, name: str) -> KtcError | None:
        """Why the function, or the variable, ``name`` did not parse, if that is so."""
        return next((b.error for b in self.bad if b.name == name), None)

    def bad_device_function(self, name: str) -> KtcError | None:
        """Why a device function ``name`` did not parse, if that is so."""
        return next((b.error for b in self.bad if b.name == name and b.is_device), None)

    def bad_record(self, name: str) -> KtcError | None:
        """Why a definition of the class ``name`` did not parse, if that is so."""
        return next((b.error for b in self.bad if b.record == name), None)


def _in_source(e: Entity) -> tuple[str, int, int]:
    return e.node.coord.file, e.node.coord.line, e.node.coord.column or 0


def index_program(items: list, dialect: Dialect = CUDA) -> Program:
    """Index top-level declarations."""
    program = Program(dialect=dialect)
    for item in items:
        _add(program, item, (), None)
    for ns, name in program.brought_in:
        qualifier, last, _ = name_parts(name)
        for table in (program.functions, program.records, program.aliases, program.variables):
            for e in pick(table.get(last, []), qualifier, ns) if qualifier else ():
                table[last].append(Entity(last, e.node, ns, e.params, e.spec_args))
        for e in pick(program.enums.get(last, []), qualifier, ns) if qualifier else ():
            program.enums[last].append(Entity(last, e.node, ns))
            for i, named in enumerate(e.node.values or []):
                program.enumerators[named.name].append(Entity(named.name, (e.node, e.namespace, i), (*ns, last)))
    for ns, name in program.enums_brought_in:
        qualifier, last, _ = name_parts(name)
        for e in pick(program.enums.get(last, []), qualifier, ns):
            for i, named in enumerate(e.node.values or []):
                program.enumerators[named.name].append(Entity(named.name, (e.node, e.namespace, i), ns))
    return program


def _add(p: Program, item: Any, ns: tuple[str, ...], params: tuple[TemplateParam, ...] | None) -> None:
    if isinstance(item, Namespace):
        inner = (*ns, *(part for part in item.name.split("::") if part and part != "inline"))
        for x in item.items:
            _add(p, x, inner, None)
    elif isinstance(item, Template) and item.params is None:
        for x in item.decl:
            args = x.decl.funcspec if isinstance(x, Function) else x.spec_args
            owner = tuple(x.owner.split("::")) if isinstance(x, Function) and x.owner else ()
            p.instantiated.append(Entity(x.name, x, (*ns, *owner), None, args))
    elif isinstance(item, Template):
        for x in item.decl:
            _add(p, x, ns, tuple(item.params))
    elif isinstance(item, Function):
        spec = item.decl.funcspec
        owner = tuple(item.owner.split("::")) if item.owner else ()
        p.functions[item.name].append(Entity(item.name, item, (*ns, *owner), params or None, spec))
        if params == () and spec is None:  # template<> with deduced arguments
            last = p.functions[item.name].pop()
            p.functions[item.name].append(Entity(item.name, item, last.namespace, None, []))
    elif isinstance(item, Record):
        if item.items is not None:
            p.records[item.name].append(Entity(item.name, item, ns, params or None, item.spec_args))
            _member_names(p, item, ns, params)
        elif params and item.spec_args is None and not _has_defaults(p.declared.get((ns, item.name), ())):
            p.declared[(ns, item.name)] = params
    elif isinstance(item, Alias):
        p.aliases[item.name].append(Entity(item.name, item, ns, params or None))
    elif isinstance(item, Using):
        p.using.add(item.name.text)
        if not item.namespace and name_parts(item.name)[0] == ("std",):
            last = item.name.parts[-1].name
            p.std_names[last].append(Entity(last, item.name, ns))
        if not item.namespace and ns:
            p.brought_in.append((ns, item.name))
    elif isinstance(item, UsingEnum):
        p.enums_brought_in.append((ns, item.name))
    elif isinstance(item, c_ast.Typedef) and not _names_itself(item):
        p.aliases[item.name].append(Entity(item.name, item, ns))
    elif isinstance(item, c_ast.Enum):
        _add_enum(p, item, ns)
    elif isinstance(item, c_ast.Decl) and item.name:
        given = variable_words(item).get(SPECIALISED)
        p.variables[item.name].append(Entity(item.name, item, ns, params or None, given))
    elif isinstance(item, Bad):
        p.bad.append(item)


def _has_defaults(params: tuple[TemplateParam, ...]) -> bool:
    return any(x.default is not None for x in params)


def variable_words(item: c_ast.Decl) -> dict[str, list]:
    """What a variable's qualifiers carry: template arguments by ``SPECIALISED`` and ``OWNED``."""
    return dict(s for s in item.funcspec or () if isinstance(s, tuple))


def _names_itself(item: c_ast.Typedef) -> bool:
    """``typedef struct S S;`` is C: the class has that name anyway."""
    node = getattr(item.type, "type", None)
    return isinstance(node, NamedType) and node.name.text == item.name


def _add_enum(p: Program, enum: c_ast.Enum, ns: tuple[str, ...]) -> None:
    """An enumeration with values; one that is only declared says how large it is unless another does."""
    if enum.name:
        known = [e for e in p.enums[enum.name] if e.namespace == ns]
        if not known or enum.values is not None:
            p.enums[enum.name] = [Entity(enum.name, enum, ns), *(e for e in p.enums[enum.name] if e not in known)]
    found_in = [] if isinstance(enum, ScopedEnum) else [ns]
    found_in += [(*ns, enum.name)] if enum.name else []
    for i, e in enumerate(enum.values or []):
        p.enumerators[e.name] += [Entity(e.name, (enum, ns, i), where) for where in found_in]


def _member_names(
    p: Program, record: Record, ns: tuple[str, ...], params: tuple[TemplateParam, ...] | None = None
) -> None:
    """Enumerators and nested records are found by their own name too, friends beside the class."""
    for m in record.items:
        if isinstance(m, Function) and m.kind == "friend":
            friend = Function(m.name, m.decl, m.body, m.specs, m.bounds, m.inits, "function", "", coord=m.coord)
            p.functions[m.name].append(Entity(m.name, friend, ns, params or None))
        if isinstance(m, c_ast.Enum):
            if m.name:
                p.enums[m.name].append(Entity(m.name, m, (*ns, record.name)))
        elif isinstance(m, Record) and m.items is not None and m.name:
            p.records[m.name].append(Entity(m.name, m, (*ns, record.name)))


def members_of(entity: Entity) -> Members:
    """The members of a class by kind."""
    found = Members()
    namespace = (*entity.namespace, entity.name)
    for item in entity.node.items:
        params = tuple(item.params or ()) or None if isinstance(item, Template) else None
        if isinstance(item, Alias | c_ast.Typedef):
            found.aliases.append(item)
        elif isinstance(item, c_ast.Enum):
            found.enums.append(item)
        elif isinstance(item, UsingEnum):
            found.used_enums.append(item)
        elif isinstance(item, c_ast.Decl):
            found.variables.add(item.name)
            if "static" in (item.storage or []):
                found.statics.append(item)
        for d in item.decl if isinstance(item, Template) else (item,):
            if isinstance(d, Record) and d.name and d.items is not None:
                found.classes.setdefault(d.name, []).append(Entity(d.name, d, namespace, params, d.spec_args))
            elif isinstance(d, Alias) and params:
                found.classes.setdefault(d.name, []).append(Entity(d.name, d, namespace, params))
    return found


def functions_of(items: list):
    """(function, template parameters) among member items."""
    for i in items or ():  # none, where a class is only declared
        if isinstance(i, Function):
            yield i, None
        elif isinstance(i, Template) and i.params is not None:
            for f in i.decl:
                if isinstance(f, Function):
                    yield f, tuple(i.params)


def pick(entities: list[Entity], qualifier: tuple[str, ...], here: tuple[str, ...]) -> list[Entity]:
    """The entities that ``qualifier::name`` can mean inside namespace ``here``: the innermost match, else all."""
    if not entities:
        return []
    match = innermost(entities, qualifier, here)
    if match:
        return match
    return [e for e in entities if e.namespace[-len(qualifier) :] == qualifier] if qualifier else entities


def innermost(entities: list[Entity], qualifier: tuple[str, ...], here: tuple[str, ...]) -> list[Entity]:
    """Those of ``qualifier`` as the nearest namespace around ``here`` that has one of them understands it."""
    for depth in range(len(here), -1, -1):
        match = [e for e in entities if e.namespace == (*here[:depth], *qualifier)]
        if match:
            return match
    return []


def name_parts(node: Any) -> tuple[tuple[str, ...], str, list | None]:
    """(qualifier, name, template arguments) of an ID or QualName."""
    if isinstance(node, QualName):
        return tuple(x.name for x in node.parts[:-1]), node.parts[-1].name, node.parts[-1].args
    return (), node.name, None
