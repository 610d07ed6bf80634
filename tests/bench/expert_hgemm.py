"""Templates of half-precision products: by warps (mma, fragments by matrix loads) and by warpgroups (wgmma)."""

from __future__ import annotations


def _pipeline(tm: str, tn: str, tk: int, tail: str, tensorize: str, stages: str, rest: str = "") -> str:
    every = ".*" if tail == "cut" else ""  # whole tiles, and what is left after them
    return (
        f"raise | tile{{loops=row,col sizes={tm},{tn}}} | tile{{loops=k sizes={tk} tail={tail}}}"
        f" | register-tile{{loop=k_tile{every}}} | tensorize{{loop=k{every} {tensorize} pairs=yes}}"
        f" | stage-shared{{array=A loop=k_tile{every} vec=8}} | stage-shared{{array=B loop=k_tile{every} vec=8}}"
        f" | async-copy{{loop=k_tile}} | multi-buffer{{loop=k_tile stages={stages}{rest}}}"
    )


def _by_warps(tm: int, tn: int, tk: int, warps: str, stages: str, tail: str = "cut") -> str:
    script = _pipeline(str(tm), str(tn), tk, tail, f"warps={warps}", stages)
    return script + " | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"


def _by_warpgroups(tm: int, tn: int, n: int, warps: str, stages: str) -> str:
    fragment = f"fragment=m64n{n}k16_f16 warps={warps}"
    script = _pipeline(str(tm), str(tn), 64, "exact", fragment, stages, " slack=1")  # products stay in flight
    return script + " | panel-shared{array=B_s} | swizzle-shared{array=A_s} | swizzle-shared{array=B_s}"


def _by_producer(tm: int, tn: int, tensorize: str, stages: str) -> str:
    """A thread beside the block copies whole boxes; results leave over the memory of the second factor's tiles."""
    script = _pipeline(str(tm), str(tn), 64, "exact", tensorize, stages, " by=producer")
    script += " | stage-store{array=C over=B_s} | panel-shared{array=B_s} | swizzle-shared{array=A_s}"
    return script + " | swizzle-shared{array=B_s} | block-swizzle{loop=row_tile group=$GROUP:(4,8,16)}"


BY_PRODUCER = (
    _by_producer(128, 256, "fragment=m64n256k16_f16 warps=2,1", "$STAGES:(3,4)"),
    _by_producer(128, 192, "fragment=m64n192k16_f16 warps=2,1", "$STAGES:(4,5)"),
    _by_producer(64, 192, "fragment=m64n192k16_f16 warps=1,1", "$STAGES:(4,6,7)"),
    _by_producer(64, 128, "fragment=m64n128k16_f16 warps=1,1", "$STAGES:(4,8)"),
    _by_producer(128, 256, "warps=2,4", "$STAGES:(3,4)"),
)
BY_WARPS = (
    _by_warps(128, 128, 32, "2,2", "$STAGES:(3,4,5)"),
    _by_warps(128, 256, 64, "2,4", "$STAGES:(3,4)", "exact"),
    _by_warps(64, 128, 64, "2,2", "$STAGES:(3,4)", "exact"),
    _by_warps(64, 64, 64, "2,2", "$STAGES:(3,4)", "exact"),
)
BY_WARPGROUPS = (
    _by_warpgroups(256, 128, 128, "4,1", "$STAGES:(3,4)"),
    _by_warpgroups(128, 256, 256, "2,1", "$STAGES:(3,4)"),
    _by_warpgroups(128, 128, 128, "2,1", "$STAGES:(3,4,5)"),
    _by_warpgroups(64, 128, 128, "1,1", "$STAGES:(4,5)"),
)
HGEMM = (*BY_PRODUCER, *BY_WARPS, *BY_WARPGROUPS)
