"""Programs with other numbers for some of theirs: those that limit a launch made small."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Call, Const, Expr, Select
from ktc.ir.sequences import launch_kernels, on_each_launch
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, map_expr

from .unmet_limits import is_condition

APART = 3
"""How far apart limits are that are made small together."""

LANES = (1, 2, 4, 8, 16)
"""Elements that a thread may take at once."""

Replace = Callable[[Expr, Mapping[int, int]], Expr]
"""What becomes of one node, whose operands have been replaced."""


@dataclass(frozen=True)
class Way:
    """A way of replacing numbers; with ``strides``, what all threads of a grid together step by is replaced as well."""

    replace: Replace
    strides: bool = False

    def on(self, e: Expr, numbers: Mapping[int, int]) -> Expr:
        """``e`` with other numbers."""
        return map_expr(e, lambda x: self.replace(x, numbers))


def small_numbers(limits: Collection[int], small: int) -> dict[int, int]:
    """What each limit among the numbers becomes, and its two neighbours; their order stays."""
    out: dict[int, int] = {}
    at, last = small - APART, -APART
    for n in sorted(limits):
        at += n - last if n - last < APART else APART
        out |= {n + k: at + k for k in (-1, 0, 1)}
        last = n
    return out


def _with_knobs(kernel: Kernel, knobs: Collection[str], numbers: Mapping[int, int]) -> Kernel:
    """``kernel`` bound to what the numbers of some of its knobs become, whatever their domains, if it may be."""
    decls = []
    for k in kernel.knobs:
        value = kernel.knob_values[k.name]
        decls.append(dataclasses.replace(k, value=numbers.get(value, value)) if k.name in knobs else k)
    bound = kernel.with_(knobs=tuple(decls))
    return bound if all(evaluate(e, bound.environment()) not in (False, 0) for e in kernel.constraints) else kernel


def with_numbers(kernel: Kernel, numbers: Mapping[int, int], knobs: Collection[str], way: Way) -> Kernel:
    """``kernel`` with other numbers for some: in its launch, its body, the sizes of its working memory, and as values
    of ``knobs``."""
    kernel = _with_knobs(kernel, knobs, numbers)

    def node(x: Expr) -> Expr:
        return way.replace(x, numbers)

    def on(e: Expr) -> Expr:
        return _number(e, numbers) if isinstance(e, Const) else map_expr(e, node)

    def launched(k: Kernel) -> Kernel:
        launch = k.launch
        assert launch is not None
        (x, y, z), (bx, by, bz) = map(on, launch.grid), map(on, launch.block)
        shared = None if launch.dynamic_shared is None else on(launch.dynamic_shared)
        smaller = dataclasses.replace(launch, grid=(x, y, z), block=(bx, by, bz), dynamic_shared=shared)
        return k.with_(launch=smaller, body=map_body(k.body, keep, node))

    scratch = (p if p.scratch is None else dataclasses.replace(p, scratch=on(p.scratch)) for p in kernel.params)
    kernel = kernel.with_(params=tuple(scratch))
    return on_each_launch(kernel, launched) if kernel.is_sequence else launched(kernel)


def _whole(e: Expr) -> bool:
    return isinstance(e, Const) and isinstance(e.type, Scalar) and e.type.is_int


def _number(e: Expr, numbers: Mapping[int, int]) -> Expr:
    return Const(numbers[int(e.value)], e.type) if _whole(e) and e.value in numbers else e  # type: ignore[attr-defined, arg-type]


def _everywhere(x: Expr, numbers: Mapping[int, int]) -> Expr:
    return _number(x, numbers)


def _in_conditions(x: Expr, numbers: Mapping[int, int]) -> Expr:
    """Where a number is compared with or chosen."""
    if isinstance(x, Call) and is_condition(x):
        return dataclasses.replace(x, args=tuple(_number(a, numbers) for a in x.args))
    if isinstance(x, Select) or (isinstance(x, Binary) and is_condition(x)):
        return dataclasses.replace(x, a=_number(x.a, numbers), b=_number(x.b, numbers))
    return x


def _with_multiples(x: Expr, numbers: Mapping[int, int]) -> Expr:
    """Everywhere, multiples as well."""
    limits = [n for n in numbers if n - 1 in numbers and n + 1 in numbers]
    limit = next((n for n in limits if _whole(x) and x.value and x.value % n == 0), 0)  # type: ignore[attr-defined]
    if not limit:
        return _number(x, numbers)
    return Const(int(x.value) // limit * numbers[limit], x.type)  # type: ignore[attr-defined, arg-type]


def strides(kernels: Iterable[Kernel], limits: Collection[int], numbers: Mapping[int, int]) -> dict[int, int]:
    """As many elements as the threads of so many blocks take, a vector each: 65535 blocks of 256 threads."""
    out: dict[int, int] = {}
    for k in itertools.chain.from_iterable(map(launch_kernels, kernels)):
        block = k.launch.block if k.launch is not None else ()
        threads = math.prod(int(evaluate(e, k.knob_values) or 0) for e in block)
        for n, lanes in itertools.product(limits, LANES if threads else ()):
            out[n * threads * lanes] = numbers[n] * threads * lanes
    return out


WAYS = (Way(_everywhere), Way(_in_conditions), Way(_everywhere, strides=True), Way(_with_multiples))
"""Ways of replacing a limit's number, the usual one first."""

__all__ = ["WAYS", "Way", "small_numbers", "strides", "with_numbers"]
