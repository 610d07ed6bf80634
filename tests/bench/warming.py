"""torch.compile takes seconds a shape: several processes fill its cache on disk before the contest reads it.

Each process runs the compiled rivals of its share once, on zeros of the right shapes; what it compiled and tuned stands
in the cache that every process of this user shares (``TORCHINDUCTOR_CACHE_DIR``).
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def warm(wanted: list[tuple[Any, Mapping[str, int]]], processes: int) -> None:
    """``wanted``: entries of the contest with the sizes they are timed at."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    jobs = [(e.folder, e.variant, dict(s), r) for e, s in wanted for r in e.rivals if r.endswith(":compile")]
    with ProcessPoolExecutor(min(processes, max(1, len(jobs))), multiprocessing.get_context("spawn")) as pool:
        for job, why in zip(jobs, pool.map(_one, jobs)):
            if why:
                print(f"  {job[0]} {job[2]}: not compiled beforehand: {why}", flush=True)


def _one(job: tuple[str, str, Mapping[str, int], str]) -> str:
    """'' or what went wrong: the contest will meet it again."""
    folder, variant, sizes, name = job
    try:
        import torch

        from ktc.ir.workload import Workload, size_expressions
        from ktc.ir.workload.input_data import numpy_dtype
        from tests.bench.expert import ROOT, rival

        work = Workload.load(ROOT / "kernels" / folder)
        values: dict[str, Any] = {}
        for arg in work.args:
            if arg.role == "scalar":
                values[arg.name] = (
                    arg.value if not isinstance(arg.value, str) else size_expressions.evaluate(arg.value, sizes)
                )
                continue
            dtype = getattr(torch, str(numpy_dtype(work.dtype(arg, variant or None))))
            shape = tuple(size_expressions.evaluate(n, sizes) for n in arg.shape)
            values[arg.name] = torch.zeros(shape, dtype=dtype, device="cuda")
        rival(name, sizes)(values)
        torch.cuda.synchronize()
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:200]}"
    return ""
