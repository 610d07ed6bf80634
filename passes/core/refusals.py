"""What comes of a pass: a rewritten kernel, or a refusal.

Both are values. Inside a pass a refusal is raised, and :meth:`.base.Pass.run` makes it a value again:

    def check(loop: For) -> None:
        bad = jump(loop.body)
        if bad:
            raise Refusal("E-PEEL-JUMP", f"the loop over '{loop.var.name}' may be left early", places(bad))

Who wants to know whether something would be refused (the sites of a pass) asks :func:`allowed` or :func:`attempted`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from ktc.ir.diagnostics import Loc
from ktc.ir.kernel import Kernel

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Refused:
    """A pass said no: a stable code, one sentence, the places in the source, and what to do about it."""

    code: str
    why: str
    locs: tuple[Loc, ...] = ()
    hint: str = ""


@dataclass(frozen=True)
class Result:
    """A rewritten kernel and what a reader should know about it (``notes``)."""

    kernel: Kernel
    notes: tuple[str, ...] = ()


class Refusal(Exception):
    """A :class:`Refused` on its way out of a pass. It leaves no pass as an exception."""

    def __init__(self, code: str, why: str, locs: tuple[Loc, ...] = (), hint: str = "") -> None:
        super().__init__(why)
        self.refused = Refused(code, why, locs, hint)


def accepted(outcome: T | Refused) -> T:
    """``outcome``, if it is no refusal.

    Raises:
        Refusal: it is one.
    """
    if isinstance(outcome, Refused):
        raise Refusal(outcome.code, outcome.why, outcome.locs, outcome.hint)
    return outcome


def attempted(f: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Refused:
    """What ``f`` gives, or its refusal as a value."""
    try:
        return f(*args, **kwargs)
    except Refusal as r:
        return r.refused


def allowed(f: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Whether ``f`` refuses nothing."""
    return not isinstance(attempted(f, *args, **kwargs), Refused)
