"""CUDA C++ in: source text to kernels in SPMD form.

``preprocess`` (pcpp) -> ``parser`` (a subclass of pycparser's) -> ``program`` (index of declarations) -> ``lower``
(types, templates, inlining) -> :class:`ktc.ir.kernel.Kernel`.
"""

from __future__ import annotations

from .api import KernelInfo, list_kernels, load

__all__ = ["KernelInfo", "list_kernels", "load"]
