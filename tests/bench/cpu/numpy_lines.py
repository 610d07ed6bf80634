"""Kernels that are one line of numpy, or two: arguments by name, results left in the output arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Args = Mapping[str, Any]


def _sgemm(a: Args) -> None:
    np.copyto(a["C"], a["alpha"] * (a["A"] @ a["B"]) + a["beta"] * a["C"])


def _saxpy(a: Args) -> None:
    np.add(np.float32(a["a"]) * a["x"], a["y"], out=a["y"])


def _sum(a: Args) -> None:
    a["out"][0] += a["x"].sum()


def _dot(a: Args) -> None:
    a["out"][0] += a["x"] @ a["y"]


def _histogram(a: Args) -> None:
    a["count"][:] += np.bincount(a["x"], minlength=256).astype(np.uint32)


LINES: dict[str, Callable[[Args], Any]] = {
    "dense/sgemm": _sgemm,
    "dense/sgemm_tiled": _sgemm,
    "dense/saxpy": _saxpy,
    "dense/transpose": lambda a: np.copyto(a["out"], a["in"].T),
    "dense/transpose_tiled": lambda a: np.copyto(a["out"], a["in"].T),
    "basic/sum": _sum,
    "basic/dot": _dot,
    "basic/histogram": _histogram,
    "basic/cumsum": lambda a: np.cumsum(a["x"], axis=1, out=a["out"]),
    "training/column_sum": lambda a: np.sum(a["x"], axis=0, out=a["out"]),
}
