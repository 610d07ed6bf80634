"""Which instances of a template kernel there are: from launch sites, from the user, or guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ..diagnostics import KtcError
from .cxx_types import show
from .lower import KernelLowering
from .parser import CudaParser
from .program import Entity
from .sites import LaunchSite, kernel_template_args
from .values import RVal, TypeVal, Value

Instance: TypeAlias = tuple[dict[str, Value], LaunchSite | None, dict[str, Value]]
"""(template bindings, launch site, bindings of the host template that launches)."""


def instances(
    lowering: KernelLowering, entity: Entity, sites: list[LaunchSite], given: dict[str, Value]
) -> list[Instance]:
    """The distinct instances that the file launches and that agree with ``given``; for a kernel that is no template,
    or whose arguments are all given or defaulted, there is always one."""
    found: dict[tuple[str, ...], Instance] = {}
    for site in sites:
        matched = kernel_template_args(lowering, entity, site, given)
        if matched is None:
            continue
        bound, host = matched
        full = _complete(lowering, entity, bound)
        if full is not None:
            found.setdefault(tuple(spell(full[p.name]) for p in entity.params or ()), (full, site, host))
    if not found:
        full = _complete(lowering, entity, given)
        return [(full, None, {})] if full is not None else []
    return list(found.values())


def choose_instance(
    lowering: KernelLowering, entity: Entity, sites: list[LaunchSite], template: dict[str, object]
) -> Instance:
    """The instance for the arguments the user gave.

    Raises:
        KtcError: E-TEMPLATE-UNKNOWN, E-TEMPLATE-VALUE, or E-TEMPLATE-MISSING listing the instances the file launches.
    """
    params = entity.params or ()
    given = {n: template_value(lowering, entity, n, v) for n, v in template.items()}
    found = instances(lowering, entity, sites, given)
    if len(found) == 1 or (found and not params):
        return found[0]
    if found:
        keys = [tuple(spell(full[p.name]) for p in params) for full, _, _ in found]
        names = "; ".join("<" + ", ".join(key) + ">" for key in keys)
        first = " ".join(f"--template {p.name}={v}" for p, v in zip(params, keys[0]))
        raise KtcError("E-TEMPLATE-MISSING", f"'{entity.name}' is launched with several template arguments: {names}",
                       lowering.place(entity.node), hint=f"choose one, for example {first}")  # fmt: skip
    missing = [p for p in params if p.name not in given and p.default is None]
    example = " ".join(f"--template {p.name}={'half' if p.kind == 'type' else '256'}" for p in missing)
    raise KtcError("E-TEMPLATE-MISSING", f"template parameter{'s' if len(missing) > 1 else ''} "
                   f"{', '.join(repr(p.name) for p in missing)} of '{entity.name}' must be given",
                   lowering.place(entity.node), hint=f"for example {example}")  # fmt: skip


GUESSED_TYPES = ("float", "int", "double", "half")
GUESSED_VALUES = ("16", "32", "256", "4", "1")


def guesses(lowering: KernelLowering, entity: Entity, sites: Sequence[LaunchSite] = ()) -> Iterator[dict[str, Value]]:
    """Plausible arguments for a template that nothing instantiates: one type and one number for all its parameters, or
    for those of a host template that launches it, which may then say what the kernel's are."""
    hosts = [site for site in sites if site.function.params]
    params = [p for e in (entity, *(s.function for s in hosts)) for p in e.params or () if not p.default and not p.pack]
    types = GUESSED_TYPES if any(p.kind == "type" for p in params) else GUESSED_TYPES[:1]
    values = GUESSED_VALUES if any(p.kind == "value" for p in params) else GUESSED_VALUES[:1]
    for t in types:
        for v in values:
            for site in (*hosts, None):
                full = _guess(lowering, entity, site, t, v)
                if full is not None:
                    yield full


def _guess(
    lowering: KernelLowering, entity: Entity, site: LaunchSite | None, t: str, v: str
) -> dict[str, Value] | None:
    """``entity`` with ``t`` for types and ``v`` for numbers, in ``site``'s host template if there is one."""

    def guessed(e: Entity) -> dict[str, Value]:
        params = [p for p in e.params or () if p.default is None and not p.pack]
        return {p.name: template_value(lowering, e, p.name, t if p.kind == "type" else v) for p in params}

    try:
        given: dict[str, Value] = {}
        if site is not None:
            matched = kernel_template_args(lowering, entity, site, {}, guessed(site.function))
            given = matched[0] if matched is not None else {}
        return _complete(lowering, entity, guessed(entity) | given)
    except KtcError:
        return None


def _complete(lowering: KernelLowering, entity: Entity, bound: dict[str, Value]) -> dict[str, Value] | None:
    """All template parameters, defaults included; None if some are missing."""
    with lowering.scoped(namespace=entity.namespace) as scope:
        try:
            lowering.bind_params(entity.params or (), [], entity.node, bound)
        except KtcError as error:
            if error.code != "E-SEMA-TEMPLATE":
                raise
            return None
        return {p.name: scope.names[p.name] for p in entity.params or ()}


def template_value(lowering: KernelLowering, entity: Entity, name: str, value: object) -> Value:
    """A template argument given as text or number."""
    params = {p.name: p for p in entity.params or ()}
    if name not in params:
        known = ", ".join(params) or "none: it is not a template"
        raise KtcError("E-TEMPLATE-UNKNOWN", f"'{entity.name}' has no template parameter '{name}'",
        lowering.place(entity.node),
                       hint=f"its template parameters: {known}", exit_code=2)  # fmt: skip
    text = {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    kind = params[name].kind
    declaration = f"using ktc_argument = {text};" if kind == "type" else f"constexpr auto ktc_argument = {text};"
    text = _IR_NAMES.get(text, text)
    declaration = f"using ktc_argument = {text};" if kind == "type" else declaration
    parser = CudaParser()
    program = lowering.program
    items = parser.parse_unit(declaration, "--template", types=(*program.records, *program.aliases, *program.enums))
    try:
        if kind == "type":
            return TypeVal(lowering.resolve(items[0].type))
        return lowering.const_value(items[0].init, f"template argument {name}")
    except (KtcError, AttributeError, IndexError):
        raise KtcError("E-TEMPLATE-VALUE", f"'{text}' is not a {kind} that template parameter '{name}' can take",
                       hint="write it as C++ does: half, float, __nv_bfloat16, 8, true",
                       exit_code=2) from None  # fmt: skip


_IR_NAMES = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t",
    "i16": "int16_t", "u16": "uint16_t", "i32": "int", "u32": "unsigned", "i64": "int64_t", "u64": "uint64_t",
}  # fmt: skip


def spell(v: Value) -> str:
    if isinstance(v, TypeVal):
        return show(v.type)
    if isinstance(v, RVal):
        value = v.expr.value  # type: ignore[attr-defined]
        return str(value).lower() if isinstance(value, bool) else str(value)
    return "..."
