"""Plausible template arguments where nothing in a file says them: whoever uses one says that it was assumed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.host_templates import complete
from ktc.ir.frontend.host.launch_sites import LaunchSite, kernel_template_args, names_of
from ktc.ir.frontend.host.template_instances import template_value
from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.meaning.templates import plain_name
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import NamedType, TemplateParam
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.syntax_walk import descendants

from .guessed_names import nodes_of

GUESSED_TYPES = ("float", "int", "double", "half")
GUESSED_VALUES = ("16", "32", "256", "4", "1", "2", "8", "64", "128")

USUAL_THREADS = "256"
"""What is tried first for the threads of a block that has one axis."""

_THREADS = re.compile(
    r"(?i)(n|num|cuda|gpu|cta|tb)?_?(block_?(size|dim)(_?x)?|(num_?)?threads?(_?(per_?block|num|count))?|tpb)"
)
"""Names of value parameters that are the threads of a block; with several axes, that of one, or the edge of a tile."""

_INDEX = re.compile(r"(?i)(^|_)(id|idx|ind|index|offset|int)(_|$|type)|Id(x|T|$)|Index|Offset")
"""Names of type parameters that stand for indices: taken for int where others are a kind of float."""

MAX_SPECIALISED = 3
"""Types tried because classes of the file are specialised for them."""

MAX_SITES = 3
"""Launches of one kernel that are tried with guesses for what their host code does not say."""


@dataclass(frozen=True)
class Guess:
    """Arguments for what is open: ``texts`` gives them by parameter name, as C++ spells them.

    ``host`` has the parameters of the launch ``site``'s function and what else is open there; where ``site`` is None it
    is the kernel itself.
    """

    site: LaunchSite | None
    host: Entity
    texts: Mapping[str, str]


def guesses(lowering: KernelLowering, entity: Entity, sites: Sequence[LaunchSite] = ()) -> Iterator[dict[str, Value]]:
    """The template arguments of :func:`uniform_guesses`."""
    tried: list[tuple[str, ...]] = []
    for guess in uniform_guesses(lowering, entity, sites):
        try:
            full = bindings_of(lowering, entity, guess)
        except KtcError:
            continue
        if full is not None and (key := tuple(map(spell, full.values()))) not in tried:
            tried.append(key)
            yield full


def uniform_guesses(lowering: KernelLowering, entity: Entity, sites: Sequence[LaunchSite] = ()) -> Iterator[Guess]:
    """Plausible arguments for a template that nothing instantiates: one type and one number for all that is open.

    First what is open where the kernel is launched, a parameter of a host template or a name that a macro of another
    project declares: ``kernel<Traits<T, 64>, 128>`` keeps what its launch does say. Then the kernel's own parameters.
    """
    hosts = [
        (s, Entity(entity.name, entity.node, entity.namespace, _open(lowering, entity, s))) for s in sites[:MAX_SITES]
    ]
    hosts = [(site, host) for site, host in hosts if host.params]
    types = (*GUESSED_TYPES, *specialised_types(lowering))
    tiled = any(_is_other_axis(n) for n in nodes_of(lowering.program, entity))
    kinds = {p.kind for e in (entity, *(h for _, h in hosts)) for p in open_parameters(e)}
    for t in types if "type" in kinds else types[:1]:
        for i in range(len(GUESSED_VALUES) if "value" in kinds else 1):
            for site, host in (*hosts, (None, entity)):
                params = (*open_parameters(entity), *open_parameters(host))
                edges = _edges(entity, site) if tiled else ()
                yield Guess(site, host, {p.name: _text(lowering, p, t, i, p.name not in edges) for p in params})


def open_parameters(e: Entity) -> list[TemplateParam]:
    """The template parameters that need an argument."""
    return [p for p in e.params or () if p.default is None and not p.pack]


def bindings_of(lowering: KernelLowering, entity: Entity, guess: Guess) -> dict[str, Value] | None:
    """What ``entity`` is instantiated with by ``guess``; None if that leaves something out.

    Raises:
        KtcError: An argument has no meaning for its parameter.
    """

    def guessed(e: Entity) -> dict[str, Value]:
        return {p.name: template_value(lowering, e, p.name, guess.texts[p.name]) for p in open_parameters(e)}

    known: dict[str, Value] = {}
    if guess.site is not None:
        host = guessed(guess.host)
        matched = kernel_template_args(lowering, entity, guess.site, {}, host)
        known = matched[0] if matched is not None else {}
        _hold_asserts(lowering, guess.site, host)
    return complete(lowering, entity, guessed(entity) | known)


def asserts_around(site: LaunchSite) -> list[c_ast.StaticAssert]:
    """What the class or the function that a launch stands in asks of its template arguments."""
    fn = site.host.entity.node
    body = (fn.body.block_items or []) if not fn.passed_over and fn.body is not None else []
    return [x for x in (*site.host.around, *body) if isinstance(x, c_ast.StaticAssert)]


def _hold_asserts(lowering: KernelLowering, site: LaunchSite, host: dict[str, Value]) -> None:
    """Check :func:`asserts_around` for the arguments ``host``.

    Raises:
        KtcError: ``E-SEMA-STATIC-ASSERT`` for the first that does not hold; what cannot be evaluated is no objection.
    """
    for node in asserts_around(site):
        with names_of(lowering, site.host, site.env, host):
            try:
                holds = lowering.const_int(node.cond, "an assertion")
            except KtcError as e:
                if e.code == "E-SEMA-STATIC-ASSERT":
                    raise
                continue
        if not holds:
            raise KtcError("E-SEMA-STATIC-ASSERT", "the host code asks for other template arguments",
                           lowering.place(node), hint="give them with --template NAME=VALUE")  # fmt: skip


def _edges(entity: Entity, site: LaunchSite | None) -> set[str]:
    """The parameters that may be extents of a block with several axes: the kernel's, and what its launch passes for
    them as it is; what is divided for that is how many threads there are."""
    own = {p.name for p in entity.params or ()}
    return own | ({plain_name(a) or "" for a in site.template_args or ()} if site is not None else set())


def _is_other_axis(n: Any) -> bool:
    """Whether ``n`` is a thread's number along another axis than x."""
    return isinstance(n, c_ast.StructRef) and getattr(n.name, "name", "") == "threadIdx" and n.field.name in "yz"


def _text(lowering: KernelLowering, p: TemplateParam, t: str, i: int, flat: bool) -> str:
    """The argument for ``p``: of an enumeration one of its values; of a block's threads, where it may be all of them
    (``flat``), the usual number first."""
    if p.kind == "type":
        return "int" if t in ("float", "double", "half") and _INDEX.search(p.name) else t
    values = enum_values(lowering, p)
    if flat and i == 0 and not values and _THREADS.fullmatch(p.name):
        return USUAL_THREADS
    return values[i % len(values)] if values else GUESSED_VALUES[i]


def declared_type(p: TemplateParam) -> Any:
    """What names the type of a value parameter."""
    node = p.type
    while isinstance(node, c_ast.Typename | c_ast.TypeDecl):
        node = node.type
    return node


def enum_values(lowering: KernelLowering, p: TemplateParam) -> list[str]:
    """The values of the enumeration that ``p`` is one of; none if it is no enumeration."""
    node = declared_type(p)
    name = node.name if isinstance(node, NamedType) else None
    enum = lowering.enum_named(name.parts, node) if name is not None else None
    if name is None or enum is None:
        return []
    return [f"({name.text}){spell(enum.value(at))}" for at in range(len(enum.enum.values or []))]


def specialised_types(lowering: KernelLowering) -> list[str]:
    """Types for which a class of the file is specialised: where a class has only such instances, no other will do."""
    found: dict[str, None] = {}
    for e in (e for es in lowering.program.records.values() for e in es if e.spec_args and not e.params):
        args = e.spec_args or []
        for a in args if len(args) == 1 and not in_library(getattr(e.node.coord, "file", "")) else ():
            node = getattr(getattr(a, "type", None), "type", None)
            if isinstance(node, NamedType) and not any(x.args for x in node.name.parts):
                found[node.name.text] = None
    return [name for name in found if name not in GUESSED_TYPES][:MAX_SPECIALISED]


def _open(lowering: KernelLowering, entity: Entity, site: LaunchSite) -> tuple[TemplateParam, ...]:
    """Names that the template arguments of a launch depend on and that nothing gives a meaning. One that is itself an
    argument is of the kind that the kernel takes there."""
    host = tuple(site.function.params or ())
    known = {p.name for p in host} | {getattr(member, "name", None) for member in site.host.around}
    taken = {plain_name(a): p for p, a in zip(entity.params or (), site.template_args or ())}
    found: list[TemplateParam] = []
    with names_of(lowering, site.host, site.env, {}) as scope:
        for name, kind in dict(_names(site.template_args or [])).items():
            if name not in known and name not in scope.names and not _meant(lowering, name):
                p = taken.get(name)
                found.append(TemplateParam(name, p.kind if p else kind, p.type if p else None, None, False))
    return (*host, *found)


def _names(args: list) -> Iterator[tuple[str, str]]:
    """Plain names in template arguments, each with the kind of argument it would be."""
    for n in (n for a in args for n in descendants(a)):
        if isinstance(n, NamedType) and len(n.name.parts) == 1 and n.name.parts[0].args is None:
            yield n.name.parts[0].name, "type"
        elif isinstance(n, c_ast.ID):
            yield n.name, "value" if n.name.isupper() else "type"


def _meant(lowering: KernelLowering, name: str) -> bool:
    program = lowering.program
    if any(name in table for table in (program.functions, program.variables, program.enumerators, program.records)):
        return True
    try:
        return lowering.try_type(c_ast.ID(name)) is not None
    except KtcError:
        return True
