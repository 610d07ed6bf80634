"""Control flow in lockstep: it narrows the set of active lanes.

Every executor returns the lanes that go on to the next statement. ``break``, ``continue`` and ``return`` return none
and park their lanes where the loop (or nobody) will pick them up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.interp.sanitizer.endless_loops import Rounds
from ktc.ir.nodes import Body, Break, Continue, For, If, Produce, Return, Stmt, While

from .foreseen_rounds import check_fuel
from .frames import Active, Frame, merge
from .producer_loops import Producer
from .rounds_at_once import ran_at_once
from .true_counts import count_true

if TYPE_CHECKING:
    from .statements import Machine

_NONE = np.zeros(0, np.int64)


@dataclass
class Loop:
    """Lanes that left the current loop, or its current iteration, early."""

    broken: np.ndarray = field(default_factory=lambda: _NONE)
    continued: np.ndarray = field(default_factory=lambda: _NONE)


def _everywhere(cond: Any) -> bool | None:
    """The value of a condition that is the same for all lanes; None if it is not. Of no lanes, it holds."""
    if cond.ndim == 0:
        return bool(cond)
    holding = count_true(cond)  # half the cost of any() and all()
    return True if holding == len(cond) else None if holding else False


def if_(machine: Machine, s: If, frame: Frame, act: Active, loop: Loop | None) -> Active:
    cond = machine.ev.truth(s.cond, frame, act)
    holds = _everywhere(cond)
    if holds is not None:
        return machine.body(s.then if holds else s.orelse, frame, act, loop)
    lanes = frame.lanes(act)
    yes, no = lanes[cond], lanes[~cond]
    after_yes = machine.body(s.then, frame, yes, loop)
    after_no = machine.body(s.orelse, frame, no, loop)
    if after_yes is yes and after_no is no:
        return act
    return merge(frame.lanes(after_yes), frame.lanes(after_no))


def for_(machine: Machine, s: For, frame: Frame, act: Active, loop: Loop | None) -> Active:
    rounds = machine.apart.rounds(s)
    if rounds is not None and ran_at_once(machine, s, rounds, frame, act):
        return act
    ahead = s.body and isinstance(s.body[0], Produce) and machine.state.geometry is not None
    producer = Producer(machine, s, frame, act) if ahead else None
    frame.declare(s.var, machine.ev(s.init, frame, act), act)

    def step(live: Active) -> None:
        if producer is not None:
            producer.round_ends(live)
        frame.declare(s.var, machine.ev(s.step, frame, live), live)

    return _loop(machine, s, s.body[1:] if ahead else s.body, frame, act, step)


def while_(machine: Machine, s: While, frame: Frame, act: Active, loop: Loop | None) -> Active:
    return _loop(machine, s, s.body, frame, act, lambda live: None, test_first=not s.post)


def _loop(
    machine: Machine,
    s: For | While,
    body: Body,
    frame: Frame,
    act: Active,
    step: Callable[[Active], None],
    test_first: bool = True,
) -> Active:
    """Rounds of ``body`` for the lanes of ``act`` until none is left, with ``step`` at the end of each."""
    state, ctx, live = machine.state, Loop(), act
    left: list[np.ndarray] = []  # lanes whose condition failed
    testing, rounds = test_first, Rounds(state, s, frame)
    while live is None or len(live):
        state.stmt = s
        state.burn(frame.count(live))
        if testing:
            ok = machine.ev.truth(s.cond, frame, live)
            holds = _everywhere(ok)
            if holds is False:
                break
            if holds is None:
                lanes = frame.lanes(live)
                left.append(lanes[~ok])
                live = lanes[ok]
        testing = True
        if rounds.number == 1:
            state.repeated.add(id(s))
        rounds.begin(live)
        if isinstance(s, For):
            check_fuel(machine, s, frame, live, rounds.number)
        live = machine.body(body, frame, live, ctx)
        if len(ctx.continued):
            live = merge(live if live is not None else _NONE, ctx.continued)
            ctx.continued = _NONE
        if live is None or len(live):
            state.stmt = s
            step(live)
    if not left and not len(ctx.broken):
        return live
    out = frame.lanes(live)
    for lanes in (*left, ctx.broken):
        out = merge(out, lanes)
    return act if act is not None and len(out) == len(act) else (None if len(out) == frame.n else out)


def break_(machine: Machine, s: Break, frame: Frame, act: Active, loop: Loop | None) -> Active:
    if loop is None:
        raise Unsupported("break outside a loop of its own iteration", s.loc)
    loop.broken = merge(loop.broken, frame.lanes(act))
    return _NONE


def continue_(machine: Machine, s: Continue, frame: Frame, act: Active, loop: Loop | None) -> Active:
    if loop is None:
        raise Unsupported("continue outside a loop of its own iteration", s.loc)
    loop.continued = merge(loop.continued, frame.lanes(act))
    return _NONE


def return_(machine: Machine, s: Return, frame: Frame, act: Active, loop: Loop | None) -> Active:
    if machine.state.geometry is None and frame.parent is not None:
        raise Unsupported("return inside a par loop", s.loc)
    if frame.exited is None:
        frame.exited = np.zeros(frame.n, bool)
    frame.exited[frame.lanes(act)] = True
    return _NONE


Executor = Callable[["Machine", Any, Frame, Active, Loop | None], Active]

CONTROL: dict[type[Stmt], Executor] = {
    If: if_, For: for_, While: while_, Break: break_, Continue: continue_, Return: return_,
}  # fmt: skip
"""The executor of each statement of control flow."""
