"""One translation unit through the front-end and the backends: a record for every kernel, whatever happens."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ktc.ir.diagnostics import KtcError, Loc, described, what_to_send
from ktc.ir.frontend.entry_points import Unit, deep_recursion, load_entity, parse_unit
from ktc.ir.frontend.host.guessing.guess_search import GuessSearch
from ktc.ir.frontend.host.host_templates import HostInstances
from ktc.ir.frontend.host.kernel_choice import defines, launches_in_some_instance
from ktc.ir.frontend.host.launch_sites import launch_sites
from ktc.ir.frontend.host.template_instances import instances
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.preprocess.source_text import read_source
from ktc.ir.frontend.preprocess.switched_off import switched_off
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.kernel import Kernel
from ktc.ir.text.printer import print_type
from ktc.project.source_trees import Tree

from . import compiling
from .assumptions import ASSUMED_TYPE, Assumptions, Builds
from .kernel_scan import Found, kernels_in
from .survey_options import SurveyOptions

Record: TypeAlias = dict[str, Any]


@dataclass
class Parsed:
    """A unit under the macros it was given, with those that had to be assumed for it."""

    unit: Unit
    assumed: dict[str, str] = field(default_factory=dict)


class UnitSurvey:
    """The kernels of one file. Parsing is shared by its kernels; macros are assumed kernel by kernel."""

    def __init__(self, path: str, tree: Tree, options: SurveyOptions, builds: Builds) -> None:
        self.path, self.tree, self.options = path, tree, options
        self._assumptions = Assumptions(path, builds)
        self._parsed: dict[tuple[tuple[str, str], ...], Parsed | KtcError] = {}

    def records(
        self, start: int, begin: Callable[[Found], None], known: frozenset[Found] = frozenset()
    ) -> Iterator[Record]:
        """A record for each kernel that is not ``known``, from the ``start``-th on; ``begin`` hears of it before the
        work on it starts."""
        try:
            found, error = self._kernels(), None
        except KtcError as e:
            found, error = self._raw_kernels(), e
            if not found:
                raise
        for kernel in [k for k in found if k not in known][start:]:
            begin(kernel)
            record: Record = {"kernel": kernel.name, "file": kernel.file, "line": kernel.line, "unit": self.path}
            record |= {"parsed": False, "lowered": False, "template": {}, "assumed": {}, "backends": {}}
            with refusals_into(record, "refusal", self.options.timeout_s):
                if error is not None:
                    raise error
                self._kernel(kernel, record)
            yield record

    def _build_given(self) -> dict[str, str]:
        """What must be defined before the text can be read at all: macros that an ``#error`` asks for."""
        given: dict[str, str] = {}
        while self.options.assume:
            try:
                self._parse(given)
                break
            except KtcError as e:
                more = self._assumptions.for_error(e, "", given) if e.code == "E-PP-DIRECTIVE" else None
                if not more:
                    break
                given |= more
        return given

    def _kernels(self) -> list[Found]:
        base = self._parse(self._build_given())
        with deadline(self.options.timeout_s):
            return kernels_in(base.unit.source.text, self.path)

    def _raw_kernels(self) -> list[Found]:
        try:
            return kernels_in(read_source(self.path), self.path)
        except KtcError:
            return []

    def _parse(self, assumed: dict[str, str]) -> Parsed:
        key = tuple(sorted(assumed.items()))
        if key not in self._parsed:
            self._parsed[key] = self._parse_now(assumed)
        got = self._parsed[key]
        if isinstance(got, KtcError):
            raise got
        return got

    def _parse_now(self, assumed: dict[str, str]) -> Parsed | KtcError:
        o = self.options
        defines: dict[str, object] = {**dict(o.defines), **assumed}
        trouble: Record = {}
        with refusals_into(trouble, "refusal", o.timeout_s), deep_recursion(self.path):
            find = self.tree.find
            return Parsed(parse_unit(self.path, None, defines, o.include_dirs, find, o.dialect or None), dict(assumed))
        r = trouble["refusal"]
        file, _, rest = r["place"].rpartition(":")[0].rpartition(":")
        return KtcError(r["code"], r["message"], Loc(file, int(rest)) if rest.isdigit() else None, hint=r["hint"])

    def _kernel(self, found: Found, record: Record) -> None:
        assumed = dict(self._build_given())
        record["assumed"] = dict(assumed)
        blamed: KtcError | None = None
        while True:
            parsed = self._parse(assumed)
            try:
                kernel = self._load(parsed.unit, found, record)
                break
            except KtcError as e:
                source = parsed.unit.source
                more = self._assumptions.for_error(e, source.text, assumed) if self.options.assume else None
                if more is None and self.options.assume and (off := switched_off(e, source.sources, source.defined)):
                    more = dict.fromkeys(off[0], "1")
                if more is None:
                    raise blamed or e from None
                if ASSUMED_TYPE in more.values():
                    blamed = blamed or e  # if a guessed type leads nowhere, the type is what is missing
                assumed = {**assumed, **more}
                record["assumed"] = {**record["assumed"], **more}
        record["parsed"] = True
        record["params"] = [f"{print_type(p.sym.type)} {p.sym.name}" for p in kernel.params if not p.host]
        self._lower(kernel, record)

    def _load(self, unit: Unit, found: Found, record: Record) -> Kernel:
        entity, special = _entity(unit, found)
        record["dialect"] = unit.program.dialect.name
        with deep_recursion(self.path):
            lowering = unit.lowering()
            sites = launch_sites(lowering, entity.name)
            callers = HostInstances(lowering)
            record["launches"] = [str(s.loc) for s in sites if launches_in_some_instance(callers, s, entity)]
            record["template_params"] = [f"{p.kind} {p.name}" for p in entity.params or ()]

            def is_this(bindings: dict[str, Any]) -> bool:
                return defines(lowering, special or entity, entity, bindings)

            known = [i for i in instances(lowering, entity, sites, {}) if is_this(i[0])]
            first: KtcError | None = None
            for bindings, site, host in known[:4]:
                try:
                    kernel = load_entity(unit, entity, bindings, site, host)
                    record["template"] = _spelled(entity, bindings)
                    return kernel
                except KtcError as e:
                    first = first or e
            if first is not None:
                raise first
            if special is not None:
                return load_entity(unit, special, {}, None, {})

            def read(bindings: dict[str, Any]) -> Kernel:
                if not is_this(bindings):
                    raise KtcError("E-TEMPLATE-VALUE", "a specialisation is for these arguments", entity_loc(entity))
                return load_entity(unit, entity, bindings, None, {})

            search = GuessSearch(lowering, entity, sites, read)
            for bindings, kernel in search if self.options.assume else ():
                record["template"] = _spelled(entity, bindings)
                record["assumed"] = {**record["assumed"], **record["template"]}
                return kernel
            missing = KtcError("E-TEMPLATE-MISSING", f"nothing instantiates '{entity.name}'", entity_loc(entity))
            raise search.error or missing

    def _lower(self, kernel: Kernel, record: Record) -> None:
        from ktc.ir.verifier import check, unproved

        check(kernel)
        open_questions = unproved(kernel)
        if open_questions:
            record["attention"] = [
                {"code": q.code, "place": str(q.loc or ""), "message": q.message} for q in open_questions
            ]
        for name in self.options.backends:
            outcome: Record = {"printed": False, "compiled": None}
            record["backends"][name] = outcome
            with refusals_into(outcome, "refusal", self.options.timeout_s):
                text, outcome["profile"] = compiling.printed(kernel, name)
                outcome["printed"] = True
                if name == self.options.backends[0]:
                    record["lowered"] = True
                if self.options.compile:
                    outcome["compiled"] = False
                    outcome["tool"] = compiling.compiled(text)
                    outcome["compiled"] = True
            if name == self.options.backends[0] and "refusal" in outcome:
                record["refusal"] = outcome["refusal"]


def _entity(unit: Unit, found: Found) -> tuple[Entity, Entity | None]:
    """The parsed kernel that ``found`` is, of those of its name the nearest; of a specialisation the template that it
    belongs to, and itself.

    Raises:
        KtcError: why it did not parse; E-SURVEY-LOST when the parser did not notice it at all (a bug in ktc).
    """
    same = [e for e in unit.program.kernels if e.name == found.name]
    special = [e for e in unit.program.specialised_kernels if e.name == found.name]
    broken = [b.error for b in unit.program.bad if b.name == found.name and b.is_kernel]

    def far(loc: Any) -> tuple[bool, int]:
        return loc.file != found.file, abs(loc.line - found.line)

    if same or special:
        best = min([*same, *special], key=lambda e: far(e.node.coord))
        for error in broken:
            if error.loc is not None and error.loc.line >= found.line > best.node.coord.line:
                raise error
        if best.spec_args is None:
            return best, None
        count = len(params_of(best.node))
        of = [e for e in same if e.namespace == best.namespace and e.params and len(params_of(e.node)) == count]
        return (of[0], best) if of else (best, best)
    error = unit.program.bad_function(found.name)
    if error is not None:
        raise error
    where = [b.error for b in unit.program.bad if b.error.loc and b.error.loc.line >= found.line]
    if where:
        raise where[0]
    raise KtcError("E-SURVEY-LOST", f"the parser passed over kernel '{found.name}'", Loc(found.file, found.line))


def entity_loc(entity: Entity) -> Loc:
    coord = entity.node.coord
    return Loc(coord.file, coord.line, coord.column or 1)


def _spelled(entity: Entity, bindings: dict[str, Any]) -> dict[str, str]:
    from ktc.ir.frontend.meaning.template_args import spell

    return {p.name: spell(bindings[p.name]) for p in entity.params or () if p.name in bindings}


class Timeout(Exception):
    """The time for one kernel is over."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise :class:`Timeout` in the main thread after ``seconds``; nested deadlines keep the outer one's rest."""

    def ring(signum: int, frame: object) -> None:
        raise Timeout

    before = signal.signal(signal.SIGALRM, ring)
    rest, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(rest, 0.001) if rest else 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def refusals_into(record: Record, key: str, seconds: float) -> Iterator[None]:
    """Turn whatever is raised inside into ``record[key]``: code, message, place, hint."""
    try:
        with deadline(seconds):
            yield
    except KtcError as e:
        record[key] = refusal(e.code, e.message, str(e.loc) if e.loc else "", e.hint)
    except Timeout:
        record[key] = refusal("E-TIMEOUT", f"took more than {seconds:g} s")
    except MemoryError:
        record[key] = refusal("E-MEMORY", "ran out of the memory a worker may use")
    except Exception as e:  # a bug in ktc: counted, with its place in our code, and the survey goes on
        record[key] = refusal("E-INTERNAL", described(e), "", what_to_send())


def refusal(code: str, message: str, place: str = "", hint: str = "") -> Record:
    """What stopped a kernel, as a record keeps it."""
    return {"code": code, "message": message, "place": place, "hint": hint}
