"""Workloads: what a kernel is called with. One TOML file a kernel: arguments, shapes, scenarios, reference, facts.

The file's schema is the dataclasses below. Sizes are named integers of a scenario; shapes, scalar values and launch
geometry are expressions over them (:mod:`ktc.ir.workload.size_expressions`), the reference is numpy formulas
(:mod:`ktc.ir.workload.reference`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktc.ir.diagnostics import KtcError

from .input_data import Repeated, given_array, make_array, marked

if TYPE_CHECKING:
    import numpy as np

    from ktc.ir.kernel import Kernel

ROLES = ("in", "out", "inout", "scalar")

TEMPORARY = "temp"
"""The role of what one launch of a sequence leaves for another one, and nobody else reads."""

SPECIAL_VALUES = ("-inf", "inf", "nan", "-0", "subnormal", "largest")
"""Values that arithmetic treats in its own way: candidates have to agree with the original on them."""

CPP_DTYPES = {
    "half": "f16", "__half": "f16", "float": "f32", "double": "f64", "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16",
    "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "char": "i8", "int8_t": "i8", "uint8_t": "u8", "short": "i16",
    "int": "i32", "int32_t": "i32", "unsigned": "u32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64",
    "bool": "bool",
}  # fmt: skip
"""Template arguments, as C++ spells them, to IR scalars."""


@dataclass(frozen=True)
class ArgSpec:
    """One kernel parameter, or a value only the launcher knows.

    ``dtype`` is an IR scalar or a template parameter; ``shape`` integer expressions over the sizes; ``role`` in | out |
    inout | scalar; ``value`` (scalars) a number or an expression; ``range`` bounds a scalar (inclusive: a promise about
    every call) or a buffer's values (numbers or expressions); ``align`` is the base address's alignment in bytes;
    ``divisible_by`` a promise about a scalar, ``noalias`` one about a buffer: no other argument reaches its memory.
    ``mark``: what one in eight of a buffer's integers is instead, a negative number: padding, no label. ``values``: a
    buffer's elements, numbers or expressions, for one that holds the same in every call at the same sizes.
    ``guessed``: which of ``range``, ``align``, ``divisible_by`` and ``noalias`` a draft has put there, and nobody has
    promised; ``observed``: which of them held in all launches of a program that ran, which promises nothing either.
    ``null``: a condition on the sizes under which a buffer is ``nullptr``; ``false`` promises that it never is, and
    ``true`` that it always is.
    """

    name: str
    dtype: str
    role: str
    shape: tuple[str, ...] = ()
    init: str = ""
    value: str | int | float | None = None
    range: tuple[Any, Any] | None = None
    align: int = 0
    divisible_by: int = 1
    noalias: bool = False
    mark: int | None = None
    guessed: frozenset[str] = field(default=frozenset(), repr=False)  # a set has no order: digests are made of the rest
    observed: frozenset[str] = field(default=frozenset(), repr=False)
    values: tuple[int | float | str, ...] = ()
    null: str | None = None

    def origin(self, fact: str) -> str:
        """Where what the file says of ``fact`` comes from, as :mod:`ktc.ir.fact_origins` has it."""
        return "observed" if fact in self.observed else "guessed" if fact in self.guessed else "declared"

    def is_null(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call at ``sizes`` passes no buffer."""
        from . import size_expressions

        return self.null is not None and bool(size_expressions.evaluate(self.null, sizes))

    @property
    def span(self) -> tuple[Any, Any] | None:
        """``range`` with the mark, which is below it or its first value's place."""
        if self.range is None or self.mark is None or not isinstance(self.range[0], int):
            return self.range
        return min(self.range[0], self.mark), self.range[1]


@dataclass(frozen=True)
class Scenario:
    """One set of sizes; ``weight`` is its share in the objective (0: checked only), ``heldout``: never tuned on."""

    name: str
    sizes: Mapping[str, int]
    weight: float = 1.0
    heldout: bool = False

    @property
    def tuned(self) -> bool:
        return self.weight > 0 and not self.heldout


@dataclass(frozen=True)
class LaunchSpec:
    """Launch geometry over sizes, as text: up to three expressions each; ``shared`` in bytes."""

    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str = "0"


@dataclass(frozen=True)
class SequenceLaunch:
    """One launch of a sequence, as its file has it: which kernel of which source, in which instance, and what is passed
    for its parameters (by name: a buffer, a buffer and an offset in elements, or an expression over sizes and scalars;
    those left out get the argument of their own name). ``template``: arguments of this kernel alone, which may name
    those of the sequence; None takes these. ``launch``: the geometry, if not as the source launches it."""

    source: Path
    kernel: str
    template: Mapping[str, str] | None = None
    passed: Mapping[str, str | int | float] = field(default_factory=dict)
    launch: LaunchSpec | None = None


@dataclass(frozen=True)
class Workload:
    """A parsed workload file. ``path`` is the file, ``source`` the kernel's source next to it. ``swap``: the host
    launches the kernel again and again and swaps these two buffers in between. ``include_dirs``: folders that the
    source includes from. ``unchecked``: the file's text, if its formulas have not been judged when it was read.
    ``assume_guessed``: what it assumes is a guess of a draft, which no caller has promised.

    Of a sequence of launches, ``launches`` are these in order, ``temporaries`` the buffers that are there for them
    alone, and ``source`` is the file itself."""

    path: Path
    source: Path
    kernel_name: str
    args: tuple[ArgSpec, ...]
    scenarios: tuple[Scenario, ...]
    templates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    launch: LaunchSpec | None = None
    assume: tuple[str, ...] = ()
    assume_guessed: bool = False
    formulas: tuple[tuple[str, str], ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    swap: tuple[str, str] | None = None
    include_dirs: tuple[str, ...] = ()
    launches: tuple[SequenceLaunch, ...] = ()
    temporaries: tuple[ArgSpec, ...] = ()
    unchecked: str = field(default="", repr=False, compare=False)

    @staticmethod
    def load(path: str | Path, formulas: bool = True) -> Workload:
        """Read a ``workload.toml``, or the one in a folder. Without ``formulas``, the reference's are left unchecked
        until :meth:`check_formulas`: who only prints a kernel need not wait for numpy.

        Raises:
            KtcError: E-WORKLOAD-* with the file and, where it is known, the line.
        """
        from .workload_file import read

        return read(Path(path), formulas)

    @staticmethod
    def parse(text: str, path: Path) -> Workload:
        """The workload of a file at ``path`` that holds ``text``; the file need not be there.

        Raises:
            KtcError: E-WORKLOAD-* with the line.
        """
        from .workload_file import parse

        return parse(text, path)

    def check_formulas(self) -> None:
        """Check what :meth:`load` left unchecked.

        Raises:
            KtcError: E-WORKLOAD-FORMULA with its place in the file.
        """
        from .workload_file import check_formulas

        if self.unchecked:
            check_formulas(self, self.unchecked)

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that hold the kernel, or the kernels of a sequence."""
        return tuple(dict.fromkeys(s.source for s in self.launches)) or (self.source,)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the instantiations besides the default."""
        return tuple(v for v in self.templates if v)

    @property
    def tolerance_class(self) -> str:
        return str(self.check.get("tolerance_class", "elementwise"))

    @property
    def special(self) -> tuple[str, ...]:
        """The special values that float inputs may take, by name (``[check] special``); all if it does not say."""
        asked = self.check.get("special", "all")
        return SPECIAL_VALUES if asked == "all" else () if asked == "none" else tuple(asked)

    def template(self, variant: str | None = None) -> dict[str, str]:
        """Template arguments of a variant (None: the default one), as C++ text."""
        if (variant or "") not in self.templates:
            known = ", ".join(self.variants) or "none"
            message = f"no variant '{variant}' of {self.kernel_name}"
            raise KtcError("E-WORKLOAD-VARIANT", message, hint=f"there are: {known}", exit_code=2)
        return dict(self.templates[variant or ""])

    def arg(self, name: str) -> ArgSpec:
        for a in self.args:
            if a.name == name:
                return a
        raise KeyError(name)

    def scenario(self, name: str) -> Scenario:
        """The scenario of that name.

        Raises:
            KtcError: E-WORKLOAD-SCENARIO, a usage error listing the names.
        """
        for s in self.scenarios:
            if s.name == name:
                return s
        known = ", ".join(s.name for s in self.scenarios)
        message = f"no scenario '{name}' in {self.path}"
        raise KtcError("E-WORKLOAD-SCENARIO", message, hint=f"there are: {known}", exit_code=2)

    def dtype(self, arg: ArgSpec, variant: str | None = None) -> str:
        """The IR scalar name of an argument in a variant."""
        spelled = self.template(variant).get(arg.dtype, arg.dtype)
        return CPP_DTYPES.get(spelled, spelled)

    def make_inputs(
        self, sizes: Mapping[str, int], variant: str | None = None, seed: int = 0, exact: bool = False
    ) -> dict[str, Any]:
        """Every argument by name: numpy arrays and Python scalars, equal for equal ``(sizes, variant, seed, exact)``;
        None for a buffer that is ``nullptr`` at these sizes.

        Outputs hold poison (NaN; 0x5A in integers). ``exact`` asks for small non-zero integers in every float, so that
        sums and products are exact in any order.
        """
        made = self.describe_inputs(sizes, variant, seed, exact)
        return {name: v.whole() if isinstance(v, Repeated) else v for name, v in made.items()}

    def describe_inputs(
        self, sizes: Mapping[str, int], variant: str | None = None, seed: int = 0, exact: bool = False
    ) -> dict[str, Any]:
        """As :meth:`make_inputs`, with large arrays that repeat a block as :class:`Repeated`."""
        made = ((a, a.is_null(sizes)) for a in self.args)
        return {a.name: None if null else self._describe_input(a, sizes, variant, seed, exact) for a, null in made}

    def make_input(
        self, a: ArgSpec, sizes: Mapping[str, int], variant: str | None = None, seed: int = 0, exact: bool = False
    ) -> np.ndarray | int | float:
        """One argument as :meth:`make_inputs` gives it."""
        made = self._describe_input(a, sizes, variant, seed, exact)
        return made.whole() if isinstance(made, Repeated) else made

    def _describe_input(
        self, a: ArgSpec, sizes: Mapping[str, int], variant: str | None, seed: int, exact: bool
    ) -> np.ndarray | Repeated | int | float:
        from . import size_expressions

        def number(v: Any) -> Any:
            return size_expressions.evaluate(v, sizes) if isinstance(v, str) else v

        dtype = self.dtype(a, variant)
        if a.role == "scalar":
            return _scalar(dtype, self.value(a, sizes, variant), exact)
        shape = tuple(size_expressions.evaluate(s, sizes) for s in a.shape)
        if any(n < 0 for n in shape):
            raise KtcError("E-WORKLOAD-SHAPE", f"'{a.name}' would have the shape {shape} for {dict(sizes)}")
        if a.values:
            return given_array(dtype, shape, [number(v) for v in a.values], a.name, exact)
        bounds = (number(a.range[0]), number(a.range[1])) if a.range else None
        init = "poison" if a.role == "out" and not a.init else a.init or "normal"
        values = make_array(dtype, shape, init, bounds, a.name, seed, exact)
        if a.mark is None:
            return values
        return marked(values.whole() if isinstance(values, Repeated) else values, a.mark, a.name, seed)

    def extents(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """How many elements the arrays of a call at ``sizes`` have, by name."""
        from . import size_expressions

        there = [a for a in self.args if a.role != "scalar" and not a.is_null(sizes)]
        return {a.name: math.prod(size_expressions.evaluate(n, sizes) for n in a.shape) for a in there}

    def call_bytes(self, sizes: Mapping[str, int], variant: str | None = None) -> int:
        """Of all arrays of a call at ``sizes``."""
        from .input_data import numpy_dtype

        elements = self.extents(sizes)
        there = [a for a in self.args if a.name in elements]
        return sum(elements[a.name] * numpy_dtype(self.dtype(a, variant)).itemsize for a in there)

    def scalars(self, sizes: Mapping[str, int]) -> dict[str, int | float]:
        """Values of the scalar arguments, host ones too, at ``sizes``."""
        return {a.name: self.value(a, sizes) for a in self.args if a.role == "scalar" and a.value is not None}

    def value(self, a: ArgSpec, sizes: Mapping[str, int], variant: str | None = None) -> int | float:
        """The value of the scalar ``a`` at ``sizes``: of floating-point ones as real numbers are computed, whatever
        they are rounded to when they are passed."""
        from . import real_expressions, size_expressions

        if not isinstance(a.value, str):
            assert a.value is not None
            return a.value
        if self.is_real(a, variant):
            return real_expressions.evaluate(a.value, sizes)
        return size_expressions.evaluate(a.value, sizes)

    def is_real(self, a: ArgSpec, variant: str | None = None) -> bool:
        """Whether ``a`` is of a floating-point type."""
        return _is_float(self.dtype(a, variant))

    def reference(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        """Expected outputs in float64 for ``inputs`` as :meth:`make_inputs` gives them, or None without formulas.

        Sizes are read off the inputs' shapes and scalars. Outputs without a formula are left out.
        """
        from . import reference

        if not self.formulas:
            return None
        outputs = {a.name for a in self.args if a.role in ("out", "inout")}
        env = self.formula_names(inputs)
        results: dict[str, np.ndarray] = {}
        for name, text in self.formulas:
            value = reference.evaluate(text, env)
            if name in outputs:  # formulas read inputs as they were, also those that are outputs too
                results[name] = self.fit(name, value, inputs)
            else:
                env[name] = value
        return results

    def formula_names(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What the names of a formula stand for, before any other formula: sizes, and arguments in float64."""
        import numpy as np

        env: dict[str, Any] = dict(self.sizes_of(inputs))
        for a in self.args:
            v = inputs[a.name]
            floating = isinstance(v, np.ndarray) and v.dtype.kind not in "iub"
            env[a.name] = v.astype(np.float64) if floating else v
        return env

    def fit(self, name: str, value: Any, inputs: Mapping[str, Any]) -> np.ndarray:
        """``value``, a formula's, as float64 and in the shape of the output ``name``.

        Raises:
            FormulaError: it has another shape.
        """
        import numpy as np

        from .reference import FormulaError

        got, want = np.asarray(value, dtype=np.float64), np.shape(inputs[name])
        if got.shape != want:
            raise FormulaError(f"the reference of '{name}' has shape {got.shape}, the argument {want}", at=0)
        return got

    def sizes_of(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The sizes that ``inputs`` were made for, as far as plain names in shapes and scalar values tell."""
        sizes: dict[str, int] = {}
        for a in self.args:
            if a.role == "scalar":
                if isinstance(a.value, str) and a.value.isidentifier():
                    sizes[a.value] = int(inputs[a.name])
            else:
                for text, n in zip(a.shape, inputs[a.name].shape if inputs[a.name] is not None else ()):
                    if text.isidentifier():
                        sizes[text] = int(n)
        return sizes

    def load_kernel(self, variant: str | None = None) -> Kernel:
        """The kernel in SPMD form with this file's facts: alignment, ranges, host parameters, launch, assumptions."""
        from .workload_facts import attach

        return attach(self._source_kernel(variant), self, variant)

    def _source_kernel(self, variant: str | None) -> Kernel:
        """The kernel as its source says: CUDA C++, or the IR's text form (``.ktir``); or the sequence of launches."""
        if self.launches:
            from .sequence_kernel import sequence_of

            return sequence_of(self, variant)
        if self.source.suffix == ".ktir":
            from ktc.ir.text import parse_kernel

            try:
                return parse_kernel(self.source.read_text(encoding="utf-8"), str(self.source))
            except OSError as e:
                raise KtcError("E-FILE", f"cannot read {self.source}: {e.strerror}", exit_code=2) from e
        from ktc.ir.frontend import load

        return load(
            str(self.source),
            kernel=self.kernel_name,
            template=self.template(variant),
            defines=dict(self.defines) or None,
            include_dirs=self.include_dirs,
        )


def _scalar(dtype: str, value: Any, exact: bool) -> int | float:
    """A scalar argument as the kernel receives it: rounded to its type; in exact mode the nearest non-zero integer."""
    from .input_data import numpy_dtype

    if not _is_float(dtype):
        return int(value)
    if exact:
        return float(round(value) or 1)
    return float(numpy_dtype(dtype).type(value))


def _is_float(dtype: str) -> bool:
    return dtype[0] in "fe" or dtype == "bf16"
