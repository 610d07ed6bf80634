"""State of lowering one kernel: scopes, the statement list being built, errors with places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import simplify
from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.meaning.constants import folded_integer
from ktc.ir.frontend.meaning.name_meanings import LazyVal, TypeVal
from ktc.ir.frontend.meaning.values import RecordVal, RVal, Value, VarPlace, named
from ktc.ir.frontend.preprocess.preprocessor import Preprocessed
from ktc.ir.frontend.syntax.cxx_parser import to_loc
from ktc.ir.frontend.syntax.program import Program
from ktc.ir.frontend.syntax.variable_uses import Facts
from ktc.ir.nodes import Const, Decl, Expr, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import substitute_expr

from .input_limits import MAX_CALL_WORK, MAX_IR_STATEMENTS

_T = TypeVar("_T")

PRELUDES = ("prelude.cuh", "opencl.cuh", "ptx.cuh")


class Retry(Exception):
    """Lowering must start again, with the buffer declared at ``key`` made of ``unit`` elements in one dimension."""

    def __init__(self, key: Any, unit: Scalar) -> None:
        super().__init__(key, unit)
        self.key = key
        self.unit = unit


class Scope:
    """Names of one block. ``record`` is the object whose members are visible (inside a method).

    ``objects`` are those whose destructors run at its end; None where the end of the block is not followed.
    """

    __slots__ = ("names", "namespace", "objects", "parent", "record")

    def __init__(self, parent: Scope | None, namespace: tuple[str, ...] = (), record: RecordVal | None = None) -> None:
        self.names: dict[str, Value] = {}
        self.parent = parent
        self.namespace: tuple[str, ...] = namespace or (parent.namespace if parent else ())
        self.record = record
        self.objects: list[tuple[RecordVal, Any]] | None = None

    def find(self, name: str) -> Value | None:
        """The innermost meaning of ``name``."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                found = scope.names[name]
                return found.resolve() if isinstance(found, LazyVal) else found
            if scope.record is not None and name in scope.record.fields:
                return named(scope.record.fields[name], scope.record.const)
            scope = scope.parent
        return None

    def types_and_constants(self, const_of: Mapping[Sym, Const]) -> dict[str, Value]:
        """The names here that mean a type or a constant, those of variables with the values ``const_of`` among them:
        what a class defined here may use."""
        found = self.parent.types_and_constants(const_of) if self.parent is not None else {}
        for name, v in self.names.items():
            if isinstance(v, TypeVal | LazyVal) or (isinstance(v, RVal) and isinstance(v.expr, Const)):
                found[name] = v
            elif isinstance(v, VarPlace) and v.const and v.sym in const_of:
                found[name] = RVal(const_of[v.sym])
        return found


@dataclass
class Frame:
    """The function being lowered.

    ``value`` is its result if a ``return`` was reached with no control flow around it; else results are assigned to
    ``result``, declared lazily. ``done`` is the flag that a ``return`` inside a loop sets. ``loops`` counts the loops
    entered inside this function, ``control`` the enclosing ifs and loops, ``flagged`` those ifs behind which the rest
    asks ``done``. ``objects`` are its own variables of classes: returning one needs no copy. ``taken`` are its
    parameters of classes that are passed by value: returning one moves it ([class.copy.elision]).
    """

    name: str
    is_kernel: bool
    ret: Type | None
    facts: Facts
    caller: Frame | None = None
    value: Value | None = None
    result: Value | None = None
    done: Sym | None = None
    loops: int = 0
    control: int = 0
    flagged: int = 0
    step: list[Any] = field(default_factory=list)
    objects: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)

    def straight_to(self, owner: tuple[Frame, int] | None) -> bool:
        """Whether no if or loop lies between here and the block of ``owner``: a function and how many ifs and loops are
        around the block there; None for the kernel's own block."""
        frame: Frame | None = self
        while frame is not None:
            if owner is not None and frame is owner[0]:
                return frame.control == owner[1]
            if frame.control:
                return False
            frame = frame.caller
        return owner is None

    @property
    def here(self) -> tuple[Frame, int]:
        """The block that is being lowered, for :meth:`straight_to`."""
        return self, self.control


class Replaced(Generic[_T]):
    """Inside the ``with``, an attribute of the context has another value."""

    __slots__ = ("_context", "_name", "_saved", "value")

    def __init__(self, context: Context, name: str, value: _T) -> None:
        self._context, self._name, self.value = context, name, value

    def __enter__(self) -> _T:
        self._saved = getattr(self._context, self._name)
        setattr(self._context, self._name, self.value)
        return self.value

    def __exit__(self, *error: object) -> None:
        setattr(self._context, self._name, self._saved)


class Context:
    """Base of the lowering mixins."""

    # Methods of later mixins that earlier ones call: lowering is one recursion over types, places, calls, statements.
    load: Any
    initial_value: Any
    enumerator_value: Any
    fields_of: Any
    _enclosing_record: Any
    expand_pack: Any
    global_variable: Any
    keep_before: Any
    copied_closure: Any
    unpacked: Any
    binary: Any
    items: Any
    block: Any
    statement: Any
    switch_as_ifs: Any
    layout: Any
    unit: Any
    memory_record: Any
    load_bits: Any
    store_bits: Any
    load_pointer: Any
    pointer_from: Any
    store_slot: Any
    deref_choice: Any
    pointer_of: Any
    load_choice: Any
    store_pointer: Any
    pointer_variable: Any
    emit_alloc: Any
    _lane_element: Any
    store_choice: Any
    copy_units: Any
    copy_vector: Any
    vector_of: Any
    vector_value: Any
    vector_place: Any
    lanes: Any
    first_lane: Any
    is_null: Any
    converted: Any
    as_pointer: Any
    upcast: Any
    _levels: Any
    defined: Any
    _bind_owner: Any
    bases_of: Any
    known_bases_of: Any
    static_table: Any
    string_table: Any
    derives: Any
    is_polymorphic: Any
    only_destructor_virtual: Any
    base_pointer: Any
    rank_user: Any
    eval: Any
    rvalue: Any
    _starts: list[list[Stmt]]

    def __init__(self, program: Program, source: Preprocessed, file: str) -> None:
        self.program = program
        self.source = source
        self.file = file
        self.scope = Scope(None)
        self.out: list[Stmt] = []
        self.frame = Frame("", True, None, Facts.empty())
        self.loc: Loc | None = None
        self.depth = 0
        self.const_of: dict[Sym, Const] = {}
        self.shared: dict[str, Value] = {}
        self.file_shared: dict[str, Value] = {}
        self.tags: dict[str, int] = {}
        self._commented: set[tuple[str, int]] = set()
        self._emitted = 0
        self._work = 0
        self.unused: set[int] = set()
        """Ids of expression nodes whose value nobody uses (statements), so that ``i++`` needs no copy."""
        self.host_number: Callable[[str, Scalar], Value] | None = None
        """What a number of the host is, by name, where host code is followed."""
        self.passed_over: Callable[[Any], bool] | None = None
        self.rank: int | None = None
        """How many dimensions tensors of the host have, where that is supposed (:mod:`.host.unrolled_loops`)."""
        """Which statements do nothing for what is computed, where host code is followed: checks that hold."""
        self._prelude: dict[str, Any] = {}
        self.changing: set[Sym] = set()
        """Variables that may change after they are declared: what is computed from them now has to be kept."""
        self.whiches: set[Sym] = set()
        """Those of them that say into which of several buffers a pointer variable points."""
        self.pinned: dict[Sym, Expr] = {}
        """The same of pointers that do not change: what it is."""
        self.always: set[tuple[Expr, bool]] = set()
        """What is known of pointers everywhere (see ``null_uses``)."""
        self.conditions: list[tuple[Frame, int, set[tuple[Expr, bool]]]] = []
        """What is known inside an operand: the function, the loops around it there, and what is known."""
        self.copied_members: set[Sym] = set()
        self.const_cast_away: set[Sym] = set()
        """Buffers that pointers to what may be written were made of, of pointers to what may not."""

        """Variables that are members of local copies of whole objects."""
        self.null_uses = False
        """Whether a pointer that may be ``nullptr`` is used."""
        self.origin: dict[Sym, Any] = {}
        """Where a buffer whose element type can be chosen is declared."""
        self.hints: dict[Any, Scalar] = {}
        """Element types that an earlier attempt found to be needed, by place of declaration."""
        self.untyped: set[Any] = set()
        """Declarations of ``void*`` buffers of which nothing is known yet."""

    # ------------------------------------------------------------------ errors
    def place(self, node: Any) -> Loc | None:
        coord = getattr(node, "coord", None)
        if coord is None or isinstance(coord, str) or in_library(coord.file) or coord.file in PRELUDES:
            return self.loc  # inside a built-in's body the user's place is the call
        return to_loc(coord, self.file)

    def fail(self, code: str, message: str, node: Any = None, hint: str = "") -> NoReturn:
        """Raise a KtcError at ``node``, or at the current statement."""
        loc = self.place(node)
        raise KtcError(code, message, loc, hint=hint, source=self.source.sources.get(loc.file) if loc else None)

    def count_work(self, n: int) -> None:
        """Count ``n`` steps against the budget of a kernel.

        Raises:
            KtcError: E-SEMA-SIZE when it is spent.
        """
        self._work += n
        if self._work > MAX_CALL_WORK:
            self.fail("E-SEMA-SIZE", f"the kernel's calls expand to more than {MAX_CALL_WORK} steps",
                      hint="a template or constexpr function may recurse without end")  # fmt: skip

    # ------------------------------------------------------------------ statements
    def emit(self, s: Stmt) -> None:
        self._emitted += 1
        if self._emitted > MAX_IR_STATEMENTS:
            self.fail("E-SEMA-SIZE", f"the kernel expands to more than {MAX_IR_STATEMENTS} statements")
        self.out.append(s)

    def temp(self, e: Expr, name: str = "t") -> Var:
        """``e`` evaluated now, into a new constant."""
        sym = fresh(name, e.type)
        self.emit(Decl(sym, e, const=True, loc=self.loc))
        return Var(sym)

    def capture(self) -> Replaced[list[Stmt]]:
        """Collect the statements emitted inside the ``with``."""
        return Replaced(self, "out", [])

    def scoped(
        self, namespace: tuple[str, ...] = (), record: RecordVal | None = None, root: Scope | None = None
    ) -> Replaced[Scope]:
        """A nested scope; ``root`` starts a chain that does not see the caller's locals."""
        return Replaced(self, "scope", Scope(root if root is not None else self.scope, namespace, record))

    @contextmanager
    def controlled(self) -> Iterator[None]:
        """Statements inside run conditionally or repeatedly."""
        self.frame.control += 1
        try:
            yield
        finally:
            self.frame.control -= 1

    def take_comments(self, loc: Loc | None) -> tuple[str, ...]:
        """Comments of the line at ``loc``, once."""
        found = self.source.comments.at(loc)
        if not found or loc is None or (loc.file, loc.line) in self._commented:
            return ()
        self._commented.add((loc.file, loc.line))
        return found

    def hinted(self, key: Any, unit: Scalar) -> Scalar:
        """The element type of the buffer declared at ``key``: ``unit``, or what was found to be needed."""
        return self.hints.get(key, unit)

    def tag(self, name: str) -> frozenset[str]:
        """A unique tag ``loop:name`` (``loop:name.2`` for the second such loop, ...)."""
        n = self.tags[name] = self.tags.get(name, 0) + 1
        return frozenset({f"loop:{name}" if n == 1 else f"loop:{name}.{n}"})

    # ------------------------------------------------------------------ constants
    def constant(self, e: Expr) -> Const | None:
        """The literal that ``e`` is, knowing the values of constant variables."""
        if isinstance(e, Const):
            return e
        folded = simplify(substitute_expr(e, self.const_of))
        return folded if isinstance(folded, Const) else folded_integer(folded)
