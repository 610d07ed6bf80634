"""The protocol of a C-family language: one method per construct, answered by ``cuda``, ``hip`` and ``opencl``.

A dialect instance lives for one emission. It collects the helpers that the printed code turned out to need
(:meth:`DialectBase.need`), which the emitter puts above the kernel, each once and in the table's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

from ktc.backends.profiles import Profile
from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import evaluate, product, simplify
from ktc.ir.fragments import Fragment
from ktc.ir.kernel import Kernel, KnobDecl, Param
from ktc.ir.nodes import Alloc, Atomic, Expr, Sym, Var
from ktc.ir.types import Array, Scalar, Struct, Type
from ktc.ir.walk import walk_expr

from .piece import Piece

if TYPE_CHECKING:
    from .c_expressions import Exprs


def const_int(e: Expr | int | None) -> int | None:
    """The value of an integer literal (or of an expression of literals), else None."""
    if e is None or isinstance(e, int):
        return e
    v = evaluate(e, {})
    return int(v) if v is not None else None


def element_of(s: Alloc) -> Type:
    """The type of one element of the array that ``s`` declares: a scalar or a vector."""
    assert isinstance(s.sym.type, Array)
    return s.sym.type.elem


@dataclass(frozen=True)
class TemplateParts:
    """Lines above the helpers, directly above the kernel, and below it."""

    top: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()


class DialectBase:
    """State of one emission, and the questions every language answers.

    ``language`` selects the column of the spelling table; ``types`` maps scalars to the language's names.
    """

    language = ""
    types: ClassVar[dict[Scalar, str]] = {}
    suffixes: ClassVar[dict[str, str]] = {}
    native_vectors: ClassVar[dict[tuple[Scalar, int], str]] = {}
    wide_indices: ClassVar[bool] = False  # whether the numbers of threads and blocks have 64 bits
    reserved: frozenset[str] = frozenset()
    helpers: ClassVar[dict[str, str]] = {}
    constant_keyword = "const"
    exprs: Exprs

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.needed: set[str] = set()
        self.tensor_maps: list[str] = []
        """Names of the descriptors that the kernel takes after its parameters."""
        self.generic_vectors: set[tuple[Scalar, int]] = set()
        self.flat: set[Sym] = set()
        self.structs: dict[str, Struct] = {}
        self.texture_objects: dict[Sym, str] = {}
        self.tables: set[Sym] = set()
        """Buffers of which the addresses of the rows are passed: accesses to them have one index more."""
        """Parameters that are texture or surface objects: ``Texture`` or ``Surface``."""
        self.loc: Loc | None = None

    # ------------------------------------------------------------------------------------------------- diagnostics

    def need(self, helper: str) -> None:
        """Ask for a helper of ``helpers`` above the kernel."""
        self.needed.add(helper)

    def refuse(self, code: str, message: str, hint: str = "") -> NoReturn:
        raise KtcError(f"E-BACKEND-{code}", f"{message} (target {self.profile.name})", self.loc, hint)

    # ------------------------------------------------------------------------------------------------ statements

    def barrier(self, scope: str, mask: Piece | None) -> str:
        raise NotImplementedError

    def fence(self, scope: str) -> str:
        raise NotImplementedError

    def async_fence(self) -> str:
        """Writes to shared memory become visible to instructions that read it by themselves."""
        self.refuse("MMA", "no instruction reads shared memory by itself", "lower the kernel without tensorize")

    def grid_dependency(self, what: str) -> list[str]:
        """Nothing, where the launches of a stream do not overlap."""
        return []

    def atomic(self, s: Atomic, place: str, value: str, compare: str | None, t: Scalar) -> str:
        """The call that performs ``s`` and yields the old value."""
        raise NotImplementedError

    def async_copy(self, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None) -> str:
        """A plain copy, where there is no asynchronous one: same meaning once waited for.

        ``valid``: the condition under which there is something to copy (only where copies are asynchronous)."""
        raise NotImplementedError

    def async_copy_if(
        self, issue: str, dst: str, src: str, elem: Scalar, width: int | Expr, valid: str | None = None
    ) -> str | None:
        """An asynchronous copy that is issued under a condition, without control flow; None where there is none."""
        return None

    def group_copy(self, dst: str, src: str, numbers: Sequence[str], after: str | None) -> str:
        """A copy by the block as a whole, as an expression that gives its event. ``numbers``: count, then stride."""
        raise NotImplementedError

    def group_wait(self, event: str) -> str:
        """The wait for the event kept at the place ``event``."""
        raise NotImplementedError

    def async_commit(self) -> str | None:
        return None

    def async_wait(self, pending: str) -> str | None:
        return None

    def matrix_load(self, dst: str, src: str, matrices: int, trans: bool, t: Scalar) -> str:
        """A warp's load of 8 x 8 matrices from the rows at ``src`` into the registers at ``dst``."""
        self.refuse("MMA", "no matrix load", "lower the kernel without tensorize")

    def mma(self, fragment: Fragment, acc: Sequence[str], a: str, b: str) -> str:
        """The warp's multiply-accumulate; ``a`` and ``b`` are the places of the first operand registers."""
        self.refuse("MMA", f"no tensor-core instruction {fragment.name}", "lower the kernel without tensorize")

    def tile_mma(
        self, fragment: Fragment, acc: Sequence[str], tiles: tuple[str, str], depth: int, panel: str, pending: int,
        keep: str | None,
    ) -> str:  # fmt: skip
        """The warpgroup's product of shared ``tiles``, the second's panels ``panel`` bytes apart; added if ``keep``."""
        self.refuse("MMA", f"no tensor-core instruction {fragment.name}", "lower the kernel without tensorize")

    def tile_mma_wait(self, pending: int) -> str:
        self.refuse("MMA", "no product of a warpgroup", "lower the kernel without tensorize")

    def has_compound(self, t: Scalar) -> bool:
        """Whether ``x += e`` exists for ``t``."""
        return not t.is_float or t.bits > 8

    def alignas(self, n: int) -> str:
        return f"alignas({n})"

    def shared_array(self, s: Alloc, name: str, extents: str) -> list[str]:
        raise NotImplementedError

    def dynamic_arrays(self, allocs: Sequence[tuple[Alloc, str, str]]) -> list[str]:
        """Declarations of the dynamic shared arrays, each (alloc, name, its size in elements as text)."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- whole kernel

    def prepare(self, kernel: Kernel) -> Kernel:
        """Rewrite what the language cannot say into what it can, before printing."""
        return kernel

    def threads_per_block(self, kernel: Kernel) -> str | None:
        """Block size as text, where the launch fixes it without naming a parameter."""
        if kernel.launch is None:
            return None
        factors = [simplify(e) for e in kernel.launch.block]
        if any(isinstance(x, Var) for f in factors for x in walk_expr(f)):
            return None
        return self.exprs.text(simplify(product(factors)))

    def parameter(self, p: Param, name: str) -> str:
        raise NotImplementedError

    def extra_parameters(self) -> list[str]:
        """Parameters that the language needs beyond the kernel's own (OpenCL's dynamic local memory)."""
        return []

    def signature(self, kernel: Kernel) -> tuple[str, str]:
        """(head, tail) around the parameter list: ``__global__ void name(`` and ``)``."""
        raise NotImplementedError

    def options(self) -> tuple[str, ...]:
        """Compiler flags that the printed text needs."""
        return self.profile.options

    def helper_texts(self) -> list[tuple[str, str]]:
        """Helpers by name, in the order in which they may refer to each other."""
        return list(self.helpers.items())

    def late_declarations(self) -> list[str]:
        """Declarations that mention knobs and so follow them."""
        return []

    def bounds(self, kernel: Kernel) -> list[Expr]:
        """Launch expressions that the signature prints."""
        launch = kernel.launch
        return [] if launch is None else [e for e in (launch.max_threads, launch.min_blocks) if e is not None]

    def includes(self) -> list[str]:
        """Preprocessor lines for the headers that the printed types need."""
        return []

    def knob_constant(self, name: str, value: int) -> str:
        raise NotImplementedError

    def template(self, kernel: Kernel, knobs: Sequence[KnobDecl]) -> TemplateParts:
        """How the kernel is parameterised over ``knobs`` in template mode."""
        raise NotImplementedError
