"""Random scripts from the catalogue: passes at the sites they name themselves, sometimes with other arguments.

Everything is drawn through a ``pick`` function, so that ``random`` and hypothesis can both drive it, and a pass that is
added to the catalogue is drawn without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.nodes import LEVELS
from ktc.ir.walk import walk
from ktc.passes.core.base import Pass
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several values."""

SIZES = ("1", "2", "3", "4", "8", "16", "32", "64", "$A", "$B:2,4", "$C=2", "full")
AXES = {"thread": ("x", "x", "y", "z"), "block": ("x", "x", "y", "z"), "cluster": ("x",)}
WORDS = {
    "where": ("registers", "shared"),
    "strategy": ("auto", "serial", "shuffle", "shared"),
    "tail": ("guard", "exact", "cut"),
    "loads": ("all", "none"),
    "stores": ("all", "none"),
    "fns": ("all", "exp", "div"),
    "load": ("ldg", "cs"),
    "store": ("cs", "cg"),
}
"""Arguments that take words. Others are drawn from :data:`SIZES`."""


def random_script(
    kernel: Kernel, pick: Pick, most: int = 4, without: frozenset[str] = frozenset(), wild: int = 4, tries: int = 1
) -> Kernel:
    """``kernel`` after up to ``most`` steps; those that are refused leave no trace.

    One step in ``wild`` has arguments that no site suggests. ``tries``: how many passes are drawn for a step until one
    names a site; with 1, passes that apply to few kernels are hardly ever among the steps.
    """
    names = [n for n in PASSES if n not in without]
    for _ in range(pick(range(1, most + 1))):
        step = None
        if pick(range(wild)) == 0:
            step = _wild(PASSES[pick(names)], kernel, pick)
        else:
            for _ in range(tries):
                step = step or _site(PASSES[pick(names)], kernel, pick)
        if step is None:
            continue
        try:
            done = apply_script(kernel, parse_script(step))
        except KtcError:
            continue
        if done.refused is None:
            kernel = done.kernel
    return kernel


def random_knobs(kernel: Kernel, pick: Pick) -> Kernel:
    """``kernel`` with every open knob bound to some value of its domain; defaults where they do not fit together.

    Raises:
        KtcError: E-KNOB-INFEASIBLE: not even the defaults satisfy the constraints.
    """
    values = {k.name: pick(k.domain) for k in kernel.knobs if k.value is None and k.domain}
    try:
        return bind(kernel, values)
    except KtcError:
        return bind(kernel, {})


def _site(p: Pass, kernel: Kernel, pick: Pick) -> str | None:
    sites = p.sites(kernel)
    return str(pick(sites).step) if sites else None


def _wild(p: Pass, kernel: Kernel, pick: Pick) -> str:
    given = [s.name for s in p.parameters if s.name != "*" and (s.required or pick((True, False)))]
    args = " ".join(f"{name}={_argument(name, kernel, pick)}" for name in given)
    return f"{p.name}{{{args}}}" if args else p.name


def _argument(name: str, kernel: Kernel, pick: Pick) -> str:
    loops = [s.var.name for s in walk(kernel.body) if hasattr(s, "var")] or ["i"]
    if name in ("loop", "at", "into", "outer", "inner"):
        return str(pick(loops))
    if name == "loops":
        return ",".join(str(pick(loops)) for _ in range(pick((1, 2))))
    if name == "sizes":
        return ",".join(pick(SIZES) for _ in range(pick((1, 2))))
    if name == "map":
        levels = [_level(pick, True) for _ in range(pick((0, 1, 2)))]
        return f"[{', '.join([*levels, _level(pick, False)])}]"
    return str(pick(WORDS.get(name, SIZES)))


def _level(pick: Pick, counted: bool) -> str:
    kind = pick([k for k in LEVELS if k != "cluster"])
    axis = f".{pick(AXES[kind])}" if kind in AXES else ""
    return f"{kind}{axis} {pick(SIZES)}" if counted else f"{kind}{axis}"
