"""Small inputs for an export's self-test: real data of the workload, at sizes of the scenarios or parts of them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.scenario_facts import runnable

from .building import Built

MOST_BYTES = 256 << 10
"""Of the buffers of one case."""

MOST_CASES = 4
"""A scenario is a case; those that differ in no size once they are small are one."""


@dataclass(frozen=True)
class Case:
    """A call: the number of its instance, its sizes as text, scalars that callers pass and all of them, buffers."""

    instance: int
    name: str
    given: Mapping[str, int | float]
    scalars: Mapping[str, int | float]
    buffers: Mapping[str, np.ndarray | None]


def cases(built: Built) -> list[Case]:
    """Calls of every instance."""
    found: list[Case] = []
    work, artefact = built.workload, built.artefact
    passed = {p.name for p in artefact.parameters if p.role == "scalar" and not p.value}
    loose = [s.size for s in artefact.sizes if not s.parameter]
    for instance, variant in enumerate(built.variants):
        kernels = [built.whole(c).kernel for c in artefact.instances[instance].variants]
        for sizes in _sizes(work, kernels):
            inputs = work.make_inputs(sizes, variant, seed=len(found))
            buffers: dict[str, np.ndarray | None] = {}
            for p in artefact.parameters:
                value = inputs.get(p.name)
                if p.role != "scalar":
                    made = value is not None and p.role == "out"
                    buffers[p.name] = None if value is None else _plain(np.zeros_like(value) if made else value)
            scalars = {p.name: _number(inputs.get(p.name, sizes.get(p.name, 0))) for p in artefact.parameters
                       if p.role == "scalar"}  # fmt: skip
            given = {n: v for n, v in scalars.items() if n in passed} | {s: sizes[s] for s in loose}
            name = " ".join(f"{k}={v}" for k, v in sizes.items())
            found.append(Case(instance, name, given, scalars, buffers))
    return found


def archive(found: list[Case]) -> bytes:
    """A ``.npz`` file: arrays ``CASE/BUFFER``, and ``cases`` as JSON (instance, sizes, scalars, names of buffers)."""
    arrays = {f"{k}/{n}": a for k, c in enumerate(found) for n, a in c.buffers.items() if a is not None}
    listed = [
        {"instance": c.instance, "name": c.name, "given": dict(c.given), "buffers": list(c.buffers)} for c in found
    ]
    out = io.BytesIO()
    np.savez_compressed(out, cases=np.array(json.dumps(listed)), **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _plain(a: np.ndarray) -> np.ndarray:
    """``a``, or its bits where numpy alone cannot read its dtype back."""
    return a if a.dtype.kind in "iubf" and a.dtype.isbuiltin == 1 else a.view(f"u{a.dtype.itemsize}")


def _number(v: Any) -> int | float:
    return float(v) if isinstance(v, float | np.floating) else int(v)


def _sizes(work: Workload, kernels: list[Any]) -> Iterator[dict[str, int]]:
    """Sizes of cases: those of each scenario, made small."""
    seen = set()
    order = sorted(work.scenarios, key=lambda s: (not s.tuned, _bytes(work, s.sizes)))
    for s in order:
        small = _small(work, dict(s.sizes), kernels)
        key = tuple((small or {}).items())
        if small is not None and key not in seen:
            seen.add(key)
            yield small
        if len(seen) == MOST_CASES:
            return


def _small(work: Workload, sizes: dict[str, int], kernels: list[Any]) -> dict[str, int] | None:
    """``sizes`` with the largest halved, one after the other, while buffers are large, as long as the same ``kernels``
    still run; None where they cannot be made small."""

    def running(at: Mapping[str, int]) -> list[bool]:
        return [runnable(k, work, at) for k in kernels]

    wanted = running(sizes)
    while _bytes(work, sizes) > MOST_BYTES:
        for name in sorted(sizes, key=lambda n: -sizes[n]):
            half = {**sizes, name: sizes[name] // 2}
            if sizes[name] > 1 and _possible(work, half) and running(half) == wanted:
                sizes = half
                break
        else:
            break
    return sizes if _bytes(work, sizes) <= 16 * MOST_BYTES else None


def _possible(work: Workload, sizes: Mapping[str, int]) -> bool:
    """Whether a call at ``sizes`` keeps what the workload promises of every call."""
    env = {**sizes, **{k: v for k, v in work.scalars(sizes).items() if isinstance(v, int)}}
    for a in work.args:
        v = env.get(a.name)
        if a.role == "scalar" and isinstance(v, int):
            low, high = a.range or (v, v)
            if (
                v % max(a.divisible_by, 1)
                or not (isinstance(low, str) or low <= v)
                or not (isinstance(high, str) or v <= high)
            ):
                return False
    try:
        return all(size_expressions.evaluate(t, env) for t in work.assume) and _bytes(work, sizes) > 0
    except KtcError:
        return False


def _bytes(work: Workload, sizes: Mapping[str, int]) -> int:
    """Elements of all buffers at ``sizes``, four bytes each."""
    return sum(4 * math.prod(size_expressions.evaluate(t, sizes) for t in a.shape) for a in work.args if a.shape)
