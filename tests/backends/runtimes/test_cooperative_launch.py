"""A cooperative launch whose blocks do not all fit is an error, not a smaller launch."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from ktc.backends.runtimes.common import Geometry
from ktc.backends.runtimes.cuda_runtime import CudaExecutable
from ktc.ir.diagnostics import KtcError


def executable(launch) -> CudaExecutable:
    """One with CuPy's function replaced by ``launch``."""
    exe = CudaExecutable.__new__(CudaExecutable)
    driver = SimpleNamespace(CUDADriverError=type("CUDADriverError", (Exception,), {}))
    exe.__dict__ |= {
        "_runtime": SimpleNamespace(cp=SimpleNamespace(cuda=SimpleNamespace(driver=driver))),
        "resources": {"shared": 0}, "_raised": 0, "_fn": launch, "_cooperative": True,
        "code": SimpleNamespace(entry="k"),
    }  # fmt: skip
    return exe


def test_a_grid_that_cupy_would_reduce_is_refused() -> None:
    launched = []

    def launch(grid, *rest, enable_cooperative_groups):
        if grid[0] > 132:
            warnings.warn(f"The grid size will be reduced from {grid[0]} to 132", stacklevel=2)
        launched.append(grid)

    executable(launch).launch_packed(Geometry((132, 1, 1), (1024, 1, 1)), ())
    with pytest.raises(KtcError) as e:
        executable(launch).launch_packed(Geometry((264, 1, 1), (1024, 1, 1)), ())
    assert e.value.code == "E-LAUNCH-FAILED" and "from 264 to 132" in e.value.message
    assert launched == [(132, 1, 1)]
