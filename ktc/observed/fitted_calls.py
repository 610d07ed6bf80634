"""Sizes, launch and extents that explain what a kernel was called with.

A draft (:mod:`ktc.scaffold`) says how scalars, launch and shapes follow from a few sizes. Here the sizes are those of
real calls: values of parameters; sizes that only the host knows, from the launch and from the parameters that are
computed of them; and what the draft says is kept where every call bears it out. Where one does not, the parameter, the
grid or the buffer gets a size of its own: then nothing is explained, but everything is as it was.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import used
from ktc.ir.workload import LaunchSpec, real_expressions, size_expressions
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.reference import FormulaError
from ktc.scaffold.drafted_launches import compared_with
from ktc.scaffold.model import Draft
from ktc.scaffold.roles import buffers_of
from ktc.scaffold.windows import names_in

from .call_fit import Fit, Sizes, own
from .fitted_extents import fit_extents
from .held_contents import values_held
from .observed_calls import ObservedBuffer, ObservedCall, ObservedCalls

MOST_TUNED, MOST_HELD_OUT = 4, 2
"""Shapes that become scenarios: those that take longest, and of the others some that are measured and not tuned for."""

LEAST_SHARE = 0.01
"""Of a kernel's time, below which its calls with a shape are none of the scenarios that are tuned for."""

PER_BLOCK = (2, 4, 8, 16)
"""Elements a thread that a grid's formula may allow for."""


def fitted(d: Draft, o: ObservedCalls) -> Fit:
    """The calls of ``o`` in the terms of ``d``."""
    shares = [o.share(c) for c in o.calls]
    tuned = [c for c, s in zip(o.calls, shares) if s >= LEAST_SHARE][:MOST_TUNED] or list(o.calls[:1])
    rest = [c for c in o.calls if c not in tuned][:MOST_HELD_OUT]
    fit = Fit([*tuned, *rest], [], len(tuned))
    _tell_apart(d, fit)
    fit.sizes = [_sizes(d, c, fit) for c in fit.calls]
    _scalars(d, fit)
    fit_extents(d, fit)
    _launch(d, fit)
    _forget_unused(d, fit)
    return fit


def _tell_apart(d: Draft, fit: Fit) -> None:
    """Makes those parameters sizes of their own that the draft took for another size, and that are another number in
    some call."""
    for name, text in list(d.ties.items()):
        same = isinstance(text, str) and all(
            name not in c.scalars or text not in c.scalars or c.scalars[name] == c.scalars[text] for c in fit.calls
        )
        if isinstance(text, str) and text.isidentifier() and not same:
            del d.ties[name]
            fit.apart[name] = text


def _sizes(d: Draft, call: ObservedCall, fit: Fit) -> Sizes:
    """The sizes of ``call``: what was passed, and for the others what the launch, other parameters and indices
    that were held say."""
    sizes = {n: int(call.scalars[n]) for n in d.names if n in call.scalars}
    open_ = [n for n in d.names if n not in sizes]
    for i, name in enumerate(open_):
        others = {**dict.fromkeys(open_[i + 1 :], 1), **sizes}  # of a product that was passed, one is all of it
        found = _solved(d, call, others, name)
        if found is None:
            found = next((n for c in d.contents if c.name == name and (n := values_held(c, d, call))), None)
        if found is None:
            usual = max((s.get(name, 1) for _, s, _ in d.scenarios), default=1)
            found = _fitting(d, call, {**others, name: usual}, name)
            more = "; `ktc profile --contents MIB` would" if any(c.name == name for c in d.contents) else ""
            text = f"{name}: no launch shows it{more}; taken as large as the buffers allow"
            fit.doubts += [text] if text not in fit.doubts else []
        sizes[name] = found
    return sizes


def _solved(d: Draft, call: ObservedCall, sizes: Sizes, name: str) -> int | None:
    """The largest value of ``name`` with which the launch and what is computed from it are as in ``call``."""
    equations = list(_equations(d, call, name))
    if not equations:
        return None

    def below(value: int) -> bool | None:
        """Whether everything is at most as in the call; None where it is exactly so."""
        got = [(f({**sizes, name: value}), want) for f, want in equations]
        known = [(g, w) for g, w in got if g is not None]
        if not known:
            return True
        return None if all(g == w for g, w in known) else all(g <= w for g, w in known)

    low, high = 0, 1 << 40
    while low < high:
        middle = (low + high + 1) // 2
        if below(middle) is False:
            high = middle - 1
        else:
            low = middle
    return low if below(low) is None else None


Equation = tuple[Callable[[Sizes], int | None], int]


def _equations(d: Draft, call: ObservedCall, name: str) -> Iterator[Equation]:
    """What depends on the size ``name`` and is known of ``call``: axes of the launch, and parameters."""
    for n in call.scalars:
        text = d.tied(n)
        if isinstance(text, str) and name in names_in(text):
            yield functools.partial(_value, text), int(call.scalars[n])
    launch = d.kernel.launch
    for e, want in zip((*launch.grid, *launch.block), (*call.grid, *call.block)) if launch is not None else ():
        if name in {s.name for s in used(e)}:
            yield functools.partial(_axis_value, d, e, _numbers(call)), want


def _axis_value(d: Draft, e: Expr, numbers: Mapping[str, int], sizes: Sizes) -> int | None:
    return _evaluated(d, e, {**numbers, **sizes})


def _fitting(d: Draft, call: ObservedCall, sizes: Sizes, name: str) -> int:
    """The largest value of ``name`` with which all buffers fit into their allocations, if one limits it."""
    limits = {b: x.bytes // width for b, x, width in _allocated(d.kernel, call)}

    def fits(value: int) -> bool:
        extents = d.elements({**sizes, name: value}, unknown=0)
        return all(extents.get(b, 0) <= most for b, most in limits.items())

    if not fits(1) or fits(1 << 30):
        return sizes[name]
    low, high = 1, 1 << 30
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _scalars(d: Draft, fit: Fit) -> None:
    """What each scalar parameter is, in sizes or as a number; what the calls do not bear out is a size of its own."""
    for p in d.kernel.params:
        name, t = p.sym.name, p.sym.type
        seen = [c.scalars.get(name) for c in fit.calls]
        if not isinstance(t, Scalar) or p.host or any(v is None for v in seen):
            continue
        values = [v for v in seen if v is not None]
        tied = d.tied(name)
        if isinstance(tied, str) and all(_value(tied, s) == v for s, v in zip(fit.sizes, values)):
            fit.values[name] = tied
        elif name in fit.sizes[0]:
            fit.values[name] = name
        elif (real := d.real(name)) is not None and all(_is_real(real, t, s, v) for s, v in zip(fit.sizes, values)):
            fit.values[name] = real
        elif len(set(values)) == 1 or not t.is_int:
            fit.values[name] = values[0]
            if len(set(values)) > 1:
                fit.doubts.append(f"{name}: {len(set(values))} values were passed; the one that took longest is taken")
        else:
            fit.values[name] = name
            own(fit, name, [int(v) for v in values])


def _launch(d: Draft, fit: Fit) -> None:
    """The launch: the source's, if it gives what was seen; else formulas that do, else the numbers."""
    if all(_as_seen(d, c, s) for c, s in zip(fit.calls, fit.sizes)):
        fit.launch = d.launch
        return
    block = [_own_number(fit, [c.block[i] for c in fit.calls], f"block_{axis}") for i, axis in enumerate("xyz")]
    shape = {axis: fit.calls[0].block[i] for i, axis in enumerate("xyz")}
    guarded = {c.axis for c in compared_with(d.kernel, shape)}
    grid = [
        _blocks(fit, [c.grid[i] for c in fit.calls], block[i], axis in guarded)
        or _own_number(fit, [c.grid[i] for c in fit.calls], f"grid_{axis}")
        for i, axis in enumerate("xyz")
    ]
    shared = _own_number(fit, [c.shared for c in fit.calls], "shared_bytes")
    fit.launch = LaunchSpec(tuple(grid), tuple(block), shared)


def _forget_unused(d: Draft, fit: Fit) -> None:
    """Takes out the sizes that only the drafted launch was made of, where the launch is given in other terms now."""
    if fit.launch is None or fit.launch == d.launch:
        return
    texts = [*fit.launch.grid, *fit.launch.block, fit.launch.shared, *fit.nulls.values()]
    texts += [v for v in fit.values.values() if isinstance(v, str)]
    texts += [x for e in fit.extents.values() if e is not None for x in e.shape]
    needed = {n for text in texts for n in names_in(text)} | set(fit.own)
    for name in [p.sym.name for p in d.kernel.params if p.host and p.sym.name not in needed]:
        for sizes in fit.sizes:
            sizes.pop(name, None)
        fit.doubts = [x for x in fit.doubts if not x.startswith(f"{name}: ")]


def _as_seen(d: Draft, call: ObservedCall, sizes: Sizes) -> bool:
    launch = d.kernel.launch
    if launch is None:
        return False
    env = {**_numbers(call), **sizes}
    got = [_evaluated(d, e, env) for e in (*launch.grid, *launch.block)]
    shared = 0 if launch.dynamic_shared is None else _evaluated(d, launch.dynamic_shared, env)
    return got == [*call.grid, *call.block] and shared == call.shared


def _blocks(fit: Fit, seen: Sequence[int], block: str, guarded: bool) -> str:
    """The blocks ``seen`` as a formula: of a size or a product of two, shared out to blocks of ``block`` threads; '' if
    none gives them. Only a kernel that is ``guarded`` along the axis can have threads beyond the size."""
    if set(seen) == {1}:
        return "1"
    sizes = [n for n in fit.sizes[0] if n not in fit.own]
    products = [f"{a} * {b}" for a, b in itertools.combinations(sizes, 2)]
    for text, k in itertools.product([*sizes, *products], (1, *PER_BLOCK)):
        each = block if k == 1 else f"{k} * {block}"
        formula = f"cdiv({text}, {each})" if guarded else f"{_factor(text)} / {_factor(each)}"
        formula = formula if block != "1" or k > 1 else text
        if all(_value(formula, s) == g for s, g in zip(fit.sizes, seen)):
            return formula
    whole = (text for text in (*sizes, *products) if all(_value(text, s) == g for s, g in zip(fit.sizes, seen)))
    return next(whole, "")


def _factor(text: str) -> str:
    return text if text.isalnum() or text.isidentifier() else f"({text})"


def _own_number(fit: Fit, seen: Sequence[int], name: str) -> str:
    """The number that all of ``seen`` are, or a size of its own called ``name``."""
    if len(set(seen)) == 1:
        return str(seen[0])
    own(fit, name, seen)
    return name


def _numbers(call: ObservedCall) -> dict[str, int]:
    return {n: int(v) for n, v in call.scalars.items() if not isinstance(v, float)}


def _allocated(k: Kernel, call: ObservedCall) -> Iterator[tuple[str, ObservedBuffer, int]]:
    for p in buffers_of(k):
        x = call.buffers.get(p.sym.name)
        if x is not None and x.bytes:
            yield p.sym.name, x, numpy_dtype(scalar_of(p.sym.type).name).itemsize


def _evaluated(d: Draft, e: Expr, values: Mapping[str, int]) -> int | None:
    found = evaluate(e, d.kernel.environment(values))
    return int(found) if isinstance(found, int) else None


NARROW, WIDE = 2.0**-6, 2.0**-21
"""How far the host's number may be from the formula's, for its size: some roundings of bfloat16, and of float."""


def _is_real(text: str, t: Scalar, sizes: Sizes, seen: float) -> bool:
    """Whether ``text`` gives the number of type ``t`` that was seen, but for how the host rounded on the way."""
    try:
        value = real_expressions.evaluate(text, sizes)
    except FormulaError:
        return False
    return abs(value - seen) <= (NARROW if t.bits < 32 else WIDE) * abs(seen)


def _value(text: str, sizes: Sizes) -> int | None:
    try:
        return size_expressions.evaluate(text, sizes)
    except FormulaError:
        return None
