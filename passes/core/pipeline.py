"""Running a script: each step is applied, verified and recorded; a refusal leaves the kernel as it was."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, TypeAlias

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.group_copies import by_threads
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AddrOf, Call, Decl, Expr, InlineAsm, Knob, Sym
from ktc.ir.support.memo import by_identity
from ktc.ir.support.time_limits import is_over
from ktc.ir.text import named_apart, parse_expr, print_kernel
from ktc.ir.types import BOOL, Ptr
from ktc.ir.verifier import Problem, unproved, verify
from ktc.ir.walk import knobs_in, stmt_exprs, walk, walk_expr

from .base import Pass, Site
from .catalogue import PASSES
from .distribution_limits import unsound_distribution
from .per_launch import applied, sites_of
from .refusals import Refused, Result, attempted
from .script import Script, Step
from .vanished import with_history

Memo: TypeAlias = dict[tuple[str, ...], Result | Refused]
"""Results by the printed steps that lead to them."""


@dataclass(frozen=True)
class Applied:
    """What a script did. ``kernel`` is the rewritten kernel, or the very kernel given when ``refused``.

    ``results`` are those of the steps that were applied, in order; ``step`` is the one that refused.
    """

    kernel: Kernel
    results: tuple[Result, ...] = ()
    refused: Refused | None = None
    step: Step | None = None


class PassBug(Exception):
    """A pass broke the IR's rules: a bug in that pass, with the kernel before and after it."""

    def __init__(self, step: str, problems: list[Problem], before: Kernel, after: Kernel) -> None:
        self.step, self.problems, self.before, self.after = step, problems, before, after
        rows = "\n".join(f"  {p}" for p in problems)
        listings = f"--- before ---\n{print_kernel(before)}--- after ---\n{print_kernel(after)}"
        super().__init__(f"the pass '{step}' broke the kernel:\n{rows}\n{listings}")


def apply_script(kernel: Kernel, script: Script, memo: Memo | None = None) -> Applied:
    """All steps of ``script`` and its constraints, or none of them.

    Args:
        memo: what sequences of steps made of this very kernel; those found there are not applied again.

    Raises:
        KtcError: E-PASS-UNKNOWN, E-PASS-ARG, E-WHERE: the script names what does not exist.
        PassBug: a pass produced a kernel that does not verify.
    """
    for step in script.steps:
        check_step(step)
    open_question = next(iter(unproved(kernel)), None) if script.steps else None
    if open_question is not None:
        why = f"{open_question.message}, so no change can be shown to be safe"
        places = () if open_question.loc is None else (open_question.loc,)
        hint = "put the barrier where all threads of the block pass: outside the condition that threads decide"
        return Applied(kernel, (), Refused("E-BARRIER-UNPROVED", why, places, hint), script.steps[0])
    now, results, key = kernel, list[Result](), tuple[str, ...]()
    memo = {} if memo is None else memo
    for step in script.steps:
        key = (*key, str(step))
        result = memo[key] if key in memo else apply_step(now, step)
        if not is_over():  # what the clock stopped may go further another time
            memo[key] = result
        if isinstance(result, Refused):
            known = [kernel, *(r.kernel for r in results)]
            return Applied(kernel, tuple(results), with_history(result, step, known, script.steps), step)
        now = result.kernel
        results.append(result)
    for text in script.where:
        now = add_constraint(now, text)
    return Applied(now, tuple(results))


def apply_step(kernel: Kernel, step: Step) -> Result | Refused:
    """One step: apply, verify, record in the trace."""
    p = PASSES[step.name]
    args = attempted(p.read, step.kwargs)
    if isinstance(args, Refused):
        return args
    hidden = hidden_access(kernel)
    if hidden is not None:
        return hidden
    kernel = named_apart(by_threads(kernel))
    result = attempted(applied, p, kernel, args)
    if isinstance(result, Refused):
        return result
    refused = unsound_distribution(result.kernel)
    if refused is not None and unsound_distribution(kernel) is None:
        return refused
    text, after = str(step), named_apart(result.kernel, kernel)
    problems = verify(after)
    if problems:
        known = {(q.code, q.message) for q in verify(kernel)}
        broken = [q for q in problems if (q.code, q.message) not in known]
        if broken:
            raise PassBug(text, broken, kernel, after)
    return Result(after.with_(trace=(*kernel.trace, text)), result.notes)


def hidden_access(kernel: Kernel) -> Refused | None:
    """Why no pass may touch ``kernel``: it reaches memory through pointer variables, or through addresses in PTX, or
    launches itself, which would launch what the pass makes of it in the geometry of what it was."""
    for s in walk(kernel.body):
        places = () if s.loc is None else (s.loc,)
        if isinstance(s, Decl) and isinstance(s.sym.type, Ptr):
            why = f"'{s.sym.name}' points to memory that is not known here, so no change can be shown to be safe"
            return Refused("E-POINTER-VALUE", why, places, "pass the buffer as a parameter of its own")
        for x in (x for e in stmt_exprs(s) for x in walk_expr(e)):
            if isinstance(x, Call) and x.fn == "launch":
                why = "the kernel launches itself, so no change can be shown to be safe"
                return Refused("E-SELF-LAUNCH", why, places, "launch the next level from the host")
            in_asm = isinstance(s, InlineAsm) and isinstance(x, AddrOf)
            if in_asm or (isinstance(x, Call) and x.fn == "shared_address"):
                why = "inline PTX reaches memory by an address, so no change can be shown to be safe"
                return Refused("E-POINTER-VALUE", why, places, "use the CUDA intrinsic or plain C++ for this access")
    return None


def check_step(step: Step) -> Pass[Any]:
    """The pass of ``step``, whose name and arguments exist."""
    if step.name not in PASSES:
        near = difflib.get_close_matches(step.name, list(PASSES), 1)
        hint = f"did you mean '{near[0]}'?" if near else "see: ktc passes"
        raise KtcError("E-PASS-UNKNOWN", f"no pass named '{step.name}'", step.loc, hint, exit_code=2)
    p = PASSES[step.name]
    names = [s.name for s in p.parameters]
    for key, _ in step.args:
        if key not in names and "*" not in names:
            near = difflib.get_close_matches(key, names, 1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            hint += f"{step.name} takes: {p.signature or 'no arguments'}"
            raise KtcError("E-PASS-ARG", f"{step.name} has no argument '{key}'", step.loc, hint, exit_code=2)
    return p


def add_constraint(kernel: Kernel, text: str) -> Kernel:
    """``kernel`` with the constraint ``text`` over its knobs (with or without ``$``) and parameters."""
    symbols: dict[str, Sym | Knob] = {p.sym.name: p.sym for p in kernel.params}
    symbols |= {k.name: Knob(k.name) for k in kernel.knobs}
    try:
        e: Expr = parse_expr(text, symbols, file="<where>")
    except KtcError as err:
        raise _bad_where(text, err.message, err.hint, err.loc) from None
    if e.type != BOOL:
        raise _bad_where(text, "it is not a condition", "compare something, as in TM % V == 0")
    undeclared = knobs_in(e) - {k.name for k in kernel.knobs}
    if undeclared:
        raise _bad_where(text, f"no step declares the knob ${min(undeclared)}")
    return kernel.with_(constraints=(*kernel.constraints, e), trace=(*kernel.trace, f"where {text}"))


def sites(kernel: Kernel) -> dict[str, list[Site]]:
    """Every place where each pass applies, with ready-made arguments: the action space of a planner."""
    return {name: list(found) for name, found in _sites(kernel).items()}


@by_identity(4)
def _sites(kernel: Kernel) -> dict[str, list[Site]]:
    kernel = named_apart(by_threads(kernel))
    return {name: sites_of(PASSES[name], kernel) for name in PASSES}


def _bad_where(text: str, why: str, hint: str = "", loc: Loc | None = None) -> KtcError:
    return KtcError("E-WHERE", f"in 'where {text}': {why}", loc, hint, exit_code=2, source=text)
