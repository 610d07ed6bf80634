"""The contests of ``expert.py``: which kernels, which script templates, which rivals, which target. A row a kernel.

Templates are scripts with open knobs, tuned in the run; what a run committed beside the kernel (``expert*.ktp``) races
too. Names of loops are those that ``ktc lower KERNEL -p raise --emit ir`` shows.
"""

from __future__ import annotations

from dataclasses import dataclass

ROW = "[vec $V, thread.x $T, unroll $U]"
SWEEP = "[vec $V, thread.x $T, seq]"
FLAT = "[vec $V, thread.x $T, unroll $U, block.x]"
FAST = "fast-math{fns=exp,div,tanh}"


@dataclass(frozen=True)
class Entry:
    """One kernel of the contest.

    ``folder`` below ``kernels/``; ``templates`` are tuned with the run's budget; ``rivals`` name functions of
    ``rivals.torch_functions`` (``X`` eager, ``X:compile`` through torch.compile). ``unit`` is what the work is counted
    in: ``bytes`` (floor: the measured copy bandwidth) or ``flops`` over the workload's sizes, as in ``2 * m * n * k``.
    ``target`` is the fraction asked of the floor, or of the fastest library rival where ``unit`` is an expression.
    """

    folder: str
    templates: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    variant: str = ""
    target: float = 0.90
    unit: str = "bytes"

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
    grid = "block.x $P:(132,264,528,1056)"
    return (
        f"raise | split-reduction{{loop={loop} map=[vec $V, thread.x $T, {grid}, seq]}}",
        f"raise | split-reduction{{loop={loop} map=[vec $V, thread.x $T, unroll $U:(2,4,8), {grid}, seq]}}",
    )


ENTRIES: tuple[Entry, ...] = (
    Entry("serving/silu_and_mul", _gate("token_idx", "idx"), _both("silu_and_mul"), target=0.93),
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
    Entry("serving/quant_int8", _rows("i"), _both("quant_int8"), target=0.93),
    Entry("serving/quant_fp8", _rows("i"), _both("quant_fp8"), target=0.93),
    Entry("serving/rmsnorm", _rows("i"), _both("rmsnorm")),
    Entry("serving/fused_add_rmsnorm", _rows("i"), _both("fused_add_rmsnorm")),
    Entry("training/layernorm", _rows("i"), _both("layernorm")),
    Entry("training/softmax", _rows("i", FAST), _both("softmax")),
    Entry("training/cross_entropy", _rows("i", FAST), _both("cross_entropy")),
    Entry(
        "training/column_sum",
        (
            "raise | distribute{loop=j map=[vec $V:(2,4,8), thread.x $TX:(16,32,64), block.x]}"
            " | split-reduction{loop=i map=[thread.y $TY:(4,8,16,32), block.y $P:(8,16,32,64,128), seq]}",
            "raise | distribute{loop=j map=[vec $V:(2,4,8), thread.x $TX:(16,32,64), block.x]}"
            " | split-reduction{loop=i map=[unroll 4, thread.y $TY:(4,8,16), block.y $P:(8,16,32,64,128), seq]}",
        ),
        _both("column_sum"),
        target=0.85,
    ),
    Entry("basic/sum", _whole("tid"), _both("sum"), target=0.85),
    Entry("basic/dot", _whole("tid"), _both("dot"), target=0.85),
    Entry("dense/saxpy", (f"raise | distribute{{loop=i map={FLAT}}}",), _both("saxpy"), target=0.93),
    Entry("basic/axpby", (f"raise | distribute{{loop=i map={FLAT}}}",), _both("axpby"), target=0.93),
)
