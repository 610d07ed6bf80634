"""The scripting API: programs, passes by name, refusals as values.

A :class:`Program` is immutable. A pass that refuses gives a program whose ``refused`` says why and where; later passes
leave it alone, so that a chain needs one check, at its end::

    p = ktc.load("silu_and_mul").apply("raise").vectorize(loop="idx", width="$V:2,4,8")
    if p.refused:
        print(p.refused.why, p.refused.hint)
    else:
        print(p.lower("hip", V=8).text)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ktc.ir.diagnostics import KtcError
from ktc.ir.text import named_apart

from .cursors import Cursor, find
from .pass_methods import method_name, pass_method, pass_name, step_text
from .project.as_built import as_built
from .sources import SourceSpec, from_text, has_workload, resolve

if TYPE_CHECKING:
    from ktc.backends.base import Emitted
    from ktc.ir.kernel import Kernel, KnobDecl
    from ktc.ir.workload import Workload
    from ktc.passes.core.base import Pass, Refused, Site
    from ktc.passes.core.script import Step
    from ktc.search.verification import Verdict

    from .facts import ProgramFacts
    from .recipes import OpenedRecipe


@dataclass(frozen=True, repr=False)
class Program:
    """A kernel, the workload it is called with, and how far a chain of passes got.

    ``original`` is the kernel before any pass; ``notes`` are what the passes had to say; ``refused`` the first refusal;
    ``source`` is what the user named. ``preset``: the script and knobs of the recipe that it was, not yet applied.
    """

    kernel: Kernel
    workload: Workload | None = None
    variant: str | None = None
    original: Kernel | None = None
    notes: tuple[str, ...] = ()
    refused: Refused | None = None
    source: SourceSpec | None = None
    preset: tuple[str, Mapping[str, int]] | None = None

    def apply(self, script: str | Step, /, **args: object) -> Program:
        """One pass with keyword arguments, pipeline text (``"raise | unroll{loop=k factor=4}"``), or a site's step.

        Raises:
            KtcError: the text is malformed, or names an unknown pass or argument. A refusal is not an error.
        """
        from ktc.passes.core.language import parse_script
        from ktc.passes.core.pipeline import apply_script
        from ktc.passes.core.script import Script, Step

        if self.refused:
            return self
        args = {k: self.at(v) if isinstance(v, Cursor) else v for k, v in args.items()}
        if isinstance(script, Step):
            asked = Script((script,))
        else:
            asked = parse_script(step_text(script, args) if args else script)
        applied = apply_script(self.kernel, asked)
        notes = tuple(note for r in applied.results for note in getattr(r, "notes", ()))
        return dataclasses.replace(self, kernel=applied.kernel, notes=self.notes + notes, refused=applied.refused)

    def __getattr__(self, name: str) -> Callable[..., Program]:
        """Every pass as a method: ``p.row_cache(...)`` is ``p.apply("row-cache", ...)``."""
        from ktc.passes.core.catalogue import PASSES

        if name.startswith("_") or (found := pass_name(name)) not in PASSES:
            raise AttributeError(f"a Program has no attribute or pass '{name}'")
        return pass_method(self.apply, PASSES[found])

    def __dir__(self) -> list[str]:
        """Every pass is a method too."""
        from ktc.passes.core.catalogue import PASSES

        return [*super().__dir__(), *map(method_name, PASSES)]

    def __bool__(self) -> bool:
        """Whether every pass of the chain was applied."""
        return self.refused is None

    def __repr__(self) -> str:
        from .python.reprs import program_text

        return program_text(self)

    def _repr_html_(self) -> str:
        """In notebooks: what was applied, the knobs, and the kernel as IR."""
        from .python.reprs import program_html

        return program_html(self)

    @property
    def ok(self) -> Program:
        """This program; a refusal raises.

        Raises:
            KtcError: the refusal, with its code, place and hint.
        """
        if self.refused:
            r = self.refused
            raise KtcError(r.code, r.why, r.locs[0] if r.locs else None, r.hint)
        return self

    @property
    def trace(self) -> tuple[str, ...]:
        """The steps applied so far, as pipeline text."""
        return self.kernel.trace

    @property
    def script(self) -> str:
        """The whole chain as one pipeline text."""
        return " | ".join(self.kernel.trace)

    @property
    def knobs(self) -> tuple[KnobDecl, ...]:
        """The tunable constants that the passes have left, each with its domain, default and value."""
        return self.kernel.knobs

    def text(self) -> str:
        """The kernel in the IR's text form."""
        from ktc.ir.text import print_kernel

        return print_kernel(self.kernel)

    def sites(self, pass_name: str | None = None) -> dict[str, list[Site]]:
        """Where each pass (or one) applies to this kernel, with suggested arguments.

        Raises:
            KtcError: E-PASS-UNKNOWN.
        """
        from ktc.passes.core.catalogue import PASSES
        from ktc.passes.core.per_launch import sites_of

        chosen = [pass_name] if pass_name else list(PASSES)
        if pass_name and pass_name not in PASSES:
            raise unknown_pass(pass_name)
        kernel = named_apart(self.kernel)
        return {name: sites_of(PASSES[name], kernel) for name in chosen}

    def find(self, place: str) -> list[Cursor]:
        """Cursors to everything that ``place`` names: ``k``, ``loop:k``, ``array:As``, ``stmt:12``.

        Raises:
            KtcError: E-PLACE, there is nothing of that name.
        """
        return find(self, place)

    def loop(self, name: str) -> Cursor:
        """A cursor to the loop called ``name`` (of several: the first).

        Raises:
            KtcError: E-PLACE.
        """
        return find(self, f"loop:{name}")[0]

    def array(self, name: str) -> Cursor:
        """A cursor to the array or buffer called ``name``.

        Raises:
            KtcError: E-PLACE.
        """
        return find(self, f"array:{name}")[0]

    def at(self, cursor: Cursor) -> Cursor:
        """``cursor``, made in an earlier program of the chain, in this one. It is false if the place is gone."""
        return dataclasses.replace(cursor, program=self)

    def bind(self, **values: int) -> Program:
        """Knobs bound to values, the rest to their defaults or to what the constraints leave near them.

        Raises:
            KtcError: E-KNOB-UNKNOWN, E-KNOB-DOMAIN or E-KNOB-INFEASIBLE; the refusal, if a pass refused.
        """
        from ktc.ir.kernel import bind

        kernel = self.ok.kernel
        if kernel.constraints:
            from ktc.search.space.knob_space import (
                completed,  # with numpy, which a kernel without open knobs does not need
            )

            values = completed(kernel, values)
        return dataclasses.replace(self, kernel=bind(kernel, values))

    def lower(self, target: str = "cuda", mode: str = "source", /, **knobs: int) -> Emitted:
        """Code for ``target``: cuda | hip | opencl | numba, or a profile such as ``opencl-nvidia``.

        ``mode='template'`` keeps the knobs open. Nothing is verified here: :meth:`verify` asks the ladder.

        Raises:
            KtcError: as :meth:`bind`; E-BACKEND-..., for what the target cannot express.
        """
        from ktc.driver.printing import printed

        program = self.ok if mode == "template" and not knobs else self.bind(**knobs)
        return printed(program.kernel, target, mode)

    def lowered(self) -> Kernel:
        """The kernel in SPMD form: distributions turned into threads, strides and barriers."""
        from ktc.passes.lowering import materialise

        return materialise(self.ok.kernel) if self.ok.kernel.is_parallel else self.kernel

    def facts(self, **sizes: int) -> ProgramFacts:
        """What the analyses know: loops, accesses, registers, occupancy, dependences, bounds (:mod:`ktc.facts`)."""
        from .facts import facts_of

        return facts_of(self, sizes)

    def rewritten_as(self, other: Program) -> Program:
        """The kernel of ``other``, written by hand, as a rewrite of this one: to be verified against it, or passed on
        to passes (:mod:`ktc.comparing`)."""
        from .comparing import rewritten_as

        return rewritten_as(self, other)

    def verify(
        self,
        *,
        values: Mapping[str, int] | None = None,
        device: str | None = None,
        scenarios: Sequence[str] = (),
        seed: int = 0,
        twin: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> Verdict:
        """The verification ladder, this program with its knobs at ``values`` against its original.

        The arguments, and what it raises, are those of :func:`ktc.verification.verify_program`.
        """
        from .verification import verify_program

        return verify_program(self.ok, values=values, device=device, scenarios=scenarios, seed=seed, twin=twin, say=say)


def load(
    source: str,
    /,
    *,
    kernel: str | None = None,
    name: str | None = None,
    template: Mapping[str, str] | None = None,
    variant: str | None = None,
    defines: Mapping[str, str] | None = None,
    include_dirs: Sequence[str] = (),
    workload: str | None = None,
    dialect: str | None = None,
    beside: bool = True,
) -> Program:
    """A program from a ``.cu`` or ``.ktir`` file, a folder with a ``workload.toml``, a library kernel's name, or a
    recipe, whose script and knobs are its ``preset``.

    Args:
        source: path or name; ``-`` reads standard input.
        kernel: which ``__global__`` function, when the file has several; ``name`` is the same.
        template: template arguments, ``{"T": "float"}``.
        variant: an instantiation that the workload names.
        defines, include_dirs: for the preprocessor.
        dialect: cuda, hip or opencl, when file name and text do not say.
        workload: a workload file; by default the ``workload.toml`` beside the source, if ``beside``.

    Raises:
        KtcError: E-FILE, there is nothing of that name; what the source or the workload gets wrong, with its place.
    """
    name = kernel or name
    if source != "-" and (found := _of_recipe(Path(source))) is not None:
        if name or template or variant or defines or include_dirs or workload or dialect:
            message = f"{source} is a recipe, which says itself which kernel it is of and how that is read"
            raise KtcError("E-USAGE", message, hint="leave the options out, or name the source", exit_code=2)
        return found
    spec = SourceSpec(
        source, name, dict(template or {}), variant, dict(defines or {}), tuple(include_dirs), workload, dialect, beside
    )
    if not has_workload(spec):
        spec = as_built(spec)
    k, w = resolve(spec)
    k = named_apart(k)
    return Program(k, w, variant, original=k, source=spec)


def _of_recipe(path: Path) -> Program | None:
    """The program that the recipe at ``path`` begins with; None where there is no recipe."""
    from .recipes import is_recipe, open_recipe

    return program_of(open_recipe(path)) if is_recipe(path) else None


def program_of(opened: OpenedRecipe) -> Program:
    """The program that a recipe begins with: its script and knobs are the ``preset``."""
    k = named_apart(opened.kernel)
    return Program(
        k, opened.workload, opened.spec.variant, original=k, notes=opened.notes, source=opened.spec,
        preset=opened.preset,
    )  # fmt: skip


def loads(
    text: str,
    *,
    kernel: str | None = None,
    name: str | None = None,
    template: Mapping[str, str] | None = None,
    defines: Mapping[str, str] | None = None,
    include_dirs: Sequence[str] = (),
    dialect: str | None = None,
) -> Program:
    """A program from source text, CUDA C++, HIP or OpenCL C, or from the IR's text form; arguments as for :func:`load`.

    Raises:
        KtcError: what the text gets wrong, with its place.
    """
    spec = SourceSpec(
        "-",
        kernel or name,
        dict(template or {}),
        defines=dict(defines or {}),
        include_dirs=tuple(include_dirs),
        dialect=dialect,
    )
    k = named_apart(from_text(text, spec))
    return Program(k, original=k, source=spec)


def list_passes() -> dict[str, Pass]:
    """The catalogue: pass name to pass."""
    from ktc.passes.core.catalogue import PASSES

    return dict(PASSES)


def unknown_pass(name: str) -> KtcError:
    """The usage error for a pass that does not exist, with the nearest name."""
    import difflib

    from ktc.passes.core.catalogue import PASSES

    near = difflib.get_close_matches(name, PASSES, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(PASSES)}"
    return KtcError("E-PASS-UNKNOWN", f"no pass named '{name}'", hint=hint, exit_code=2)
