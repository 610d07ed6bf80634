"""Which instances of a template kernel there are: from launch sites, from the user, or guessed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any, TypeAlias

from ktc.ir.diagnostics import InternalError, KtcError
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import Pointer
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.name_meanings import TOP_QUALIFIERS, PackVal, TypeVal
from ktc.ir.frontend.meaning.template_args import same_argument, spell
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.cxx_ast import Bad, TemplateParam, own_qualifiers
from ktc.ir.frontend.syntax.cxx_parser import CudaParser
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.types import Scalar, Type

from .host_code import HostFunction
from .host_templates import MAX_DEPTH, HostInstances, complete
from .kernel_choice import launches, rivals
from .kernel_names import listed
from .launch_sites import LaunchSite, kernel_template_args

Instance: TypeAlias = tuple[dict[str, Value], LaunchSite | None, dict[str, Value]]
"""(template bindings, launch site, bindings of the host template that launches)."""

_NARROW = re.compile(r"^(?:(?:un)?signed )?(?:char|short)$")
_SELDOM = re.compile(rf"\bdouble[234]?\b|{_NARROW.pattern}")
"""In one of an instance's template arguments: a precision, or width of integers, that programs seldom run in."""

_INTEGERS = frozenset({"int", "long", "long long"})


def instances(
    lowering: KernelLowering, entity: Entity, sites: list[LaunchSite], given: dict[str, Value]
) -> list[Instance]:
    """The distinct instances that the file launches and that agree with ``given``; for a kernel that is no template,
    or whose arguments are all given or defaulted, there is always one.

    Those of 64-bit floats and of integers below 32 bits come last: where a program can be run in several precisions
    (``AT_DISPATCH`` names double first, and the narrowest integers), that is hardly the one that it is run in. For
    elements that are floats as well as integers of any width the same goes for all integers.
    """
    found: dict[tuple[str, ...], Instance] = {}
    callers = HostInstances(lowering)
    for site in sorted(sites, key=lambda site: not _agrees(lowering, entity, site, given)):
        before = len(found)
        known = callers.of(site.host) or _supposed(lowering, site, entity)
        for k, caller in enumerate([*known, {}]):
            if k == len(known) and known and (len(found) > before or len(rivals(lowering.program, entity)) > 1):
                break  # who calls is known: nothing is left to infer from the kernel's arguments
            if not launches(lowering, site, caller, entity):
                continue
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
    passed = {(k, a) for arguments in found for k, a in enumerate(arguments)}
    any_number = {k for k, a in passed if a == "float"} & {k for k, a in passed if _NARROW.search(a)}

    def seldom(item: tuple[tuple[str, ...], Instance]) -> tuple[bool, bool]:
        arguments = item[0]
        return any(map(_SELDOM.search, arguments)), any(
            k in any_number and a in _INTEGERS for k, a in enumerate(arguments)
        )

    return [i for _, i in sorted(found.items(), key=seldom)]


def _supposed(lowering: KernelLowering, site: LaunchSite, entity: Entity) -> list[dict[str, Value]]:
    """Arguments of the function that a launch is in, a template for one type that nothing in the file instantiates:
    each type of elements of ``entity``, where that is one of several kernels of its name. ``scale<4><<<...>>>(out, n)``
    in ``template <typename T> void run(T* out, ...)`` launches the one for ``float`` where ``T`` is that."""
    params = site.host.entity.params or ()
    if len(params) != 1 or params[0].kind != "type" or params[0].pack or len(rivals(lowering.program, entity)) < 2:
        return []
    with lowering.scoped(namespace=entity.namespace, root=lowering.file_scope()):
        try:
            types = [lowering.parameter_type(p) for p in params_of(entity.node)]
        except KtcError:
            return []
    elements = dict.fromkeys(t.elem for t in types if isinstance(t, Pointer) and isinstance(t.elem, Scalar))
    return [{params[0].name: TypeVal(t)} for t in elements]


def _agrees(lowering: KernelLowering, entity: Entity, site: LaunchSite, given: dict[str, Value]) -> bool:
    """Whether ``site`` launches an instance with the ``given`` arguments, as far as its own arguments say which."""
    matched = kernel_template_args(lowering, entity, site, {}, {}) if given else None
    return matched is None or all(same_argument(v, matched[0].get(name, v)) for name, v in given.items())


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
        first = _options(zip(params, keys[0]))
        raise KtcError("E-TEMPLATE-MISSING", f"'{entity.name}' is launched with several template arguments: {names}",
                       lowering.place(entity.node), hint=f"choose one, for example {first}")  # fmt: skip
    missing = [p for p in params if p.name not in given and p.default is None]
    if not missing:
        raise no_instance(lowering, entity)
    example = _options((p, f"<{EXAMPLES[p.kind]}>" if p.pack else EXAMPLES[p.kind]) for p in missing)
    raise KtcError("E-TEMPLATE-MISSING", f"template parameter{'s' if len(missing) > 1 else ''} "
                   f"{', '.join(repr(p.name) for p in missing)} of '{entity.name}' must be given",
                   lowering.place(entity.node), hint=f"for example {example}")  # fmt: skip


def no_instance(lowering: KernelLowering, entity: Entity) -> KtcError:
    """The error that a kernel's constraints leave out what its template arguments ask for."""
    return KtcError("E-TEMPLATE-VALUE", f"'{entity.name}' has no instance with these template arguments",
                    lowering.place(entity.node), hint="std::enable_if or a constraint leaves it out")  # fmt: skip


EXAMPLES = {"type": "half", "value": "256", "template": "Name"}
"""What an argument for each kind of template parameter may look like."""


def _options(arguments: Iterable[tuple[TemplateParam, str]]) -> str:
    """Template arguments as a shell takes them."""
    return " ".join(f"--template {shlex.quote(f'{p.name}={v}')}" for p, v in arguments)


def template_value(lowering: KernelLowering, entity: Entity, name: str, value: object) -> Value:
    """A template argument given as text or number."""
    params = {p.name: p for p in entity.params or ()}
    if name not in params:
        known = ", ".join(params) or "none: it is not a template"
        raise KtcError("E-TEMPLATE-UNKNOWN", f"'{entity.name}' has no template parameter '{name}'",
        lowering.place(entity.node),
                       hint=f"its template parameters: {known}", exit_code=2)  # fmt: skip
    text = {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    text = _IR_NAMES.get(text, text)
    kind = params[name].kind

    def one(text: str) -> Value:
        if kind == "type":
            named = _type_name(lowering, text)
            return TypeVal(lowering.resolve(named), *(q in own_qualifiers(named) for q in TOP_QUALIFIERS))
        return lowering.template_args([_written(lowering, f"constexpr auto ktc_argument = {text};", "init")], None)[0]

    try:
        items = listed(text) if params[name].pack else None
        return one(text) if items is None else PackVal(tuple(map(one, items)))
    except KtcError as error:
        if isinstance(error, InternalError):
            raise
        raise KtcError("E-TEMPLATE-VALUE", f"'{text}' is not a {kind} that template parameter '{name}' can take",
                       hint="write it as C++ does: half, float, __nv_bfloat16, 8, true, a pack as <half, 8>",
                       exit_code=2) from None  # fmt: skip


def written_type(lowering: KernelLowering, text: str) -> Type:
    """The type that ``text`` spells.

    Raises:
        KtcError: It spells none.
    """
    return lowering.resolve(_type_name(lowering, text))


def _type_name(lowering: KernelLowering, text: str) -> Any:
    """The syntax of the type that ``text`` spells."""
    word = "typename " if re.match(r"[A-Za-z_]\w*\s*(?:::|<)", text) else ""  # templates in classes are not looked up
    return _written(lowering, f"using ktc_argument = {word}{text};", "type")


def _written(lowering: KernelLowering, declaration: str, part: str) -> Any:
    """What a declaration of one name says: its ``init`` or its ``type``.

    Raises:
        KtcError: It does not parse, or declares something else.
    """
    program = lowering.program
    types = (*program.records, *program.aliases, *program.enums)
    named = (program.functions, program.records, program.aliases)
    templates = (n for kind in named for n, es in kind.items() if any(e.params for e in es))
    items = CudaParser().parse_unit(declaration, "--template", types, templates)
    if len(items) == 1 and isinstance(items[0], Bad):
        raise items[0].error
    found = getattr(items[0], part, None) if len(items) == 1 else None
    if found is None:
        raise KtcError("E-TEMPLATE-VALUE", f"'{declaration}' is not one declaration", exit_code=2)
    return found


_IR_NAMES = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "i8": "int8_t", "u8": "uint8_t",
    "i16": "int16_t", "u16": "uint16_t", "i32": "int", "u32": "unsigned", "i64": "int64_t", "u64": "uint64_t",
}  # fmt: skip
