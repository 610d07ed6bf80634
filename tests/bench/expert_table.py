"""The contests of ``expert.py``: which kernels, which script templates, which rivals, which target. A row a kernel.

Templates are scripts with open knobs, tuned in the run; what a run committed beside the kernel (``expert*.ktp``) races
too. Names of loops are those that ``ktc lower KERNEL -p raise --emit ir`` shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.expert_hgemm import HGEMM

ROW = "[vec $V, thread.x $T, unroll $U]"
SWEEP = "[vec $V, thread.x $T, seq]"
FLAT = "[vec $V, thread.x $T, unroll $U, block.x]"
ONLINE = f"raise | online-reduction{{loop=i map={ROW}}} | fast-math{{fns=exp,div}}"
BOUNDS = "launch-bounds{blocks=$M:(2,3)}"
FAST = "fast-math{fns=exp,div,tanh}"
SQUARE_512 = (("square-512", {"m": 512, "n": 512, "k": 512}),)
MID = (("mid-2560x6144", {"rows": 2560, "cols": 6144}),)
SQUARE_8192 = (("square-8192", {"m": 8192, "n": 8192, "k": 8192}),)


@dataclass(frozen=True)
class Entry:
    """One kernel of the contest.

    ``folder`` below ``kernels/``; ``templates`` are tuned with the run's budget; ``rivals`` name functions of
    ``rivals.torch_functions`` (``X`` eager, ``X:compile`` through torch.compile). ``unit`` is what the work is counted
    in: ``bytes`` (floor: the measured copy bandwidth) or ``flops`` over the workload's sizes, as in ``2 * m * n * k``.
    ``beyond`` are scenarios of this contest alone, for the source takes seconds.
    ``target`` is the fraction asked of the floor, or of the fastest library rival where ``unit`` is an expression.
    """

    folder: str
    templates: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    variant: str = ""
    target: float = 0.90
    unit: str = "bytes"
    beyond: tuple[tuple[str, Mapping[str, int]], ...] = ()

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2] + (f" {self.variant}" if self.variant else "")


def _both(name: str) -> tuple[str, ...]:
    return (name, f"{name}:compile")


def _rows(loop: str, *more: str) -> tuple[str, ...]:
    """The ways of a row kernel: kept in registers, kept in shared memory, read again."""
    tail = "".join(f" | {m}" for m in more)
    cached = [
        f"distribute{{loop={loop} map={m}}} | row-cache{{loop={loop} where={w} keep={k}}}"
        for m, w in ((ROW, "registers"), (SWEEP, "shared"))
        for k in ("computed", "loaded")
    ]
    side = "distribute{loop=block_x map=[thread.y $ROWS:(2,4,8), block.x]}"
    short = f"distribute{{loop={loop} map=[vec $V, thread.x 32, unroll $U:(1,2,4,8)]}} | {side}"
    held = f"distribute{{loop={loop} map={ROW}}} | row-cache{{loop={loop} keep=loaded}}"
    cached += [
        f"{held} | launch-bounds{{blocks=$M:(2,3)}}",
        f"{short} | row-cache{{loop={loop} keep=loaded}}",
        f"{short} | row-cache{{loop={loop} keep=computed}}",
    ]
    return tuple(f"raise | {s}{tail}" for s in (*cached, f"distribute{{loop={loop} map={SWEEP}}}"))


def _gate(rows: str, loop: str) -> tuple[str, ...]:
    """The ways of a streaming kernel over rows: a block per row, or rows cut over blocks."""
    return (
        f"raise | distribute{{loop={loop} map={ROW}}} | {FAST}",
        f"raise | distribute{{loop={loop} map=[vec $V, thread.x $T, unroll $U, block.y]}} | {FAST}",
    )


def _whole(loop: str) -> tuple[str, ...]:
    """A sum over everything, by some number of resident blocks."""
    grid = "block.x $P:(132,264,528,792,1056)"
    maps = (
        f"[vec $V, thread.x $T, {grid}, seq]",
        f"[vec $V, thread.x $T, unroll $U:(2,4,8), {grid}, seq]",
        "[vec $V, thread.x $T, unroll $U:(2,4,8), seq $S:(1,2,4,8), block.x]",
    )
    sums = tuple(f"raise | split-reduction{{loop={loop} map={m}}}" for m in maps)
    return (*(f"{s} | reduce-strategy{{loop=i strategy=atomic}}" for s in sums), *sums[:2])


def _sgemm(tm: int, tn: int, tk: int, row: str, col: str, pipe: str, blocks: int) -> str:
    """A product in tiles of ``tm x tn``: A transposed into shared memory, a pipeline of two or more, registers in
    halves."""
    ahead = {
        "prefetch": "multi-buffer{loop=k_tile stages=2} | prefetch{loop=k_tile}",
        "async": "async-copy{loop=k_tile.*} | multi-buffer{loop=k_tile stages=2}",
        "spread": "async-copy{loop=k_tile.*} | multi-buffer{loop=k_tile stages=$STAGES:(2,3,4) issue=spread}",
    }[pipe]
    return (
        f"raise | tile{{loops=row,col sizes={tm},{tn}}}"
        " | distribute{loop=row map=[seq]} | distribute{loop=col map=[seq]}"
        f" | distribute{{loop=row map=[{row}]}} | distribute{{loop=col map=[{col}]}}"
        f" | tile{{loops=k sizes={tk} tail=cut}} | register-tile{{loop=k_tile.*}}"
        " | stage-shared{array=A loop=k_tile.* transpose=yes} | stage-shared{array=B loop=k_tile.* vec=4}"
        f" | pad-shared{{array=A_s by=4}} | {ahead} | unroll{{loop=k.* factor={tk}}}"
        f" | launch-bounds{{blocks={blocks}}}"
    )


SGEMM = (
    _sgemm(128, 256, 16, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 4", "spread", 1),
    _sgemm(128, 128, 16, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 8, unroll 4", "spread", 2),
    _sgemm(96, 128, 8, "vec 4, thread.y 8, unroll 3", "vec 4, thread.x 8, thread.z 2, unroll 2", "spread", 3),
    _sgemm(80, 128, 8, "vec 4, thread.y 4, unroll 5", "vec 4, thread.x 8, thread.z 2, unroll 2", "spread", 3),
    _sgemm(64, 128, 16, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 2", "spread", 3),
    _sgemm(64, 64, 16, "vec 4, thread.y 8, thread.z 2", "vec 4, thread.x 8, unroll 2", "spread", 4),
    _sgemm(32, 32, 32, "vec 2, thread.y 16", "vec 4, thread.x 8", "async", 2),
    _sgemm(32, 64, 32, "vec 4, thread.y 8", "vec 4, thread.x 16", "async", 2),
    _sgemm(32, 64, 32, "vec 4, thread.y 8", "vec 4, thread.x 16", "spread", 2),
    _sgemm(16, 32, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", "async", 2),
    _sgemm(16, 32, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", "spread", 2),
)


def _transpose(sizes: str, row: str, col: str, vec: int, *more: str) -> str:
    """Through a padded tile: read along its rows, written along its columns."""
    script = (
        f"raise | tile{{loops=row,col sizes={sizes}}} | distribute{{loop=row map=[seq]}}"
        f" | distribute{{loop=col map=[{col}]}} | distribute{{loop=row map=[{row}]}}"
        f" | stage-shared{{array=in loop=col_tile vec={vec}}} | pad-shared{{array=in_s by=$PAD:(1,4)}}"
    )
    return " | ".join((script, *more))


STREAM = "cache-hints{loads=in load=cs stores=out}"
TRANSPOSE = (
    _transpose("32,32", "thread.x 32", "thread.y 8, unroll 4", 1),
    _transpose("64,64", "thread.x 32, unroll 2", "thread.y 8, unroll 8", 1),
    _transpose("64,64", "thread.x 32, unroll 2", "thread.y 16, unroll 4", 4),
    _transpose("64,64", "vec 4, thread.x 16", "thread.y 16, unroll 4", 4),
    _transpose("64,64", "vec 2, thread.x 32", "thread.y 8, unroll 8", 4),
    _transpose("32,32", "vec 4, thread.x 8", "thread.y 32", 4),
    _transpose("32,64", "thread.x 32", "thread.y 8, unroll 8", 4),
    _transpose("64,32", "vec 2, thread.x 32", "thread.y 8, unroll 4", 4),
    _transpose("32,32", "thread.x 32", "thread.y 8, unroll 4", 1, STREAM),
    _transpose("64,64", "vec 2, thread.x 32", "thread.y 8, unroll 8", 4, STREAM),
    _transpose("64,32", "vec 2, thread.x 32", "thread.y 8, unroll 4", 4, STREAM),
    _transpose("32,32", "vec 4, thread.x 8", "thread.y 16, unroll 2", 4, STREAM),
    _transpose("32,32", "vec 4, thread.x 8", "thread.y 32", 4, STREAM),
    _transpose("32,64", "thread.x 32", "thread.y 16, unroll 4", 4, STREAM),
    _transpose("64,64", "vec 4, thread.x 16", "thread.y 32, unroll 2", 4, STREAM),
    _transpose("32,32", "vec 2, thread.x 16", "thread.y 16, unroll 2", 2, STREAM),
    _transpose("16,32", "vec 4, thread.x 4", "thread.y 32", 4, STREAM),
    _transpose("32,16", "vec 4, thread.x 8", "thread.y 16", 4, STREAM),
)
ALONG = "distribute{loop=%s map=[thread.x $TX:(64,128,256), block.x] align=32}"
ACROSS = "distribute{loop=%s map=[unroll $U:(2,3,4,6), seq $S:(1,2), thread.y $TY:(1,2,4), block.y] tail=cut}"
BARE = "distribute{loop=%s map=[block.%s]}"
COLUMNS = "raise | distribute{loop=j map=[vec $V:(2,4,8), thread.x $TX:(16,32,64), block.x]}"
CHUNKS = "seq $S:(1,2,4,8,16), block.y"
PARTS = "block.y $P:(8,16,24,32,48,64,128)"
SMALL = "distribute{loop=%s map=[unroll $U:(1,2), thread.y $TY:(1,2,4,8), block.y]}"
NARROW = "distribute{loop=%s map=[thread.x $TX:(32,64,128), block.x]}"
DEEP = "distribute{loop=%s map=[unroll $UZ:(2,3,4), block.z] tail=cut}"


def _plane(row: str, col: str) -> tuple[str, ...]:
    """A sweep over a plane: rows from an aligned start and whole rounds, or small blocks where the plane is small."""
    return (
        f"raise | {BARE % (row, 'y')} | {ALONG % col} | {ACROSS % row}",
        f"raise | {BARE % (row, 'y')} | {NARROW % col} | {SMALL % row}",
    )


ENTRIES: tuple[Entry, ...] = (
    Entry("dense/hgemm", HGEMM, ("hgemm",), target=0.85, unit="2 * m * n * k", beyond=SQUARE_8192),
    Entry(
        "serving/silu_and_mul",
        _gate("token_idx", "idx"),
        _both("silu_and_mul"),
        target=0.93,
        beyond=(("batch-512x11008", {"n": 512, "d": 11008}),),
    ),
    Entry("serving/gelu_and_mul", _gate("token", "i"), _both("gelu_and_mul"), target=0.93),
    Entry(
        "serving/rope",
        (
            "raise | distribute{loop=token map=[block.z]}"
            " | distribute{loop=head map=[thread.y $ROWS:(2,4,8,16,32), block.x]}"
            " | distribute{loop=token map=[block.y]}"
            " | distribute{loop=i map=[vec $V:(2,4,8), thread.x $LANES:(4,8,16,32)]}",
            "raise | distribute{loop=token map=[block.z]}"
            " | distribute{loop=head map=[thread.y $ROWS:(2,4,8,16,32), unroll $HEADS:(2,4), block.x]}"
            " | distribute{loop=token map=[block.y]}"
            " | distribute{loop=i map=[vec $V:(2,4,8), thread.x $LANES:(4,8,16,32)]}",
        ),
        _both("rope"),
        target=0.93,
    ),
    Entry(
        "serving/merge_attn_states",
        (
            "raise | distribute{loop=token_idx map=[block.z]}"
            " | distribute{loop=head_idx map=[thread.y $ROWS:(2,4,8,16), block.x]}"
            " | distribute{loop=token_idx map=[block.y]}"
            " | distribute{loop=i map=[vec $V:(4,8), thread.x $LANES:(8,16,32,64)]} | fast-math{fns=exp,log,div}",
        ),
        _both("merge_attn_states"),
    ),
    Entry("serving/quant_int8", _rows("i.*"), _both("quant_int8"), target=0.93),
    Entry("serving/quant_fp8", _rows("i.*"), _both("quant_fp8"), target=0.93),
    Entry("serving/rmsnorm", _rows("i.*"), _both("rmsnorm")),
    Entry("serving/fused_add_rmsnorm", _rows("i.*"), _both("fused_add_rmsnorm")),
    Entry("training/layernorm", _rows("i.*"), _both("layernorm")),
    Entry("training/softmax", _rows("i.*", FAST), _both("softmax")),
    Entry("training/cross_entropy", (*_rows("i.*", FAST), ONLINE, f"{ONLINE} | {BOUNDS}"), _both("cross_entropy")),
    Entry(
        "training/column_sum",
        (
            f"{COLUMNS} | split-reduction{{loop=i map=[unroll $U:(1,4,8), thread.y $TY:(4,8,16,32), {PARTS}, seq]}}",
            f"{COLUMNS} | split-reduction{{loop=i map=[unroll $U:(4,8), thread.y $TY:(8,16,32), {CHUNKS}]}}",
        ),
        _both("column_sum"),
        target=0.85,
    ),
    Entry(
        "basic/cumsum",
        (
            "raise | distribute{loop=r map=[block.x]}"
            " | scan{loop=i map=[vec $V:(2,4), thread.x $T:(128,256,512,1024), unroll $U:(1,2,4,8), seq]}",
            "raise | distribute{loop=r map=[block.y]} | scan{loop=i"
            " map=[vec 4, thread.x $T:(256,512), unroll $U:(2,4,8), block.x $BLOCKS:(16,25,132,264,396), seq]}"
            " | launch-bounds{blocks=$M:(1,2,3)} | cache-hints{loads=x load=cs stores=out}",
        ),
        _both("cumsum"),
        target=0.85,
        beyond=(
            ("row-1x67108864", {"n": 1, "d": 67108864}),
            ("row-1x10000000", {"n": 1, "d": 10000000}),
            ("rows-16x4194304", {"n": 16, "d": 4194304}),
        ),
    ),
    Entry(
        "basic/histogram",
        (
            "raise | tile{loops=i sizes=$CHUNK:(65536,131072,262144,1048576)}"
            " | distribute{loop=i map=[vec $V:(8,16), thread.x $T:(256,512,1024), seq]}"
            " | privatize-atomics{array=count bins=256 copies=$C:(1,4,16,32)}",
        ),
        ("histogram",),
        target=0.85,
    ),
    Entry("basic/sum", _whole("tid"), _both("sum"), target=0.85),
    Entry("basic/dot", _whole("tid"), _both("dot"), target=0.85),
    Entry("dense/saxpy", (f"raise | distribute{{loop=i map={FLAT}}}",), _both("saxpy"), target=0.93),
    Entry("basic/axpby", (f"raise | distribute{{loop=i map={FLAT}}}",), _both("axpby"), target=0.93),
    Entry("dense/sgemm", SGEMM, ("sgemm",), target=0.85, unit="2 * m * n * k", beyond=SQUARE_8192),
    Entry("dense/transpose", TRANSPOSE, _both("transpose"), target=0.93, beyond=MID),
    Entry("dense/sgemm_tiled", SGEMM, ("sgemm",), target=0.85, unit="2 * m * n * k", beyond=SQUARE_512),
    Entry("dense/transpose_tiled", (), _both("transpose"), target=0.93),
    Entry("stencil/jacobi2d", _plane("y", "x"), target=0.85),
    Entry("stencil/hotspot", _plane("row", "col"), target=0.85),
    Entry(
        "stencil/heat3d",
        (
            f"raise | {BARE % ('z', 'z')} | {BARE % ('y', 'y')} | {ALONG % 'x'} | {ACROSS % 'y'} | {DEEP % 'z'}",
            f"raise | {BARE % ('z', 'z')} | {BARE % ('y', 'y')} | {NARROW % 'x'} | {SMALL % 'y'}",
        ),
        target=0.85,
    ),
)
