"""Real CUDA sources through the front-end and every C-family emitter; OpenCL output runs against the interpreter."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from ktc.backends import check_compile, emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Const, i32
from ktc.ir.types import I32
from tests.backends.emit_features import FEATURES, HEAD


def kernel_of(name: str) -> Kernel:
    from ktc.ir.frontend import load

    f = FEATURES[name]
    one = i32(1)
    shared = Const(f.shared, I32) if f.shared else None
    return load(HEAD + f.source).with_(launch=Launch((i32(f.grid), one, one), (i32(f.block), one, one), shared))


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("name", FEATURES)
def test_nvcc(name):
    assert check_compile(emit(kernel_of(name), "cuda")).resources["registers"] > 0


@pytest.mark.skipif(shutil.which("clang++-19") is None, reason="clang 19 is not installed")
@pytest.mark.parametrize("name", FEATURES)
def test_clang_for_gfx1100(name):
    assert check_compile(emit(kernel_of(name), "hip"), "gfx1100").resources["registers"] > 0


@pytest.mark.parametrize("name", FEATURES)
def test_opencl_computes_what_the_interpreter_computes(name):
    from ktc.ir.interp import run
    from tests.backends.opencl.test_opencl import run as run_opencl

    kernel, f = kernel_of(name), FEATURES[name]
    if f.needs_warp:
        with pytest.raises(KtcError, match="warp of 32 lanes"):
            emit(kernel, "opencl")
    target = "opencl-cl30-subgroups" if f.needs_warp else "opencl"
    args = f.args()
    want = run(kernel, {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in args.items()})
    assert not want.findings
    scalars = {"i32": np.int32, "f32": np.float32, "u64": np.uint64, "bool": np.uint8}
    values = [args[p.sym.name] for p in kernel.params]
    values = [v if isinstance(v, np.ndarray) else scalars[str(p.sym.type)](v) for v, p in zip(values, kernel.params)]
    names = [p.sym.name for p, v in zip(kernel.params, values) if isinstance(v, np.ndarray)]
    got = dict(zip(names, run_opencl(kernel, values, f.grid, f.block, f.shared, target)))
    for out, expected in want.outputs.items():
        assert np.array_equal(got[out], expected.reshape(got[out].shape)), out


def test_else_if_chains_stay_flat():
    text = emit(kernel_of("gather, double, bool, switch"), "cuda").text
    assert "} else if (selector == 1) {" in text
