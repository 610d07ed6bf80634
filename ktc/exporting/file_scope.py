"""Variables at file scope that host code sets (``__constant__ float taps[17]``), where the tuned kernel is in the same
file: it reads the program's own variable, so that what the host copies there reaches both kernels.

No other export can: a variable belongs to its module, and host code knows it by its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Param

from .launch_edits import blanked, guarded


def behind_declarations(text: str, variables: Iterable[str], file: str) -> int:
    """The place in ``text``, the source ``file``, behind the declarations of ``variables``; 0 if there are none.

    Raises:
        KtcError: E-EXPORT-SYMBOL, one of them is declared elsewhere, in a namespace, under a condition, or not in one
            dimension.
    """
    code, end = blanked(text), 0
    for name in variables:
        found = re.search(rf"\b__\w+__\b[^;{{}}]*?\b{re.escape(name)}\s*((?:\[[^\]]*\]\s*)*);", code)
        place = code[: found.start()] if found is not None else ""
        if found is None:
            raise unreachable(name, f"it is not declared in {file}")
        if place.count("{") != place.count("}") or guarded(code, found.start()):
            raise unreachable(name, "it is declared in a namespace or under a condition")
        if found[1].count("[") > 1:
            raise unreachable(name, "it has several dimensions, and the tuned kernel reads it as one")
        end = max(end, found.end())
    return end


def without_declarations(lines: Sequence[str], variables: Sequence[Param]) -> list[str]:
    """``lines`` of a printed kernel without those that declare ``variables``.

    Raises:
        KtcError: E-EXPORT-SYMBOL, one of them has another name there.
    """
    out = list(lines)
    for p in variables:
        declares = re.compile(rf"__\w+__ .*\b{re.escape(p.sym.name)}\[\d+\];")
        left = [line for line in out if not declares.fullmatch(line)]
        if len(left) == len(out):
            raise unreachable(p.sym.name, "the tuned kernel has another name for it")
        out = left
    return out


def unreachable(name: str, why: str) -> KtcError:
    return KtcError(
        "E-EXPORT-SYMBOL", f"'{name}' is a variable at file scope that host code sets: {why}",
        hint="`ktc lower RECIPE` prints the tuned kernel, to be put in its place by hand; or pass the variable as a "
        "parameter",
    )  # fmt: skip


__all__ = ["behind_declarations", "unreachable", "without_declarations"]
