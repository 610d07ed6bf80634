"""What the serving kernels are compared with: torch.compile, and hand-written kernels in today's style.

Every rival takes the workload's arguments by name, as device arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HAND = Path(__file__).parent / "hand"
Args = Mapping[str, Any]


def torch_functions() -> dict[str, Callable[..., Any]]:
    """Eager PyTorch functions of the serving kernels; inputs are tensors, in-place ones are updated."""
    import torch

    def silu_and_mul(a: Args) -> Any:
        d = a["input"].shape[-1] // 2
        x, y = a["input"][..., :d].float(), a["input"][..., d:].float()
        return (torch.nn.functional.silu(x) * y).to(a["input"].dtype)

    def fused_add_rmsnorm(a: Args) -> Any:
        x = a["input"].float() + a["residual"].float()
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * a["weight"].float()
        a["residual"].copy_(x.to(a["residual"].dtype))
        a["input"].copy_(y.to(a["input"].dtype))

    def merge_attn_states(a: Args) -> Any:
        la, lb = (torch.where(torch.isinf(a[k]), -float("inf"), a[k]) for k in ("lse_a", "lse_b"))
        m = torch.maximum(la, lb)
        ea, eb = torch.exp(la - m), torch.exp(lb - m)
        s = ea + eb
        pa, pb = ((e / s).transpose(0, 1).unsqueeze(-1) for e in (ea, eb))
        return (pa * a["v_a"].float() + pb * a["v_b"].float()).to(a["v_a"].dtype), torch.log(s) + m

    return {f.__name__: f for f in (silu_and_mul, fused_add_rmsnorm, merge_attn_states)}


Launch = tuple[str, tuple[int, int, int], tuple[int, int, int], tuple[str, ...]]
"""(entry, grid, block, argument names)."""


def hand_launches(kernel: str, s: Mapping[str, int]) -> list[Launch]:
    """The configurations a hand-written kernel is tried in: its best time counts. Empty where it does not apply."""
    blocks = (64, 128, 256, 512, 1024)
    out: list[Launch] = []
    if kernel == "silu_and_mul" and s["d"] % 8 == 0:
        for t in blocks:
            grid = (s["n"], -(-s["d"] // (8 * t)), 1)
            out.append(("silu_and_mul_hand", grid, (t, 1, 1), ("out", "input", "d")))
    if kernel == "fused_add_rmsnorm" and s["hidden"] % 8 == 0:
        for t in blocks[1:]:
            for items in (1, 2, 4):
                if t * 8 * items >= s["hidden"] and (items == 1 or t * 4 * items < s["hidden"]):
                    names = ("input", "residual", "weight", "eps", "hidden_size")
                    out.append((f"fused_add_rmsnorm_hand_{items}", (s["n"], 1, 1), (t, 1, 1), names))
    if kernel == "merge_attn_states" and s["d"] % 8 == 0:
        for t in (64, 128, 256, 512):
            grid = (-(-s["n"] * s["h"] * s["d"] // (8 * t)), 1, 1)
            names = ("out", "out_lse", "v_a", "lse_a", "v_b", "lse_b", "num_tokens", "num_heads", "head_dim")
            out.append(("merge_attn_states_hand", grid, (t, 1, 1), names))
    return out
