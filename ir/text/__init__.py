"""The text form of the IR (``.ktir``): prints, and parses back to an equal tree.

kernel silu_and_mul(out: f16* restrict, input: f16 const* restrict, d: i32, host num_tokens: i32)
  launch grid(num_tokens) block(1024)
  knob $V in {1, 2, 4, 8} default 4
  par token in 0..num_tokens @ [block.x]
    par i in 0..d @ [vec $V, thread.x 128, seq]
      let x: f32 = input[token * 2 * d + i]
      let y: f32 = input[token * 2 * d + d + i]
      out[token * d + i] = f16(x / (1.0 + exp(-x)) * y)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .naming import canonical, symbols, unique_names
from .printer import Printer, print_body, print_expr, print_kernel, print_stmt, print_type
from .stable_names import by_stem, named_apart

if TYPE_CHECKING:
    from ktc.ir.kernel import Kernel
    from ktc.ir.nodes import Expr, Knob, Sym


def parse_kernel(text: str, file: str = "<ktir>") -> Kernel:
    """See :func:`ktc.ir.text.ktir_parser.parse_kernel`; lark is loaded on first use."""
    from . import ktir_parser

    return ktir_parser.parse_kernel(text, file)


def parse_expr(text: str, symbols: Mapping[str, Sym | Knob], file: str = "<expression>") -> Expr:
    """See :func:`ktc.ir.text.ktir_parser.parse_expr`; lark is loaded on first use."""
    from . import ktir_parser

    return ktir_parser.parse_expr(text, symbols, file)


__all__ = [
    "Printer", "by_stem", "canonical", "named_apart", "parse_expr", "parse_kernel", "print_body",
    "print_expr", "print_kernel", "print_stmt", "print_type", "symbols", "unique_names",
]  # fmt: skip
