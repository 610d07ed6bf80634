"""A sequence of launches from the kernels that its workload names: each is read, and bound to the sequence's buffers.

Two parameters that are passed one buffer become one buffer, in one launch or in several, with or without an offset:
what overlaps is seen to overlap. Different buffers are known to be apart only where the file says ``noalias``, or where
one of them is a temporary, which the sequence allocates itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.fold import cast, product, simplify
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Binary, Cast, Const, Expr, Launched, Sym, Var, fresh, i32
from ktc.ir.sequences.binding import Binding, bound
from ktc.ir.types import SCALARS, Ptr, Scalar, Type, scalar_of
from ktc.ir.walk import assigned, used, used_in, walk_expr

from . import size_expressions
from .reference import FormulaError, names
from .toml_file import TomlFile
from .workloads import ArgSpec, LaunchSpec, SequenceLaunch, Workload

ALIGNED = 256
"""Bytes that allocations of a device are aligned to (CUDA C++ Programming Guide, device memory accesses)."""


def sequence_of(workload: Workload, variant: str | None) -> Kernel:
    """The sequence that ``workload`` lists, without the facts that it promises.

    Raises:
        KtcError: E-SEQUENCE-ARGS, a launch passes what does not fit its kernel; E-SEQUENCE-LAUNCH, its geometry is not
            known; what the sources get wrong.
    """
    return _Builder(workload, variant).sequence()


@dataclass
class _Builder:
    workload: Workload
    variant: str | None

    def __post_init__(self) -> None:
        self.kernels = [self._read(spec) for spec in self.workload.launches]
        self.specs = {a.name: a for a in (*self.workload.args, *self.workload.temporaries)}
        self.scalars = {a.name: self._scalar(a) for a in self.workload.args if a.role == "scalar"}
        self.symbols: dict[str, Expr] = {n: Var(s) for n, s in self.scalars.items() if _is_integer(s.type)}
        self.carriers: dict[str, Expr] = {}
        for a in self.workload.args:  # a scalar that carries a size stands for it
            if a.role == "scalar" and isinstance(a.value, str) and a.value.isidentifier() and a.name in self.symbols:
                self.symbols.setdefault(a.value, self.symbols[a.name])
                self.carriers.setdefault(a.value, self.symbols[a.name])
        for a in self.workload.args:
            if a.name in self.symbols and (made := self._made_of_sizes(a)) is not None:
                self.symbols[a.name] = made
        self.buffers: dict[str, Param] = {}

    def sequence(self) -> Kernel:
        launched, extra, facts = [], list[Param](), []
        for i, (spec, kernel) in enumerate(zip(self.workload.launches, self.kernels)):
            step, more = self._launched(i, spec, kernel)
            launched.append(step.launched)
            facts += [f for f in step.assumptions if f not in facts]
            extra += more
        missing = [n for n, a in self.specs.items() if a.role != "scalar" and n not in self.buffers]
        if missing:
            what = f"no launch is passed {', '.join(missing)}"
            raise KtcError("E-SEQUENCE-ARGS", what, Loc(str(self.workload.path), 1), "take the [[args]] out")
        order = [n for n, a in self.specs.items() if a.role != "scalar"]
        read = used_in(tuple(s for step in launched for s in step.body))
        numbers = (Param(s, host=s not in read) for s in self.scalars.values())
        params = (*(self.buffers[n] for n in order), *numbers, *extra)
        flags = frozenset().union(*(k.flags for k in self.kernels))
        return Kernel(self.workload.kernel_name, params, None, tuple(launched), assumptions=tuple(facts), flags=flags)

    # ------------------------------------------------------------------------------------------------------- one launch

    def _launched(self, i: int, spec: SequenceLaunch, kernel: Kernel) -> tuple[_Step, list[Param]]:
        binding = Binding()
        extra = []
        for p in kernel.params:
            if p.init or p.symbol:  # a table of the source's own
                extra.append(p)
            elif isinstance(p.sym.type, Ptr):
                self._bind_buffer(i, spec, kernel, p, binding)
            else:
                value = self._value(i, spec, kernel, p)
                if value is not None:
                    binding.scalars[p.sym] = value
        unknown = spec.passed.keys() - {p.sym.name for p in kernel.params}
        if unknown:
            known = ", ".join(p.sym.name for p in kernel.params if not p.init)
            raise self._wrong(i, f"{kernel.name} has no parameter '{min(unknown)}'", f"its parameters are: {known}")
        launch = self._geometry(i, spec, kernel, binding)
        body = bound(kernel.body, binding)
        restrict = self._restrict(kernel, binding)
        made = Launched(
            kernel.name, launch.grid, launch.block, body, launch.dynamic_shared, launch.max_threads,
            launch.min_blocks, restrict, loc=kernel.loc, comments=kernel.comments,
        )  # fmt: skip
        facts = tuple(replace(a, expr=binding.expr(a.expr)) for a in kernel.assumptions)
        return _Step(made, facts), extra

    def _bind_buffer(self, i: int, spec: SequenceLaunch, kernel: Kernel, p: Param, binding: Binding) -> None:
        if p.rows:
            what = f"'{p.sym.name}' of {kernel.name} is an array of pointers, which no buffer of a sequence is"
            raise self._wrong(i, what, "tune this kernel by itself: its rows may lie anywhere")
        given = str(spec.passed.get(p.sym.name, p.sym.name))
        name, plus, offset = (part.strip() for part in given.partition("+"))
        arg = self.specs.get(name)
        if arg is None or arg.role == "scalar":
            buffers = ", ".join(n for n, a in self.specs.items() if a.role != "scalar")
            hint = f'args = {{ {p.sym.name} = "..." }}, one of: {buffers}'
            raise self._wrong(i, f"the buffer '{p.sym.name}' of {kernel.name} is passed no buffer: '{given}'", hint)
        self._check_buffer(i, kernel, p, arg)
        known = self.buffers.get(name)
        elem = _element(p)
        if known is None:
            known = self.buffers[name] = self._buffer(arg, elem)
        elif _element(known) != elem:
            what = f"'{name}' holds {_element(known)} for an earlier launch and {elem} for {kernel.name}"
            raise self._wrong(i, what, "two views of one memory are not followed: give both kernels one element type")
        binding.buffers[p.sym] = known.sym
        if plus:
            binding.offsets[p.sym] = self._expr(i, offset, p.sym.name)

    def _check_buffer(self, i: int, kernel: Kernel, p: Param, arg: ArgSpec) -> None:
        want = self.workload.dtype(arg, self.variant)
        elem = scalar_of(p.sym.type)
        if want in SCALARS and elem.name != want:
            raise self._wrong(i, f"'{p.sym.name}' of {kernel.name} holds {elem.name}, '{arg.name}' holds {want}")
        if arg.role == "in" and p.sym in assigned(kernel.body):
            raise self._wrong(i, f"{kernel.name} writes '{arg.name}', whose role is in", "its role is inout, or temp")

    def _buffer(self, arg: ArgSpec, elem: Type) -> Param:
        temporary = arg in self.workload.temporaries
        sym = fresh(arg.name, Ptr(elem, "global", const=arg.role == "in"))  # type: ignore[arg-type]
        if not temporary:
            return Param(sym, noalias=arg.noalias and arg.origin("noalias") == "declared")
        size = product([size_expressions.to_ir(text, self.symbols) for text in arg.shape])
        return Param(sym, align=ALIGNED, noalias=True, scratch=simplify(size), temporary=True)

    def _value(self, i: int, spec: SequenceLaunch, kernel: Kernel, p: Param) -> Expr | None:
        """What is passed for a scalar, in its type; None for what the host knows and nobody asks for."""
        t = p.sym.type
        name = p.sym.name
        given = spec.passed.get(name, name)
        if isinstance(t, Scalar) and isinstance(given, int | float) and not (t.is_int and isinstance(given, float)):
            return Const(float(given) if t.is_float else given, t)
        text = str(given)
        if text in self.scalars:
            return cast(self.symbols.get(text, Var(self.scalars[text])), t)  # type: ignore[arg-type]
        if not _is_integer(t):
            what = f"the scalar '{name}' of {kernel.name} ({t}) is passed '{given}', which is none of the scalars"
            raise self._wrong(i, what, f"args = {{ {name} = 1e-6 }}, or an [[args]] table for it")
        if p.host and name not in spec.passed and not names(text) <= self.symbols.keys():
            return None
        return cast(self._expr(i, text, name), t)  # type: ignore[arg-type]

    def _made_of_sizes(self, a: ArgSpec) -> Expr | None:
        """The value of a scalar that the file makes of sizes (``rows * d``): loops over as many elements as a buffer
        has are seen to. Sums and products only: no part of them is more than the argument is."""
        t = self.scalars[a.name].type
        text = a.value
        if not isinstance(text, str) or text.isidentifier() or not names(text) <= self.carriers.keys():
            return None
        value = size_expressions.to_ir(text, {n: cast(e, t) for n, e in self.carriers.items()})  # type: ignore[arg-type]
        parts = (e for e in walk_expr(value) if not isinstance(e, Var | Cast))
        summed = all(e.op in "+*" if isinstance(e, Binary) else isinstance(e, Const) and e.value >= 0 for e in parts)
        return value if summed and value.type == t else None

    def _geometry(self, i: int, spec: SequenceLaunch, kernel: Kernel, binding: Binding) -> Launch:
        if spec.launch is not None:
            given, own = self._given(i, spec.launch), kernel.launch  # whose __launch_bounds__ hold in any case
            return given if own is None else replace(given, max_threads=own.max_threads, min_blocks=own.min_blocks)
        launch = kernel.launch
        if launch is None:
            hint = 'grid = ["rows"] and block = ["256"] in its [[launch]]'
            raise self._wrong(i, f"the source shows no launch of {kernel.name}", hint, "E-SEQUENCE-LAUNCH")
        free = {p.sym for p in kernel.params if p.host} - binding.scalars.keys()
        shared = launch.dynamic_shared
        asked = set().union(*map(used, (*launch.grid, *launch.block, *([shared] if shared is not None else []))))
        if wanted := sorted(s.name for s in asked & free):
            name = wanted[0]
            hint = f'args = {{ {name} = "..." }} in its [[launch]], or grid and block'
            what = f"the launch of {kernel.name} depends on '{name}', which the sequence does not have"
            raise self._wrong(i, what, hint, "E-SEQUENCE-LAUNCH")
        grid, block = (tuple(map(binding.expr, dims)) for dims in (launch.grid, launch.block))
        return replace(
            launch, grid=grid, block=block, given=(), passed=(),  # type: ignore[arg-type]
            dynamic_shared=None if shared is None else binding.expr(shared),
        )  # fmt: skip

    def _given(self, i: int, spec: LaunchSpec) -> Launch:
        def three(texts: tuple[str, ...]) -> tuple[Expr, Expr, Expr]:
            x, y, z = ([self._expr(i, t, "grid and block") for t in texts] + [i32(1)] * 3)[:3]
            return x, y, z

        shared = None if spec.shared == "0" else self._expr(i, spec.shared, "shared")
        return Launch(three(spec.grid), three(spec.block), shared)

    def _restrict(self, kernel: Kernel, binding: Binding) -> tuple[Sym, ...]:
        """The buffers that the kernel's author promises to be apart from all others of the launch."""
        promised = [p.sym for p in kernel.params if isinstance(p.sym.type, Ptr) and p.sym.type.restrict]
        taken = list(binding.buffers.values())
        bound_to = [binding.buffers[s] for s in promised if s in binding.buffers]
        return tuple(b for b in bound_to if taken.count(b) == 1)

    # ------------------------------------------------------------------------------------------------------------ parts

    def _read(self, spec: SequenceLaunch) -> Kernel:
        from ktc.ir.frontend import load

        common = self.workload.template(self.variant)
        own = common if spec.template is None else {n: common.get(v, v) for n, v in spec.template.items()}
        return load(
            str(spec.source),
            kernel=spec.kernel,
            template=own,
            defines=dict(self.workload.defines) or None,
            include_dirs=self.workload.include_dirs,
        )

    def _scalar(self, a: ArgSpec) -> Sym:
        return fresh(a.name, SCALARS[self.workload.dtype(a, self.variant)])

    def _expr(self, i: int, text: str, what: str) -> Expr:
        try:
            return size_expressions.to_ir(text, self.symbols)
        except FormulaError as e:
            raise self._wrong(i, f"what is passed for {what}, '{text}': {e.message}", e.hint) from None

    def _wrong(self, i: int, message: str, hint: str = "", code: str = "E-SEQUENCE-ARGS") -> KtcError:
        spec = self.workload.launches[i]
        said = f"launch {i + 1} of {self.workload.path.name} ({spec.kernel}): {message}"
        return KtcError(code, said, self._place(i), hint)

    def _place(self, i: int) -> Loc:
        """Where the file has its ``i``-th launch."""
        path = self.workload.path
        text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
        return TomlFile(path, text).loc("launch", i, "kernel")


@dataclass(frozen=True)
class _Step:
    launched: Launched
    assumptions: tuple


def _element(p: Param) -> Type:
    assert isinstance(p.sym.type, Ptr)
    return p.sym.type.elem


def _is_integer(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


__all__ = ["sequence_of"]
