"""Which instances of a template kernel there are: from launch sites, from the user, or guessed."""

from __future__ import annotations

from typing import TypeAlias

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.name_meanings import TypeVal
from ktc.ir.frontend.meaning.template_args import spell
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_parser import CudaParser
from ktc.ir.frontend.syntax.program import Entity

from .host_code import HostFunction
from .host_templates import MAX_DEPTH, HostInstances, complete
from .launch_sites import LaunchSite, kernel_template_args

Instance: TypeAlias = tuple[dict[str, Value], LaunchSite | None, dict[str, Value]]
"""(template bindings, launch site, bindings of the host template that launches)."""


def instances(
    lowering: KernelLowering, entity: Entity, sites: list[LaunchSite], given: dict[str, Value]
) -> list[Instance]:
    """The distinct instances that the file launches and that agree with ``given``; for a kernel that is no template,
    or whose arguments are all given or defaulted, there is always one."""
    found: dict[tuple[str, ...], Instance] = {}
    callers = HostInstances(lowering)
    for site in sites:
        before = len(found)
        known = callers.of(site.host)
        for caller in [*known, {}]:
            if not caller and known and len(found) > before:
                break  # who calls is known: nothing is left to infer from the kernel's arguments
            matched = kernel_template_args(lowering, entity, site, given, caller)
            if matched is None:
                continue
            bound, host = matched
            full = complete(lowering, entity, bound)
            if full is not None:
                found.setdefault(tuple(spell(full[p.name]) for p in entity.params or ()), (full, site, host))
    for bound in _explicit(lowering, entity) if not found else ():  # what is launched comes before what is only made
        if all(bound[name] == v for name, v in given.items()):
            found.setdefault(tuple(spell(bound[p.name]) for p in entity.params or ()), (bound, None, {}))
    if not found:
        full = complete(lowering, entity, given)
        return [(full, None, {})] if full is not None else []
    return list(found.values())


def _explicit(lowering: KernelLowering, entity: Entity) -> list[dict[str, Value]]:
    """What ``template __global__ void kernel<float>(float*);`` instantiates."""
    return HostInstances(lowering).of(HostFunction(entity), MAX_DEPTH) if entity.params else []


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
        return lowering.template_args([items[0].init], None)[0]
    except (KtcError, AttributeError, IndexError):
        raise KtcError("E-TEMPLATE-VALUE", f"'{text}' is not a {kind} that template parameter '{name}' can take",
                       hint="write it as C++ does: half, float, __nv_bfloat16, 8, true",
                       exit_code=2) from None  # fmt: skip


_IR_NAMES = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t",
    "i16": "int16_t", "u16": "uint16_t", "i32": "int", "u32": "unsigned", "i64": "int64_t", "u64": "uint64_t",
}  # fmt: skip
