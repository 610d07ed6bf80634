"""What a proof may rest on beside the program itself: each assumption by name, and off unless somebody says so.

====================  ==========================================================  ===================================
assumption            what it says                                                who may make it
====================  ==========================================================  ===================================
``no_overflow``       signed arithmetic of 32 bits and more has a value: C        all: the source language says so, of
                      leaves its overflow undefined                               what the source computes
``origins``           whose facts of parameters, and whose assumptions, count     rewrites: all (a launcher tests what
                                                                                  nobody vouches for); texts without a
                                                                                  launcher: those that are vouched for
``parameters``        the facts of parameters (ranges, divisors) hold at all      texts whose launcher checks them, and
                                                                                  rewrites, whose launcher does
``no_wrap``           unsigned arithmetic of 32 bits and more, and conversions    subscripts, which number elements, as
                      between such types, keep the number                         :mod:`.polynomial` has them; never
                                                                                  what a guard compares
``no_borrow``         as ``no_wrap`` goes, differences are not negative, and      subscripts, as above; never guards:
                      no negative number is converted to such a type              ``unsigned(i - 3) < n`` asks for it
``counters``          counters of loops that add to themselves do not wrap        formulas of subscripts, as above
``threads``           the most threads of one axis of a launch                    texts whose launcher checks it
``indices``           arithmetic of hardware indices alone numbers threads or     rewrites of index arithmetic: sums and
                      blocks: it does not wrap, and stays below 2^31              products that number threads
``launch``            blocks and grids are as large as the kernel's launch says   kernels in a form that owns its launch
``bound_knobs``       knobs that are bound keep their values                      lowering: what it gives has no others
``block_threads``     the most threads of a block                                 all: :mod:`ktc.ir.launch_limits`
``grid_blocks``       the most blocks of one axis of a grid                       all, as above
====================  ==========================================================  ===================================
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fact_origins import ORIGINS, VOUCHED
from ktc.ir.launch_limits import MAX_BLOCK_THREADS, MAX_GRID


@dataclass(frozen=True)
class Trust:
    """The assumptions of a proof, which the table of this module explains."""

    no_overflow: bool = True
    origins: frozenset[str] = VOUCHED
    parameters: bool = False
    threads: int | None = None
    indices: bool = False
    no_wrap: bool = False
    no_borrow: bool = False
    counters: bool = False
    launch: bool = False
    bound_knobs: bool = False
    block_threads: int = MAX_BLOCK_THREADS
    grid_blocks: int = MAX_GRID[0]


ANY_LAUNCH = Trust()
"""Of a text that anybody may launch as he likes, with any arguments."""

REWRITES = Trust(origins=frozenset(ORIGINS), parameters=True, indices=True)
"""Of a rewrite: a launcher tests what nobody vouches for, and the index arithmetic of a source numbers threads."""

LOWERING = Trust(origins=frozenset(ORIGINS), parameters=True, indices=True, bound_knobs=True)
"""Of the rewrite of loops into threads: knobs that are bound keep their values."""

LOWERED = Trust(origins=frozenset(ORIGINS), parameters=True, indices=True, bound_knobs=True, launch=True)
"""Of what lowering makes of a kernel, which is launched as it says."""

__all__ = ["ANY_LAUNCH", "LOWERED", "LOWERING", "REWRITES", "Trust"]
