"""From runs, or a kernel with a script, to the artefact and the texts of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ktc.api import Program, program_of
from ktc.backends.base import Emitted
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.ir.null_pointers import pointers_asked_about
from ktc.ir.types import Ptr
from ktc.ir.workload import Workload
from ktc.ir.workload.scenario_facts import scalars_of
from ktc.recipes import OpenedRecipe
from ktc.search.verification.fewer_promises import alike_with_less
from ktc.search.verification.floats.any_order import unordered

from .artefact import Artefact, Code, Instance, Parameter, Point
from .code_of import code_of, original_text, variant_text
from .evidence import Configuration, measured
from .shape_solving import over_sizes, real_over_sizes, sizes_from

EXTENSIONS = {"cuda": "cu", "hip": "hip", "opencl": "cl", "numba": "py"}


@dataclass(frozen=True)
class Built:
    """``texts`` maps the file of each :class:`~.artefact.Code` to what was printed. ``dropped``: what the target cannot
    carry, and what runs in its place. ``workload``, ``variants`` (of dtypes): for the self-test's data. ``wholes``: all
    launches of a sequence together, by the file of the first."""

    artefact: Artefact
    texts: Mapping[str, Emitted]
    workload: Workload
    variants: tuple[str | None, ...]
    dropped: tuple[str, ...] = ()
    wholes: Mapping[str, Emitted] = field(default_factory=dict)

    @property
    def whole_texts(self) -> Mapping[str, Emitted]:
        """The texts by file, where a sequence begins that of all its launches."""
        return {**self.texts, **self.wholes}

    def whole(self, code: Code) -> Emitted:
        """The text of a kernel, or of all launches of a sequence together."""
        return self.wholes.get(code.file) or self.texts[code.file]


Refusal = Callable[[Code], str]
"""Why a target cannot carry a kernel; '' if it can."""


def no_refusal(code: Code) -> str:
    return ""


def build(
    recipes: Sequence[OpenedRecipe],
    programs: Sequence[Program],
    target: str,
    refuses: Refusal = no_refusal,
    ordered: bool = False,
) -> Built:
    """One artefact of runs of one kernel, and of programs with a script of their own; each is an instance.

    ``ordered``: without kernels that take a sum in an order that depends on timing.

    Raises:
        KtcError: E-EXPORT-KERNELS (they are not of one kernel), E-NO-WORKLOAD; E-EXPORT-ORDER (an original is not
            ``ordered``); what ``target`` cannot express of an original.
    """
    parts = [_of_recipe(r, target, k, refuses, ordered) for k, r in enumerate(recipes)]
    parts += [_of_program(p, target, len(parts) + k, refuses, ordered) for k, p in enumerate(programs)]
    first = parts[0]
    names = {p.name for part in parts for p in part.parameters}
    if len({part.name for part in parts}) > 1 or any({p.name for p in part.parameters} != names for part in parts):
        what = ", ".join(dict.fromkeys(part.name for part in parts))
        raise KtcError("E-EXPORT-KERNELS", f"these are runs of several kernels: {what}", hint="export each by itself",
                       exit_code=2)  # fmt: skip
    keys = [tuple(sorted(part.instance.dtypes.items())) for part in parts]
    if len(set(keys)) < len(keys):
        message = "two runs of the same dtypes: one call could mean either"
        raise KtcError("E-EXPORT-KERNELS", message, hint="export one of them", exit_code=2)
    artefact = Artefact(
        name=first.name,
        language=target.split("-")[0],
        parameters=first.parameters,
        sizes=sizes_from(first.workload, {a.name: a.name for a in first.workload.args}, _launch_sizes(first)),
        instances=tuple(part.instance for part in parts),
        reorders=any(part.reorders for part in parts),
        about=first.about,
    )
    return Built(
        artefact,
        {file: text for part in parts for file, text in part.texts.items()},
        first.workload,
        tuple(part.variant for part in parts),
        tuple(line for part in parts for line in part.dropped),
        {file: text for part in parts for file, text in part.wholes.items()},
    )


@dataclass(frozen=True)
class _Part:
    name: str
    parameters: tuple[Parameter, ...]
    instance: Instance
    texts: Mapping[str, Emitted]
    wholes: Mapping[str, Emitted]
    workload: Workload
    variant: str | None
    reorders: bool
    about: Mapping[str, str]
    dropped: tuple[str, ...]


def _launch_sizes(part: _Part) -> list[str]:
    """Sizes that the launch needs and that no argument of the workload carries."""
    known = {a.name for a in part.workload.args}
    return [p.name for p in part.parameters if p.role == "scalar" and p.name not in known]


def _of_recipe(opened: OpenedRecipe, target: str, number: int, refuses: Refusal, ordered: bool) -> _Part:
    program = program_of(opened)
    work = _workload(program)
    found = list(measured(opened.recipe, work))
    wanted: list[Configuration] = list(dict.fromkeys(m.winner for m in found if m.winner is not None))
    codes = _Codes(program, target, number, refuses, ordered)
    index = {w: codes.variant(*w) for w in wanted}
    index |= {(v.script, tuple(sorted(v.knobs.items()))): k for k, v in enumerate(codes.variants)}  # as printed
    points = []
    for m in found:
        at = integers(work, m.sizes)
        timed = {index[c]: ratio for c, ratio in m.ratios.items() if c in index}
        carried = {k: ratio for k, ratio in timed.items() if k is not None}
        variant = index[m.winner] if m.winner is not None else None
        if m.winner is None or variant is not None:  # what a target cannot carry leaves its point to the others
            ratio = () if variant is None else carried[variant]
            points.append(Point(m.name, at, variant, ratio, tuple((k, r[1]) for k, r in carried.items())))
    recipe = opened.recipe
    about = {
        "ktc": recipe.versions.get("ktc", ""), "recipe": recipe.hash, "tuned on": recipe.versions.get("device", ""),
        "target": recipe.target,
    }  # fmt: skip
    return codes.part(points, None, {k: v for k, v in about.items() if v})


def _of_program(program: Program, target: str, number: int, refuses: Refusal, ordered: bool) -> _Part:
    script, knobs = program.preset or ("", {})
    codes = _Codes(program, target, number, refuses, ordered)
    everywhere = codes.variant(script, tuple(sorted(knobs.items()))) if script else None
    return codes.part([], everywhere, {})


def integers(work: Workload, sizes: Mapping[str, int]) -> dict[str, int]:
    """The integer scalars of a call at ``sizes`` that are made of sizes: the coordinates of a measurement."""
    made = {a.name for a in work.args if a.role == "scalar" and isinstance(a.value, str)}
    known = {a.name for a in work.args}
    values = {k: v for k, v in scalars_of(work, sizes).items() if k in made and isinstance(v, int)}
    carried = {a.value for a in work.args if a.role == "scalar"}
    return values | {s: n for s, n in sizes.items() if s not in carried and s not in known}


def _workload(program: Program) -> Workload:
    if program.workload is None:
        hint = "`ktc init FILE` writes a first workload.toml"
        raise KtcError("E-NO-WORKLOAD", "an export needs a workload: shapes and launch", hint=hint, exit_code=2)
    return program.workload


class _Codes:
    """The kernels of one instance, printed one after the other."""

    def __init__(self, program: Program, target: str, number: int, refuses: Refusal, ordered: bool) -> None:
        assert program.original is not None
        self.program, self.target, self.refuses, self.ordered = program, target, refuses, ordered
        self.work = _workload(program)
        self.prefix = f"{program.variant}_" if program.variant else f"i{number}_" if number else ""
        self.suffix = EXTENSIONS[target.split("-")[0]]
        self.texts: dict[str, Emitted] = {}
        self.wholes: dict[str, Emitted] = {}
        self.dropped: list[str] = []
        self.variants: list[Code] = []
        self.kernel: Kernel = program.original
        text = original_text(self.kernel, target)
        self.original = code_of(text, self._named("original", text))
        if why := next(filter(None, map(refuses, self.original.launches)), ""):
            raise KtcError("E-EXPORT-TARGET", f"the original kernel itself cannot go there: {why}")
        if ordered and (why := _hangs_on_timing(text)):
            hint = "without --deterministic it is exported; the original runs wherever no tuned kernel may"
            raise KtcError("E-EXPORT-ORDER", f"the original kernel itself {why}", hint=hint, exit_code=2)

    def _files(self, what: str, text: Emitted) -> list[str]:
        """The names of the files for the launches of ``text``."""
        endings = [""] + [f"_{k}" for k in range(2, len(text.launches) + 1)]
        return [f"{self.prefix}{what}{ending}.{self.suffix}" for ending in endings]

    def _named(self, what: str, text: Emitted) -> list[str]:
        files = self._files(what, text)
        self.texts |= zip(files, text.launches or (text,))
        if text.launches:
            self.wholes[files[0]] = text
        return files

    def variant(self, script: str, knobs: Iterable[tuple[str, int]]) -> int | None:
        """The number of a variant; None where the target cannot carry it, which is noted."""
        values = dict(knobs)
        said = script
        try:
            rewritten = self.program.apply(script).ok.bind(**values)
            script = said = rewritten.script  # without comments
            alike = partial(alike_with_less, workload=self.work, variant=self.program.variant)
            own = rewritten.kernel.knob_values
            text = variant_text(self.kernel, rewritten.kernel, script, own, self.target, alike)
            what = f"tuned{len(self.variants)}"
            files = self._files(what, text)
            code = code_of(text, files, script=script, knobs=rewritten.kernel.knob_values)
            why = next(filter(None, map(self.refuses, code.launches)), "")
            why = why or (_hangs_on_timing(text) if self.ordered else "")
        except KtcError as e:
            why = e.message
        if why:
            self.dropped.append(f"left out: {said}{_knobs(values)}: {why}")
            return None
        self._named(what, text)
        self.variants.append(code)
        return len(self.variants) - 1

    def part(self, points: Sequence[Point], everywhere: int | None, about: Mapping[str, str]) -> _Part:
        kernels = [self.texts[c.file].kernel for whole in (self.original, *self.variants) for c in whole.launches]
        dtypes = {a.name: self.work.dtype(a, self.program.variant) for a in self.work.args}
        instance = Instance(
            dtypes, self.original, tuple(self.variants), tuple(points), everywhere, self.program.variant or ""
        )
        return _Part(
            self.kernel.name, parameters(self.kernel, self.work), instance, self.texts, self.wholes, self.work,
            self.program.variant, any("reassociates" in k.flags for k in kernels), about, tuple(self.dropped),
        )  # fmt: skip


def _hangs_on_timing(text: Emitted) -> str:
    """Which floats are updated by atomic additions or products, in whatever order threads arrive; '' if none are."""
    found = sorted({name for e in text.launches or (text,) for name in unordered(e.kernel)})
    return f"adds to {', '.join(found)} in an order that depends on timing (atomics)" if found else ""


def _knobs(values: Mapping[str, int]) -> str:
    return "".join(f" {k}={v}" for k, v in values.items())


def parameters(kernel: Kernel, work: Workload) -> tuple[Parameter, ...]:
    """The arguments of the callable in the kernel's order, and the scalars that are computed."""
    sizes = list(work.scenarios[0].sizes)
    read = {s.size for s in sizes_from(work, {a.name: a.name for a in work.args}, ()) if s.parameter}
    asked = {s.name for s in pointers_asked_about(kernel)}
    given = {a.name: a for a in work.args}
    out = []
    defined: set[str] = set()
    for p in kernel.params:
        name, a = p.sym.name, given.get(p.sym.name)
        if a is None:
            if p.host:  # a size that the launch needs, and no argument carries
                out.append(Parameter(name, "scalar", value=over_sizes(name, sizes)))
            continue
        if isinstance(p.sym.type, Ptr):
            optional = a.null not in (None, "false") or (a.null is None and name in asked)
            shape = tuple(over_sizes(t, sizes) for t in a.shape)
            alone = p.sym.type.restrict or (p.noalias and not a.guessed & {"noalias"})
            out.append(Parameter(name, a.role, shape, optional=optional, alone=alone))
        elif isinstance(a.value, str):
            if a.value in sizes and a.value not in read and a.value not in defined:
                defined.add(a.value)
                out.append(Parameter(name, "scalar", defines=a.value))
            else:
                over = real_over_sizes if work.is_real(a) else over_sizes
                out.append(Parameter(name, "scalar", value=over(a.value, sizes)))
        else:
            out.append(Parameter(name, "scalar", example=a.value))
    return tuple(out)


__all__ = ["Built", "Refusal", "build", "integers", "no_refusal", "parameters"]
