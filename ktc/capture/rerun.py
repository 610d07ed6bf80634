"""A captured launch run again by the kernel as ktc prints it, and its memory compared with what the program left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ktc.ir import nodes as ir
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.entry_points import Unit, deep_recursion, parse_unit
from ktc.ir.frontend.host.captured import Instance, instance
from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, scalar_of
from ktc.ir.walk import all_exprs

from .capture_format import Capture, Launch, Memory
from .compare import FLOATS, Difference, compare
from .memories import Bound, bind_arguments

BACKENDS = ("cuda", "hip", "opencl", "numba")
SURVIVORS = frozenset({"identical", "within"})


@dataclass(frozen=True)
class Outcome:
    """One launch on one backend.

    ``status``: ``identical`` (every byte, as some run of the original left it), ``within`` (floats, as far as rounding
    and the original's own spread explain; see :mod:`.compare`), ``unstable`` (no floats whose spread is known, and runs
    of the original differ there too), ``differs``, ``refused`` (ktc says why it
    does not print or launch it), ``failed`` (it should have run, and did not) or ``absent`` (the sources have no such
    kernel). ``unstable`` bytes are those that differ between runs of the original itself.
    """

    launch: Launch
    backend: str
    status: str
    detail: str = ""
    code: str = ""
    differences: tuple[tuple[str, Difference], ...] = field(default=())

    @property
    def ok(self) -> bool:
        return self.status in SURVIVORS

    def to_json(self) -> dict[str, Any]:
        launch = self.launch
        return {
            "kernel": launch.kernel, "ordinal": launch.ordinal, "grid": launch.grid, "block": launch.block,
            "shared": launch.shared, "bytes": launch.bytes, "unstable": launch.unstable, "backend": self.backend,
            "status": self.status, "code": self.code, "detail": self.detail,
            "differences": [{"where": where, "elements": d.elements, "of": d.of, "first": d.first, "share": d.share,
                             "largest": d.largest} for where, d in self.differences],
        }  # fmt: skip


@dataclass(frozen=True)
class Sources:
    """The files that have the kernels, and how they are read; ``passes``: a script that is applied to each kernel."""

    files: Sequence[str]
    defines: Mapping[str, str] = field(default_factory=dict)
    include_dirs: Sequence[str] = ()
    passes: str = ""
    knobs: Mapping[str, int] = field(default_factory=dict)

    def units(self) -> list[Unit]:
        """The files, parsed.

        Raises:
            KtcError: what the front-end raises.
        """
        return [parse_unit(f, None, dict(self.defines), tuple(self.include_dirs)) for f in self.files]


def rerun(
    capture: Capture,
    sources: Sources,
    backends: Sequence[str],
    wanted: Callable[[Launch], bool] = lambda launch: True,
    devices: Mapping[str, str] | None = None,
) -> Iterator[Outcome]:
    """Every ``wanted`` launch of ``capture`` on each backend, backend by backend.

    ``devices``: runtimes to use instead of the backends' own, by backend.

    Raises:
        KtcError: a source that cannot be parsed, a device that is not there. What concerns one launch is its outcome.
    """
    with deep_recursion(sources.files[0]):
        kernels = Kernels(sources)
        for backend in backends:
            yield from _on(backend, capture, kernels, wanted, (devices or {}).get(backend))


def _on(
    backend: str, capture: Capture, kernels: Kernels, wanted: Callable[[Launch], bool], device: str | None
) -> Iterator[Outcome]:
    from ktc.backends.runtimes import open_runtime

    lost = ""
    runtime = open_runtime(device or {"hip": "cuda"}.get(backend, backend))
    for launch in filter(wanted, capture.launches):
        if lost:
            yield Outcome(launch, backend, "failed", f"not run: the device failed in {lost}", "E-DEVICE-LOST")
            continue
        outcome = _one(launch, backend, kernels, runtime)
        if outcome.code == "E-DEVICE-FAULT":
            lost = launch.kernel
        yield outcome


def _one(launch: Launch, backend: str, kernels: Kernels, runtime: Any) -> Outcome:
    from ktc.backends.base import CompileFailure

    try:
        found = kernels.of(launch)
        if found is None:
            return Outcome(launch, backend, "absent", "the sources have no kernel of this name", "E-KERNEL-UNKNOWN")
        code = _printed(found.kernel, kernels.sources, backend, runtime)
        bound = bind_arguments(launch, found, code.kernel, runtime)
    except KtcError as e:
        return Outcome(launch, backend, "refused", f"{e.loc}: {e.message}" if e.loc else e.message, e.code)
    except RecursionError:
        return Outcome(launch, backend, "refused", "it nests too deep", "E-PARSE-DEPTH")
    try:
        runtime.compile(code).launch(bound.args)
        runtime.synchronize()
        return _judged(launch, backend, bound)
    except CompileFailure as e:
        return Outcome(launch, backend, "failed", e.log.strip()[:400], "E-COMPILE")
    except KtcError as e:
        return Outcome(launch, backend, "failed", e.message, e.code)
    except Exception as e:  # a bug in ktc or a driver's: counted, and the other launches go on
        return Outcome(launch, backend, "failed", f"internal error: {type(e).__name__}: {e}", "E-INTERNAL")


class Kernels:
    """The kernels of the sources as they were launched: files are parsed once, instances made once.

    Raises:
        KtcError: what the front-end raises for a file.
    """

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._units: list[Unit] = sources.units()
        self._found: dict[tuple, Instance | KtcError | None] = {}

    def of(self, launch: Launch) -> Instance | None:
        """The kernel of ``launch`` in the first file that has it; None if none has.

        Raises:
            KtcError: why it cannot be read.
        """
        key = (launch.symbol, launch.parameters, launch.grid, launch.block, launch.shared)
        if key not in self._found:
            try:
                self._found[key] = self._find(launch)
            except KtcError as e:
                self._found[key] = e
        found = self._found[key]
        if isinstance(found, KtcError):
            raise found
        return found

    def _find(self, launch: Launch) -> Instance | None:
        trouble: KtcError | None = None
        for unit in self._units:
            try:
                return instance(unit, launch.kernel, launch.parameters, launch.grid, launch.block, launch.shared)
            except KtcError as e:
                if e.code != "E-KERNEL-UNKNOWN":
                    trouble = trouble or e
        if trouble is not None:
            raise trouble
        return None


def _printed(kernel: Kernel, sources: Sources, backend: str, runtime: Any) -> Any:
    """``kernel`` after the passes, printed for ``backend`` and the runtime that stands in for it."""
    from ktc.api import Program
    from ktc.backends.hip.hip_dialect import on_nvidia
    from ktc.backends.system_calls import texture_object
    from ktc.driver.printing import printed

    if any(isinstance(e, ir.Call) and texture_object(e.fn) is not None for e in all_exprs(kernel.body)):
        raise KtcError("E-CAPTURE-TEXTURE", "what its texture and surface objects refer to is not captured", kernel.loc)
    program = Program(kernel, original=kernel)
    if sources.passes:
        program = program.apply(sources.passes).ok
    program = program.bind(**sources.knobs)
    if backend == "hip":
        return on_nvidia(printed(program.kernel, "hip"))
    return printed(program.kernel, runtime.device.profile)


def _judged(launch: Launch, backend: str, bound: Bound) -> Outcome:
    differences, outside = [], []
    unstable = True
    for m, memory, params in bound.memories:
        if m.kind == "constant":
            continue
        now, stray = memory.read()
        element = _element(params)
        difference = compare(launch.content(m, "after"), now, element, launch.others(m))
        if stray:
            outside.append(f"writes outside of {_called(m, params)}")
        if difference is not None:
            differences.append((_called(m, params), difference))
            measured = element in FLOATS and bool(m.again)  # the original's own spread was the yardstick
            unstable = unstable and (difference.within or (m.unstable > 0 and not measured))
    status = "identical"
    if differences:
        within = all(d.within for _, d in differences)
        status = "within" if within else "unstable" if unstable else "differs"
    detail = "; ".join([*(f"{where}: {_said(d)}" for where, d in differences), *outside])
    return Outcome(launch, backend, status, detail, "", tuple(differences))


def _element(params: Sequence[Any]) -> str:
    """The type of what a memory holds, as its parameters have it; '' where they do not agree."""
    names = {scalar_of(p.sym.type).name for p in params if isinstance(p.sym.type, Ptr)}
    return names.pop() if len(names) == 1 else ""


def _called(m: Memory, params: Sequence[Any]) -> str:
    return m.name or " = ".join(p.sym.name for p in params)


def _said(d: Difference) -> str:
    own = f" and the original's own spread of {d.spread:.3g}" if d.spread else ""
    how = (
        f"error {d.largest:.3g}, {d.share:.3g} of what rounding{own} explains"
        if d.share != float("inf")
        else "not by rounding"
    )
    return f"{d.elements} of {d.of} differ from byte {d.first} on ({how})"
