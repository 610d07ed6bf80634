"""First steps of scripts, as experts write them: the passes that random steps hardly ever make possible.

``<x; y>`` stands for one of several texts. Steps that are refused are left out, and random ones follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script

Pick = Callable[[Sequence[Any]], Any]

SPREAD = "<vec 4, thread.{axis} 4; thread.{axis} 8; thread.{axis} 4, unroll 2; vec 2, thread.{axis} 4, unroll 2>"
_Y, _X = SPREAD.replace("{axis}", "y"), SPREAD.replace("{axis}", "x")
TILES = (
    "tile{loops=r,c sizes=<8; 16; 32>,<8; 16; 32>} | distribute{loop=r map=[seq]} | distribute{loop=c map=[seq]}"
    f" | distribute{{loop=r map=[{_Y}]}} | distribute{{loop=c map=[{_X}]}}"
    " | tile{loops=k sizes=<4; 8; 16> tail=<guard; cut>} | register-tile{loop=k_tile.*}"
)
STAGED = "stage-shared{array=a loop=k_tile.* transpose=<yes; no>} | stage-shared{array=b loop=k_tile.* vec=<1; 4>}"
ROW = "[vec <1; 2; 4>, thread.x <8; 32>, <unroll 2; unroll 8; seq>]"

OPENINGS: dict[str, tuple[str, ...]] = {
    "product": (
        f"{TILES} | {STAGED} | pad-shared{{array=a_s by=<1; 4>}} | unroll{{loop=k.* factor=4}}",
        f"{TILES} | {STAGED} | multi-buffer{{loop=k_tile stages=<2; 3>}} | prefetch{{loop=k_tile}}",
        f"{TILES} | {STAGED} | async-copy{{loop=k_tile.*}} | multi-buffer{{loop=k_tile stages=<2; 3>}}",
        f"{TILES} | {STAGED} | swizzle-shared{{array=<a_s; b_s>}} | block-swizzle",
        "tensorize{loop=k}",
        "split-reduction{loop=k map=[thread.z <1; 2>, block.z <1; 2; 3>, seq]}",
    ),
    "transpose": (
        "tile{loops=r,j sizes=<8; 16; 32>,<8; 16; 32>} | distribute{loop=r map=[seq]}"
        " | distribute{loop=j map=[<thread.y 8, unroll 4; thread.y 8, seq; thread.y 4, unroll 2, seq>]}"
        " | distribute{loop=r map=[<thread.x 32; thread.x 8, seq; vec 4, thread.x 8>]}"
        " | stage-shared{array=a loop=j_tile vec=<1; 2; 4>}"
        " | <pad-shared{array=a_s by=<1; 2; 4>}; swizzle-shared{array=a_s}>",
    ),
    "stencil": (
        "temporal-block{steps=<1; 2; 3; 5> tile=<2; 4; 8>,<4; 8; 32>}"
        " | distribute{loop=r_t.* map=[<unroll 2, thread.y 2, seq; thread.y 4, seq>]}"
        " | distribute{loop=j_t.* map=[<thread.x 32, seq; vec 2, thread.x 8, seq>]}",
        "distribute{loop=j map=[<thread.x 32, block.x; vec 4, thread.x 8, block.x>] align=<8; 32>}"
        " | distribute{loop=r map=[unroll <2; 3; 4>, seq <1; 2>, thread.y <1; 2>, block.y] tail=<cut; guard>}",
    ),
    "running": (
        "distribute{loop=r map=[<block.x; thread.y 2, block.x>]}"
        " | scan{loop=j map=[vec <1; 2; 4>, thread.x <16; 32; 64>, unroll <1; 2; 4>, seq]}",
    ),
    "columns": (
        "distribute{loop=j map=[vec <1; 2; 4>, thread.x <8; 16>, block.x]}"
        " | split-reduction{loop=r map=[unroll <1; 2>, thread.y <2; 4>, block.y <1; 3; 8>, seq]}"
        " | reduce-strategy{loop=r strategy=<auto; atomic; shared>}",
        "split-reduction{loop=r map=[unroll 2, <seq 2>, block.y]}",
    ),
    "counters": (
        "tile{loops=i sizes=<16; 64; 100>} | distribute{loop=i map=[vec <1; 4>, thread.x 32, seq]}"
        " | privatize-atomics{array=out0 bins=16 copies=<1; 2; 4>}",
        "warp-aggregate",
    ),
    "row passes": ("distribute{loop=r map=[<block.x; thread.y 2, block.x>]} | tile{loops=j sizes=<4; 32>}",),
    "parallel": (
        f"distribute{{loop=i.* map={ROW}}} | row-cache{{loop=i.* where=<registers; shared> keep=<loaded; computed>}}",
        f"online-reduction{{loop=i map={ROW}}}",
        "distribute{loop=i.* map=[vec <2; 4>, thread.x 8, <unroll 2, seq; seq>] align=<8; 16>}",
        "distribute{loop=r map=[<thread.y 2, block.x; seq 2, block.x; warp 2, block.x>]}"
        " | distribute{loop=i.* tail=<guard; cut>"
        " map=[<lane 32, seq; vec 2, lane 32, seq; thread.x 32, unroll 2, seq>]}",
        "fuse | row-cache{loop=i.* where=<registers; shared> keep=<loaded; computed>}",
    ),
    "spmd": (
        f"distribute{{loop=j.* map={ROW}}} | row-cache{{loop=j.* where=<registers; shared> keep=<loaded; computed>}}",
        "distribute{loop=<i.*; j.*> tail=<guard; cut>"
        " map=[<vec 4, thread.x 16; unroll 2, thread.x 32>, <seq; block.x>]}",
        f"online-reduction{{loop=j map={ROW}}}",
    ),
}
"""By form or shape: scripts for a raised kernel."""

_CHOICE = re.compile(r"<([^<>]*)>")


def spell(pick: Pick, text: str) -> str:
    """``text`` with each ``<x; y>`` replaced by one of its texts, inner ones first."""
    while (m := _CHOICE.search(text)) is not None:
        text = text[: m.start()] + pick(tuple(s.strip() for s in m.group(1).split(";"))) + text[m.end() :]
    return text


def opened(kernel: Kernel, pick: Pick, family: str) -> Kernel:
    """``kernel`` after those steps of an opening of ``family`` that are not refused."""
    for step in spell(pick, pick(OPENINGS[family])).split(" | "):
        try:
            done = apply_script(kernel, parse_script(step))
        except KtcError:
            continue
        kernel = done.kernel
    return kernel
