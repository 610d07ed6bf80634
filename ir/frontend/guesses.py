"""Plausible template arguments where nothing in a file says them: whoever uses one says that it was assumed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pycparser import c_ast

from ..diagnostics import KtcError
from .cxx_ast import NamedType, TemplateParam
from .host_templates import complete
from .instances import template_value
from .library import in_library
from .lower import KernelLowering
from .program import Entity
from .sites import LaunchSite, kernel_template_args, names_of
from .syntax_walk import descendants
from .template_args import spell
from .values import Value

GUESSED_TYPES = ("float", "int", "double", "half")
GUESSED_VALUES = ("16", "32", "256", "4", "1", "2", "8", "64", "128")

_INDEX = re.compile(r"(?i)(^|_)(id|idx|ind|index|offset|int)(_|$|type)|Id(x|T|$)|Index|Offset")
"""Names of type parameters that stand for indices: taken for int where others are a kind of float."""

MAX_SPECIALISED = 3
"""Types tried because classes of the file are specialised for them."""

MAX_SITES = 3
"""Launches of one kernel that are tried with guesses for what their host code does not say."""


def guesses(lowering: KernelLowering, entity: Entity, sites: Sequence[LaunchSite] = ()) -> Iterator[dict[str, Value]]:
    """Plausible arguments for a template that nothing instantiates: one type and one number for all that is open.

    First what is open where the kernel is launched, a parameter of a host template or a name that a macro of another
    project declares: ``kernel<Traits<T, 64>, 128>`` keeps what its launch does say. Then the kernel's own parameters.
    """
    hosts = [(s, Entity(entity.name, entity.node, entity.namespace, _open(lowering, s))) for s in sites[:MAX_SITES]]
    hosts = [(site, host) for site, host in hosts if host.params]
    types = (*GUESSED_TYPES, *_specialised(lowering))
    kinds = {p.kind for e in (entity, *(h for _, h in hosts)) for p in e.params or () if not p.default and not p.pack}
    tried: list[tuple[str, ...]] = []
    for t in types if "type" in kinds else types[:1]:
        for i in range(len(GUESSED_VALUES) if "value" in kinds else 1):
            for site, host in (*hosts, (None, entity)):
                full = _guess(lowering, entity, site, host, t, i)
                if full is not None and (key := tuple(map(spell, full.values()))) not in tried:
                    tried.append(key)
                    yield full


def _guess(
    lowering: KernelLowering, entity: Entity, site: LaunchSite | None, host: Entity, t: str, i: int
) -> dict[str, Value] | None:
    """``entity`` with the type ``t`` and the ``i``-th value for what is open in ``host``, then for what still is."""

    def guessed(e: Entity) -> dict[str, Value]:
        params = [p for p in e.params or () if p.default is None and not p.pack]
        return {p.name: template_value(lowering, e, p.name, _text(lowering, p, t, i)) for p in params}

    try:
        known: dict[str, Value] = {}
        if site is not None:
            matched = kernel_template_args(lowering, entity, site, {}, guessed(host))
            known = matched[0] if matched is not None else {}
        return complete(lowering, entity, guessed(entity) | known)
    except KtcError:
        return None


def _text(lowering: KernelLowering, p: TemplateParam, t: str, i: int) -> str:
    """The argument for ``p``: of an enumeration one of its values."""
    if p.kind == "type":
        return "int" if t in ("float", "double", "half") and _INDEX.search(p.name) else t
    node = getattr(p.type, "type", None)
    name = node.name if isinstance(node, NamedType) else None
    enum = lowering.enum_named(name.parts, node) if name is not None else None
    if name is None or enum is None or not enum.enum.values:
        return GUESSED_VALUES[i]
    at = i % len(enum.enum.values)
    return f"({name.text}){spell(enum.value(at))}"


def _specialised(lowering: KernelLowering) -> list[str]:
    """Types for which a class of the file is specialised: where a class has only such instances, no other will do."""
    found: dict[str, None] = {}
    for e in (e for es in lowering.program.records.values() for e in es if e.spec_args and not e.params):
        args = e.spec_args or []
        for a in args if len(args) == 1 and not in_library(getattr(e.node.coord, "file", "")) else ():
            node = getattr(getattr(a, "type", None), "type", None)
            if isinstance(node, NamedType) and len(node.name.parts) == 1 and node.name.parts[0].args is None:
                found[node.name.text] = None
    return [name for name in found if name not in GUESSED_TYPES][:MAX_SPECIALISED]


def _open(lowering: KernelLowering, site: LaunchSite) -> tuple[TemplateParam, ...]:
    """Names that the template arguments of a launch depend on and that nothing gives a meaning."""
    host = tuple(site.function.params or ())
    known = {p.name for p in host}
    found: list[TemplateParam] = []
    with names_of(lowering, site.host, site.env, {}) as scope:
        for name, kind in dict(_names(site.template_args or [])).items():
            if name not in known and name not in scope.names and not _meant(lowering, name):
                found.append(TemplateParam(name, kind, None, None, False))
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
