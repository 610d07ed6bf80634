"""Which of several kernels of one name is meant: by a launch, by a user, or by the arguments of a template.

Kernels are overloaded, live in namespaces, and are specialised as other functions are ([over.match], [temp.expl.spec]).
Where what the file says leaves several, none is taken: the error says which there are and how to name one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.lowering.declarations.parameters import is_pack
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.meaning.templates import rank, unconstrained
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.program import Entity, Program, name_parts, pick
from ktc.ir.frontend.syntax.type_text import parameter_texts, same_types

from .host_templates import HostInstances, complete
from .host_types import HostTypes
from .kernel_names import Spelled
from .launch_sites import LaunchSite, kernel_template_args, names_of


def named(program: Program, wanted: Spelled) -> list[Entity]:
    """The kernels that ``wanted`` can mean by their names, namespaces, template parameters and written parameters."""
    found = [e for e in program.kernels if e.name == wanted.name]
    if wanted.namespace:
        found = [e for e in found if ("", *e.namespace)[-len(wanted.namespace) :] == wanted.namespace]
    if wanted.args is not None:
        found = [e for e in found if e.params is not None and _takes(e, len(wanted.args))]
    if wanted.params is not None:
        found = [e for e in found if same_types(parameter_texts(e.node), wanted.params)]
    return found


def _takes(e: Entity, count: int) -> bool:
    return count <= len(e.params or ()) or any(p.pack for p in e.params or ())


def rivals(program: Program, entity: Entity) -> list[Entity]:
    """The kernels of the name of ``entity``, itself included."""
    return [e for e in program.kernels if e.name == entity.name]


def label(program: Program, entity: Entity) -> str:
    """How a user names ``entity`` so that no other kernel of the file is meant: ``ns::step``, ``::step``,
    ``step(int*, int)``."""
    others = [e for e in rivals(program, entity) if e is not entity]
    name, around = entity.name, entity.namespace
    if apart := [e.namespace for e in others if e.namespace != around]:
        ambiguous = any(other[len(other) - len(around) :] == around for other in apart)
        name = "::".join((*[""] * ambiguous, *around, name))
    if any(e.namespace == entity.namespace for e in others):
        name += f"({', '.join(parameter_texts(entity.node))})"
    return name


def chosen(
    lowering: KernelLowering, found: Sequence[Entity], sites: Sequence[LaunchSite], given: Mapping[str, Value]
) -> Entity | None:
    """The one kernel of ``found`` that the launches of the file mean, or that there is with the template arguments
    ``given``; None where they mean several, or do not say."""
    able = [e for e in found if given.keys() <= {p.name for p in e.params or ()} and not disabled(lowering, e, given)]
    if len(able) == 1:
        return able[0]
    callers = HostInstances(lowering)
    meant = [resolved(lowering, s, caller) for s in sites for caller in callers.of(s.host) or [{}]]
    launched = {id(e): e for e in meant if e is not None and e in able}
    return launched.popitem()[1] if len(launched) == 1 and None not in meant else None


def disabled(lowering: KernelLowering, e: Entity, bindings: Mapping[str, Value]) -> bool:
    """Whether a kernel has no instance with these template arguments: a constraint does not hold, or the type of its
    result or of a template parameter, as of ``std::enable_if``, does not exist ([temp.deduct], [temp.constr]).

    What some argument that is not among ``bindings`` decides is taken to hold.
    """
    if e.params is None:
        return False
    with lowering.scoped(namespace=e.namespace, root=lowering.file_scope()) as scope:
        scope.names.update(bindings)
        try:
            lowering.bind_params(e.params, [], e.node, dict(bindings))
            lowering.resolve(e.node.decl.type.type)
            return not all(lowering.const_int(c, "a constraint") for c in e.node.constraints)
        except KtcError as error:
            return error.code == "E-SEMA-SFINAE"


def launches(lowering: KernelLowering, site: LaunchSite, caller: dict[str, Value], entity: Entity) -> bool:
    """Whether ``site``, in the instance ``caller`` of its function, is known to launch ``entity``: of several kernels
    of the name, this one and no other."""
    return site.kernel == entity.name and (
        len(rivals(lowering.program, entity)) < 2 or resolved(lowering, site, caller) is entity
    )


def launches_in_some_instance(instances: HostInstances, site: LaunchSite, entity: Entity) -> bool:
    """Whether one of the ``instances`` of the function that ``site`` is in is known to launch ``entity``."""
    if site.kernel != entity.name:
        return False
    callers = instances.of(site.host) or [{}]
    return any(launches(instances.lowering, site, caller, entity) for caller in callers)


def resolved(lowering: KernelLowering, site: LaunchSite, caller: dict[str, Value]) -> Entity | None:
    """The kernel that overload resolution finds for a launch; None where the types of its arguments do not decide."""
    qualifier = name_parts(site.callee)[0]
    found = [e for e in lowering.program.kernels if e.name == site.kernel]
    here = site.function.namespace
    near = pick(found, qualifier, here)
    if not qualifier and not any(here[: len(e.namespace)] == e.namespace for e in near):
        near = [e for e in near if "::".join(e.namespace) in lowering.program.using] or near
    ranked = [(cost, e) for e in near if (cost := _cost(lowering, site, caller, e)) is not None]
    if not ranked:
        return None
    known = all(sure for (sure, _), _ in ranked)
    if len(ranked) > 1 and not known:
        return None
    least = min(key for (_, key), _ in ranked)
    best = [e for (_, key), e in ranked if key == least]
    return best[0] if len(best) == 1 else None


def _cost(
    lowering: KernelLowering, site: LaunchSite, caller: dict[str, Value], e: Entity
) -> tuple[bool, tuple[Any, ...]] | None:
    """How well a kernel fits a launch: whether all types are known, and what the best has least of; None: not at
    all."""
    given, own = site.template_args, params_of(e.node)
    if given is not None and (e.params is None or not _takes(e, len(given))):
        return None
    template = (e.params is not None, unconstrained(own, e.params or ()))
    if site.node is None:
        return False, (0, *template)
    args, packed = site.node.args, any(map(is_pack, own))
    required = sum(getattr(p, "init", None) is None for p in own) - packed
    if len(args) < required or (len(args) > len(own) and not packed):
        return None
    bound: dict[str, Value] | None = {}
    if e.params is not None:
        matched = kernel_template_args(lowering, e, site, {}, caller)
        if matched is None or disabled(lowering, e, matched[0]):
            return None
        bound = complete(lowering, e, matched[0])
    with names_of(lowering, site.host, site.env, caller):
        types = HostTypes(lowering, site.declared).of_all(args)
    if bound is None or packed:
        return False, (0, *template)
    total = 0
    with lowering.scoped(namespace=e.namespace, root=lowering.file_scope()) as scope:
        scope.names.update(bound)
        for p, t in zip(own, types):
            cost = rank(t, lowering.parameter_type(p)) if t is not None else 0
            if cost is None:
                return None
            total += cost
    return None not in types, (total, *template)


def definition(lowering: KernelLowering, e: Entity, bindings: dict[str, Value]) -> tuple[Entity, dict[str, Value]]:
    """The definition that the instance ``bindings`` of a kernel has, an explicit specialisation's where there is one,
    and its template parameters.

    Raises:
        KtcError: E-SEMA-BODY, it is only declared; what stopped the parser in a definition that it may be.
    """
    program = lowering.program
    broken = next((b.error for b in program.bad if b.name == e.name and b.is_kernel), None)
    if broken is not None and (e.params is not None or len(rivals(program, e)) > 1):
        raise broken
    found = [f for f in program.functions[e.name] if f.is_kernel and f.namespace == e.namespace]
    return lowering.body_of(e, found, bindings, e.node)


def defines(lowering: KernelLowering, body: Entity, e: Entity, bindings: dict[str, Value]) -> bool:
    """Whether ``body``, a kernel or a specialisation of it, is the definition of an instance of the kernel ``e``."""
    try:
        return definition(lowering, e, bindings)[0] is body
    except KtcError as error:
        if error.code != "E-SEMA-BODY":
            raise
        return False


def several(found: Sequence[Entity], names: Sequence[str], file: str) -> KtcError:
    """The error that ``found`` are several kernels, with the names that each is asked for by."""
    what = ", ".join(f"{name} (line {e.node.coord.line})" for name, e in zip(names, found))
    option = names[0] if names[0].isidentifier() else f"'{names[0]}'"
    hint = f"choose one with --kernel {option}; in Python, kernel={names[0]!r}"
    return KtcError("E-KERNEL-SEVERAL", f"{file} has {len(found)} kernels: {what}", hint=hint, exit_code=2)
