"""A run's kernels as a Python function: the run exported for the arrays of its device, and loaded."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ktc.ir.diagnostics import KtcError

ARRAYS = {
    "numba": ("numpy", "numpy arrays"),
    "cuda": ("cupy", "CuPy arrays"),
    "opencl": ("pyopencl", "pyopencl.array arrays"),
}
"""Backend of a run to the target that it is exported to, and what its callers pass."""


class RunKernel:
    """``kernel(*inputs)`` returns new arrays; ``kernel.into(*buffers)`` writes into those that it is given. Scalars
    that shapes do not tell are keyword arguments. ``help(kernel)`` lists the arguments with their dtypes and shapes."""

    def __init__(self, module: ModuleType, name: str, arrays: str) -> None:
        self._module, self._arrays = module, arrays
        self._pure, self.into = getattr(module, name), getattr(module, f"{name}_out")
        self.__name__ = name
        self.__doc__ = self._pure.__doc__
        self.__signature__ = inspect.signature(self._pure)

    def __call__(self, *arrays: Any, **scalars: Any) -> Any:
        return self._pure(*arrays, **scalars)

    @property
    def folder(self) -> Path:
        """The package that is called: it can be copied and runs without ktc."""
        assert self._module.__file__ is not None
        return Path(self._module.__file__).parent.parent

    def __repr__(self) -> str:
        variants = sum(len(i.variants) for i in self._module.exported.instances)
        tuned = f"{variants} tuned variant{'s' * (variants != 1)}" if variants else "no tuned variant"
        takes = ", ".join(self.__signature__.parameters)
        return f"<kernel {self.__name__}({takes}) on {self._arrays}: {tuned}, else the original>"


def kernel_of(folder: Path, backend: str) -> RunKernel:
    """The run in ``folder``, exported beside its other files.

    Raises:
        KtcError: E-BACKEND, a backend without arrays in Python; what the export says no to.
    """
    from ktc.exporting.writing import export
    from ktc.recipes import open_recipe

    if backend not in ARRAYS:
        raise KtcError("E-BACKEND", f"no arrays in Python for {backend}", hint="ktc export writes it as source")
    target, arrays = ARRAYS[backend]
    written = export([open_recipe(folder)], [], target, folder / f"python-{target}")
    return RunKernel(_loaded(written.folder / written.artefact.name), written.artefact.name, arrays)


def _loaded(package: Path) -> ModuleType:
    """The package in a folder, under a name that no other has."""
    name = f"_ktc_run_{abs(hash(package.resolve()))}"
    for old in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
        del sys.modules[old]
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


__all__ = ["ARRAYS", "RunKernel", "kernel_of"]
