"""What a kernel was called with as the text of a workload file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import i32
from ktc.ir.types import Ptr, Scalar, scalar_of
from ktc.scaffold.checking.scenario_doubts import check_scenarios
from ktc.scaffold.draft import draft
from ktc.scaffold.drafted_launches import guessed
from ktc.scaffold.given_values import steering
from ktc.scaffold.model import Draft
from ktc.scaffold.roles import access_role, buffers_of
from ktc.scaffold.text import MAX_VALUES, filled, kernel_lines, plain, undeclared
from ktc.scaffold.windows import names_in

from .call_fit import Fit
from .fitted_calls import fitted
from .held_contents import as_held, content_of, extent_at, said, statistics_text, tied_by_contents
from .observed_calls import ObservedCalls

if TYPE_CHECKING:
    from ktc.sources import SourceSpec

LARGEST_ALIGN = 16
"""Bytes of the widest access: a larger alignment helps nothing, and fewer callers keep to it."""


def observed_workload(k: Kernel, source: SourceSpec, target: Path, o: ObservedCalls) -> tuple[str, list[str]]:
    """The workload file of ``k`` as it was called, and what its author should look at; paths are written relative to
    ``target``.

    Raises:
        KtcError: E-SCAFFOLD for a kernel that a workload cannot describe.
    """
    d = tied_by_contents(_drafted(k, o), o)
    fit = fitted(d, o)
    if k.launch is not None and fit.launch is not None:  # the program was built otherwise than the source says
        d = tied_by_contents(_drafted(k.with_(launch=None), o), o)
        fit = fitted(d, o)
    d.doubts = [x for x in d.doubts if not x.startswith(("the launch: ", "run at "))]
    text = _text(d, k, source, target, o, fit, {})
    if marks := check_scenarios(d, k, text, target):
        text = _text(d, k, source, target, o, fit, marks)
    return text, _todo(d, fit)


def _drafted(k: Kernel, o: ObservedCalls) -> Draft:
    """A draft of ``k``; where the source shows no launch, with the block that was seen and a grid that the guards ask
    for."""
    blocks = {c.block for c in o.calls}
    if k.launch is not None or len(blocks) != 1:
        return draft(k)
    (block,) = blocks
    grid, threads = ((i32(x), i32(y), i32(z)) for x, y, z in (o.calls[0].grid, block))
    shared = i32(o.calls[0].shared) if o.calls[0].shared else None
    kernel, spec = guessed(k.with_(launch=Launch(grid, threads, shared)))
    d = draft(kernel)
    d.launch = spec
    return d


def _todo(d: Draft, fit: Fit) -> list[str]:
    todo = [*d.doubts, *fit.doubts, *(f"{b}: its shape" for b, e in fit.extents.items() if e is None)]
    return [
        *dict.fromkeys(todo),
        "[reference]: a numpy formula an output (without one, the source itself is the judge)",
    ]


def _text(
    d: Draft, k: Kernel, source: SourceSpec, target: Path, o: ObservedCalls, fit: Fit, marks: dict[str, str]
) -> str:
    lines = [
        f"# From {o.launches} launches of `{o.program}`, as `{o.by}` saw them. What is marked as observed",
        "# held in all of them and is promised by nobody: where a pass builds on it, the launcher tests it.",
        "",
        *kernel_lines(k, source, target),
    ]
    for p in d.kernel.params:
        if len(p.init) <= MAX_VALUES and p.scratch is None and not (p.host and _unused(fit, p)):
            lines += ["", "[[args]]", *_argument(d, p, o, fit)]
    for name in _launch_sizes(d, fit):
        lines += ["", "[[args]]", f'name = "{name}"', 'dtype = "i32"', 'role = "scalar"']
        lines.append(said(f'value = "{name}"', "observed: what the launch is made of"))
    if fit.launch is not None:
        grid, block = (", ".join(f'"{e}"' for e in x) for x in (fit.launch.grid, fit.launch.block))
        lines += ["", "[launch]                 # observed", f"grid = [{grid}]", f"block = [{block}]"]
        lines += [f'shared = "{fit.launch.shared}"'] if fit.launch.shared != "0" else []
    for lines_of in _scenarios(d, o, fit, marks):
        lines += ["", *lines_of]
    outs = [p.sym.name for p in buffers_of(d.kernel) if access_role(p, d.kernel) != "in"]
    if not outs:
        raise KtcError("E-SCAFFOLD", f"{k.name} writes to none of its buffers: there is nothing to compare", k.loc)
    lines += ["", "# [reference]            # what outputs should be, as numpy in float64; see `ktc kernels`"]
    return "\n".join([*lines, f'# {outs[0]} = "silu(x) * y"', ""])


def _launch_sizes(d: Draft, fit: Fit) -> list[str]:
    """Sizes that the launch alone is made of: no parameter of the kernel, and no variable of the host's source."""
    if fit.launch is None:
        return []
    params = {p.sym.name for p in d.kernel.params}
    texts = (*fit.launch.grid, *fit.launch.block, fit.launch.shared)
    return [n for n in fit.sizes[0] if n not in params and any(n in names_in(t) for t in texts)]


def _unused(fit: Fit, p: Param) -> bool:
    """Whether the host's variable ``p`` is no size, as where the launch is given in other terms."""
    return p.sym.name not in fit.sizes[0]


def _argument(d: Draft, p: Param, o: ObservedCalls, fit: Fit) -> list[str]:
    t, name = p.sym.type, p.sym.name
    if not isinstance(t, Ptr | Scalar):
        raise KtcError("E-SCAFFOLD", f"parameter '{name}' of type {t} cannot be described by a workload", d.kernel.loc)
    head = [f'name = "{name}"', f'dtype = "{scalar_of(t)}"']
    if isinstance(t, Scalar):
        return [*head, 'role = "scalar"', *_scalar(d, p, o, fit)]
    return [*head, *_buffer(d, p, o, fit)]


def _scalar(d: Draft, p: Param, o: ObservedCalls, fit: Fit) -> list[str]:
    name = p.sym.name
    value = fit.values.get(name, name if name in fit.sizes[0] else 1)
    seen = [(c.scalars[name], c.launches) for c in o.calls if name in c.scalars]
    text = f'value = "{plain(value)}"' if isinstance(value, str) else f"value = {_number(value, p)}"
    where = "observed: what the launch is made of" if name in fit.sizes[0] else "CHECK"
    lines = [said(text, _values_text(seen) if seen else where)]
    most = d.most.get(name)
    if isinstance(value, str) and name in d.roles.sizes and most is not None and scalar_of(p.sym.type).bits >= 32:
        all_seen = [int(v) for v, _ in seen]
        low, high = min([1, *all_seen]), max([most, *all_seen])
        lines += [said(f"range = [{low}, {high}]", "guessed: what 32-bit indices allow"), 'guessed = ["range"]']
    return lines


def _number(value: int | float, p: Param) -> str:
    if isinstance(value, float) and scalar_of(p.sym.type).name == "f32":
        return str(float(str(np.float32(value))))
    return repr(value)


def _values_text(seen: Sequence[tuple[int | float, int]]) -> str:
    counts: dict[int | float, int] = {}
    for v, n in seen:
        counts[v] = counts.get(v, 0) + n
    shown = sorted(counts, key=lambda v: -counts[v])
    text = ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in shown[:4])
    more = f" and {len(shown) - 4} other values" if len(shown) > 4 else ""
    return f"observed: {text}{more}"


def _buffer(d: Draft, p: Param, o: ObservedCalls, fit: Fit) -> list[str]:
    name, t = p.sym.name, p.sym.type
    if p.init:
        values = ", ".join(str(v).lower() if isinstance(v, bool) else repr(v) for v in p.init)
        role = "in" if d.role(p) == "in" else "inout"
        return [f'role = "{role}"', f'shape = ["{len(p.init)}"]', f"init = [{values}]"]
    extent = fit.extents.get(name)
    shape = ", ".join(f'"{plain(x)}"' for x in extent.shape) if extent is not None else '"65536"'
    own = extent is not None and extent.factors == (f"{name}_elements",)
    note = "observed: the allocation" if own else "" if extent is not None and extent.plausible else "CHECK"
    lines = [f'role = "{d.role(p)}"', said(f"shape = [{shape}]", note)]
    content = content_of(p, fit.calls, [extent_at(extent, s) for s in fit.sizes])
    more, guessed, observed = [*filled(d, p)[0]], set(filled(d, p)[1]), list[str]()
    if content is not None and d.role(p) != "out":
        replaced = as_held(content, more, p.sym in steering(d.kernel))
        if replaced is not None:
            more, guessed, observed = replaced, guessed - {"range"}, ["range"]
        lines[0] = said(lines[0], f"observed: {statistics_text(content)}")
    lines += more
    if name in fit.nulls:
        lines.append(said(f'null = "{fit.nulls[name]}"', "observed: some calls pass none"))
    if name in undeclared(d.kernel) and not any(name in pair for pair in o.equal):
        apart = o.apart(name)
        why = (
            "observed: an allocation of its own" if apart else "guessed: CHECK: no caller passes the same memory twice"
        )
        lines.append(said("noalias = true", why))
        (observed.append if apart else guessed.add)("noalias")
    align = min(LARGEST_ALIGN, o.alignments.get(name, 0))
    if align > 1:
        lines.append(said(f"align = {align}", "observed: of every pointer that was passed"))
        observed.append("align")
    for key, facts in (("guessed", sorted(guessed)), ("observed", observed)):
        lines += [f"{key} = [" + ", ".join(f'"{f}"' for f in facts) + "]"] if facts else []
    for pair in sorted(o.equal):
        if name == pair[0] and isinstance(t, Ptr):
            fit.doubts.append(f"{pair[0]} and {pair[1]} were the same memory in some calls; scenarios pass two buffers")
    return lines


def _scenarios(d: Draft, o: ObservedCalls, fit: Fit, marks: dict[str, str]) -> list[list[str]]:
    out, taken = [], set[str]()
    for i, (call, sizes) in enumerate(zip(fit.calls, fit.sizes)):
        name = "x".join(str(v) for n, v in sizes.items() if n not in fit.own) or "launch"
        name = name if name not in taken else f"{name}-{i + 1}"
        taken.add(name)
        share = o.share(call)
        by = f"grid {'x'.join(map(str, call.grid))}, block {'x'.join(map(str, call.block))}"
        how = f"observed: {call.launches} x, {share:.1%} of its {'time' if call.seconds else 'launches'}, {by}"
        inside = ", ".join(f"{n} = {v}" for n, v in sizes.items())
        doubt = f"            # CHECK: {marks[name]}" if name in marks else ""
        weight = f"weight = {max(share, 1e-4):.4g}" if i < fit.tuned else "heldout = true"
        out.append(["[[scenario]]", f'name = "{name}"{doubt}', f"sizes = {{ {inside} }}" if inside else "sizes = {}",
                    said(weight, how)])  # fmt: skip
    if not fit.own and (fit.launch is None or not _numbers_in(fit.launch.grid)):
        for title, sizes, more in d.scenarios:
            if title == "odd" and sizes.keys() == fit.sizes[0].keys() and sizes not in fit.sizes:
                inside = ", ".join(f"{n} = {v}" for n, v in sizes.items())
                doubt = f"            # CHECK: {marks[title]}" if title in marks else ""
                out.append(["[[scenario]]", f'name = "odd"{doubt}', f"sizes = {{ {inside} }}", more])
    return out


def _numbers_in(axes: Sequence[str]) -> bool:
    return any(a.isdigit() and a != "1" for a in axes)
