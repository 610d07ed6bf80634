"""Do two kernels mean the same? Run both in the exact domains and compare bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from ktc.ir.atomic_ops import ANY_ORDER
from ktc.ir.diagnostics import Loc
from ktc.ir.interp.sanitizer.findings import Finding
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic
from ktc.ir.walk import walk

from .run import FUEL, Args, RunResult, run


@dataclass(frozen=True)
class Mismatch:
    """Where two kernels differ, or what is wrong with the second.

    ``index`` is the multi-dimensional element of ``buffer``; ``expected`` and ``got`` are in the domain's storage.
    ``finding`` is set instead when the second kernel has a defect that the first has not.
    """

    domain: str
    instance: int
    buffer: str = ""
    index: tuple[int, ...] = ()
    expected: object = None
    got: object = None
    wrong: int = 0
    finding: Finding | None = None

    @property
    def loc(self) -> Loc | None:
        return self.finding.loc if self.finding else None

    def __str__(self) -> str:
        if self.finding is not None:
            return str(self.finding)
        place = f"{self.buffer}[{', '.join(map(str, self.index))}]"
        return f"{place} is {self.got}, expected {self.expected} ({self.wrong} differ, domain {self.domain})"


def equivalent(
    a: Kernel,
    b: Kernel,
    args_list: Iterable[Args],
    domains: Collection[str] = ("field", "int"),
    *,
    sanitize: bool = True,
    undefined: Collection[str] = (),
) -> Mismatch | None:
    """None if ``b`` leaves the same bits as ``a`` in every domain on every instance, and no defect that ``a`` lacks.

    An ``a`` that does not end is equivalent to nothing: the mismatch is its own finding.

    Parameters are matched by name. Only stored elements of ``undefined`` buffers are compared.

    Raises:
        KtcError: E-INTERP-UNSUPPORTED when either kernel has no meaning in a domain.
    """
    for number, args in enumerate(args_list):
        for domain in domains:
            first = run(a, args, domain=domain, sanitize=sanitize, undefined=undefined)
            found = mismatch(first, b, args, domain, number, sanitize=sanitize, undefined=undefined)
            if found is not None:
                return found
    return None


def mismatch(
    first: RunResult,
    b: Kernel,
    args: Args,
    domain: str,
    number: int = 0,
    *,
    sanitize: bool = True,
    undefined: Collection[str] = (),
) -> Mismatch | None:
    """One step of :func:`equivalent`: ``b`` against a run of the other kernel on these ``args``, which many may share.

    Only defects of a kind that ``first`` does not have count, so ``first`` has to be sanitized where ``b`` is.
    """
    endless = next((f for f in first.findings if f.kind == "fuel"), None)
    if endless is not None:
        return Mismatch(domain, number, finding=endless)
    fuel = max(FUEL // 10, 30 * first.steps)
    second = run(b, args, domain=domain, sanitize=sanitize, undefined=undefined, fuel=fuel)
    known = {f.kind for f in first.findings}
    new = next((f for f in second.findings if f.kind not in known), None)
    if new is not None:
        return Mismatch(domain, number, finding=new)
    return compare(first, second, domain, number)


def compare(first: RunResult, second: RunResult, domain: str, number: int = 0) -> Mismatch | None:
    """The first element whose bits differ, over all buffers; stored elements only where contents were undefined."""
    for name in sorted(first.outputs.keys() | second.outputs.keys()):
        x, y = first.outputs.get(name), second.outputs.get(name)
        if x is None or y is None:
            return Mismatch(
                domain, number, name, expected="stored" if y is None else "not stored", got="the opposite", wrong=1
            )
        differs = bits_differ(x, y)
        if name in first.written and name in second.written:
            stored = first.written[name] | second.written[name]
            differs = (differs & stored) | (first.written[name] != second.written[name])
        if differs.any():
            at = np.unravel_index(int(np.argmax(differs)), differs.shape)
            index = tuple(int(i) for i in at)
            return Mismatch(domain, number, name, index, x[at], y[at], int(differs.sum()))
    return None


def shows_order(kernel: Kernel) -> bool:
    """Whether ``kernel`` has atomics whose order shows: that keep what they find, or leave what the last one brings."""
    return any(isinstance(s, Atomic) and (s.dst is not None or s.op not in ANY_ORDER) for s in walk(kernel.body))


def bits_differ(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element by element, whether the bit patterns differ (NaNs of one pattern are equal, 0 and -0 are not)."""
    if x.dtype != y.dtype or x.shape != y.shape:
        raise ValueError("arrays of different type or shape")
    if x.dtype.kind in "biu" or not x.size:
        return np.asarray(x != y)
    word = np.dtype(f"u{min(x.dtype.itemsize, 8)}")  # complex numbers are two words
    a, b = (np.ascontiguousarray(v).view(word).reshape(*x.shape, -1) for v in (x, y))
    return (a != b).any(axis=-1) if a.shape[-1:] != (1,) else (a != b)[..., 0]
