"""Warp collectives over logical warps of 32 lanes: shuffles, votes, matches, reductions.

Lanes of a block are numbered x fastest; a logical warp is 32 consecutive ones, whatever the hardware's width (a backend
with 64-wide waves must keep that meaning). A shuffle reads lane values as they are before the operation. Reading from a
lane that is not active gives poison: a doubtful value whose influence on the results is found by repeating the run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ktc.ir.interp.domains.domain import Unsupported
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import SHUFFLES, VOTES, WARP_REDUCTIONS, WarpOp
from ktc.ir.types import scalar_of

from .frames import Active, Frame, spread
from .record_lanes import picked, put
from .true_counts import count_true

if TYPE_CHECKING:
    from .expressions import Evaluator

WIDTHS = (1, 2, 4, 8, 16, 32)
EVERYBODY = 0xFFFFFFFF
"""The mask that names all lanes."""


def _source_lane(kind: str, lane, arg, width):
    """The lane each lane reads (may be out of its segment: then its own), by the rules of the CUDA C++ guide."""
    start = lane - lane % width
    if kind == "shfl":
        return start + arg % width
    arg = arg & (WARP - 1)  # its five lowest bits count (PTX ISA 8.5, 9.7.9.6), negative numbers included
    if kind == "shfl_up":
        return np.where(lane - arg >= start, lane - arg, lane)
    if kind == "shfl_down":
        return np.where(lane + arg < start + width, lane + arg, lane)
    partner = lane ^ arg  # earlier segments may be read, later ones not
    return np.where(partner < start + width, partner, lane)


@lru_cache(256)
def _sources(kind: str, n: int, arg: int, width: int) -> np.ndarray:
    """The lane that each of ``n`` reads, all of whole warps, where all shuffle by the same."""
    lanes = np.arange(n)
    lane = lanes % WARP
    return lanes - lane + _source_lane(kind, lane, np.int64(arg), np.int64(width))


def warp_op(ev: Evaluator, e: WarpOp, frame: Frame, act: Active):
    state = ev.state
    if state.geometry is None:
        raise Unsupported("a warp operation in parallel form", state.where())
    threads = state.geometry.threads
    n, lanes = frame.count(act), frame.lanes(act)
    thread = (lanes + state.first_thread) % threads
    lane = thread % WARP
    value = spread(ev.truth(e.value, frame, act) if e.kind in VOTES else ev(e.value, frame, act), n)
    mask = ev(e.mask, frame, act)
    if e.kind in SHUFFLES:
        assert e.arg is not None
        arg, width = ev(e.arg, frame, act).astype(np.int64), ev(e.width, frame, act).astype(np.int64)
        whole = act is None and not (threads % WARP or n % WARP or state.first_thread % WARP)
        alike = whole and not (mask.ndim or arg.ndim or width.ndim) and int(mask) & EVERYBODY == EVERYBODY
        if alike and int(width) in WIDTHS:
            return picked(value, _sources(e.kind, n, int(arg), int(width)))
    mask = spread(mask, n).astype(np.int64) & EVERYBODY
    active = np.zeros(frame.n, bool)
    active[lanes] = True
    if e.kind == "active":
        return bits_per_warp(lanes, lane, value, frame.n)[lanes - lane].astype(np.uint32)
    _check_mask(state, frame, act, lanes, thread, lane, mask, active)
    if e.kind in VOTES:
        return _vote(e.kind, value, mask, lanes, lane, frame.n)
    if e.kind not in SHUFFLES:
        return _over_mask(e.kind, value, mask & bits_per_warp(lanes, lane, np.ones(n, bool), frame.n)[lanes - lane],
                          lanes, lane, frame.n)  # fmt: skip
    odd = (width < 1) | (width > WARP) | (width & (width - 1) != 0)
    if np.any(odd):
        message = f"the width is {int(np.ravel(width[odd])[0])}, not a power of two up to {WARP}"
        state.report("shuffle-width", message, frame, act, odd)
        width = np.where(odd, WARP, width)
    source = _source_lane(e.kind, lane, arg, width)
    source_thread = thread - lane + source
    position = lanes - lane + source
    missing = (source_thread >= threads) | ~active[np.minimum(position, frame.n - 1)]
    full = np.zeros((frame.n, *value.shape[1:]), value.dtype)
    put(full, lanes, value)
    out = picked(full, np.where(missing, lanes, position))
    if count_true(missing):
        state.doubt(scalar_of(e.value.type))
        poison = state.domain.poison(scalar_of(e.value.type), 1, state.seed)[0]
        out[missing] = poison
    return out


def _check_mask(state, frame: Frame, act: Active, lanes, thread, lane, mask, active) -> None:
    """Every named lane that has not exited must be here, and every lane here must be named."""
    if not state.sanitize:
        return
    unnamed = (mask >> lane) & 1 == 0
    if count_true(unnamed):
        state.report("warp-divergence", "a lane takes part that the mask does not name", frame, act, unnamed)
    gone = np.zeros(frame.n, bool) if frame.exited is None else frame.exited
    elsewhere = np.flatnonzero(~active & ~gone)
    threads = state.geometry.threads
    if len(elsewhere):
        other_lane = (elsewhere + state.first_thread) % threads % WARP
        waiting = bits_per_warp(elsewhere, other_lane, np.ones(len(elsewhere), bool), frame.n)
        absent = (mask & waiting[lanes - lane]) != 0
        if absent.any():
            message = "the mask names lanes that are in another branch or iteration"
            state.report("warp-divergence", message, frame, act, absent)


def bits_per_warp(lanes, lane, flags, n: int) -> np.ndarray:
    """At index (first lane of a warp): the word of its lanes' flags."""
    words = np.zeros(n, np.int64)
    np.bitwise_or.at(words, lanes - lane, flags.astype(np.int64) << lane)
    return words


def _over_mask(kind: str, value, mask, lanes, lane, n: int):
    """Matches and reductions: every lane looks at the values of the lanes in its ``mask``."""
    full = np.zeros(n + WARP, value.dtype)
    full[lanes] = value
    combine = COMBINE.get(WARP_REDUCTIONS.get(kind, ""))
    same, total = np.zeros(len(lanes), np.int64), None
    for i in range(WARP):
        other, named = full[lanes - lane + i], (mask >> i) & 1 == 1
        if combine is None:
            same |= np.where(named & (other == full[lanes]), np.int64(1) << i, 0)
        elif total is None:
            total, seen = other.copy(), named.copy()
        else:
            total = np.where(named, np.where(seen, combine(total, other), other), total)
            seen |= named
    if combine is not None:
        return total
    return np.where(same == mask, mask, 0).astype(np.uint32) if kind == "match_all" else same.astype(np.uint32)


COMBINE = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def _vote(kind: str, value, mask, lanes, lane, n: int):
    words = bits_per_warp(lanes, lane, value, n)[lanes - lane] & mask
    if kind == "ballot":
        return words.astype(np.uint32)
    if kind == "any":
        return words != 0
    everyone = bits_per_warp(lanes, lane, np.ones(len(lanes), bool), n)[lanes - lane] & mask
    return words == everyone
