"""CUDA C++ in: source text to kernels in SPMD form.

``preprocess`` (pcpp) -> ``syntax`` (a subclass of pycparser's parser; an index of declarations) -> ``lowering``, which
asks ``meaning`` for types, templates and overloads and inlines what is called -> :class:`ktc.ir.kernel.Kernel`.
``host`` finds launches and the instances of templates; ``library`` and ``ptx`` say in C++ what device libraries and
inline PTX do.
"""

from __future__ import annotations

from .entry_points import KernelInfo, list_kernels, load

__all__ = ["KernelInfo", "list_kernels", "load"]
