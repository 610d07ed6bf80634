"""The Python targets: what each package's ``__init__`` and self-test say, and what it cannot carry."""

from __future__ import annotations

from collections.abc import Callable

from .artefact import Artefact, Code
from .code_of import passed_addresses
from .python_packages import Package, Signature, described, package_name, scalars_said, signature
from .shipped.dispatch import python_name


def _docs(a: Artefact, s: Signature, first: str, pure: bool = False) -> str:
    """The docstring of the callable that returns new arrays (``pure``), or of that which writes into its arguments."""
    dtypes = [i.dtypes for i in a.instances]
    rows = [f"        {described(p, dtypes, pure)}" for p in (s.inputs if pure else s.buffers)]
    rows += [f"        {line}" for line in scalars_said(a)]
    return "\n".join([f'    """{first}', "", "    Args:", *rows, '    """'])


# --------------------------------------------------------------------------------------------------------------- torch


def _torch(a: Artefact) -> str:
    s = signature(a)
    made = len(s.outputs) + len(s.updated)
    returned = "torch.Tensor" if made == 1 else f"tuple[{', '.join(['torch.Tensor'] * made)}]"
    results = ", ".join(python_name(p.name) for p in (*s.outputs, *s.updated))
    return f'''"""{a.name} as PyTorch operators for CUDA tensors: see README.md."""

from __future__ import annotations

from pathlib import Path

import torch

from .torch_ops import Operators

operators = Operators(Path(__file__).resolve().parent, "{package_name(a)}")
exported = operators.exported


def {python_name(a.name)}({s.parameters(s.inputs, "torch.Tensor")}) -> {returned}:
{_docs(a, s, f"New tensors: {results}. Nothing that is passed is changed.", pure=True)}
    return torch.ops.{package_name(a)}.{a.name}({s.arguments(s.inputs)})


def {python_name(a.name)}_out({s.parameters(s.buffers, "torch.Tensor")}) -> None:
{_docs(a, s, f"Write {results} in place.")}
    torch.ops.{package_name(a)}.{a.name}_out({s.arguments(s.buffers)})


def prepare(device: int | None = None) -> None:
    """Compile every kernel for a device now, rather than when it is first launched."""
    operators.prepare(device)
'''


TORCH_TEST = """\
import torch

from {name}.torch_ops import DTYPES


def to_device(array, dtype):
    wanted = DTYPES[dtype]
    held = array if dtype not in ("bf16", "e4m3", "e5m2") else array.view(np.int16 if dtype == "bf16" else np.int8)
    unsigned = held.dtype.kind == "u" and held.dtype.itemsize > 1
    flat = torch.from_numpy(held.view(f"i{{held.dtype.itemsize}}") if unsigned else held).cuda()
    return flat if flat.dtype == wanted else flat.view(wanted)


def to_host(tensor, dtype):
    if dtype not in ("bf16", "e4m3", "e5m2", "u16", "u32", "u64"):
        return tensor.cpu().numpy()
    size = tensor.element_size()
    signed = {{1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}}[size]
    return tensor.view(signed).cpu().numpy().view(f"u{{size}}")


def run(tensors, given, which):
    return package.operators.run(tensors, given, which)
"""


# ---------------------------------------------------------------------------------------------------------------- CuPy


def _callable(a: Artefact, module: str, array: str, opening: str) -> str:
    """A package whose functions call ``Kernels`` of ``module``."""
    s = signature(a)
    results = ", ".join(python_name(p.name) for p in (*s.outputs, *s.updated))

    def table(names: list[str]) -> str:
        return "{" + ", ".join(f'"{n}": {python_name(n)}' for n in names) + "}"

    given = table([p.name for p in a.parameters if p.role == "scalar" and not p.value] + _loose(a))
    return f'''"""{a.name} {opening}: see README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import {array.rpartition(".")[0]}

from .{module} import Kernels

kernels = Kernels(Path(__file__).resolve().parent)
exported = kernels.exported


def {python_name(a.name)}({s.parameters(s.inputs, array)}) -> Any:
{_docs(a, s, f"New arrays: {results}. Nothing that is passed is changed.", pure=True)}
    return kernels.functional({table([p.name for p in s.inputs])}, {given})


def {python_name(a.name)}_out({s.parameters(s.buffers, array)}) -> None:
{_docs(a, s, f"Write {results} in place.")}
    kernels.run({table([p.name for p in s.buffers])}, {given})
'''


def _loose(a: Artefact) -> list[str]:
    defined = {p.defines for p in a.parameters if p.role == "scalar"}
    return [s.size for s in a.sizes if not s.parameter and s.size not in defined]


def _init(module: str, array: str, opening: str) -> Callable[[Artefact], str]:
    return lambda a: _callable(a, module, array, opening)


def _beyond_cupy(code: Code) -> str:
    matrices = "CuPy passes no descriptors of matrices (bulk tensor copies)"
    return matrices if code.matrices else passed_addresses(code)


CUPY_TEST = """\
import cupy


def to_device(array, dtype):
    return cupy.asarray(array)


def to_host(array, dtype):
    return cupy.asnumpy(array)


def run(arrays, given, which):
    return package.kernels.run(arrays, given, which)
"""

NUMPY_TEST = """\
def to_device(array, dtype):
    return array.copy()


def to_host(array, dtype):
    return array


def run(arrays, given, which):
    return package.kernels.run(arrays, given, which)
"""

OPENCL_TEST = """\
import pyopencl as cl
import pyopencl.array

queue = cl.CommandQueue(cl.create_some_context(interactive=False))


def to_device(array, dtype):
    return cl.array.to_device(queue, array)


def to_host(array, dtype):
    return array.get()


def run(arrays, given, which):
    return package.kernels.run(arrays, given, which)
"""

BITS = "bf16 as uint16 and 8-bit floats as uint8, their bits"

PACKAGES: dict[str, Package] = {
    "torch": Package(
        "cuda", ("nvrtc_module", "torch_ops"), _torch, TORCH_TEST,
        "PyTorch for CUDA (its wheels bring NVRTC; no nvcc is needed)", "contiguous CUDA tensors", passed_addresses,
    ),
    "cupy": Package(
        "cuda", ("array_kernels", "cupy_call"), _init("cupy_call", "cupy.ndarray", "for CuPy"), CUPY_TEST,
        "CuPy for CUDA", f"C-contiguous cupy arrays ({BITS})", _beyond_cupy,
    ),
    "numpy": Package(
        "numba", ("array_kernels", "numpy_call"),
        _init("numpy_call", "numpy.ndarray", "on a CPU, through numba"), NUMPY_TEST,
        "numpy and numba", f"C-contiguous numpy arrays ({BITS})",
    ),
    "pyopencl": Package(
        "opencl", ("array_kernels", "pyopencl_call"),
        _init("pyopencl_call", "pyopencl.array.Array", "for PyOpenCL"), OPENCL_TEST,
        "pyopencl (on a CPU: pyopencl[pocl])", f"C-contiguous pyopencl.array arrays ({BITS})",
    ),
}  # fmt: skip
"""Target to package."""
