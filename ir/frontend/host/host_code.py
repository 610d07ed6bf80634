"""Walking host code: where its functions name kernels and templates, and what the names around mean there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.case_labels import asked
from ktc.ir.frontend.syntax.cxx_ast import Alias, Function, IfConstexpr, NamePart, QualName, Template
from ktc.ir.frontend.syntax.cxx_ast import Launch as LaunchNode
from ktc.ir.frontend.syntax.program import Entity, Program, name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants

from .api_launches import API, as_launch, each_kernel
from .asserted_sizes import asserted, ends
from .dispatching import dispatched
from .filling_functions import with_fillings
from .host_assignments import assign, choose, decided, forget, held, one_by_one, perhaps_unknown, shadow, unknown
from .host_changes import changed_keys, changed_names, whole_arrays
from .host_conditions import Condition, assumed, equal_there, parts_of
from .host_lambdas import GenericLambda, generic_lambda
from .launch_rounds import Rounds, rounds_of, started_in
from .launches.handed_kernels import HandedKernel, handed_kernel
from .launching_functions import LaunchingFunction, launching_function
from .supposed_tensors import with_rank
from .unrolled_loops import follow_rounds
from .value_loops import follow_values


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A function or method that runs on the host.

    ``entity.params`` are its class's template parameters and its own ones: the first ``owned`` are the class's.
    """

    entity: Entity
    owner: str = ""
    owned: int = 0
    around: tuple[Any, ...] = ()
    """The members of its class, as syntax."""

    @property
    def names(self) -> frozenset[str]:
        """Names by which its instances can be told: its own, and that of its class."""
        return frozenset({self.entity.name, self.owner} - {""})


@dataclass(frozen=True)
class Use:
    """A mention of a name in host code.

    ``node`` is the ``ID`` or ``QualName``; ``call`` the arguments it is called with, None if it is not called;
    ``launch`` the launch whose callee it is. ``env``: names in scope there, each with its declaration, or None once it
    cannot be followed.
    """

    function: HostFunction
    node: Any
    loc: Loc | None
    env: dict[str, Any] = field(compare=False, repr=False)
    call: list | None = None
    launch: LaunchNode | None = None
    declared: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The declarations of the names in scope, parameters and types included, whatever happened to them since."""
    under: tuple[tuple[Any, bool], ...] = field(default=(), compare=False, repr=False)
    """The conditions of every ``if constexpr`` around it, each with the value for which it is there at all."""
    reached: tuple[Condition, ...] = field(default=(), compare=False, repr=False)
    """The conditions of every other ``if`` that leads to it, outermost first."""
    first: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The counters of the loops around it that only their loops change, each with what it starts from."""
    rounds: dict[str, Rounds] = field(default_factory=dict, compare=False, repr=False)
    """Those of them that are counted up or down to an end that stays, each with the values that it has."""


def host_functions(program: Program) -> list[HostFunction]:
    """Functions and methods of the file with a body, but kernels and what only a device runs; worked out once."""
    if program.host_functions is None:
        program.host_functions = list(_host_functions(program))
    return program.host_functions


def _host_functions(program: Program) -> Iterator[HostFunction]:
    for entities in program.functions.values():
        for e in entities:
            if _runs_on_host(e.node):
                owner = e.namespace[-1] if e.namespace and e.namespace[-1] in program.records else ""
                classes = program.records[owner] if owner else []
                around = tuple(classes[0].node.items) if len(classes) == 1 else ()
                yield HostFunction(e, owner, len(e.params or ()) if owner else 0, around)
    for name, entities in program.records.items():
        for e in entities:
            for m in e.node.items:
                own = tuple(m.params or ()) if isinstance(m, Template) else ()
                for f in m.decl if isinstance(m, Template) else (m,):
                    if _runs_on_host(f):
                        params = (*(e.params or ()), *own)
                        method = Entity(f.name, f, (*e.namespace, name), params or None)
                        yield HostFunction(method, name, len(e.params or ()), tuple(e.node.items))
                    elif isinstance(f, c_ast.Decl) and f.init is not None and "static" in (f.storage or []):
                        params = (*(e.params or ()), *own)
                        member = Entity(f.name, _initialising(f), (*e.namespace, name), params or None)
                        yield HostFunction(member, name, len(e.params or ()), tuple(e.node.items))


def _initialising(member: c_ast.Decl) -> Function:
    """A function that does what the initialiser of a static member does: ``static constexpr auto kernel = k<T>;``."""
    taken = c_ast.FuncDecl(c_ast.ParamList([]), member.type)
    declared = c_ast.Decl(member.name, [], [], [], [], taken, None, None, coord=member.coord)
    body = c_ast.Compound([member], coord=member.coord)
    return Function(member.name, declared, body, [], {}, [], "function", "", coord=member.coord)


def _runs_on_host(f: Any) -> bool:
    if not isinstance(f, Function) or "__global__" in f.specs or in_library(getattr(f.coord, "file", "")):
        return False
    return f.passed_over or f.body is not None


def words(program: Program, f: Function) -> frozenset[str]:
    """The identifiers in a function's body, which need not be parsed for it."""
    known = program.host_words.get(id(f))
    if known is None:
        known = f.words_passed_over() if f.passed_over else frozenset(_identifiers(f.body))
        program.host_words[id(f)] = known
    return known


def _identifiers(body: Any) -> Iterator[str]:
    for n in descendants(body):
        if isinstance(n, c_ast.ID | NamePart):
            yield n.name
        elif isinstance(n, LaunchNode):
            yield LAUNCH


LAUNCH = "<<<"
"""What ``words`` has for a launch."""


def uses(lowering: KernelLowering, names: frozenset[str], launches: bool = False, of: str | None = None) -> list[Use]:
    """Mentions of ``names`` in host code, in source order; with ``launches`` every launch too, or those that may be of
    the kernel ``of``."""
    wanted = names | {LAUNCH, *API, *launching_functions(lowering)} if launches else names
    near = None if of is None else _mentioning(lowering.program, of)
    found: list[Use] = []
    for f in host_functions(lowering.program):
        node = f.entity.node
        if not wanted & words(lowering.program, node) or (near is not None and id(node) not in near):
            continue
        try:
            body = node.body
        except KtcError:
            continue
        found += _Walk(lowering, f, names, launches).walk(body.block_items or [])
    return found


def _mentioning(program: Program, kernel: str) -> set[int]:
    """The functions that a launch of ``kernel`` can stand in: what mentions it, as what chooses between kernels and
    returns one does, or mentions what does, by ``id`` of their nodes. Of a file with hundreds of kernels they are
    few."""
    functions = host_functions(program)
    names, found, before = {kernel}, set[int](), -1
    while before < len(found):
        before = len(found)
        for f in functions:
            if id(f.entity.node) not in found and names & words(program, f.entity.node):
                found.add(id(f.entity.node))
                names |= f.names
    return found


def launching_functions(lowering: KernelLowering) -> dict[str, list[LaunchingFunction | HandedKernel]]:
    """The functions and methods of the file that launch a kernel which they are passed, by name."""
    program = lowering.program
    if program.host_launching is None:
        program.host_launching = {}  # of those that hand on to another none is looked for
        for f in host_functions(program):
            node = f.entity.node
            if isinstance(node, Function) and (handed := handed_kernel(node, f.entity.params or ())) is not None:
                program.host_launching.setdefault(node.name, []).append(handed)
            if f.owner or not {LAUNCH, *API} & words(program, node) or not _launches_what_it_is_passed(node):
                continue
            for use in _Walk(lowering, f, frozenset(), True).walk(node.body.block_items or []):
                assert use.launch is not None
                found = launching_function(node, f.entity.params or (), use.launch, use.env)
                if found is not None:
                    program.host_launching.setdefault(node.name, []).insert(0, found)
    return program.host_launching


def _launches_what_it_is_passed(f: Function) -> bool:
    """Whether a launch in ``f`` may be of a kernel that is one of its parameters."""
    names = {p.name for p in params_of(f) if getattr(p, "name", None)}
    try:
        nodes = descendants(f.body)
    except KtcError:
        return False
    launched = {n.callee.name for n in nodes if isinstance(n, LaunchNode) and isinstance(n.callee, c_ast.ID)}
    by_name = {n.name.name for n in nodes if isinstance(n, c_ast.FuncCall) and isinstance(n.name, c_ast.ID)}
    return bool(names & launched or by_name & API.keys())


LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile)

MAX_CALLS, MAX_LAMBDAS = 64, 4
"""Calls of one generic lambda that are told apart, and such lambdas within one another."""


class _Walk:
    """One function, statement by statement."""

    def __init__(self, lowering: KernelLowering, function: HostFunction, names: frozenset[str], launches: bool) -> None:
        self.lowering, self.function, self.names, self.launches = lowering, function, names, launches
        self.found: list[Use] = []
        self.under: tuple[tuple[Any, bool], ...] = ()
        self.reached: tuple[Condition, ...] = ()
        self.first: dict[str, Any] = {}
        self.rounds: dict[str, Rounds] = {}
        self.arrays: dict[str, Any] = {}
        self.lambdas: dict[str, GenericLambda] = {}
        self.launching = launching_functions(lowering) if launches else {}
        self.items: list[Any] = []
        self.depth = 0
        self.supposing = lowering.rank is not None

    def walk(self, items: list) -> list[Use]:
        named = {p.name: p for p in params_of(self.function.entity.node) if getattr(p, "name", None)}
        self.items = items
        if self.lowering.rank is not None:
            items = with_fillings(items, frozenset(named), self.lowering.program)
            self.items = items = with_rank(items, frozenset(named), self.lowering.rank)
        self._block(items, {}, named)
        return self.found

    def _wanted(self, node: Any) -> bool:
        stack = [node]
        while stack:
            n = stack.pop()
            if isinstance(n, LaunchNode) and self.launches:
                return True
            if isinstance(n, c_ast.ID | NamePart) and self._tells(n.name):
                return True
            stack.extend(parts_of(n))
        return False

    def _only_called(self, name: str) -> bool:
        """Whether every mention of a lambda in the function calls it, and few do."""
        nodes = [n for item in self.items for n in descendants(item)]
        mentions = sum(isinstance(n, c_ast.ID) and n.name == name for n in nodes)
        calls = sum(isinstance(n, c_ast.FuncCall) and getattr(n.name, "name", None) == name for n in nodes)
        return mentions == calls and 0 < calls <= MAX_CALLS

    def _tells(self, name: str) -> bool:
        """Whether ``name`` is one that is looked for, or that of a way to it."""
        return name in self.names or name in self.lambdas or (self.launches and (name in API or name in self.launching))

    def _block(self, items: list, env: dict[str, Any], declared: dict[str, Any]) -> None:
        """Follow statements in order; behind an ``if`` that leaves the function its condition does not hold, behind an
        assertion it does."""
        outer = self.reached
        for item in one_by_one(items):
            _declare(item, env)
            if isinstance(item, c_ast.Decl | c_ast.Typedef | Alias) and item.name:
                declared[item.name] = item
                if _has_numbers(item):
                    self.arrays[item.name] = item
            if self._rounds_followed(item, env):
                continue
            if self._wanted(item):
                generic = generic_lambda(item, env, declared)
                if generic is not None and self._only_called(item.name):
                    self.lambdas[item.name] = generic  # what it mentions is mentioned where it is called
                else:
                    self._find(item, env, declared)
            arrays = [n for n, decl in self.arrays.items() if decl is not item and declared.get(n) is decl]
            for name in whole_arrays(item, arrays) if arrays else ():
                (perhaps_unknown if isinstance(item, c_ast.If) else unknown)(env, name)
            if isinstance(item, c_ast.If) and item.iffalse is None and _returns(item.iftrue):
                read = c_ast.If(item.cond, None, None)
                for name in held(changed_names(read, self.lowering.by_reference, {}), env):
                    unknown(env, name)  # if (!(in >> n)) return;
                self.reached = (*self.reached, Condition(item.cond, False, dict(env)))
                env.update(decided(assumed(env, item.cond, False), item.cond, False, self.supposing))
            elif isinstance(item, c_ast.If) and self._mutated(item):
                choose(item, env, self._mutated, self._followed_inside)
            elif checked := list(asserted(item)):
                self.reached = (*self.reached, *(Condition(c, True, dict(env)) for c in checked))
            elif not isinstance(item, Alias | c_ast.Typedef):
                of = item.init if isinstance(item, c_ast.Decl) else getattr(item, "rvalue", item)
                for name in held(self._mutated(of), env) if of is not None else ():
                    for key in changed_keys(of, name, self.lowering.by_reference):
                        unknown(env, key)  # also of a call in what another variable is given
        self.reached = outer

    def _rounds_followed(self, item: Any, env: dict[str, Any]) -> bool:
        """Whether ``item`` is a loop that launches nothing, which was followed: over dimensions, round by round, or one
        that computes numbers."""
        if not isinstance(item, LOOPS) or self._wanted(item):
            return False
        rank = self.lowering.rank if isinstance(item, c_ast.For) else None
        if rank is not None and follow_rounds(item, env, rank, self._mutated):
            return True
        return follow_values(item, env, held(self._mutated(item), env))

    def _followed_inside(self, item: Any, env: dict[str, Any]) -> bool:
        """Whether ``item``, in a branch, was followed: such a loop, or a variable of the branch."""
        if self.supposing and isinstance(item, c_ast.Decl) and item.name:
            forget(env, item.name)
            env[item.name] = item
            return True
        return self._rounds_followed(item, env)

    def _mutated(self, item: Any) -> frozenset[str]:
        """The variables that a statement changes; every look at the host code asks it of every statement."""
        return changed_names(item, self.lowering.by_reference, self.lowering.program.host_mutated)

    def _find(self, item: Any, env: dict[str, Any], declared: dict[str, Any]) -> None:
        launch = self._launch(item, env) if self.launches else None
        if launch is not None:
            for one in (launch,) if launch is item else each_kernel(launch, env):
                self._use(one.callee, env, declared, one.args, one)
        elif self._named(item):
            self._use(item, env, declared)
        elif isinstance(item, c_ast.FuncCall) and getattr(item.name, "name", None) in self.lambdas:
            args = list(item.args.exprs) if item.args is not None else []
            self._called(self.lambdas[item.name.name], args, env, declared)
            if item.args is not None and self._wanted(item.args):
                self._find(item.args, env, declared)
            return
        elif calls := dispatched(item, self.lowering.program, self.depth > 0):
            for node, args in calls:
                self._called(GenericLambda(node, env, declared), args, env, declared)
            return
        elif isinstance(item, c_ast.FuncCall) and self._named(item.name):
            self._use(item.name, env, declared, list(item.args.exprs) if item.args is not None else [])
            if item.args is not None and self._wanted(item.args):
                self._find(item.args, env, declared)
            return
        if isinstance(item, c_ast.Compound):
            self._block(item.block_items or [], dict(env), dict(declared))
            return
        if isinstance(item, c_ast.Switch) and isinstance(item.stmt, c_ast.Compound):
            self._switch(item, env, declared)
            return
        if isinstance(item, LOOPS) and not _runs_once(item):
            env = dict(env)
            for name in held(self._mutated(item), env):
                for key in changed_keys(item, name, self.lowering.by_reference):
                    unknown(env, key)  # an earlier iteration may have changed it
        for c in parts_of(item):
            if self._wanted(c):
                outer = self.under, self.reached, self.first, self.rounds
                inner = dict(env)
                if isinstance(item, c_ast.For) and c is item.stmt:
                    started = started_in(item, self._mutated(item.stmt))
                    self.first = {**self.first, **started}
                    self.rounds = {**self.rounds, **rounds_of(item, started, self._mutated(item.stmt))}
                if isinstance(item, c_ast.If | IfConstexpr) and c in (item.iftrue, item.iffalse):
                    holds = c is item.iftrue
                    inner = decided(assumed(env, item.cond, holds), item.cond, holds, self.supposing)
                    if isinstance(item, IfConstexpr):
                        self.under = (*self.under, (item.cond, holds))
                    else:
                        self.reached = (*self.reached, Condition(item.cond, holds, dict(env)))
                self._find(c, inner, dict(declared))
                self.under, self.reached, self.first, self.rounds = outer

    def _called(self, generic: GenericLambda, args: list[Any], env: dict[str, Any], declared: dict[str, Any]) -> None:
        if self.depth < MAX_LAMBDAS:
            self.depth += 1
            self._find(generic.node.body, *generic.called(args, env, declared))
            self.depth -= 1

    def _launch(self, item: Any, env: dict[str, Any]) -> LaunchNode | None:
        """``item`` as the launch that it is; None if it is none."""
        if isinstance(item, LaunchNode):
            return item
        called = item.name if isinstance(item, c_ast.FuncCall) else None
        called = called.field if isinstance(called, c_ast.StructRef) else called
        name = name_parts(called)[1] if isinstance(called, c_ast.ID | QualName) else ""
        ways = (f.called(item, env, self.lowering.program) for f in self.launching.get(name, ()))
        return as_launch(item, env) or next((launch for launch in ways if launch is not None), None)

    def _switch(self, item: c_ast.Switch, env: dict[str, Any], declared: dict[str, Any]) -> None:
        """Follow the cases: where nothing falls into one from above, the selector is that case's label."""
        fallen, open_ = dict(env), False
        for case in item.stmt.block_items or []:
            if not isinstance(case, c_ast.Case | c_ast.Default):
                self._block([case], fallen, dict(declared))
                continue
            label = getattr(case, "expr", None)
            inner = dict(fallen) if open_ else equal_there(env, item.cond, label) if label is not None else dict(env)
            stmts, outer = case.stmts or [], self.reached
            if label is not None and not open_:
                self.reached = (*outer, Condition(asked(item.cond, label, item.coord), True, dict(env)))
            self._block(stmts, inner, dict(declared))
            self.reached = outer
            open_ = not (stmts and _leaves(stmts[-1]))
            changed = self._mutated(case) if open_ else frozenset[str]()
            for name in list(fallen):
                fallen[name] = None if name in changed else fallen[name] if open_ else env[name]

    def _named(self, node: Any) -> bool:
        """Whether ``node`` itself, not one of its template arguments, is one of the names."""
        if isinstance(node, QualName):
            return any(p.name in self.names for p in node.parts)
        return isinstance(node, c_ast.ID) and node.name in self.names

    def _use(
        self,
        node: Any,
        env: dict[str, Any],
        declared: dict[str, Any],
        call: list | None = None,
        launch: LaunchNode | None = None,
    ) -> None:
        place = self.lowering.place(launch or node)
        meant = dict(env), call, launch, dict(declared)
        self.found.append(Use(self.function, node, place, *meant, self.under, self.reached, self.first, self.rounds))


def _runs_once(item: Any) -> bool:
    """Whether ``item`` is ``do { .. } while (0)``, as macros of several statements are written."""
    zero = isinstance(item, c_ast.DoWhile) and isinstance(item.cond, c_ast.Constant)
    return zero and item.cond.value in ("0", "false")


def _has_numbers(declared: Any) -> bool:
    """Whether it is an array, of no pointers."""
    of = declared.type if isinstance(declared, c_ast.Decl) else None
    return isinstance(of, c_ast.ArrayDecl) and isinstance(of.type, c_ast.TypeDecl)


def _declare(item: Any, env: dict[str, Any]) -> None:
    """What a statement says about the names after it."""
    declared = isinstance(item, c_ast.Decl) and not isinstance(item.type, c_ast.FuncDecl)
    if declared or isinstance(item, Alias | c_ast.Typedef):
        shadow(env, item.name)
        env[item.name] = item
    elif isinstance(item, c_ast.Assignment):
        assign(item, env)


def _leaves(stmt: Any) -> bool:
    """Whether control does not go on to what stands after ``stmt``."""
    while isinstance(stmt, c_ast.Compound) and stmt.block_items:
        stmt = stmt.block_items[-1]
    return isinstance(stmt, c_ast.Break | c_ast.Return | c_ast.Continue | c_ast.Goto)


def _returns(stmt: Any) -> bool:
    """Whether a function is left at the end of ``stmt``."""
    while isinstance(stmt, c_ast.Compound) and stmt.block_items:
        stmt = stmt.block_items[-1]
    return isinstance(stmt, c_ast.Return) or ends(stmt)


__all__ = ["HostFunction", "Use", "host_functions", "launching_functions", "uses"]
