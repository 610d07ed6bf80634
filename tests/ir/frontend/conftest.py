"""Helpers: load a kernel from text, run it in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.text.naming import canonical
from ktc.ir.verifier import verify


@pytest.fixture
def cu():
    """``cu(text, **load arguments)``: a verified kernel."""

    def build(text: str, **kw):
        kernel = load(text + "\n", name="k.cu", **kw)
        assert verify(kernel) == []
        return kernel

    return build


@pytest.fixture
def execute(cu):
    """``execute(text, args)``: outputs of one block launched by ``f`` in the text (or 1 thread)."""

    def go(text: str, args: dict, threads: int = 1, **kw):
        if "<<<" not in text:
            names = ", ".join(args)
            params = text[text.index("(", text.index("__global__")) + 1 : text.index("{", text.index("__global__"))]
            params = params[: params.rindex(")")]
            name = text[: text.index("(", text.index("__global__"))].split()[-1]
            text += f"\nvoid host({params}) {{ {name}<<<1, {threads}>>>({names}); }}\n"
        result = run(cu(text, **kw), args)
        assert result.findings == []
        return result.outputs

    return go


@pytest.fixture
def compute(execute):
    """``compute(expr, type, **variables)``: value of a device expression over typed variables ``name=(type,
    value)``."""

    def go(expr: str, out: str = "int", prelude: str = "", **variables):
        dtype = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned long long": np.uint64,
        "float": np.float32,
                 "double": np.float64, "__half": np.float16}[out]  # fmt: skip
        params = "".join(f", {t} {n}" for n, (t, _) in variables.items())
        text = f"{prelude}\n__global__ void k({out}* out{params}) {{ out[0] = {expr}; }}"
        args = {"out": np.zeros(1, dtype), **{n: v for n, (_, v) in variables.items()}}
        return execute(text, args)["out"][0]

    return go


def code(k) -> list[str]:
    """The kernel as CUDA, without the comment that says where it is from."""
    return [row for row in emit(k, "cuda").text.splitlines() if not row.startswith("//")]


@pytest.fixture
def round_trip(cu):
    """The kernel, whose CUDA and text forms both read back to the same tree."""

    def go(text: str, **kw):
        k = cu(text, **kw)
        assert canonical(parse_kernel(print_kernel(k))) == canonical(k)
        assert code(load(emit(k, "cuda").text, name="again.cu")) == code(k)
        return k

    return go


@pytest.fixture
def refuses(cu):
    """``refuses(text, code, **load arguments)``: the error, which must have this code."""

    def go(text: str, code: str, **kw) -> KtcError:
        with pytest.raises(KtcError) as caught:
            load(text + "\n", name="k.cu", **kw)
        assert caught.value.code == code, str(caught.value)
        return caught.value

    return go
