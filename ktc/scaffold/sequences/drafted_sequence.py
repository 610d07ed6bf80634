"""The workload of a sequence, drafted from what a host function launches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.frontend.host.sequences import HostSequence
from ktc.ir.interp import run
from ktc.ir.types import Scalar
from ktc.ir.workload import LaunchSpec, Workload

from ..checking.corners import bytes_of
from ..text import REASONS, plain
from .host_sheet import Sheet, SheetLaunch, sheet_of
from .launch_drafts import JointDraft, joint_draft, kernels_of

MOST_STATEMENTS = 20_000
"""Statements of the run that a draft is checked by."""

MOST_BYTES = 1 << 22
"""Bytes of all buffers of that run."""

SMALLEST = (5, 3, 4, 2, 6)
"""Sizes of that run where those of all scenarios are too large, in multiples of what they are multiples of."""


def sequence_text(
    sequence: HostSequence,
    source: str,
    target: Path,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
) -> tuple[str, list[str]]:
    """The text of a workload of ``sequence``, whose kernels are in ``source``, and what its author should look at;
    paths are written relative to ``target``.

    Raises:
        KtcError: a kernel that cannot be read; E-SEQUENCE-HOST, E-SCAFFOLD: what a workload cannot describe.
    """
    kernels = [
        load(source, kernel=s.kernel, template=dict(s.template), defines=dict(defines or {}), include_dirs=include_dirs)
        for s in sequence.steps
    ]
    sheet = sheet_of(sequence, kernels)
    writer = _Writer(sheet, source, target, defines or {}, include_dirs)
    first = Workload.parse("\n".join(writer.lines(_unknown(sheet))), target)
    joint = joint_draft(sheet, list(kernels_of(first)))
    doubts = _checked(writer, joint)
    return "\n".join([*writer.lines(joint), ""]), [*joint.doubts, *doubts, *_todo(sheet, joint)]


def _unknown(sheet: Sheet) -> JointDraft:
    """What is known of ``sheet`` before any launch is looked at."""
    sizes = [*sheet.ints]
    return JointDraft(
        sizes=sizes,
        numbers={n: r.value if r.value is not None else 1.0 for n, r in sheet.floats.items()},
        shapes=dict.fromkeys(sheet.buffers, ("1",)),
        roles=dict.fromkeys(sheet.buffers, "inout"),
        scenarios=[("first", dict.fromkeys(sizes, 64), "")],
    )


def _todo(sheet: Sheet, joint: JointDraft) -> Iterator[str]:
    for name, passing in sheet.buffers.items():
        if joint.roles[name] == "out" and passing.memory.own and name not in joint.final:
            yield f"{name}: its role is temp if nobody reads it after these launches; what is not seen is kept"
    yield "[reference]: a numpy formula an output (without one, the launches themselves are the judge)"


def _checked(writer: _Writer, joint: JointDraft) -> list[str]:
    """What a run of the whole sequence at its smallest sizes finds; temporaries that it reads before they are written
    are none: they become inputs."""
    doubts: list[str] = []
    for _ in range(len(joint.roles) + 1):
        try:
            work = Workload.parse("\n".join(writer.lines(joint)), writer.target)
            kernel, sizes = work.load_kernel(), _small_sizes(work, joint)
            if sizes is None:
                return [*doubts, "shapes: buffers are too large at all sizes that were tried for a run to check them"]
            args = work.make_inputs(sizes, seed=1)
            result = run(kernel, args, fuel=MOST_STATEMENTS)
        except KtcError as e:
            return [*doubts, f"the draft could not be run: {e.message}"]
        found = [f for f in result.findings if f.kind not in ("fuel", "redundant-store")]
        early = [b for b, r in joint.roles.items() if r == "temp"] or [b for b, r in joint.roles.items() if r == "out"]
        if not early or all(f.kind != "uninitialised" for f in found):
            return [*doubts, *(f"run at {sizes}: {f.kind}: {f.message}" for f in found)]
        for buffer in early:
            joint.roles[buffer] = "inout"
            joint.contents[buffer] = (['init = "normal"'], [])
        doubts.append(
            f"{', '.join(early)}: launches read elements that no launch has written: inputs too, until you say"
        )
    return doubts


def _small_sizes(work: Workload, joint: JointDraft) -> dict[str, int] | None:
    """Sizes at which a run is short: those of a scenario, else a few of each; None where buffers stay large."""
    few = {n: joint.steps.get(n, 1) * SMALLEST[i % len(SMALLEST)] for i, n in enumerate(joint.sizes)}
    tried = [*sorted((s for _, s, _ in joint.scenarios), key=lambda s: bytes_of(work, s)), few]
    return next((s for s in tried if bytes_of(work, s) <= MOST_BYTES), None)


class _Writer:
    """The text of the file."""

    def __init__(
        self, sheet: Sheet, source: str, target: Path, defines: Mapping[str, object], include: tuple[str, ...]
    ) -> None:
        self.sheet, self.target = sheet, target
        self.source = os.path.relpath(source, target.parent)
        self.head = [f"defines = {_table({k: str(v) for k, v in defines.items()})}"] if defines else []
        if include:
            folders = ", ".join(f'"{os.path.relpath(i, target.parent)}"' for i in include)
            self.head.append(f"include = [{folders}]")

    def lines(self, joint: JointDraft) -> list[str]:
        """The file with what ``joint`` says."""
        sheet = self.sheet
        out = [
            f"# Drafted by `ktc init` from the launches of {sheet.function}; what is marked CHECK could not be",
            "# confirmed, and what is marked as guessed is promised by nobody.",
            "", "[sequence]", f'name = "{sheet.name}"', f'source = "{self.source}"', *self.head,
        ]  # fmt: skip
        for name in sheet.buffers:
            out += ["", "[[args]]", *self._buffer(name, joint)]
        for name, value in self._scalars(joint):
            out += ["", "[[args]]", f'name = "{name}"', f'dtype = "{self._dtype(name)}"', 'role = "scalar"', value]
        for i, spec in enumerate(sheet.launches):
            out += ["", "[[launch]]", *_launch(spec, joint.launches.get(i))]
        for title, sizes, more in joint.scenarios:
            inside = ", ".join(f"{n} = {v}" for n, v in sizes.items())
            out += ["", "[[scenario]]", f'name = "{title}"', f"sizes = {{ {inside} }}" if inside else "sizes = {}"]
            out += [more] if more else []
        outs = [b for b, r in joint.roles.items() if r in ("out", "inout")]
        return [
            *out,
            "",
            "# [reference]            # what outputs should be, as numpy in float64",
            f'# {outs[0]} = "x * y"',
        ]

    def _buffer(self, name: str, joint: JointDraft) -> list[str]:
        role, shape = joint.roles[name], joint.shapes.get(name)
        text = f"[{_listed(shape)}]" if shape else '["65536"]            # CHECK'
        lines = [f'name = "{name}"', f'dtype = "{self.sheet.dtypes[name]}"', f'role = "{role}"', f"shape = {text}"]
        if role == "temp":
            return lines
        more, guesses = joint.contents.get(name, ([], []))
        lines += [f"{x:<23} # guessed" if x.partition(" ")[0] in guesses else x for x in more if role != "out"]
        if self._apart(name):
            lines.append("noalias = true          # an allocation of its own")
            lines.append("align = 256")
            return [*lines, f"guessed = [{', '.join(f'{chr(34)}{g}{chr(34)}' for g in guesses)}]"] if guesses else lines
        lines += [
            f"noalias = true          # guessed: {REASONS['noalias']}",
            f"align = 16              # guessed: {REASONS['align']}",
        ]
        named = ", ".join(f'"{g}"' for g in (*guesses, "noalias", "align"))
        return [*lines, f"guessed = [{named}]"]

    def _apart(self, name: str) -> bool:
        """Whether a buffer is memory of its own: allocated here, and no pointer of unknown origin may lead into it."""
        memories = [p.memory for p in self.sheet.buffers.values()]
        mine = self.sheet.buffers[name].memory
        return mine.kind in ("allocated", "managed") and (mine.own or all(m.kind != "unknown" for m in memories))

    def _scalars(self, joint: JointDraft) -> Iterator[tuple[str, str]]:
        for n in (*self.sheet.ints, *self.sheet.floats):
            if n in joint.sizes:
                yield n, f'value = "{n}"'
            elif n in joint.tied:
                tie = joint.tied[n]
                yield n, f"value = {tie}            # CHECK" if isinstance(tie, int) else f'value = "{plain(tie)}"'
            else:
                root = (self.sheet.ints | self.sheet.floats)[n]
                value = joint.numbers.get(n, 1)
                yield n, f"value = {value}" + ("" if root.value is not None else "            # CHECK")

    def _dtype(self, name: str) -> str:
        t = (self.sheet.ints | self.sheet.floats)[name].sym.type
        return str(t) if isinstance(t, Scalar) else "i32"


def _launch(spec: SheetLaunch, guessed: LaunchSpec | None) -> Iterator[str]:
    yield f'kernel = "{spec.kernel}"'
    if spec.template:
        yield f"template = {_table(spec.template)}"
    if spec.passed:
        yield "args = { " + ", ".join(f"{n} = {_quoted(v)}" for n, v in spec.passed.items()) + " }"
    shape = spec if guessed is None else guessed
    grid, block = (", ".join(f'"{e}"' for e in x) for x in (shape.grid, shape.block))
    yield f"grid = [{grid}]" + ("" if guessed is None else "            # CHECK: guessed")
    yield f"block = [{block}]"
    if spec.shared != "0":
        yield f'shared = "{spec.shared}"'


def _listed(items: Iterable[str]) -> str:
    return ", ".join(f'"{x}"' for x in items)


def _quoted(v: str | int | float) -> str:
    return f'"{v}"' if isinstance(v, str) else repr(v)


def _table(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f'{k} = "{v}"' for k, v in values.items()) + " }"


__all__ = ["sequence_text"]
