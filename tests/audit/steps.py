"""Every step that is suggested for a kernel, as it is and raised: applied, read back, lowered and printed.

What users would be told of as an internal error (a pass that breaks the kernel, an exception) is a bug, and so are a
text that reads back to another program and one that a compiler does not take. A refusal is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ktc.backends import emit
from ktc.backends.base import CompileFailure, Emitted
from ktc.backends.compile_check import check_compile
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import canonical, parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, sites
from ktc.passes.lowering import materialise

INTERNAL = ("E-BUG", "E-INTERNAL")
MISSING = 3
"""The exit code of a tool that is not installed."""


@dataclass
class Steps:
    """``tried`` steps, ``refused`` ones by code, and ``bugs``: the script and what went wrong."""

    tried: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    bugs: list[tuple[str, str]] = field(default_factory=list)

    def guarded(self, script: str, work: Callable[[], Kernel | None]) -> Kernel | None:
        """What ``work`` gives; None if it is refused, or goes wrong, which is noted."""
        try:
            return work()
        except KtcError as e:
            if e.code not in INTERNAL:
                self.refused[e.code] += 1
                return None
            self.bugs.append((script, str(e)[:600]))
        except Exception as e:
            self.bugs.append((script, f"{type(e).__name__}: {str(e)[:600]}"))
        return None

    def applied(self, kernel: Kernel, script: str) -> Kernel | None:
        """``kernel`` after ``script``; None if it is refused."""
        done = apply_script(kernel, parse_script(script))
        if done.refused is None:
            return done.kernel
        self.refused[done.refused.code] += 1
        return None


def all_steps(source: Kernel, compiled_every: int = 0) -> Steps:
    """Each step suggested for ``source`` and for what ``raise`` makes of it, and the two without a step.

    ``compiled_every``: of the texts, one of so many goes through nvcc, where there is one (0: none).
    """
    out = Steps()
    if any(not q.unproved for q in verify(source)):
        return out  # no kernel that ktc would take
    for first, kernel in _forms(source, out):
        for step in ("", *_suggested(kernel, first, out)):
            out.tried += 1
            script = " | ".join(filter(None, (first, step)))
            after = out.guarded(script, lambda k=kernel, s=step: out.applied(k, s) if s else k)  # type: ignore[misc]
            if after is not None:
                out.guarded(script, lambda k=after, s=script: _printed(k, s, out, compiled_every))  # type: ignore[misc]
    return out


def _forms(source: Kernel, out: Steps) -> Iterator[tuple[str, Kernel]]:
    yield "", source
    raised = out.guarded("raise", lambda: out.applied(source, "raise"))
    if raised is not None:
        yield "raise", raised


def _suggested(kernel: Kernel, first: str, out: Steps) -> list[str]:
    found: list[str] = []

    def look() -> None:
        found.extend(str(s.step) for of_pass in sites(kernel).values() for s in of_pass)

    out.guarded(f"sites of '{first}'", look)
    return found


def _printed(kernel: Kernel, script: str, out: Steps, compiled_every: int) -> None:
    """``kernel`` read back from its text; lowered, its open knobs at their defaults, and printed as CUDA."""
    if canonical(parse_kernel(print_kernel(kernel))) != canonical(kernel):
        out.bugs.append((script, "the text reads back to another program"))
    open_knobs = {k.name: k.default for k in kernel.knobs if k.value is None}
    code = emit(materialise(bind(kernel, open_knobs)), "cuda")
    if compiled_every and out.tried % compiled_every == 0 and (why := _compile_errors(code)):
        out.bugs.append((script, why))


def _compile_errors(code: Emitted) -> str:
    try:
        check_compile(code, "sm_90a")
    except CompileFailure as failure:
        return "\n".join(line for line in failure.log.splitlines() if "error" in line)[:600]
    except KtcError as e:
        if e.exit_code != MISSING:
            raise
    return ""


__all__ = ["Steps", "all_steps"]
