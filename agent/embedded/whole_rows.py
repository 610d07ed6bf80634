"""A row whose length is known, held by the threads of a block: how many elements each of them then has.

A row of ``n`` elements is in the registers of ``T`` threads, ``V`` of its elements an access, where each thread takes
``U`` of these, just enough to reach its end. Rows that need more than a few rounds are *long*: what else a thread holds
is then little beside the row, and what the registers of a compute unit hold is the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ktc.ir.launch_limits import MAX_BLOCK_THREADS, WARP

THREADS = tuple(t for t in (32, 64, 128, 256, 512, 1024) if t <= MAX_BLOCK_THREADS)

WIDTHS, WIDEST_BYTES = (1, 2, 4, 8, 16), 16
"""Elements of an access, and its bytes at most."""

ROUNDS = 8
"""Accesses that a thread has in flight at most where rows are short enough for it."""

UNIT_BYTES = 256 << 10
"""Registers of a compute unit, in bytes: 65,536 of them on every NVIDIA architecture since 2012."""

THREAD_BYTES = 256
"""What a thread keeps of a long row: a quarter of the registers that it can name, for it computes with each element."""

REGISTER = 4
"""Bytes of a register: what an access of fewer takes all the same."""

OTHER_BYTES = 56
"""What a thread holds beside a long row: addresses, sizes, results."""


@dataclass(frozen=True)
class Whole:
    """``threads`` and ``unroll``: the levels that take a row's threads to its end; ``where``: the constraints on the
    knobs ``V``, the threads and ``U``; ``long``: whether it takes many rounds."""

    threads: str
    unroll: str
    where: str
    long: bool


def exact_threads(n: int, size: int, usual: Iterable[int]) -> tuple[int, ...]:
    """``usual`` numbers of threads, and those warps of which take rows of ``n`` elements of ``size`` bytes in a few
    rounds of the widest accesses without a rest: of rows of 768 floats, 96 threads have two accesses each, and of 128
    threads every second one had one for nothing."""
    v = max(v for v in WIDTHS if v * size <= WIDEST_BYTES and n % v == 0)
    exact = (t for t in range(WARP, MAX_BLOCK_THREADS + 1, WARP) if n % (v * t) == 0 and n // (v * t) <= ROUNDS)
    return tuple(sorted({*usual, *exact}))


def whole_row(
    n: int, size: int, wide: bool = True, threads: str = "T", choices: Sequence[int] | None = None
) -> Whole | None:
    """The levels for rows of ``n`` elements of ``size`` bytes, in single accesses unless ``wide``, by as many threads
    as the knob ``threads`` says (or that many, if it is a number), one of ``choices`` if these are given; None where a
    block cannot hold such a row."""
    widths = [v for v in WIDTHS if v * size <= WIDEST_BYTES and n % v == 0] if wide else [1]
    fixed = choices is not None
    choices = choices or (exact_threads(n, size, THREADS) if wide else THREADS)
    points = {(v, t, -(-n // (v * t))) for v in widths for t in choices if v * t < 2 * n}
    few = {p for p in points if p[2] <= ROUNDS}
    long = {(v, t, u) for v, t, u in points if _in_registers(v, t, u, size)}
    found = few or long
    if not found:
        return None
    v = "V * " if wide else ""
    where = f" where {v}{threads} * U < {2 * n} where {v}{threads} * (U - 1) < {n}"
    if not few:
        for access in (f"{v}{size}", f"{REGISTER}")[: 1 + (size < REGISTER)]:
            where += f" where {access} * U <= {THREAD_BYTES}"
            where += f" where {threads} * ({access} * U + {OTHER_BYTES}) <= {UNIT_BYTES}"
    rounds = sorted({u for _, _, u in found})
    domain = "" if set(rounds) <= {1, 2, 4, 8} else f":({','.join(map(str, rounds))})"
    counts = "" if fixed or choices == THREADS else f":({','.join(map(str, choices))})"
    level = f"thread.x {threads}" if threads.isdigit() else f"thread.x ${threads}{counts}"
    return Whole(level, f"unroll $U{domain}", where, not few)


def _in_registers(v: int, t: int, u: int, size: int) -> bool:
    held = u * max(v * size, REGISTER)
    return held <= THREAD_BYTES and t * (held + OTHER_BYTES) <= UNIT_BYTES


__all__ = ["Whole", "exact_threads", "whole_row"]
