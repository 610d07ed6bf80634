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

    return (
        {f.__name__: f for f in (silu_and_mul, fused_add_rmsnorm, merge_attn_states)}
        | _rows()
        | _vectors()
        | _products()
    )


def _products() -> dict[str, Callable[..., Any]]:
    """Matrix products on tensor cores: PyTorch's are cuBLAS's."""
    import torch

    def hgemm(a: Args) -> Any:
        return torch.matmul(a["A"], a["B"], out=a["C"])

    return {"hgemm": hgemm}


def _rows() -> dict[str, Callable[..., Any]]:
    """Row kernels and gates, as a PyTorch user writes them."""
    import torch
    from torch.nn import functional as F

    def gelu_and_mul(a: Args) -> Any:
        d = a["input"].shape[-1] // 2
        x, y = a["input"][..., :d].float(), a["input"][..., d:].float()
        return (F.gelu(x, approximate="tanh") * y).to(a["input"].dtype)

    def rope(a: Args) -> Any:
        x = a["x"]
        half = x.shape[-1] // 2
        t = a["cos_sin"][a["positions"].long()].unsqueeze(1)
        c, s = t[..., :half], t[..., half:]
        x1, x2 = x[..., :half].float(), x[..., half:].float()
        x.copy_(torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(x.dtype))

    def rmsnorm(a: Args) -> Any:
        x = a["input"].float()
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * a["weight"].float()
        return y.to(a["input"].dtype)

    def quant_int8(a: Args) -> Any:
        x = a["input"].float()
        s = x.abs().amax(-1, keepdim=True).clamp_min(1e-10) / 127.0
        return torch.round(x * (1.0 / s)).clamp(-127, 127).to(torch.int8), s

    def quant_fp8(a: Args) -> Any:
        x = a["input"].float()
        s = x.abs().amax(-1, keepdim=True).clamp_min(1e-10) / 448.0
        return (x * (1.0 / s)).to(torch.float8_e4m3fn), s

    def softmax(a: Args) -> Any:
        return torch.softmax(a["input"], -1)

    def layernorm(a: Args) -> Any:
        x = a["input"]
        return torch.native_layer_norm(x, x.shape[-1:], a["weight"], a["bias"], 1e-5)

    def cross_entropy(a: Args) -> Any:
        x = a["logits"].float()
        return torch.logsumexp(x, -1) - x.gather(-1, a["target"].long().unsqueeze(-1)).squeeze(-1)

    def column_sum(a: Args) -> Any:
        return a["x"].sum(0, dtype=torch.float32)

    def cumsum(a: Args) -> Any:
        return torch.cumsum(a["x"], -1)

    kernels = (
        gelu_and_mul,
        rope,
        rmsnorm,
        quant_int8,
        quant_fp8,
        softmax,
        layernorm,
        cross_entropy,
        column_sum,
        cumsum,
    )
    return {f.__name__: f for f in kernels}


def _vectors() -> dict[str, Callable[..., Any]]:
    """Kernels over plain vectors; PyTorch's sums are CUB's."""
    import torch

    def saxpy(a: Args) -> Any:
        a["y"].copy_(2.5 * a["x"] + a["y"])

    def axpby(a: Args) -> Any:
        t = a["a"] * a["x"] + a["b"] * a["y"]
        a["z"].copy_(t)
        a["w"].copy_(torch.relu(t) + a["c"] * a["w"])

    def sum(a: Args) -> Any:
        a["out"].add_(a["x"].sum())

    def dot(a: Args) -> Any:
        a["out"].add_(torch.dot(a["x"], a["y"]))

    def histogram(a: Args) -> Any:
        return torch.histc(a["x"].float(), bins=256, min=0, max=256)

    def sgemm(a: Args) -> Any:  # cuBLAS in f32: no tensor cores
        torch.backends.cuda.matmul.allow_tf32 = False
        return torch.addmm(a["C"], a["A"], a["B"], beta=0.5, alpha=1.5, out=a["C"])

    def transpose(a: Args) -> Any:
        a["out"].copy_(a["in"].t())

    return {f.__name__: f for f in (saxpy, axpby, sum, dot, histogram, sgemm, transpose)}


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
