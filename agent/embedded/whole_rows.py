"""A row whose length is known, held by the threads of a block: how many elements each of them then has.

A row of ``n`` elements is in the registers of ``T`` threads, ``V`` of its elements an access, where each thread takes
``U`` of these, just enough to reach its end. Rows that need more than a few rounds are *long*: what else a thread holds
is then little beside the row, and what the registers of a compute unit hold is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.launch_limits import MAX_BLOCK_THREADS

THREADS = tuple(t for t in (32, 64, 128, 256, 512, 1024) if t <= MAX_BLOCK_THREADS)

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
    """``unroll``: the level that takes each thread to the row's end; ``where``: the constraints on the knobs ``V``, the
    threads and ``U``; ``long``: whether it takes many rounds."""

    unroll: str
    where: str
    long: bool


def whole_row(
    n: int, size: int, wide: bool = True, threads: str = "T", choices: tuple[int, ...] = THREADS
) -> Whole | None:
    """The level for rows of ``n`` elements of ``size`` bytes, in single accesses unless ``wide``, by as many threads as
    the knob ``threads`` says, one of ``choices``; None where a block cannot hold such a row."""
    widths = [v for v in (1, 2, 4, 8, 16) if v * size <= 16 and n % v == 0] if wide else [1]
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
    return Whole(f"unroll $U{domain}", where, not few)


def _in_registers(v: int, t: int, u: int, size: int) -> bool:
    held = u * max(v * size, REGISTER)
    return held <= THREAD_BYTES and t * (held + OTHER_BYTES) <= UNIT_BYTES


__all__ = ["Whole", "whole_row"]
