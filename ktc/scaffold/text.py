"""A draft as the text of a workload file, and a program with a workload drafted for it."""

from __future__ import annotations

import ast
import dataclasses
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.other_launches import other_launches
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Expr
from ktc.ir.support.time_limits import unless_late
from ktc.ir.text import print_expr
from ktc.ir.types import F32, Ptr, Scalar, scalar_of
from ktc.ir.walk import walk
from ktc.ir.workload import Workload, reference
from ktc.ir.workload.size_expressions import evaluate
from ktc.sources import IR_SUFFIX

from .as_seen.launched_elsewhere import as_formulas, launched_elsewhere
from .as_seen.launched_in_sizes import launched_in_sizes
from .as_seen.project_callers import with_project_callers
from .as_seen.run_sizes import RUN, with_run
from .as_seen.usual_rank import with_supposed_rank
from .checking.scenario_doubts import check_scenarios
from .checking.thresholds import settled_thresholds
from .checking.undescribed import refuse_undescribed
from .contents import TRUTHS
from .draft import draft
from .drafted_launches import capped
from .given_values import only_data
from .integer_values import counters, divides, mark_of, taken_apart
from .integers.bit_positions import position_lists
from .integers.row_pointers import part_starts
from .integers.tensor_lists import chunks_of
from .integers.unasked import unasked
from .model import Draft
from .plain_integers import TRUTH_VALUES, counted, sentinel_of, values_compared
from .probe import values_told
from .roles import access_role, buffers_of
from .scenarios import MOST_SIZE
from .searched_tables import searched
from .shapes import Extent
from .windows import names_in

if TYPE_CHECKING:
    from ktc.api import Program
    from ktc.sources import SourceSpec

FILE = "workload.toml"

CHECKING = 0.6
"""The share of the time that is left for each of what is looked at in the end, where somebody waits."""

MAX_VALUES = 256
"""Elements of a variable that the source initialises that a draft lists; more stay in the source, where they are
taken from where a workload does not say otherwise."""


def workload_text(k: Kernel, source: SourceSpec, target: Path) -> tuple[str, list[str]]:
    """The file's text, and what its author should look at; paths are written relative to ``target``.

    Raises:
        KtcError: E-SCAFFOLD for a parameter that a workload cannot describe.
    """
    refuse_undescribed(k)
    in_sizes = launched_in_sizes(k, source)
    k, rank = with_supposed_rank(with_project_callers(k, source), source)
    elsewhere = launched_elsewhere(k, source)
    in_sizes = with_project_callers(in_sizes, source) if in_sizes is not None and not rank else None
    d = draft(in_sizes or k if elsewhere is None else elsewhere[0])
    if in_sizes is not None and not _runs_clean(d) and _runs_clean(plain := draft(k)):
        in_sizes, d = None, plain  # it is for these numbers alone
    d.doubts += [f"the host's tensors: taken to have {rank} dimensions, and the same extents"] if rank else []
    origin = "CHECK: guessed"
    if elsewhere is not None and d.launch is None:
        d.launch, origin = as_formulas(d.kernel), f"as {elsewhere[1].shown} launches it"
    guessed = d.launch is not None
    if in_sizes is not None and not guessed:
        d.launch, origin = as_formulas(d.kernel), "as the source launches it, its numbers as sizes"
    if not guessed:
        with_run(d, source)
    text = _text(d, k, source, target, {}, origin)
    if numbers := unless_late(CHECKING, partial(settled_thresholds, d, k, text, target), dict[str, float]):
        d.roles = dataclasses.replace(d.roles, numbers={**d.roles.numbers, **numbers})
        text = _text(d, k, source, target, {}, origin)
    if marks := unless_late(CHECKING, partial(check_scenarios, d, k, text, target), partial(_unchecked, d)):
        text = _text(d, k, source, target, marks, origin)
    return text, [*_launched_otherwise(source), *_todo(d)] if d.launch is None else _todo(d)


def _runs_clean(d: Draft) -> bool:
    """Whether all shapes are known, and no run at them was seen to go wrong."""
    return all(e is not None for e in d.shapes.values()) and not any(x.startswith("run at ") for x in d.doubts)


def _unchecked(d: Draft) -> dict[str, str]:
    """No faults of scenarios, and a word about that."""
    d.doubts.append("sizes of the scenarios: no time was left to run blocks of them")
    return {}


def _launched_otherwise(source: SourceSpec) -> list[str]:
    """Which of the source's launches the draft describes, if others have other grids or blocks."""
    path = Path(source.kernel)
    if path.suffix == IR_SUFFIX or not path.is_file():
        return []
    mine, others = other_launches(
        str(path),
        kernel=source.name,
        template=source.template,
        defines=source.defines,
        include_dirs=tuple(source.include_dirs),
        dialect=source.dialect,
    )
    told = (f"{loc} has grid({_extents(x.grid)}) block({_extents(x.block)})" for loc, x in others)
    return [f"the launch: it is that of {mine}; {what}, and is not described" for what in told]


def _extents(extents: Sequence[Expr]) -> str:
    """As the text form of a kernel has them, without the axes that are 1 at the end."""
    shown = [print_expr(e) for e in extents]
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return ", ".join(shown)


def _text(d: Draft, k: Kernel, source: SourceSpec, target: Path, marks: Mapping[str, str], origin: str) -> str:
    """The file's text. ``marks``: what is wrong at the sizes of a scenario, by its name; ``origin``: where a launch
    comes from that the source does not say."""
    lines = [
        "# Drafted by `ktc init` from runs of the kernel; what is marked CHECK could not be confirmed, and what is",
        "# marked as guessed is promised by nobody: take it out of `guessed` once all callers keep to it.",
        "",
    ]
    lines += kernel_lines(k, source, target)
    for p in d.kernel.params:
        if len(p.init) <= MAX_VALUES and p.scratch is None:
            lines += ["", "[[args]]", *_arg(d, p)]
    if d.launch is not None:
        grid, block = (", ".join(f'"{e}"' for e in x) for x in (d.launch.grid, d.launch.block))
        lines += ["", f"[launch]                 # {origin}", f"grid = [{grid}]", f"block = [{block}]"]
        lines += [f'shared = "{d.launch.shared}"'] if d.launch.shared != "0" else []
    if d.multiples:
        facts = ", ".join(f'"{a} % {b} == 0"' for a, b in d.multiples)
        lines += ["", "[assume]", f"facts = [{facts}]", f"guessed = true          # {REASONS['divisible_by']}"]
    for title, sizes, more in d.scenarios:
        inside = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        doubt = f"            # CHECK: {marks[title]}" if title in marks else ""
        doubt = doubt or ("             # what the program is run with" if title == RUN else "")
        lines += ["", "[[scenario]]", f'name = "{title}"{doubt}', f"sizes = {{ {inside} }}" if inside else "sizes = {}"]
        lines += [more] if more else []
    outs = [p.sym.name for p in buffers_of(d.kernel) if access_role(p, d.kernel) != "in"]
    if not outs:
        hidden = "as it is read, its body is empty: give the macros that hide it, as -D __CUDA_ARCH__=800"
        what = f"{k.name} writes to none of its buffers: there is nothing to compare"
        raise KtcError("E-SCAFFOLD", what, k.loc, hint="" if [*walk(k.body)] else hidden)
    lines += ["", "# [reference]            # what outputs should be, as numpy in float64; see `ktc kernels`"]
    return "\n".join([*lines, f'# {outs[0]} = "silu(x) * y"', ""])


def _todo(d: Draft) -> list[str]:
    """What the author should look at."""
    todo = [*d.doubts, *(f"{b}: its shape" for b, e in d.shapes.items() if e is None)]
    todo += [f"{b}: its shape is larger than what the kernel touched" for b, e in d.shapes.items() if _loose(e)]
    todo += [
        f"{' and '.join(g)}: the source passes the same memory for them, the workload memory of its own for each"
        for g in in_one(d.kernel)
    ]
    if together := undeclared(d.kernel):
        todo.append(f"noalias of {', '.join(together)}: that no caller passes the same memory for two arguments")
    for n in (n for n in d.roles.sizes if d.steps.get(n, 1) > 1 and d.tied(n) is None):
        todo.append(f"{n}: that it is a multiple of {d.steps[n]}: {REASONS['divisible_by']}")
    todo += [f"{a}: that it is a multiple of {b}: {REASONS['divisible_by']}" for a, b in d.multiples]
    known = d.roles.tied.keys() | only_data(d.kernel)
    todo += [f"{n}: its value" for n in (*d.roles.flags, *d.constants) if n not in known]
    todo.append("[reference]: a numpy formula an output (without one, the source itself is the judge)")
    return todo


def undeclared(k: Kernel) -> list[str]:
    """Written buffers of which the source does not say that they overlap no other of their type, and its launch not
    that they do; loops are taken to be parallel on that ground, and it is for the author to say that callers keep to
    it."""
    buffers = buffers_of(k)

    def others(p: Param) -> bool:
        return any(q is not p and scalar_of(q.sym.type) == scalar_of(p.sym.type) for q in buffers)

    promised = {p.sym for p in buffers if p.noalias or (isinstance(p.sym.type, Ptr) and p.sym.type.restrict)}
    shared = {n for g in in_one(k) for n in g}
    open_ = [p for p in buffers if p.sym not in promised and p.sym.name not in shared and others(p)]
    return [p.sym.name for p in open_ if access_role(p, k) != "in"]


def in_one(k: Kernel) -> list[tuple[str, ...]]:
    """Buffers, one of them written, for which the source's launch passes the same memory, in groups."""
    roles = {p.sym.name: access_role(p, k) for p in buffers_of(k)}
    groups = (tuple(n for n in g if n in roles) for g in (k.launch.together if k.launch is not None else ()))
    return [g for g in groups if len(g) > 1 and any(roles[n] != "in" for n in g)]


def _loose(e: Extent | None) -> bool:
    return e is not None and not e.plausible


def with_draft(program: Program, folder: Path) -> tuple[Program, list[str]]:
    """``program`` with the workload that lies in ``folder`` for its kernel, drafted and written there if none does;
    and what its author should look at (nothing if it was there).

    Raises:
        KtcError: E-NO-WORKLOAD for a kernel that was read from standard input; E-DRAFT-INCOMPLETE where the size of a
            buffer is not known, for a run with a short one would corrupt memory; whatever drafting raises.
    """
    from ktc import api

    source = program.source
    if source is None or source.kernel == "-":
        hint = "write it to a file, or name a workload with --workload"
        raise KtcError("E-NO-WORKLOAD", "a workload needs a source file to refer to", hint=hint, exit_code=2)
    target, todo = folder / FILE, list[str]()
    if not _is_for(target, program):
        text, todo = workload_text(program.kernel, source, target)
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        if unknown := [x for x in todo if x.endswith(": its shape")]:
            names = ", ".join(x.partition(":")[0] for x in unknown)
            what = f"how many elements {names} of {program.kernel.name} have could not be found out"
            raise KtcError("E-DRAFT-INCOMPLETE", what, hint=f"complete {target}, and run this again", exit_code=2)
    from ktc.sources import resolve

    spec = dataclasses.replace(source, workload=str(target))
    kernel, workload = resolve(spec)
    return api.Program(kernel, workload, program.variant, original=kernel, source=spec), todo


def _is_for(target: Path, program: Program) -> bool:
    """Whether ``target`` is a workload of the program's kernel, with its instantiation."""
    assert program.source is not None
    if not target.is_file():
        return False
    found = Workload.load(target)
    same = found.source.resolve() == Path(program.source.kernel).resolve()
    return same and found.kernel_name == _name(program.kernel, program.source)


def _name(k: Kernel, source: SourceSpec) -> str:
    """What a workload calls the kernel: as the user named it, which may say more than the function's name."""
    return source.name or k.name


def kernel_lines(k: Kernel, source: SourceSpec, target: Path) -> list[str]:
    """The table ``[kernel]``; paths are written relative to ``target``."""

    def relative(path: str) -> str:
        return os.path.relpath(path, target.parent)

    lines = ["[kernel]", f'source = "{relative(source.kernel)}"', f'name = "{_name(k, source)}"']
    lines += [f"template = {_table(source.template)}"] if source.template else []
    lines += [f"defines = {_table(source.defines)}"] if source.defines else []
    if source.include_dirs:
        lines.append("include = [" + ", ".join(f'"{relative(i)}"' for i in source.include_dirs) + "]")
    return lines


def _table(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f'{a} = "{v}"' for a, v in values.items()) + " }"


def _arg(d: Draft, p: Param) -> list[str]:
    t, name = p.sym.type, p.sym.name
    if not isinstance(t, Ptr | Scalar):
        raise KtcError("E-SCAFFOLD", f"parameter '{name}' of type {t} cannot be described by a workload", d.kernel.loc)
    head = [f'name = "{name}"', f'dtype = "{scalar_of(t)}"']
    if isinstance(t, Scalar):
        return [*head, 'role = "scalar"', *_scalar(d, p)]
    role = d.role(p)
    if p.init:
        values = ", ".join(str(v).lower() if isinstance(v, bool) else repr(v) for v in p.init)
        role = "in" if role == "in" else "inout"
        return [*head, f'role = "{role}"', f'shape = ["{len(p.init)}"]', f"init = [{values}]"]
    extent = d.shapes.get(name)
    shape = ", ".join(f'"{plain(x)}"' for x in extent.shape) if extent is not None else '"65536"'
    doubt = "" if extent is not None and extent.plausible else "            # CHECK"
    lines = [*head, f'role = "{role}"', f"shape = [{shape}]{doubt}"]
    more, guesses = filled(d, p)
    lines += more
    if name in undeclared(d.kernel):
        lines.append("noalias = true")
        guesses.append("noalias")
    why = TOLD if name in values_told(d.kernel) else COMPARED
    return _with_guesses([*lines, "align = 16"], ["align", *guesses], why)


def _less_one(size: str) -> str:
    """The formula ``size - 1``."""
    n = plain(size)
    return n.removesuffix(" + 1") if n.endswith(" + 1") and n.count(" ") == 2 else plain(f"{size} - 1")


def _last_start(d: Draft, name: str, apart: str | int) -> str:
    """Where the last of the rows begins whose starts ``name`` holds."""
    extent = d.shapes.get(name)
    count = " * ".join(f"({x})" for x in extent.shape) if extent is not None else "1"
    return plain(f"({count} - 1) * ({apart})")


COMPARED = "what its elements are compared with, choose from or divide"
TOLD = "what the host fills it with"

DIVISORS = 100
"""Integers that something is divided by are up to this."""


NUMBERS = 10_000
"""Integers of a table that is searched are up to this."""


def filled(d: Draft, p: Param) -> tuple[list[str], list[str]]:
    """What the buffer ``p`` holds, as lines of a workload, and which of them are guesses."""
    name, role, lines, guesses = p.sym.name, d.role(p), list[str](), list[str]()
    if (listed := d.roles.listed.get(name)) is not None:
        elements = (x if x.isdigit() else f'"{x}"' for x in listed)
        return [f"init = [{', '.join(elements)}]"], guesses
    content = next((c for c in d.contents if c.buffer == name), None)
    words = role != "out" and scalar_of(p.sym.type).is_int and taken_apart(d.kernel, p.sym)
    none = sentinel_of(d.kernel, p, d.roles.fixed)
    span = values_compared(d.kernel, p, d.roles.fixed) if none is None else None
    words = words and span in (None, TRUTH_VALUES)
    span = None if words else span
    plain_numbers = content is not None and ((content.most and words) or (content.most == TRUTHS and span is not None))
    if content is not None and not plain_numbers:
        most = content.name if (tied := d.tied(content.name)) is None else tied
        init, below = content.kind, f"{most - 1}" if isinstance(most, int) else _less_one(most)
        more = content.first - (content.kind != "offsets")
        last = below if more < 0 else plain(f"{most} + {more}" if more else f"{most}")
        last = _last_start(d, name, most) if init == "starts" else last
        least = max(content.first, int(init == "index" and divides(d.kernel, p.sym)))
        lines += [f'init = "{init}"', f'range = [{least}, "{last}"]']
        guesses.append("range")
        mark = mark_of(d.kernel, p.sym, d.roles.fixed) if scalar_of(p.sym.type).is_int else None
        if init not in ("offsets", "starts") and mark is not None:
            lines.append(f"mark = {mark}                # one in eight")
    elif role != "out" and (total := part_starts(d.kernel).get(name)) is not None:
        end = d.tied(total)
        lines += ['init = "offsets"', f'range = [0, "{total if end is None else end}"]']
        guesses.append("range")
    elif role != "out" and name in (told := values_told(d.kernel)):
        least, most = told[name]
        lines += ['init = "ints"', f"range = [{least}, {most}]"]
        guesses.append("range")
    elif role != "out" and (order := searched(d.kernel).get(name)):
        whole = scalar_of(p.sym.type).is_int
        lines += [f'init = "{"ints" if whole and order == "uniform" else order}"']
        lines += [f"range = [0, {NUMBERS}]"] if whole else []
        guesses += ["range"] if whole else []
    elif name in counters(d.kernel) or counted(d.kernel, p) or name == chunks_of(d.kernel):
        lines.append('init = "zeros"')
    elif role != "out" and span is not None:
        lines += ['init = "ints"', f"range = [{span[0]}, {span[1]}]"]
        guesses.append("range")
    elif role != "out" and scalar_of(p.sym.type).is_int and divides(d.kernel, p.sym):
        lines += ['init = "ints"', f"range = [1, {DIVISORS}]"]
        guesses.append("range")
    elif role != "out" and name in position_lists(d.kernel):
        lines.append('init = "arange"')
    elif words:
        lines.append('init = "bits"')
    elif role != "out" and none is not None and none < 0:
        lines += ['init = "ints"', f"range = [0, {DIVISORS}]", f"mark = {none}    # one in eight"]
        guesses.append("range")
    elif role != "out":
        lines += ['init = "uniform"' if d.positive else 'init = "normal"']
    return lines, guesses


REASONS = {
    "align": "of every pointer that is passed",
    "noalias": "CHECK: no caller passes the same memory twice",
    "range": "what drafted sizes and 32-bit indices allow",
    "divisible_by": "other values leave something undone",
}
"""What a person may want to know of a guess, by the key that was guessed."""


def _with_guesses(lines: Sequence[str], keys: Sequence[str], why_range: str = REASONS["range"]) -> list[str]:
    """``lines`` with a comment where one of the ``keys`` is given, and a line that names these for the reader of the
    file: no pass may take a guess for a promise."""
    out, reasons = [], {**REASONS, "range": why_range}
    for line in lines:
        key = line.partition(" ")[0]
        out.append(f"{line:<23} # guessed: {reasons[key]}" if key in keys else line)
    names = ", ".join(f'"{k}"' for k in keys)
    return [*out, f"guessed = [{names}]"] if keys else out


def plain(formula: str) -> str:
    """``formula`` without the parentheses that it does not need."""
    return ast.unparse(reference.parse(formula))


def _parts_of_a_step(d: Draft, tied: str) -> int:
    """What the value ``tied`` is a multiple of because the one size in it, which no argument is, is; else 1."""
    inside = set(names_in(tied))
    if len(inside) != 1 or inside & {p.sym.name for p in d.kernel.params}:
        return 1
    (name,) = inside
    once, twice = (evaluate(tied, {name: n * d.steps.get(name, 1)}) for n in (1, 2))
    return once if twice == 2 * once else 1


def _scalar(d: Draft, p: Param) -> list[str]:
    name = p.sym.name
    tied = d.tied(name)
    if tied is not None:
        if isinstance(tied, int):
            return [f"value = {tied}            # CHECK"]
        by = _parts_of_a_step(d, tied)
        more = [f"divisible_by = {by}"] if by > 1 else []
        ranged = name in d.roles.places or p.sym in capped(d.kernel)
        more += [f"range = [0, {MOST_SIZE}]"] if ranged and scalar_of(p.sym.type).bits >= 32 else []
        return _with_guesses([f'value = "{plain(tied)}"', *more], [line.partition(" ")[0] for line in more])
    if name in d.roles.sizes:
        step, (low, high) = d.steps.get(name, 1), p.range
        low, most = max(low or 1, step, d.least.get(name, 1)), d.most.get(name, MOST_SIZE)
        wide = scalar_of(p.sym.type).bits >= 32
        more = [f"range = [{low}, {min(high or most, most)}]"] if wide else []
        more += [f"divisible_by = {step}"] if step > 1 else []
        return _with_guesses([f'value = "{name}"', *more], [line.partition(" ")[0] for line in more])
    if name in d.roles.fixed:
        return [f"value = {d.roles.fixed[name]}"]
    if (formula := d.real(name)) is not None:
        return [f'value = "{plain(formula)}"']
    number = d.roles.numbers.get(name, 1)
    if name in unasked(d.kernel):
        return [f"value = {number}                # the kernel does not ask for it"]
    if scalar_of(p.sym.type) == F32 and name in d.roles.launched:
        number = float(str(np.float32(number)))  # 0.01f is 0.01, in as few digits
    return [f"value = {number}" if name in d.roles.launched else f"value = {number}                # CHECK"]
